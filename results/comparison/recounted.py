"""Runs of one task counted as another program would have, over their common problems, each beside the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lopa_bench.errors import NotComparable
from lopa_bench.results.comparison.differences import speed_obstacle
from lopa_bench.results.recount import names_for, recount_table
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import Column, Row, Table, Value


def recounted_table(runs: Sequence[StoredRun], name: str) -> Table:
    """Return each run's figures as the programs that `name` asks for count them, and their ratios to the first run's.

    Only problems that all of the runs answered well are counted. A ratio of speeds is "x not comparable: ..." where the
    two were timed in other ways.

    Raises:
        ConfigError: no convention of that name.
        NotComparable: no problem is common to all of them.
    """
    names = names_for(name)
    table = recount_table(_over_common_problems(runs), name)
    firsts = dict(zip(names, table.rows, strict=False))
    obstacles = {run.record.id: speed_obstacle(runs[0].record, run.record) for run in runs[1:]}
    rows = [_with_ratios(row, firsts[str(row["convention"])], obstacles) for row in table.rows]
    columns = [*table.columns, Column("tpf_ratio", "TPF ratio", 3), Column("tps_ratio", "tokens/s ratio", 3)]
    return replace(table, columns=columns, rows=rows, title="as other programs count, over common problems")


def _over_common_problems(runs: Sequence[StoredRun]) -> list[StoredRun]:
    well = [{(one.id, one.prompt_hash) for one in run.samples if one.status == "ok"} for run in runs]
    common = set.intersection(*well)
    if not common:
        ids = ", ".join(run.record.id for run in runs)
        raise NotComparable(f"no problem was asked with the same prompt and answered without error in all of {ids}")
    return [run.holding(one for one in run.samples if (one.id, one.prompt_hash) in common) for run in runs]


def _with_ratios(row: Row, first: Row, obstacles: dict[str, str | None]) -> Row:
    if row is first:
        return row
    speeds: Value = obstacles.get(str(row["run"])) or _ratio(row["tps"], first["tps"])
    return {**row, "tpf_ratio": _ratio(row["tpf"], first["tpf"]), "tps_ratio": speeds}


def _ratio(value: Value, base: Value) -> float | None:
    if isinstance(value, int | float) and isinstance(base, int | float) and base:
        return value / base
    return None
