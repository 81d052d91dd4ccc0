"""The tables of `lopa-bench reproduce`: what is expected, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from lopa_bench.harness.reproduction.figures import Figure
from lopa_bench.harness.reproduction.reproduce import Reproduction, Target
from lopa_bench.results.published_figures import PublishedRow
from lopa_bench.results.tables import Column, Row, Table, Value
from lopa_bench.tasks.presets import why_no_preset

MECHANICS = "NOT COMPARABLE: a bundled model on a generated task. It shows that the decoder and options run, no more."


def expected_table(found: Sequence[Target]) -> Table:
    """Return the published figures with the preset that would be run for each."""
    rows: list[Row] = []
    for target in found:
        for figure in target.cell.rows:
            rows.append(
                {
                    **_labels(figure),
                    "expected": figure.value,
                    "unit": figure.unit,
                    "kind": figure.kind,
                    "preset": target.preset.name if target.preset else "-",
                    "model": target.preset.model if target.preset else figure.model,
                    "adapter": (target.preset.adapter if target.preset else None) or "-",
                    "open question": _open_question(target),
                    "source": figure.source,
                }
            )
    keys = ("row", "task", "metric", "expected", "unit", "kind", "preset", "open question")
    return Table([Column(key, key) for key in keys], rows, notes=(_source_note(found[0].cell.first),))


def _open_question(target: Target) -> str:
    return why_no_preset(target.cell.id) if target.preset is None else target.preset.open_question or "-"


def result_table(done: Sequence[Reproduction], *, mechanics: bool = False) -> Table:
    """Return a line per published figure: expected, measured, deviation, tolerance, n and the row's verdict."""
    rows = [_row(one, figure) for one in done for figure in one.figures]
    rows += [_unmeasured(one, figure) for one in done if not one.figures for figure in one.target.cell.rows]
    kinds = {str(row["kind"]) for row in rows}
    columns = [
        Column("row", "row"),
        Column("task", "task"),
        Column("metric", "metric"),
        Column("expected", f"expected ({' or '.join(sorted(kinds, reverse=True))})"),
        *([Column("kind", "kind")] if len(kinds) > 1 else []),
        Column("measured", "measured", digits=2),
        Column("deviation", "deviation", digits=2, signed=True),
        Column("tolerance", "tolerance ±", digits=2),
        Column("n", "n"),
        Column("verdict", "verdict"),
    ]
    notes = [MECHANICS] if mechanics else []
    notes += [_source_note(done[0].target.cell.first), *_remarks(done), *_verdicts(done), *_differences(done)]
    return Table(columns, rows, notes=tuple(notes))


def _labels(figure: PublishedRow) -> dict[str, Value]:
    return {"cell": figure.cell_id, "row": figure.row, "task": figure.task, "metric": figure.metric}


def _row(one: Reproduction, figure: Figure) -> Row:
    tolerance = figure.tolerance
    return {
        **_labels(figure.published),
        "expected": figure.published.value,
        "kind": figure.published.kind,
        "measured": figure.measured,
        "deviation": figure.deviation,
        "tolerance": tolerance.total if tolerance else None,
        "tolerance_n": tolerance.sampling if tolerance else None,
        "tolerance_rounding": tolerance.rounding if tolerance else None,
        "tolerance_device": tolerance.allowance if tolerance else None,
        "n": figure.n,
        "within": figure.is_within,
        "remark": figure.remark,
        "verdict": one.verdict,
        "why": one.why,
        "preset": one.target.preset.name if one.target.preset else None,
        "run": one.run.path.name if one.run else None,
        "differences": "; ".join(map(str, one.differences)),
    }


def _unmeasured(one: Reproduction, figure: PublishedRow) -> Row:
    return {
        **_labels(figure), "expected": figure.value, "kind": figure.kind, "measured": None, "deviation": None,
        "tolerance": None, "n": 0, "verdict": one.verdict, "why": one.why,
        "preset": one.target.preset.name if one.target.preset else None, "run": None, "differences": "",
    }  # fmt: skip


def _source_note(figure: PublishedRow) -> str:
    source = figure.source.removesuffix(f", {figure.row}")
    return f"expected: {source}; nothing in that column was measured here"


def _remarks(done: Sequence[Reproduction]) -> list[str]:
    """Say, once each, why figures were not judged."""
    found: dict[str, dict[str, None]] = {}
    for one in done:
        for figure in one.figures:
            if figure.remark:
                found.setdefault(figure.remark, {})[figure.published.metric] = None
    return [f"{', '.join(metrics)}: {remark}" for remark, metrics in found.items()]


def _verdicts(done: Sequence[Reproduction]) -> list[str]:
    """Say why rows did not come out, rows with one reason together."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in done:
        if one.why:
            figure = one.target.cell.first
            found.setdefault((one.verdict, one.why), []).append(f"{figure.row} {figure.task}")
    return [f"{verdict}: {', '.join(names)}: {why}" for (verdict, why), names in found.items()]


def _differences(done: Sequence[Reproduction]) -> list[str]:
    """List what differs from the published setting: for all rows first, then what single rows have beside it."""
    measured = [one for one in done if one.run is not None]
    if not measured:
        return []
    sets = [{str(difference) for difference in one.differences} for one in measured]
    common = reduce(set.intersection, sets)
    listed = [str(difference) for difference in measured[0].differences if str(difference) in common]
    lines = [f"differs{' in all rows' if len(measured) > 1 else ''}: {'; '.join(listed)}"] if listed else []
    for one in measured:
        own = [str(difference) for difference in one.differences if str(difference) not in common]
        if own:
            figure = one.target.cell.first
            lines.append(f"differs in {figure.row} {figure.task}: {'; '.join(own)}")
    return lines
