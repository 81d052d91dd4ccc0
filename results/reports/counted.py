"""A report's runs counted as another program would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lopa_bench.results.recount import names_for, recount_table
from lopa_bench.results.reports.report_table import ReportTable, by_metric
from lopa_bench.results.reports.runs import Group
from lopa_bench.results.rows import metric_column
from lopa_bench.results.tables import Column

DEFINED_BY = {
    "tokens": "counted_tokens", "steps": "counted_steps", "tpf": "counted_tpf", "n_timed": "counted_timed",
    "seconds": "counted_seconds", "tps": "counted_tps", "tps_mean": "counted_tps_mean", "tps_max": "counted_tps_max",
    "tps_top10": "counted_tps_top10", "latency_s": "counted_latency_s",
}  # fmt: skip
"""The definitions behind the columns of `results.recount`."""


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
        accuracy = entry.summary.metrics["accuracy"].value
        rows.append({**row, "setting": entry.words, "accuracy": accuracy, "run": entry.ref, "run_id": entry.id})
    columns = [Column("setting", "setting"), *(one for one in table.columns if one.key != "run")]
    columns += [replace(metric_column("accuracy"), direction="neither"), Column("run", "run")]
    heading = f"{group.task}: as {'other programs count' if name == 'all' else f'{name} counts'}"
    table = replace(table, columns=columns, rows=rows, title=heading)
    return ReportTable(f"counted-{group.task}", heading, table, by_metric(columns, DEFINED_BY))
