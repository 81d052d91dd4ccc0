"""Published figures of a report: beside a run of their preset with the deviation, else by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored import record, samples, store

from lopa_bench.harness.reproduction.quotes import quotes_for
from lopa_bench.results.reports.report import make_report
from lopa_bench.results.store import StoredRun
from lopa_bench.tasks.presets import presets_of

CELL = "lopa-table1/d2f-dream-lopa/gsm8k"


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    [preset, *_] = presets_of(CELL)
    about = record(task={"name": "gsm8k", "num_available": 1319}, settings={"preset": preset.name, "task": "gsm8k"})
    return store(tmp_path, samples(), about)


def test_a_presets_run_stands_beside_its_row_with_the_deviation(run: StoredRun, tmp_path: Path) -> None:
    quotes = quotes_for([run])
    beside = {one.published.metric: one for one in quotes if one.published.cell_id == CELL}
    assert set(beside) == {"tpf", "score"} and beside["score"].measured == pytest.approx(80.0)
    assert beside["score"].run_id == run.record.id and "not comparable" in beside["score"].remark
    table = next(one for one in make_report([run], quotes=quotes, runs_dir=tmp_path).tables if one.name == "published")
    row = next(row for row in table.table.rows if row["metric"] == "score" and "run" in row)
    assert row["run"] == "R1" and row["deviation"] == pytest.approx(80.0 - 73.8)


def test_other_rows_of_the_task_are_quoted_without_a_deviation(run: StoredRun) -> None:
    others = [one for one in quotes_for([run]) if one.run_id is None]
    assert others and {one.published.task for one in others} == {"gsm8k"}
    assert all(one.measured is None for one in others)


def test_a_task_that_no_paper_has_is_given_the_tables_whole(tmp_path: Path) -> None:
    quotes = quotes_for([store(tmp_path, samples())])
    assert {one.published.table_id for one in quotes} == {"lopa-table1", "lopa-table2"}
