"""`check` and `baseline accept` from outside: exit codes, sentences, reports."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from stored import more_work, record, samples, store

CHECK = ("check", "--baseline", "baseline.json")


@pytest.fixture
def accepted(call: Any, tmp_path: Path) -> Path:
    """A folder of runs whose first is the baseline."""
    store(tmp_path / "runs")
    assert call("baseline", "accept", "1", "--why", "first baseline", "--who", "Ada")[0] == 0
    return tmp_path / "runs"


def test_a_good_run_passes(call: Any, accepted: Path) -> None:
    code, out, _ = call(*CHECK, "last", "--max-drop", "acc=1.0pt", "--tpf", "exact", "--forwards", "0%", "--tps", "15%")
    assert code == 0 and "ok: 6 of 6 gates ok, 0 regressed, 0 not comparable" in out and "::" not in out
    code, out, _ = call(*CHECK, "last", "--tps", "15%", "--every-gate")
    assert code == 0 and "reported only: to gate, a speed needs a baseline of 3 runs" in out


def test_a_regression_ends_in_1_and_is_reported_everywhere(call: Any, accepted: Path) -> None:
    store(accepted, [more_work(one, 1.1) for one in samples()])
    code, out, _ = call(*CHECK, "2", "--github", "--junit", "report.xml")
    assert code == 1 and "REGRESSED" in out and "::error title=" in out
    root = ElementTree.parse("report.xml").getroot()
    assert int(root.attrib["failures"]) == 5
    code, out, err = call(*CHECK, "2", "--json", "--github")
    assert (code, json.loads(out)["exit_code"]) == (1, 1) and "::error" in err
    for flag in ("--markdown", "--latex"):
        code, out, _ = call(*CHECK, "2", flag)
        assert code == 1 and "REGRESSED" in out
    rows = list(csv.DictReader(io.StringIO(call(*CHECK, "2", "--csv")[1])))
    [rounds] = [row for row in rows if row["gate"] == "rounds"]
    assert (rounds["outcome"], float(rounds["before"]), float(rounds["after"])) == ("regressed", 259, 279)


def test_under_github_s_runner_annotations_and_a_summary_come_by_themselves(
    call: Any, accepted: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    store(accepted, samples([0.0] * 20))
    code, out, _ = call(*CHECK, "last")
    assert code == 1 and "::error" in out
    assert "| REGRESSED |" in (tmp_path / "summary.md").read_text()


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    call: Any, accepted: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "nowhere" / "summary.md"))
    code, out, err = call(*CHECK, "1")
    assert code == 0 and "ok: 6 of 6" in out and "summary.md cannot be written" in err


def test_a_report_that_cannot_be_written_hides_no_verdict(call: Any, accepted: Path) -> None:
    code, out, err = call(*CHECK, "1", "--junit", "runs")
    assert code == 2 and "ok: 6 of 6" in out and "cannot write runs: Is a directory" in err


def test_a_report_s_folder_is_made(call: Any, accepted: Path) -> None:
    assert call(*CHECK, "1", "--junit", "reports/unit/report.xml")[0] == 0
    assert ElementTree.parse("reports/unit/report.xml").getroot().tag == "testsuites"


def test_what_a_passed_check_should_not_hide_is_said(call: Any, accepted: Path) -> None:
    changed = [one.model_copy(update={"token_ids": (*one.token_ids, 9)}) for one in samples()]
    store(accepted, changed, record(model={"hash": "sha256:other"}))
    code, out, _ = call(*CHECK, "2", "--tps", "15%")
    assert code == 0 and "answers: 0 of 20 answers have the same tokens" in " ".join(out.split())
    assert "bundled:d2f, other weights" in out and "tokens/s: reported only" in out
    code, out, _ = call(*CHECK, "1")
    assert code == 0 and "answers:" not in out and "settings:" not in out


def test_tables_in_markdown_stand_apart(call: Any, accepted: Path) -> None:
    store(accepted, [more_work(one, 1.1) for one in samples()])
    code, out, _ = call(*CHECK, "2", "--markdown")
    assert code == 1 and "\n\n**gates**\n\n" in out


def test_a_missing_baseline_is_neither_a_pass_nor_a_crash(call: Any, tmp_path: Path) -> None:
    store(tmp_path / "runs")
    code, out, err = call("check", "-b", "nowhere.json", "last")
    assert (code, out) == (3, "")
    assert "there is no baseline nowhere.json yet" in err and "baseline accept" in err and len(err.splitlines()) == 1


def test_a_missing_baseline_is_told_to_programs_too(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path / "runs")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    words = "there is no baseline nowhere.json yet"
    code, out, err = call("check", "-b", "nowhere.json", "last", "--json", "--junit", "report.xml")
    document = json.loads(out)
    [result] = document["results"]
    assert (code, document["outcome"], document["exit_code"]) == (3, "not comparable", 3)
    assert (result["gate"], result["outcome"]) == ("baseline", "not comparable") and words in result["reason"]
    assert "::warning title=lopa-bench%3A all::" in err and words in err
    root = ElementTree.parse("report.xml").getroot()
    assert (root.attrib["tests"], root.attrib["errors"], root.attrib["failures"]) == ("1", "1", "0")
    assert words in (tmp_path / "summary.md").read_text()
    code, out, _ = call("check", "-b", "nowhere.json", "last")
    assert code == 3 and out.startswith("::warning") and len(out.splitlines()) == 1
    [row] = csv.DictReader(io.StringIO(call("check", "-b", "nowhere.json", "last", "--csv")[1]))
    assert row["outcome"] == "not comparable" and words in row["reason"]
    for flag in ("--markdown", "--latex"):
        code, out, _ = call("check", "-b", "nowhere.json", "last", flag)
        assert code == 3 and "not comparable" in out and words in out


def test_a_damaged_baseline_is_a_mistake(call: Any, accepted: Path) -> None:
    Path("baseline.json").write_text(Path("baseline.json").read_text()[:-50])
    code, _, err = call(*CHECK, "last")
    assert code == 2 and "is damaged" in err and "Traceback" not in err


def test_what_is_no_file_is_no_baseline(call: Any, accepted: Path) -> None:
    code, _, err = call("check", "-b", "runs", "last")
    assert code == 2 and "runs is no file" in err
    code, _, err = call("baseline", "accept", "1", "--why", "x", "--out", "runs")
    assert code == 2 and "--out runs is no file" in err


def test_other_prompts_end_in_3(call: Any, accepted: Path) -> None:
    store(accepted, samples(prompt_hash="f" * 64))
    code, out, _ = call(*CHECK, "last")
    assert code == 3 and "have other prompts" in out


MISTAKES = {
    "no such run": (["99"], "run '99' not found"),
    "a bound of no form": (["last", "--tpf", "two"], "--tpf is 'two'"),
    "a drop without points": (["last", "--max-drop", "1"], "as acc=1.0pt"),
    "an exact speed": (["last", "--tps", "exact"], "never the same twice"),
    "no such stage": (["last", "--stage", "smoke"], "has no stage 'smoke'"),
    "two formats": (["last", "--json", "--csv"], "exclude each other"),
    "fewer repeats than none": (["last", "--remeasure", "-1"], "--remeasure"),
    "no runs": (["--runs-dir", "empty"], "there are no runs in 'empty'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_2_and_one_line(call: Any, accepted: Path, mistake: str) -> None:
    words, expected = MISTAKES[mistake]
    code, out, err = call(*CHECK, *words)
    assert (code, out) == (2, "") and expected in err and len(err.splitlines()) == 1


def test_all_runs_of_a_folder_are_checked_when_none_is_named(call: Any, accepted: Path) -> None:
    store(accepted, samples([0.0] * 20))
    code, out, _ = call(*CHECK)
    assert code == 1 and "0001" in out and "0002" in out


@pytest.mark.parametrize("damage", ["{", '{"schema_version": 99}'])
def test_a_run_that_cannot_be_read_is_no_pass(call: Any, accepted: Path, damage: str) -> None:
    (store(accepted).path / "run.json").write_text(damage)
    code, out, _ = call(*CHECK)
    assert code == 1 and "0002" in out and "it cannot be read" in out


def test_accepting_says_who_when_and_why_and_shows_what_changed(call: Any, accepted: Path) -> None:
    store(accepted, samples([1.0] * 20))
    code, out, err = call("baseline", "accept", "2", "--why", "all solved", "--who", "Bob")
    assert code == 0 and "80.0" in out and "100.0" in out and "commit it" in err
    history = json.loads(Path("baseline.json").read_text())["history"]
    assert [(one["who"], one["why"]) for one in history] == [("Ada", "first baseline"), ("Bob", "all solved")]
    assert all(one["when"].endswith("Z") for one in history)


def test_two_stages(call: Any, accepted: Path) -> None:
    for words in (
        ["smoke", "--min-samples", "5", "--max-drop", "acc=30pt"],
        ["full", "--min-samples", "20", "--tpf", "exact"],
    ):
        assert call("baseline", "accept", "1", "--why", f"bounds of {words[0]}", "--stage", *words)[0] == 0
    store(accepted, samples([0.0] + [1.0] * 4))
    assert call(*CHECK, "last")[0] == 0, "a drop of 20 points is within the smoke test's bound"
    code, out, _ = call(*CHECK, "last", "--stage", "full")
    assert code == 3 and "stage full needs 20 problems" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["1", "--why", "  "], "--why is empty"),
        (["1"], "--why"),
        (["7", "--why", "x"], "run '7' not found"),
        (["2", "--why", "x"], "cannot be accepted: its status is interrupted"),
    ],
)
def test_what_cannot_be_accepted(call: Any, accepted: Path, words: list[str], expected: str) -> None:
    store(accepted, status="interrupted")
    before = Path("baseline.json").read_text()
    code, _, err = call("baseline", "accept", *words)
    assert code == 2 and expected in err and Path("baseline.json").read_text() == before


def test_a_run_without_its_own_cell_is_not_comparable(call: Any, accepted: Path) -> None:
    store(accepted, run=record(decoder="d2f"))
    code, out, _ = call(*CHECK, "last")
    assert code == 3 and "no cell of these settings" in out
    assert "not checked, as no run of them was named: mini-maths lopa" in " ".join(out.split())


@pytest.mark.parametrize("words", [["-h"], ["accept", "-h"]])
def test_the_group_has_help(call: Any, words: list[str]) -> None:
    code, out, _ = call("baseline", *words)
    assert code == 0 and "accept" in out


def test_a_slow_cell_is_run_anew_before_it_fails(call: Any, diffusion_checkpoint: Path) -> None:
    cell = [
        "run", "-t", "mini-maths", "-d", "d2f", "-m", str(diffusion_checkpoint), "-n", "2", "--warmup", "0",
        "--max-new-tokens", "8", "--block-size", "4", "--threads", "1", "--new",
    ]  # fmt: skip
    for _ in range(3):
        assert call(*cell)[0] == 0
    assert call("baseline", "accept", "1", "2", "3", "--why", "three repeats")[0] == 0
    document = json.loads(Path("baseline.json").read_text())
    [only] = document["cells"].values()
    only["speeds"] = [1e9, 1.01e9, 0.99e9]  # no machine is as fast, so this one is slow, now and again
    only["loads"], only["unhindered"] = [1.0, 1.0, 1.0], []  # and none is busier, so that this is no excuse
    Path("baseline.json").write_text(json.dumps(document))
    code, out, err = call(*CHECK, "--tps", "15%", "--remeasure", "3", "--every-gate")
    assert code == 1 and "running it 3 times anew" in err and "0.00x over 3 runs" in out
    assert len(list(Path("runs/again").glob("0*"))) == 3
    assert call(*CHECK)[0] == 0, "without a bound a speed is only reported"
