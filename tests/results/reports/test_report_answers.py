"""Which runs a report sets side by side, and what it says of them: every answer follows the data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from report_cases import RIGHT, lopa, other, with_traces
from stored import record, sample, store

from lopa_bench.results.reports.report import Report, make_report
from lopa_bench.results.reports.runs import groups_of
from lopa_bench.results.reports.sameness import same_answers
from lopa_bench.results.reports.series import holm, series_of
from lopa_bench.results.store import StoredRun


def said(report: Report, question: str) -> str:
    return " ".join(s.text for one in report.answers if one.question.startswith(question) for s in one.sentences)


def made(*runs: StoredRun) -> Report:
    return make_report(runs, runs_dir=runs[0].path.parent)


def test_the_problems_that_most_runs_hold_are_reported_and_larger_runs_are_cut_to_them(tmp_path: Path) -> None:
    runs = [lopa(tmp_path, 1), lopa(tmp_path, 4), lopa(tmp_path, 8, correct=(1.0,) * 30)]
    [group] = groups_of(runs)
    assert group.num_problems == 20 and [one.ref for one in group.main] == ["R1", "R2", "R3"]
    assert group.main[2].summary.n == 20 and len(group.main[2].cut.samples) == 20
    assert any("only the 20 common ones of its 30 problems" in note for note in group.notes)
    assert any("20 of 400 problems" in note for note in group.notes)


def test_runs_that_must_not_be_mixed_stand_apart_with_the_reason(tmp_path: Path) -> None:
    def elsewhere(one):  # type: ignore[no-untyped-def]
        return one.model_copy(update={"prompt_hash": "f" * 64})

    def faulty(one):  # type: ignore[no-untyped-def]
        return one.model_copy(
            update={"status": "error", "why": "scorer_error", "error": "no sandbox", "correct": None, "scores": {}}
        )

    runs = [
        lopa(tmp_path, 1), lopa(tmp_path, 4), lopa(tmp_path, 8, edit=elsewhere), lopa(tmp_path, 2, correct=RIGHT[:7]),
        lopa(tmp_path, 3, task={"version": "2"}), lopa(tmp_path, 5, edit=faulty),
    ]  # fmt: skip
    report = made(*runs)
    [group] = report.groups
    reasons = {one.ref: one.aside for one in group.aside}
    assert set(reasons) == {"R3", "R4", "R5", "R6"}
    assert "other prompts" in reasons["R3"] and "lacks 13 of the 20" in reasons["R4"]
    assert "another task version: 2 instead of 1" in reasons["R5"] and "scorer failed" in reasons["R6"]
    shown = {table.name: {row.get("run") for row in table.table.rows} for table in report.tables}
    assert shown["set-aside"] == set(reasons) and shown["results-mini-maths"] == {"R1", "R2"}
    assert all(not set(reasons) & set(figure.refs) for figure in report.figures)


def test_errors_and_a_run_given_twice_are_told(tmp_path: Path) -> None:
    run = lopa(tmp_path, 4, edit=lambda one: one.model_copy(update={"status": "error"} if one.id.endswith("3") else {}))
    [group] = groups_of([lopa(tmp_path, 1), run, run])
    assert len(group.main) == 2
    assert any("R1: 2 of 20 problems ended in an error" in note for note in group.notes)


def test_runs_of_one_setting_are_told_apart_by_their_devices(tmp_path: Path) -> None:
    runs = [lopa(tmp_path, 2, place={"groups": groups}) for groups in ({}, {"dp": 1, "bp": 2, "tp": 1})]
    runs.append(lopa(tmp_path, 2, place={"groups": {"dp": 2, "bp": 1, "tp": 2}}))
    words = [one.words for one in groups_of(runs)[0].main]
    assert [one.rpartition("devices=")[2] for one in words] == ["1", "bp2", "dp2 tp2"]


def test_equal_settings_are_told_apart(tmp_path: Path) -> None:
    runs = [lopa(tmp_path, 4), lopa(tmp_path, 4, seed=7), other(tmp_path, "ar", {}), other(tmp_path, "ar", {})]
    runs += [other(tmp_path, "d2f", {}, settings={"quantize": word}) for word in (None, "w8a8")]
    words = [one.words for one in groups_of(runs)[0].main]
    assert words[:4] == ["lopa seed=0", "lopa seed=7", "ar run=3", "ar run=4"]
    assert words[4:] == ["d2f quantize=none", "d2f quantize=w8a8"]


def test_fewer_rounds_and_less_time_pay(tmp_path: Path) -> None:
    report = made(lopa(tmp_path, 1), lopa(tmp_path, 4, rounds=0.5, slower=0.5), lopa(tmp_path, 8, rounds=0.5))
    assert "In rounds: yes." in said(report, "Does") and "in time" in said(report, "Does").lower()
    assert "some k is faster in 1 of 1" in said(report, "Does") and "may be chance" in said(report, "Does")
    which = said(report, "At which")
    assert "k=4 gives the most tokens per round" in which and "In tokens/s the best is k=4" in which
    assert "2 of 2 ratios lie above 1" in said(report, "Is the difference")


def test_the_smallest_k_that_is_as_good_is_named(tmp_path: Path) -> None:
    def a_little(one):  # type: ignore[no-untyped-def]
        better = one.id.endswith(("1", "4"))
        return one.model_copy(
            update={"work": one.work.model_copy(update={"rounds": one.work.rounds - (1 if better else 0)})}
        )

    def as_much(one):  # type: ignore[no-untyped-def]
        worse = one.id.endswith("7")
        return one.model_copy(
            update={"work": one.work.model_copy(update={"rounds": one.work.rounds - (0 if worse else 1)})}
        )

    report = made(lopa(tmp_path, 1), lopa(tmp_path, 4, rounds=0.5), lopa(tmp_path, 8, rounds=0.5, edit=a_little))
    assert "k=8 gives the most" in said(report, "At which") and "not behind" not in said(report, "At which")
    runs = [lopa(tmp_path / "b", 1)]
    runs += [lopa(tmp_path / "b", k, rounds=0.5, edit=edit) for k, edit in ((4, as_much), (8, as_much))]
    better = runs[2].samples[0]
    report = made(*runs)
    assert better.work.rounds and "k=4 gives the most tokens per round" in said(report, "At which")


def test_equal_runs_do_not_pay_and_slower_ones_cost(tmp_path: Path) -> None:
    report = made(lopa(tmp_path, 1), lopa(tmp_path, 4, slower=3.0))
    assert "In rounds: no." in said(report, "Does") and "every k slower in 1" in said(report, "Does")
    assert "no k gives more tokens per round beyond chance" in said(report, "At which")


def test_a_loss_of_accuracy_is_named_with_its_corrected_p(tmp_path: Path) -> None:
    bad = (0.0,) * 12 + (1.0,) * 4 + (0.0,) * 4
    report = made(lopa(tmp_path, 1), lopa(tmp_path, 4, rounds=0.5, correct=bad), lopa(tmp_path, 8, rounds=0.5))
    real = said(report, "Is the difference")
    assert "Accuracy is lower at lopa k=4" in real and "-60.0 points" in real and "p = 0.000977" in real
    same = said(made(lopa(tmp_path / "b", 1), lopa(tmp_path / "b", 4)), "Is the difference")
    assert "the one paired test does not find a difference" in same and "the ratio does not lie above 1" in same
    assert "below 30 points" in same


def test_runs_with_the_same_tokens_under_other_settings_are_warned_of(tmp_path: Path) -> None:
    def changed(one):  # type: ignore[no-untyped-def]
        return one.model_copy(update={"token_ids": (1, *one.token_ids[1:])}) if one.id.endswith("07") else one

    runs = [lopa(tmp_path, 1), lopa(tmp_path, 4, edit=changed), lopa(tmp_path, 1, tau=0.5), lopa(tmp_path, 1)]
    report = made(*runs)
    [same] = same_answers(report.groups[0])
    assert same.refs == ("R1", "R3", "R4") and same.settings == ("tau_conf",)
    warned = "R1, R3 and R4 gave the same tokens in all 20 answers though settings differ (tau_conf): expected of"
    assert warned in said(report, "Is the difference real")
    table = next(one.table for one in report.tables if one.name == "results-mini-maths")
    assert any(warned in note for note in table.notes)
    again = made(lopa(tmp_path / "b", 1), lopa(tmp_path / "b", 1), lopa(tmp_path / "b", 4, edit=changed))
    assert same_answers(again.groups[0]) == []  # the same settings twice, and other answers
    assert "same tokens" not in said(again, "Is the difference real")
    alone = made(lopa(tmp_path / "c", 1), lopa(tmp_path / "c", 1, tau=0.5))
    assert "R1 and R2 gave the same tokens" in said(alone, "Is the difference real")


def test_where_lookaheads_win_is_said_with_n_and_interval_and_only_where_it_is_more_than_chance(tmp_path: Path) -> None:
    def where(root: Path, **about: Any) -> str:
        wins, correct = about.pop("wins"), about.pop("correct", RIGHT)
        runs = [lopa(root, 1, correct=correct), with_traces(lopa(root, 4, correct=correct, **about), wins)]
        return said(made(*runs), "Where does")

    early = where(tmp_path / "a", wins=lambda index: index < 4)
    assert re.search(r"kept in 3\d % \[\d+, \d+\] of the \d+ contested rounds\.", early)
    assert re.search(
        r"Of those tried between 0% and 10% of the answer 33 % \[\d+, \d+\] won \(n = \d+\), of those between "
        r"\d0% and \d+0% only 0 % \[0, \d\] won \(n = \d+\)",
        early,
    )
    assert "; 75% of the 80 wins filled more slots at once" in early  # in the third round the anchor fills as many
    even = where(tmp_path / "b", wins=lambda index: True)
    assert "In which parts of the answer more of them win cannot be told from chance" in even and "only" not in even
    few = where(tmp_path / "c", wins=lambda index: True, correct=(1.0,), rounds=0.25)
    assert "3 contested rounds are too few to say how often a lookahead is kept." in few and "%" not in few


def test_without_lookahead_beside_it_nothing_is_claimed(tmp_path: Path) -> None:
    report = made(lopa(tmp_path, 4), other(tmp_path, "ar", {}, model={"name": "bundled:ar", "hash": "sha256:aa"}))
    assert said(report, "Does LoPA").startswith("These runs cannot tell")
    assert "R1 has no run without lookahead to stand beside" in report.notes
    assert any(one.name == "branches" for one in report.skipped)


def test_a_base_decoder_with_the_same_settings_stands_in_for_one_branch(tmp_path: Path) -> None:
    runs = [other(tmp_path, "d2f"), lopa(tmp_path, 4, rounds=0.5)]
    [series], lines = series_of(groups_of(runs), tmp_path)
    assert series.base.decoder == "d2f" and not lines and series.best is series.steps[0]
    runs = [other(tmp_path / "b", "d2f", {"tau_conf": 0.5}, settings={"tau_conf": 0.5}), lopa(tmp_path / "b", 4)]
    [series], _ = series_of(groups_of(runs), tmp_path)
    assert series.base_words == "d2f, its own tau_conf=0.5"
    flag = {"settings": {"tau_conf": 0.5}, "origins": {"tau_conf": "flag"}}
    runs = [other(tmp_path / "c", "d2f", {"tau_conf": 0.5}, **flag), lopa(tmp_path / "c", 4)]
    assert series_of(groups_of(runs), tmp_path)[0] == []


def test_a_run_made_again_on_more_devices_is_no_series_of_branches(tmp_path: Path) -> None:
    two = {"world_size": 2, "num_devices": 2, "groups": {"bp": 2}}
    runs = [lopa(tmp_path, 1), lopa(tmp_path, 4), lopa(tmp_path, 8), lopa(tmp_path, 8, place=two)]
    [series], lines = series_of(groups_of(runs), tmp_path)
    assert [step.branches for step in series.steps] == [4, 8] and series.steps[1].entry.ref == "R3" and lines == []
    found, _ = series_of(groups_of([*runs, lopa(tmp_path, 2, place=two)]), tmp_path)
    assert len(found) == 2  # of k = 2 the others tell nothing


def test_other_thresholds_and_seeds_are_series_of_their_own(tmp_path: Path) -> None:
    runs = [lopa(tmp_path, k, tau=tau) for tau in (0.8, 0.9) for k in (1, 4)]
    found, _ = series_of(groups_of(runs), tmp_path)
    assert [(one.words, one.base.ref) for one in found] == [("lopa tau_conf=0.8", "R1"), ("lopa tau_conf=0.9", "R3")]


def test_speeds_of_two_machines_are_not_set_side_by_side(tmp_path: Path) -> None:
    report = made(lopa(tmp_path, 1), lopa(tmp_path, 4, place={"device_name": "H200"}))
    [group] = report.groups
    assert group.speed_obstacle == "R1 and R2: AMD EPYC vs H200"
    assert "In time: these runs cannot tell (x not comparable: AMD EPYC vs H200)" in said(report, "Does")
    assert any(one.name == "throughput" and "AMD EPYC vs H200" in one.reason for one in report.skipped)
    table = next(one.table for one in report.tables if one.name == "results-mini-maths")
    assert {one.direction for one in table.columns if one.key in ("tps_e2e", "latency_s")} == {"neither"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [([], []), ([0.01], [0.01]), ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]), ([0.5, 0.9], [1.0, 1.0])],
)
def test_holm(given: list[float], expected: list[float]) -> None:
    assert holm(given) == pytest.approx(expected)


def test_two_tasks_are_two_groups(tmp_path: Path) -> None:
    code = [sample(i, id=f"mini-code-{i:04d}") for i in range(5)]
    eight = {"branches": 8, "max_new_tokens": 96}
    about = record(num_documents=5, options=eight, task={"name": "mini-code"})
    runs = [lopa(tmp_path, 1), store(tmp_path, code, about)]
    assert [(one.task, one.num_problems) for one in groups_of(runs)] == [("mini-maths", 20), ("mini-code", 5)]
    overview = next(one.table for one in made(*runs).tables if one.name == "overview")
    assert [row["setting"] for row in overview.rows] == ["lopa k=1", "lopa k=8"]
    assert "mini-code:tpf" not in overview.rows[0]


def test_the_setting_to_take_is_named_or_that_there_is_none_faster(tmp_path: Path) -> None:
    report = made(lopa(tmp_path, 1), lopa(tmp_path, 4, rounds=0.5))
    assert "fastest within 1 point of lopa k=1: lopa k=4 (R2)" in said(report, "Which")
    worse = (0.0,) * 8 + (1.0,) * 8 + (0.0,) * 4
    report = made(lopa(tmp_path / "b", 1), lopa(tmp_path / "b", 4, rounds=0.5, correct=worse))
    assert "no faster setting keeps within 1 point of the most accurate one, lopa k=1 (R1)" in said(report, "Which")
