"""A table of a report: what it shows, which definition stands behind each column, which runs behind each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lopa_bench.results.metrics import METRICS
from lopa_bench.results.tables import Column, Row, Table

ALL_ROWS = ""
"""In `ReportTable.run_keys`: the column's figures rest on the runs of all rows."""


@dataclass(frozen=True)
class ReportTable:
    """A table with its file's name and heading.

    `metrics` gives the id of the definition behind a column. `run_keys` gives the row's key that names a column's run
    where that is not `run`; for a figure of several runs, that of their list, in one string with commas, which must be
    a column too.
    """

    name: str
    heading: str
    table: Table
    metrics: Mapping[str, str] = field(default_factory=dict)
    run_keys: Mapping[str, str] = field(default_factory=dict)

    def refs(self, row: Row, column: Column) -> tuple[str, ...]:
        """Return the short names of the runs behind a cell, none where there is none."""
        key = self.run_keys.get(column.key, "run")
        if key == ALL_ROWS:
            return tuple(dict.fromkeys(ref for one in self.table.rows for ref in listed(one.get("run"))))
        return listed(row.get(key))


def joined(refs: Sequence[str]) -> str:
    """Return the runs of a cell as a row holds them, each once."""
    return ", ".join(dict.fromkeys(refs))


def listed(value: object) -> tuple[str, ...]:
    """Return the runs that `joined` put into a row."""
    return tuple(str(value).split(", ")) if value else ()


def by_metric(columns: Sequence[Column], also: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the definition behind each column that has one: as `also` says, else that of the column's own key."""
    known = {**dict.fromkeys(METRICS), "n": None, **(also or {})}
    return {one.key: known[one.key] or one.key for one in columns if one.key in known}
