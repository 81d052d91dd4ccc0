"""The table of a run's figures as other programs count them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stored import samples, store

from lopa_bench.results.comparison.recounted import recounted_table
from lopa_bench.results.recount import recount_table
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import Row


def test_the_answers_that_a_speed_rests_on_are_counted_beside_it_where_not_all_are(tmp_path: Path) -> None:
    run = store(tmp_path, samples((1.0,) * 12))
    [row], shown = _shown(run, "d3llm")
    assert (row["n"], row["n_timed"]) == (12, 2) and shown.index("n_timed") + 1 == shown.index("seconds")
    [row], shown = _shown(run, "lopa-dream")
    assert (row["n"], row["n_timed"]) == (12, 12) and "n_timed" not in shown
    rows, shown = _shown(run, "all")
    assert "n_timed" in shown and {row["convention"]: row["n_timed"] for row in rows}["d3llm"] == 2
    both = recounted_table([run, store(tmp_path, samples((1.0,) * 12))], "d3llm")
    assert [row["n_timed"] for row in both.rows] == [2, 2] and "n_timed" in {one.key for one in both.columns}


def _shown(run: StoredRun, name: str) -> tuple[Sequence[Row], list[str]]:
    table = recount_table([run], name)
    return table.rows, [one.key for one in table.columns]
