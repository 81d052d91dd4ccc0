"""What `analyse` tells of runs: lengths of any run, and of one that kept traces how its answers were filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ResultsError
from lopa_bench.results.fillings.analysis import (
    Analysis,
    analyse,
    branches_table,
    bursts_table,
    good_traces,
    no_traces,
    order_table,
    places_table,
    ranks_table,
    rounds_table,
    tenths_table,
)
from lopa_bench.results.fillings.lengths import LengthRow, length_rows, lengths_table
from lopa_bench.results.rows import short_runs
from lopa_bench.results.tables import Column, Table, Value

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun

FROM_TRACES: dict[str, Callable[[Sequence[Analysis]], Table]] = {
    "order": partial(order_table, locally=True),
    "bursts": bursts_table,
    "rounds": rounds_table,
    "branches": branches_table,
    "ranks": ranks_table,
    "tenths": tenths_table,
    "places": places_table,
}
FROM_ANSWERS = {"lengths": "answer", "prompts": "prompt"}
TABLES = (*FROM_TRACES, *FROM_ANSWERS)
A_ROW_PER_RUN = ("order", "branches")


@dataclass(frozen=True)
class Overview:
    """One run: its answers by their length and by their prompts', and what its traces tell, None without any."""

    run_id: str
    lengths: dict[str, tuple[LengthRow, ...]]
    filling: Analysis | None
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return everything as JSON values; what only traces tell is null without them."""
        told = dict.fromkeys(("order", "branches", "ranks", "places", "rounds"))
        told |= self.filling.document() if self.filling else {}
        lengths = {of: [row.document() for row in rows] for of, rows in self.lengths.items()}
        return {"run": self.run_id, **told, "lengths": lengths, "notes": list(self.notes)}


def overview_of(run: StoredRun) -> Overview:
    """Read a run; it need not have kept traces.

    Raises:
        ResultsError: no answer of it ended without an error.
    """
    traces = good_traces(run)
    filling = analyse(run, traces) if traces else None
    lengths = {of: length_rows(run.samples, of) for of in FROM_ANSWERS.values()}
    if not lengths["answer"]:
        raise ResultsError(f"run {run.record.id} has no answer to analyse: it holds none that ended without an error")
    return Overview(run.record.id, lengths, filling, (no_traces(run),) if filling is None else filling.notes)


def table(name: str, runs: Sequence[Overview]) -> Table:
    """Return one of TABLES, a row per run or several rows of each; without a column for it where there is one run.

    Raises:
        ResultsError: the table is made from traces, and a run kept none.
    """
    if name in FROM_ANSWERS:
        of = FROM_ANSWERS[name]
        made = lengths_table([(one.run_id, one.lengths[of]) for one in runs], of)
    else:
        made = FROM_TRACES[name]([_filling(one) for one in runs])
    if len({row["run"] for row in made.rows}) > 1 or name in A_ROW_PER_RUN:
        return made
    return replace(made, columns=[column for column in made.columns if column.key != "run"])


def _filling(one: Overview) -> Analysis:
    if one.filling is None:
        raise ResultsError("; ".join(one.notes))
    return one.filling


def default_table(runs: Sequence[Overview]) -> str:
    """Return the table that stands for all where only one can be printed."""
    return "order" if all(one.filling for one in runs) else "lengths"


def all_tables(runs: Sequence[Overview]) -> list[Table]:
    """Return a row per run first, then what has several rows of each, of several runs side by side.

    Round by round there is no overview of several runs; that table is left out then. Runs without traces are in the
    tables of lengths alone.
    """
    fillings = [one.filling for one in runs if one.filling is not None]
    found = [FROM_TRACES[name](fillings) for name in A_ROW_PER_RUN]
    found += [table(name, runs) for name in FROM_ANSWERS]
    if len(runs) > 1:
        found += _compared(fillings)
    else:
        found += [table(name, runs) for name in ("places", "ranks", "tenths", "bursts", "rounds") if fillings]
    short = short_runs(one.run_id for one in runs)
    return [one if one in found[:2] else _numbered(one, short) for one in found if one.rows]


def _numbered(long: Table, short: dict[str, str]) -> Table:
    """Name the runs of a table with many rows by their numbers."""
    rows = [{**row, "run": short[str(row["run"])]} if "run" in row else row for row in long.rows]
    return replace(long, rows=rows)


def _compared(fillings: Sequence[Analysis]) -> list[Table]:
    """Return tables in which several runs have a column each."""
    percent = Column("", "", digits=1, scale=100.0)
    return [
        _side_by_side(places_table(fillings), "part", replace(percent, key="tpf", digits=2, scale=1.0)),
        _side_by_side(ranks_table(fillings), "rank", replace(percent, key="share"), "lookaheads that won, % by rank"),
        _side_by_side(
            tenths_table(fillings), "part", replace(percent, key="share"), "where lookaheads win, % of those tried"
        ),
        _side_by_side(
            bursts_table(fillings), "size", replace(percent, key="share"), "slots filled by one round, % of rounds", 0.0
        ),
    ]


def _side_by_side(long: Table, key: str, shown: Column, title: str = "", missing: float | None = None) -> Table:
    """Return a column for each run of a table that has several rows of each, named by the run's number.

    `shown` says which value is set there and how. `missing` stands where a run has no row of a key that another has.
    """
    runs = [str(run) for run in dict.fromkeys(row["run"] for row in long.rows)]
    short = short_runs(runs)
    keys = dict.fromkeys(row[key] for row in long.rows)
    ordered = sorted(keys, key=lambda one: one if isinstance(one, int) else 0)  # words keep their order
    rows: list[dict[str, Value]] = [{key: one, **dict.fromkeys(runs, missing)} for one in ordered]
    places = {one: rows[index] for index, one in enumerate(ordered)}
    for row in long.rows:
        places[row[key]][str(row["run"])] = row[shown.key]
    first = next(column for column in long.columns if column.key == key)
    columns = [first, *(replace(shown, key=run, title=short[run]) for run in runs)]
    return Table(columns, rows, title or long.title, long.notes if not title else ())
