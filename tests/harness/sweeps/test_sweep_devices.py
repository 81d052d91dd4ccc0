"""Cells of a sweep on several devices: each is run by processes of its own, and the sweep goes on after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError, InUse, Stopped
from lopa_bench.harness.distributed import launched_run as module
from lopa_bench.harness.distributed.launched_run import launched_run, read_spec, write_spec
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.harness.sweeps.plan import PlannedCell
from lopa_bench.harness.sweeps.sweep import has_failed
from lopa_bench.results.locks import FileLock
from lopa_bench.results.store import LOCK_FILE

Plan = Callable[..., list[PlannedCell]]


@pytest.mark.slow
def test_a_cell_on_two_devices_gives_the_answers_of_one(plan: Plan, go: Any, tmp_path: Path) -> None:
    lopa = {"decoder": "lopa", "branches": [2]}
    planned = plan(**lopa, devices=2)
    [outcome] = go(planned)
    assert not has_failed([outcome]) and outcome.num_new == 2
    assert outcome.run is not None and outcome.run.record.environment.world_size == 2
    alone = run(replace(planned[0].cell.spec, devices=None, runs_dir=tmp_path / "alone")).run
    assert alone is not None
    answers = {one.id: one.token_ids for one in outcome.run.samples}
    assert answers == {one.id: one.token_ids for one in alone.samples} and len(answers) == 2
    with FileLock(outcome.run.path / LOCK_FILE, "the run"), pytest.raises(InUse, match="is in use by process"):
        launched_run(replace(planned[0].cell.spec, limit=3))


def test_what_was_asked_arrives_whole(tmp_path: Path) -> None:
    spec = RunSpec(
        task="mini-maths", decoder="lopa", options={"branches": 4, "tau_conf": 0.9}, limit=0.5, devices=2,
        runs_dir=tmp_path / "runs", command=("lopa-bench", "sweep"), trace=True,
    )  # fmt: skip
    write_spec(spec, tmp_path)
    found = read_spec(tmp_path)
    assert found == replace(spec, runs_dir=str(spec.runs_dir))
    assert {one.name for one in fields(found)} == {one.name for one in fields(spec)}


def test_ctrl_c_stops_the_sweep_and_not_its_cell_alone(
    plan: Plan, go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> int:
        raise Stopped("stopped: 1 of 2 answers are stored")

    monkeypatch.setattr(module, "launch", stopped)
    with pytest.raises(KeyboardInterrupt):
        go(plan(decoder="lopa", branches=[2, 3], devices=2))


def test_devices_that_cannot_be_shared_are_refused_before_the_first_cell(plan: Plan) -> None:
    with pytest.raises(ConfigError, match=r"1 of 2 cells cannot run, so none was started.*2 devices cannot be"):
        plan(decoder="lopa", branches=[2], devices=2, tensor_parallel=[1, 3])
