"""A verdict in its forms: all say the same, and the machines that read them can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from stored import more_work, record, samples, store

from lopa_bench.results.comparison.baseline import Acceptance, accept
from lopa_bench.results.comparison.bounds import bounds_from
from lopa_bench.results.comparison.check import CheckOptions, Verdict, check
from lopa_bench.results.comparison.gate_output import cells_table, document, gates_table, github_lines, junit
from lopa_bench.results.comparison.gate_results import GateResult, Outcome
from lopa_bench.results.schema import utc_now
from lopa_bench.results.tables import render


@pytest.fixture
def verdict(tmp_path: Path) -> Verdict:
    """A good cell, a regressed one, one that is not in the baseline."""
    options: list[dict[str, Any]] = [{}, {"decoder": "d2f"}]
    good = [store(tmp_path, run=record(**one)) for one in options]
    baseline = accept(None, good, Acceptance(when=utc_now(), who="a", why="b", cells=()), {})
    slower = store(tmp_path, [more_work(one, 2) for one in samples()], record(decoder="d2f"))
    unknown = store(tmp_path, run=record(decoder="vanilla"))
    return check(baseline, [good[0], slower, unknown], CheckOptions(bounds=bounds_from(None, None, None, "15%")))


def test_every_form_counts_the_same(verdict: Verdict) -> None:
    found = document(verdict, "baseline.json")
    assert (found["outcome"], found["exit_code"], found["baseline"]) == ("regressed", 1, "baseline.json")
    words = [one["outcome"] for one in found["results"]]
    root = ElementTree.fromstring(junit(verdict))
    counts = {name: int(root.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {
        "tests": len(words),
        "failures": words.count("regressed"),
        "errors": words.count("not comparable"),
        "skipped": words.count("not gated"),
    }
    assert counts["failures"] == 5 and counts["errors"] == 1
    lines = list(github_lines(verdict))
    assert [sum(line.startswith(f"::{word} ") for line in lines) for word in ("error", "warning")] == [5, 1]
    json.dumps(found, allow_nan=False)


def test_whatever_was_found_the_junit_report_can_be_read(verdict: Verdict) -> None:
    found = GateResult("c\x00\uffff", "r\ufffe", "tpf", Outcome.REGRESSED, reason="a\x1b[0m <b>&\ud7ff")
    [case] = ElementTree.fromstring(junit(Verdict((found,)))).iter("testcase")
    assert (case.attrib["classname"], case.attrib["name"]) == ("c", "tpf (r)")


def test_the_junit_report_has_the_form_that_readers_expect(verdict: Verdict) -> None:
    text = junit(verdict)
    assert text.startswith(b"<?xml version='1.0' encoding='utf-8'?>")
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite" and suite.attrib["name"]
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.attrib["tests"]) and all(one.attrib["classname"] for one in cases)
        for tag, counter in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            parts = suite.findall(f"testcase/{tag}")
            assert len(parts) == int(suite.attrib[counter]) and all(one.attrib["message"] for one in parts)
    [suite] = [one for one in root if "d2f " in one.attrib["name"]]
    failed = [case.attrib["name"] for case in suite if case.find("failure") is not None]
    assert [name.partition(" (")[0] for name in failed] == [
        "tpf",
        "rounds",
        "model calls",
        "branch forwards",
        "positions",
    ]


def test_odd_characters_reach_no_machine_unescaped() -> None:
    odd = GateResult("a <b> & c", "r", "run", Outcome.REGRESSED, reason='50% "x"\nline\x07 <two>')
    verdict = Verdict((odd,))
    root = ElementTree.fromstring(junit(verdict))
    case = root.find("testsuite/testcase")
    assert case is not None and case.attrib["classname"] == "a <b> & c"
    [line] = github_lines(verdict)
    assert "\n" not in line and "50%25" in line and "%0A" in line
    assert line.startswith("::error title=lopa-bench%3A a <b> & c::")


def test_people_see_a_row_per_cell_and_what_failed(verdict: Verdict) -> None:
    table = render(cells_table(verdict), "table")
    assert "242 → 520" not in table and "REGRESSED" in table and "x not comparable" in table
    rows = {str(row["cell"]): row for row in cells_table(verdict).rows}
    assert rows["mini-maths lopa bundled:d2f"]["outcome"] == "ok"
    assert str(rows["mini-maths d2f bundled:d2f"]["rounds"]).count("→") == 1
    failed = gates_table(verdict, failed=True)
    assert [row["gate"] for row in failed.rows][:2] == ["settings", "answers"]
    assert len(failed.rows) == 8 and len(gates_table(verdict).rows) == len(verdict.results)


def test_the_closing_line_says_how_many_gates_it_rests_on(verdict: Verdict) -> None:
    assert cells_table(verdict).notes[0] == "regressed: 7 of 13 gates ok, 5 regressed, 1 not comparable"
