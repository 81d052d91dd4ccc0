"""A report's runs counted as another program would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lopa_bench.results.recount import names_for, recount_table
from lopa_bench.results.reports.runs import Group
from lopa_bench.results.reports.tables import ReportTable
from lopa_bench.results.tables import Column


def counted_tables(groups: Sequence[Group], name: str | None) -> list[ReportTable]:
    """Return a table per task with the figures that the programs named by `name` would have printed; none without one.

    Raises:
        ConfigError: no convention of that name.
    """
    if name is None:
        return []
    names_for(name)
    return [_counted(group, name) for group in groups if group.main]


def _counted(group: Group, name: str) -> ReportTable:
    entries = {one.id: one for one in group.main}
    table = recount_table([one.cut for one in group.main], name)
    rows = []
    for row in table.rows:
        entry = entries[str(row["run"])]
        rows.append({**row, "setting": entry.words, "run": entry.ref, "run_id": entry.id})
    columns = [Column("setting", "setting"), *(one for one in table.columns if one.key != "run"), Column("run", "run")]
    heading = f"{group.task}: as {'other programs count' if name == 'all' else f'{name} counts'}"
    return ReportTable(f"counted-{group.task}", heading, replace(table, columns=columns, rows=rows, title=heading))
