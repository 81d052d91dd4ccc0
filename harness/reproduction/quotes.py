"""Published figures for a report: those that its runs were made to be set beside, and those of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lopa_bench.harness.reproduction.reproduce import Target, judge
from lopa_bench.results.published_figures import cells, select
from lopa_bench.results.reports.tables import Quote
from lopa_bench.results.store import StoredRun
from lopa_bench.tasks.presets import presets_of

TABLES = ("lopa-table1", "lopa-table2")
"""What stands in a report whose runs were made by no published row's preset."""


def quotes_for(runs: Sequence[StoredRun]) -> list[Quote]:
    """Return published figures with what `runs` have to set beside them.

    A run made by a row's preset stands beside that row's figures, counted as its program counts. Of LoPA's Tables 1 and
    2 the rows of the runs' tasks are quoted without, or all rows where no run is of such a task.
    """
    made = list(_beside(runs))
    there = {quote.published.cell_id for quote in made}
    rows = [row for table in TABLES for row in select(table) if row.is_measured and row.cell_id not in there]
    tasks = {run.record.task.name for run in runs}
    alike = [row for row in rows if row.task in tasks]
    return [*made, *(Quote(row) for row in (alike or ([] if made else rows)))]


def _beside(runs: Sequence[StoredRun]) -> Iterator[Quote]:
    """Yield every figure of the rows whose presets made some of the runs."""
    by_preset = {name: run for run in runs if (name := _preset(run)) is not None}
    for cell in cells():
        for preset in presets_of(cell.id)[:1]:
            if preset.name in by_preset:
                yield from _judged(Target(cell, preset), by_preset[preset.name])


def _judged(target: Target, run: StoredRun) -> Iterator[Quote]:
    done = judge(target, run, [sample.id for sample in run.samples])
    differing = ", ".join(dict.fromkeys(one.name for one in done.differences))
    remark = "; ".join(part for part in (f"{done.verdict}", done.why, differing and f"differs in {differing}") if part)
    for figure in done.figures:
        yield Quote(figure.published, run.record.id, figure.measured, figure.n, remark)


def _preset(run: StoredRun) -> str | None:
    setting = run.record.configuration.get("preset")
    return None if setting is None or setting.value is None else str(setting.value)
