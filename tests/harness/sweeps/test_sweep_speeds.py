"""Sweeps over what only speeds depend on: a run for each value, and a word where a stored run had another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness.sweeps.overview import plan_overview
from lopa_bench.harness.sweeps.plan import Paces, PlannedCell, plan_table
from lopa_bench.harness.sweeps.sweep import Outcome, result_table
from lopa_bench.results.store import list_runs

Plan = Callable[..., list[PlannedCell]]


@pytest.fixture
def small(plan: Plan) -> Plan:
    """One decoder without branches."""

    def planned(**changes: Any) -> list[PlannedCell]:
        return plan(decoder=["lopa"], branches=1, **changes)

    return planned


def runs_of(outcomes: list[Outcome]) -> list[str]:
    return [one.run.path.name for one in outcomes if one.run is not None]


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("threads", [1, 2], lambda record: record.environment.num_threads),
        ("warmup", [0, 1], lambda record: record.configuration["warmup"].value),
    ],
    ids=["threads", "warmup"],
)
def test_what_is_planned_is_what_is_run(
    small: Plan, go: Any, tmp_path: Path, name: str, values: list[int], found: Callable[[Any], Any]
) -> None:
    planned = small(**{name: values})
    assert [one.state for one in planned] == ["new", "new"]
    outcomes = go(planned)
    assert [one.num_new for one in outcomes] == [2, 2] and len(set(runs_of(outcomes))) == 2
    assert [found(one.run.record) for one in outcomes if one.run is not None] == values
    again = small(**{name: values[::-1]})
    assert [one.state for one in again] == ["finished", "finished"]
    assert runs_of(go(again)) == runs_of(outcomes)[::-1]
    assert len(list_runs(tmp_path / "runs")) == 2
    more = go(small(limit=3, **{name: values}))
    assert [one.num_new for one in more] == [1, 1] and runs_of(more) == runs_of(outcomes)


def test_the_arrangement_of_processes_is_matched_too(small: Plan, go: Any, tmp_path: Path) -> None:
    [alone] = go(small())
    planned = small(devices=[1, 2])
    assert [one.state for one in planned] == ["finished", "new"]
    assert [one.run and one.run.path.name for one in planned] == [*runs_of([alone]), None]
    file = tmp_path / "runs" / runs_of([alone])[0] / "run.json"
    record = json.loads(file.read_text())
    record["environment"]["groups"] = {"dp": 1, "bp": 2, "tp": 1}
    file.write_text(json.dumps(record))
    assert [one.state for one in small(devices=[1, 2])] == ["new", "finished"]


def test_a_stored_run_is_taken_where_the_sweep_does_not_vary_it_with_a_word(small: Plan, go: Any) -> None:
    first = go(small())
    planned = small(threads=2)
    assert [one.state for one in planned] == ["finished"]
    words = "cell 1: stored speeds are those of 1 thread, not of 2 threads"
    outcomes = go(planned)
    assert runs_of(outcomes) == runs_of(first)
    for table in (plan_table(planned, Paces()), plan_overview(planned, Paces()), result_table(outcomes)):
        assert words in table.notes
    assert not any("stored speeds" in note for note in result_table(go(small())).notes)
