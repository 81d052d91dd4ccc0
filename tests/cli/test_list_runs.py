"""`lopa-bench list runs`: short in a terminal, whole names for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stored import samples, store

from lopa_bench.results.rows import short_runs


def test_runs_go_by_number_on_the_screen_and_by_name_for_programs(call: Any, tmp_path: Path) -> None:
    name = store(tmp_path / "runs", samples()).record.id
    code, out, _ = call("list", "runs")
    assert code == 0 and name not in out and name.partition("-")[0] in out.split()
    assert [row["run"] for row in json.loads(call("list", "runs", "--json")[1])["rows"]] == [name]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["0001-a", "0002-b"], ["0001", "0002"]),
        (["0001-a", "0001-b", "2-c"], ["0001-a", "0001-b", "2"]),
        (["mine"], ["mine"]),
    ],
)
def test_a_number_stands_for_a_run_where_no_other_has_it(names: list[str], short: list[str]) -> None:
    assert list(short_runs(names).values()) == short
