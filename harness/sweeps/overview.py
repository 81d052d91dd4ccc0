"""The tables of a sweep of very many cells: a row for each task and decoder instead of one for each cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lopa_bench.harness.sweeps.plan import Paces, PlannedCell, duration, remaining, total_line
from lopa_bench.harness.sweeps.speed_remarks import speed_remarks
from lopa_bench.harness.sweeps.sweep import Outcome
from lopa_bench.results.tables import Column, Row, Table, Value

LONG = 100
"""With more cells than these a terminal gets these tables; the other formats have every cell of any number."""

_T = TypeVar("_T")


def plan_overview(planned: Sequence[PlannedCell], paces: Paces) -> Table:
    """Return how many cells of each task and decoder are finished, begun and new, and what they may take."""
    rows: list[Row] = []
    for label, cells in _groups(planned, lambda one: one):
        states = [one.state for one in cells]
        seconds, num_unknown = remaining(cells, paces)
        rows.append(
            {
                **label,
                "cells": len(cells),
                "finished": states.count("finished"),
                "begun": sum(" of " in state for state in states),
                "new": states.count("new"),
                "missing": sum(one.num_missing for one in cells),
                "time": "unknown" if num_unknown else duration(seconds) if seconds else "-",
            }
        )
    keys = ("task", "decoder", "cells", "finished", "begun", "new")
    columns = [*(Column(key, key) for key in keys), Column("missing", "answers to make"), Column("time", "time, about")]
    return Table(columns, rows, notes=(total_line(planned, paces), *speed_remarks(planned), _advice(len(planned))))


def result_overview(outcomes: Sequence[Outcome]) -> Table:
    """Return what became of the cells of each task and decoder, and between what their figures lie."""
    rows: list[Row] = []
    for label, group in _groups(outcomes, lambda one: one.planned):
        states = [one.cell().state for one in group]
        row: dict[str, Value] = {**label, "cells": len(group)}
        row |= {state: states.count(state) for state in ("ran", "stored", "failed")}
        for name in ("accuracy", "tpf"):
            found = [one.summary.metrics[name].value for one in group if one.summary is not None]
            values = [value for value in found if value is not None]
            row |= {f"{name}_least": min(values, default=None), f"{name}_most": max(values, default=None)}
        rows.append(row)
    keys = ("task", "decoder", "cells", "ran", "stored", "failed")
    columns = [Column(key, key) for key in keys]
    for name, title, scale, digits in (("accuracy", "accuracy %", 100.0, 1), ("tpf", "TPF", 1.0, 2)):
        columns += [
            Column(f"{name}_{end}", f"{title}, {word}", digits=digits, scale=scale)
            for end, word in (("least", "lowest"), ("most", "highest"))
        ]
    return Table(columns, rows, notes=(*_faults(outcomes), _advice(len(outcomes))))


def _groups(items: Sequence[_T], cell_of: Callable[[_T], PlannedCell]) -> list[tuple[dict[str, Value], list[_T]]]:
    """Return the items by task and decoder, in the order in which these come."""
    found: dict[tuple[str, str], list[_T]] = {}
    for one in items:
        cell = cell_of(one).cell
        found.setdefault((str(cell.value("task")), str(cell.value("decoder"))), []).append(one)
    return [({"task": task, "decoder": decoder}, group) for (task, decoder), group in found.items()]


def _faults(outcomes: Sequence[Outcome], most: int = 10) -> list[str]:
    failed = [(number, one) for number, one in enumerate(outcomes, start=1) if one.error is not None]
    told = [f"cell {number} failed ({one.planned.cell.words()}): {one.error}" for number, one in failed[:most]]
    return told + ([f"and {len(failed) - most} more failed"] if len(failed) > most else [])


def _advice(count: int) -> str:
    return (
        f"{count} cells in groups; --whole prints a row for each, and --json, --csv, --markdown and --latex always do"
    )
