"""What a check found, for people, for programs, for JUnit readers and as annotations on GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from lopa_bench.results.comparison.check import Verdict
from lopa_bench.results.comparison.gate_results import GateResult, Outcome
from lopa_bench.results.tables import Column, Row, Table

SPEED = "tokens/s"
PERCENT = ("accuracy",)
TWO_DIGITS = ("tpf",)
ONE_DIGIT = (SPEED,)
EXPLAINING = ("settings", "answers")
MARKS = {
    Outcome.OK: "ok",
    Outcome.REGRESSED: "REGRESSED",
    Outcome.NOT_COMPARABLE: "x not comparable",
    Outcome.NOT_GATED: "-",
}


def cells_table(verdict: Verdict) -> Table:
    """Return one row per run of a cell: figures now, with the baseline's where they moved, and the worst outcome."""
    rows: list[Row] = []
    for cell, run in dict.fromkeys((one.cell, one.run) for one in verdict.results if one.gate != SPEED):
        own = {one.gate: one for one in verdict.results if (one.cell, one.run) == (cell, run)}
        speed = [one for one in verdict.results if (one.cell, one.gate) == (cell, SPEED)]
        found = {one.outcome for one in (*own.values(), *speed)}
        worst = next((one for one in Outcome if one in found and one != Outcome.OK), Outcome.OK)
        moved = {gate: _moved(one) for gate, one in own.items()}
        outcome = MARKS[worst if worst != Outcome.NOT_GATED else Outcome.OK]
        rows.append({"cell": cell, "run": _number(run), **moved, SPEED: _moved(*speed[:1]), "outcome": outcome})
    keys = ("cell", "run", "accuracy", "tpf", "rounds", "model calls", "positions", SPEED, "outcome")
    titles = {"tpf": "TPF"}
    columns = [Column(key, titles.get(key, key)) for key in keys]
    return Table(columns, rows, "", (closing_line(verdict), *verdict.notes, *_remarks(verdict)))


def _remarks(verdict: Verdict) -> Iterator[str]:
    """Say what the rows of passed gates do not show: other settings or answers, a speed that could not be gated."""
    told = {(row["cell"], row["run"], row["gate"]) for row in gates_table(verdict, failed=True).rows}
    for one in verdict.results:
        if one.is_notable and (one.cell, _number(one.run), one.gate) not in told:
            yield f"{one.cell}, run {_number(one.run)}, {one.gate}: {one.reason}"


def _moved(result: GateResult | None = None) -> str:
    if result is None:
        return ""
    before, after = figure(result, result.before), figure(result, result.after)
    return after if before == after or not before else f"{before} → {after}"


def _number(run: str) -> str:
    number = run.partition("-")[0]
    return number if number.isdigit() else run


def gates_table(verdict: Verdict, *, failed: bool = False) -> Table:
    """Return one row per gate; with `failed` only what regressed or could not be compared, and what may explain it."""
    bad = (Outcome.REGRESSED, Outcome.NOT_COMPARABLE)
    spoilt = {(one.cell, one.run) for one in verdict.results if one.outcome in bad}
    rows: list[Row] = [
        {
            "cell": one.cell,
            "run": _number(one.run),
            "gate": one.gate,
            "outcome": MARKS[one.outcome],
            "before": figure(one, one.before),
            "after": figure(one, one.after),
            "bound": one.bound,
            "reason": one.reason,
        }
        for one in verdict.results
        if not failed or one.outcome in bad or (one.gate in EXPLAINING and (one.cell, one.run) in spoilt)
    ]
    titles = {"cell": "cell", "run": "run", "gate": "gate", "outcome": "outcome", "before": "baseline", "after": "now"}
    columns = [Column(key, title) for key, title in {**titles, "bound": "bound", "reason": "what was found"}.items()]
    return Table(columns, rows, "gates", () if failed else (closing_line(verdict), *verdict.notes))


def figure(result: GateResult, value: float | None) -> str:
    """Return a gate's figure as text, "" where there is none."""
    if value is None:
        return ""
    if result.gate in PERCENT:
        return f"{value:.1%}"
    return f"{value:.{2 if result.gate in TWO_DIGITS else 1 if result.gate in ONE_DIGIT else 0}f}"


def closing_line(verdict: Verdict) -> str:
    """Return the outcome and how many gates it rests on."""
    gated = [one for one in verdict.results if one.outcome != Outcome.NOT_GATED]
    words = [f"{verdict.count(outcome)} {outcome}" for outcome in (Outcome.REGRESSED, Outcome.NOT_COMPARABLE)]
    return f"{verdict.outcome}: {verdict.count(Outcome.OK)} of {len(gated)} gates ok, {', '.join(words)}"


def document(verdict: Verdict, baseline: str) -> dict[str, Any]:
    """Return the verdict as JSON values."""
    return {
        "baseline": baseline,
        "outcome": verdict.outcome.value,
        "exit_code": verdict.exit_code,
        "results": [_entry(one) for one in verdict.results],
        "notes": list(verdict.notes),
    }


def _entry(result: GateResult) -> dict[str, Any]:
    evidence = None if result.evidence is None else vars(result.evidence)
    return {**vars(result), "outcome": result.outcome.value, "evidence": evidence}


def sentence(result: GateResult) -> str:
    """Return a gate's result in one line."""
    before, after = figure(result, result.before), figure(result, result.after)
    moved = f"{before or '-'} -> {after or '-'}" if before or after else ""
    bound = f"bound {result.bound}" if result.bound else ""
    return "; ".join(part for part in (f"{result.gate} {moved}".strip(), bound, result.reason) if part)


def junit(verdict: Verdict) -> bytes:
    """Return a JUnit XML report: a suite per cell, a case per gate.

    A regression is a failure, what could not be compared an error, what is only reported a skipped case.
    """
    root = ElementTree.Element("testsuites", name="lopa-bench check")
    for cell in dict.fromkeys(one.cell for one in verdict.results):
        own = [one for one in verdict.results if one.cell == cell]
        suite = ElementTree.SubElement(root, "testsuite", {"name": _printable(cell), **_counts(own), "time": "0"})
        for one in own:
            name = f"{one.gate} ({one.run})"
            case = ElementTree.SubElement(
                suite, "testcase", classname=_printable(cell), name=_printable(name), time="0"
            )
            tag = {"regressed": "failure", "not comparable": "error", "not gated": "skipped"}.get(one.outcome)
            if tag is None:
                continue
            part = ElementTree.SubElement(case, tag, message=_printable(sentence(one)))
            if tag != "skipped":
                part.set("type", one.outcome.value)
                part.text = _printable(sentence(one))
    for key, value in _counts(list(verdict.results)).items():
        root.set(key, value)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _counts(results: list[GateResult]) -> dict[str, str]:
    def number(outcome: Outcome) -> str:
        return str(sum(one.outcome == outcome for one in results))

    return {
        "tests": str(len(results)),
        "failures": number(Outcome.REGRESSED),
        "errors": number(Outcome.NOT_COMPARABLE),
        "skipped": number(Outcome.NOT_GATED),
    }


def _printable(text: str) -> str:
    """Leave out the characters that XML 1.0 cannot hold."""
    return "".join(letter for letter in text if (letter >= " " and letter not in "\ufffe\uffff") or letter in "\t\n\r")


def flat_table(verdict: Verdict) -> Table:
    """Return every gate with its numbers as they are and its outcome in words, for CSV."""
    rows: list[Row] = [_entry(one) for one in verdict.results]
    keys = ("cell", "run", "gate", "outcome", "before", "after", "bound", "reason")
    return Table([Column(key, key) for key in keys], rows, "gates")


def github_lines(verdict: Verdict) -> Iterator[str]:
    """Yield workflow commands that GitHub shows beside a change: errors for regressions, warnings for the rest."""
    levels = {Outcome.REGRESSED: "error", Outcome.NOT_COMPARABLE: "warning"}
    for one in verdict.results:
        if one.outcome in levels:
            title = _escape(f"lopa-bench: {one.cell}", in_property=True)
            yield f"::{levels[one.outcome]} title={title}::{_escape(sentence(one))}"


def _escape(text: str, *, in_property: bool = False) -> str:
    """Escape as GitHub's workflow commands ask."""
    for letter, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(letter, code)
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text
