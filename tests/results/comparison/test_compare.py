"""What a comparison says: changes, chance, confounding, speed and what was left out."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from stored import PLACE, more_work, record, sample, samples

from lopa_bench.results.comparison.compare import Change, Comparison, compare
from lopa_bench.results.comparison.compare_tables import (
    Refusal,
    cut_at_difference,
    document,
    figures_table,
    flat_table,
    flipped_table,
    flips_table,
    settings_table,
)
from lopa_bench.results.comparison.load import LOAD, QUEUED, WATCHED
from lopa_bench.results.comparison.noise import Agreement, NoiseCell, Repeat
from lopa_bench.results.comparison.paired import Side
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.tables import render


def side(answers: list[SampleRecord] | None = None, name: str = "0001-a", **changes: Any) -> Side:
    return Side(record(id=name, **changes), samples() if answers is None else answers)


def change(found: Comparison, figure: str) -> Change:
    return next(one for one in found.changes if one.figure == figure)


def floor(*speeds: float, **place: Any) -> NoiseCell:
    repeats = [
        Agreement(repeat=Repeat(run="x", accuracy=0.8, tokens_per_second=speed), samples=20, identical=20, tokens=1.0)
        for speed in speeds
    ]
    return NoiseCell(cell="x", environment=PLACE.model_copy(update=place), samples=20, repeats=tuple(repeats))


def test_the_same_run_twice() -> None:
    found = compare(side(), side(name="0002-b"))
    assert found.verdict == "same answers" and not found.is_confounded and found.num_identical == 20
    assert change(found, "accuracy").change == 0.0
    assert {change(found, name).change for name in ("tpf", "rounds", "model_calls", "branch_forwards")} == {1.0}


def test_figures_of_a_pair_by_hand() -> None:
    better = [more_work(one, 2) for one in samples([1.0] * 20)]
    found = compare(side(), side(better, options={"branches": 4}))
    assert change(found, "accuracy").before == 0.8 and change(found, "accuracy").change == pytest.approx(0.2)
    assert change(found, "tpf").change == pytest.approx(0.5) and change(found, "rounds").change == pytest.approx(2.0)
    rounds = sum(12 + index % 3 for index in range(20))
    assert (change(found, "rounds").before, change(found, "branch_forwards").after) == (rounds, 8 * rounds)
    assert found.flips.gained == 4 and found.verdict == "not distinguishable"


def test_eighty_against_eighty_four_of_164_cannot_be_told_apart() -> None:
    before = [1.0] * 80 + [0.0] * 84
    after = [0.0] * 10 + [1.0] * 84 + [0.0] * 70
    found = compare(side(samples(before)), side(samples(after), settings={"early_stop": False}))
    assert (found.flips.gained, found.flips.lost) == (14, 10)
    assert found.verdict == "not distinguishable" and found.flips.p_value == pytest.approx(0.541, abs=1e-3)


def test_a_clear_loss_is_worse_and_a_clear_gain_better() -> None:
    right, wrong = side(samples([1.0] * 20)), side(samples([0.0] * 20), name="0002-b")
    assert compare(right, wrong).verdict == "worse"
    assert compare(wrong, right).verdict == "better"


def test_two_semantic_differences_are_confounded_and_shown_only_when_forced() -> None:
    other = side(samples([1.0] * 20), name="0002-b", decoder="vanilla", model={"hash": "sha256:other", "name": "dllm"})
    found = compare(side(), other)
    assert found.is_confounded and found.verdict == "confounded"
    assert all(one.change is None and one.interval is None for one in found.changes)
    assert change(found, "accuracy").after == 1.0
    assert any("decoder: lopa vs vanilla; model: bundled:d2f vs dllm" in line for line in found.warnings)
    forced = compare(side(), other, force=True)
    assert change(forced, "accuracy").change == pytest.approx(0.2)
    assert any(line.startswith("confounded") for line in forced.warnings)


def test_one_semantic_difference_beside_others_is_not_confounded() -> None:
    found = compare(side(), side(decoder="d2f", place={"git_commit": "b" * 40}, num_documents=10))
    assert len(found.differences) > 2 and not found.is_confounded


def test_speeds_are_compared_only_on_like_machines() -> None:
    found = compare(side(place={"device_name": "H200"}), side([sample(0, slower=2)], place={"device_name": "A100"}))
    speed = change(found, "tps_e2e")
    assert (speed.change, speed.remark) == (None, "x not comparable: H200 vs A100")
    assert speed.before is not None and speed.after is not None
    assert change(found, "tpf").change == 1.0


def test_a_speed_ratio_is_held_against_the_noise_floor() -> None:
    before, after = side(), side(samples(slower=1 / 1.5), name="0002-b")
    assert change(compare(before, after), "tps_e2e").change == pytest.approx(1.5)
    assert "not measured" in change(compare(before, after), "tps_e2e").remark
    quiet, loud = floor(300, 301, 302, 299, 300), floor(300, 200, 400)
    assert change(compare(before, after, noise=[quiet]), "tps_e2e").remark.startswith("beyond this machine's noise")
    assert change(compare(before, after, noise=[loud]), "tps_e2e").remark.startswith("within this machine's noise")
    assert "within" in change(compare(before, after, noise=[quiet, loud]), "tps_e2e").remark


def test_a_floor_of_other_problems_says_nothing_about_a_speed_ratio() -> None:
    """One answer's speed varies more than twenty answers': neither is measured by the other."""
    one, twenty = floor(300, 200, 400).model_copy(update={"samples": 1}), floor(300, 301, 302, 299, 300)
    runs = [side(), side(samples(slower=1 / 1.5), name="0002-b")]
    few = [side(one.samples[:1], name=one.record.id) for one in runs]
    words = "noise of these problems not measured"
    assert change(compare(*runs, noise=[one]), "tps_e2e").remark.startswith(words)
    assert change(compare(*few, noise=[twenty]), "tps_e2e").remark.startswith(words)
    assert change(compare(*runs, noise=[one, twenty]), "tps_e2e").remark.startswith("beyond this machine's noise (1.")


def wavering(*accuracies: float) -> NoiseCell:
    """A floor of equal runs that were not equal."""
    found = floor(*([300] * len(accuracies)))
    repeats = [
        one.model_copy(update={"identical": 15, "repeat": one.repeat.model_copy(update={"accuracy": accuracy})})
        for one, accuracy in zip(found.repeats, accuracies, strict=True)
    ]
    return found.model_copy(update={"repeats": tuple(repeats)})


@pytest.mark.parametrize(
    ("accuracies", "verdict", "remark"),
    [
        ((0.8, 0.5, 0.4), "not distinguishable", "within this machine's noise (40.0 pt between equal runs)"),
        ((0.8, 0.7), "worse", "beyond this machine's noise (10.0 pt between equal runs)"),
        ((0.8, 0.8), "worse", "beyond this machine's noise (0.0 pt between equal runs)"),
        ((), "worse", ""),
    ],
)
def test_a_change_that_equal_runs_show_too_is_none(accuracies: tuple[float, ...], verdict: str, remark: str) -> None:
    noise = [wavering(*accuracies)] if accuracies else []
    found = compare(side(), side(samples([0.0] * 8 + [1.0] * 8 + [0.0] * 4), name="0002-b"), noise=noise)
    assert change(found, "accuracy").change == pytest.approx(-0.4) and found.flips.p_value < 0.05
    assert (found.verdict, change(found, "accuracy").remark) == (verdict, remark)
    spread = max(accuracies) - min(accuracies) if accuracies else None
    assert document([found])["pairs"][0]["accuracy_noise"] == spread


def test_settings_that_ought_not_to_matter_count_as_equal_where_one_of_them_differs() -> None:
    varied = wavering(0.8, 0.8)
    far = varied.repeats[0].model_copy(update={"repeat": Repeat(run="x", setting="dtype = bfloat16", accuracy=0.4)})
    varied = varied.model_copy(update={"variants": (far,)})
    worse = samples([0.0] * 8 + [1.0] * 8 + [0.0] * 4)
    assert compare(side(), side(worse, name="0002-b"), noise=[varied]).verdict == "worse"
    other = side(worse, name="0002-b", place={"dtype": "bfloat16"})
    assert compare(side(), other, noise=[varied]).verdict == "not distinguishable"


@pytest.mark.parametrize("noise", [[], [floor(300, 301, 302, 299, 300)]], ids=["unmeasured", "measured"])
def test_a_machine_that_was_busier_during_one_of_the_runs_is_told_beside_their_speeds(noise: list[NoiseCell]) -> None:
    def remark(before: float | None, after: float | None) -> str:
        first, second = (
            side(samples(extra={} if load is None else {LOAD: load, WATCHED: 0.1}), name=name)
            for load, name in ((before, "0001-a"), (after, "0002-b"))
        )
        return change(compare(first, second, noise=noise), "tps_e2e").remark

    assert remark(0.03, 0.9).endswith("; other work had 90% of the processors, 3% before")
    assert remark(0.9, 0.03).endswith("; other work had 3% of the processors, 90% before")
    for before, after in ((0.5, 0.55), (None, 0.9), (0.9, None)):
        assert "other work" not in remark(before, after)
    late = side(samples(extra={LOAD: 0.9, QUEUED: 0.07, WATCHED: 0.1}), name="0003-c")
    soon = side(samples(extra={LOAD: 0.5, QUEUED: 0.0, WATCHED: 0.1}))
    found = change(compare(soon, late, noise=noise), "tps_e2e").remark
    assert found.endswith("; it had no processor for 70% of the time, 0% before")


def test_a_floor_of_another_library_version_or_of_two_repeats_is_none() -> None:
    before, after = side(), side(samples(slower=2), name="0002-b")
    for cell in (floor(300, 301, 302, packages={"torch": "2.8"}), floor(300, 301)):
        assert "not measured" in change(compare(before, after, noise=[cell]), "tps_e2e").remark


def test_warm_up_samples_and_errors_are_left_out_of_what_they_spoil() -> None:
    warm = [samples()[0].model_copy(update={"warmup": True}), *samples()[1:]]
    warm[1] = warm[1].model_copy(update={"status": "error", "error": "NaN logits", "correct": None})
    found = compare(side(), side(warm))
    assert found.num_scored == 19
    assert change(found, "rounds").before == sum(12 + index % 3 for index in range(20) if index != 1)
    assert change(found, "tps_e2e").change == pytest.approx(1.0)
    assert any("1 of 20 problems ended in an error" in line for line in found.warnings)


def test_counts_of_common_problems_are_told() -> None:
    found = compare(side(), side(samples()[:5]))
    assert "only the 5 common problems of 20 and 5 are compared" in found.warnings
    assert any("n = 5: too few problems" in line for line in found.warnings)


def test_an_unfinished_run_is_told() -> None:
    done = side(status="finished")
    assert any(
        "0002-b is not finished (interrupted)" in line
        for line in compare(done, side(name="0002-b", status="interrupted")).warnings
    )
    assert not any("not finished" in line for line in compare(done, done).warnings)


def test_an_option_that_changed_no_token_is_told() -> None:
    found = compare(side(), side(name="0002-b", options={"tau_conf": 0.5}))
    assert any("same tokens though settings differ" in line for line in found.warnings)


def test_a_device_that_alone_may_move_answers_is_told_with_the_measured_spread() -> None:
    other = side(place={"dtype": "bfloat16"})
    assert any("dtype: float32 vs bfloat16 (`lopa-bench noise`" in line for line in compare(side(), other).warnings)
    assert any("accuracy within 0.0%" in line for line in compare(side(), other, noise=[floor(1, 2)]).warnings)


def test_a_cell_whose_repeats_differ_is_told() -> None:
    unsteady = floor(300, 310)
    moved = unsteady.repeats[1].model_copy(update={"identical": 18, "repeat": Repeat(run="x", accuracy=0.75)})
    unsteady = unsteady.model_copy(update={"repeats": (unsteady.repeats[0], moved)})
    found = compare(side(), side(name="0002-b"), noise=[unsteady])
    assert "equal runs are not equal here: 1 of 2 repeats differ, accuracy within 5.0%" in found.warnings


def test_every_format_carries_the_same_numbers() -> None:
    good = compare(side(), side([more_work(one, 1.25) for one in samples()], name="0002-b"))
    bad = Refusal(side(), side(name="0003-c"), "other prompts")
    [first, second] = document([good, bad], with_flips=True)["pairs"]
    assert first["flipped"] == [] and first["tpf_change"] < 1 and not second["comparable"]
    rows = list(csv.DictReader(io.StringIO(render(flat_table([good, bad]), "csv"))))
    assert float(rows[0]["tpf_change"]) == first["tpf_change"] and rows[1]["remark"] == "other prompts"
    json.dumps(first, allow_nan=False)
    for format in ("table", "markdown", "latex"):
        text = render(figures_table([good, bad]), format)
        assert f"{first['tpf_change']:.3f}x" in text and "not comparable: other prompts" in text
        assert "same answers" in render(flips_table([good, bad]), format)
        assert "0003: 0003-c" in text or format == "table"
    assert render(settings_table([good]), "csv").count("\n") == 1


def test_long_remarks_stand_below_the_figures() -> None:
    found = compare(side(), side(name="0002-b"))
    table = figures_table([found])
    assert {row["figure"]: row["remark"] for row in table.rows}["tokens/s"] == "see below"
    assert any(note.startswith("0002, tokens/s: noise of this cell not measured") for note in table.notes)


def test_flipped_problems_show_both_answers_where_they_part() -> None:
    after = samples([0.0] + [1.0] * 15 + [0.0] * 4)
    after[0] = after[0].model_copy(update={"text_kept": "She has 0 left. #### 9", "why": "wrong"})
    [row] = flipped_table([compare(side(), side(after))]).rows
    assert (row["id"], row["change"], row["why"]) == ("mini-maths-0000", "lost", "wrong")
    assert str(row["before"]).endswith("#### 0") and str(row["after"]).endswith("#### 9")


def test_flipped_problems_show_what_was_taken_beside_the_target_unless_it_is_a_program() -> None:
    def taken(texts: tuple[str, str | None], target: str) -> tuple[list[str], dict[str, object]]:
        before, after = samples(), samples([0.0] + [1.0] * 15 + [0.0] * 4)
        for answers, text in zip((before, after), texts, strict=True):
            answers[0] = answers[0].model_copy(update={"extracted": text, "target": target})
        table = flipped_table([compare(side(before), side(after))])
        return [column.key for column in table.columns], table.rows[0]

    keys, row = taken(("9", None), "9")
    assert (row["target"], row["extracted"]) == ("9", "9 → none") and {"target", "extracted"} <= set(keys)
    keys, row = taken(("def f():\n    return 1", "def f():"), "def f():\n    return 1")
    assert "extracted" not in row and not {"target", "extracted"} & set(keys)


def test_cutting_two_texts() -> None:
    one, other = cut_at_difference("a" * 50 + "left\nright", "a" * 50 + "LEFT" + "z" * 99, 20)
    assert one == "…aaaaaaaaaaaaleft⏎r…" and other.startswith("…aaaaaaaaaaaaLEFTz") and len(other) == 20
    assert cut_at_difference("short", "short", 20) == ("short", "short")
