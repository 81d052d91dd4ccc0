"""Several processes that run one sweep at once: each cell is made by one of them, and none fails for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness.progress import Silent
from lopa_bench.harness.runner import run
from lopa_bench.harness.sweeps.plan import PlannedCell
from lopa_bench.harness.sweeps.sweep import Outcome, SilentListener, has_failed
from lopa_bench.results.locks import FileLock
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import LOCK_FILE, list_runs
from lopa_bench.results.sweeps import read_sweep


class Together(SilentListener):
    """Hears of held cells, and calls `ends` as soon as all the others have ended."""

    def __init__(self, ends: Callable[[], object]) -> None:
        self.held: list[tuple[int, str]] = []
        self.ended: list[int] = []
        self.ends = ends

    def cell_held(self, number: int, total: int, reason: str) -> None:
        self.held.append((number, reason))

    def cell_ended(self, number: int, total: int, outcome: Outcome) -> None:
        self.ended.append(number)
        if len(self.ended) == total - 1:
            self.ends()


class Stopper(Silent):
    def sampled(self, sample: SampleRecord, running: Any) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def planned(plan: Callable[[], list[PlannedCell]], monkeypatch: pytest.MonkeyPatch) -> list[PlannedCell]:
    monkeypatch.setattr("lopa_bench.harness.sweeps.sweep.PAUSE_S", 0.01)
    return plan()


@pytest.fixture
def held(planned: list[PlannedCell], tmp_path: Path) -> FileLock:
    """The second cell's run, begun and locked as another process would."""
    with pytest.raises(KeyboardInterrupt):
        run(planned[1].cell.spec, Stopper())
    [begun] = list_runs(tmp_path / "runs")
    return FileLock(begun.path / LOCK_FILE, "the run")


def test_a_cell_that_another_process_makes_is_left_to_it(
    planned: list[PlannedCell], held: FileLock, go: Any, tmp_path: Path
) -> None:
    def ends() -> None:
        held.release()
        run(planned[1].cell.spec)

    together = Together(ends)
    outcomes = go(planned, listener=together)
    [(number, reason)] = together.held
    assert number == 2 and "is in use by process" in reason
    assert together.ended == [1, 3, 2]
    assert [one.num_new for one in outcomes] == [2, 0, 2] and not has_failed(outcomes)
    assert [cell.state for cell in read_sweep(tmp_path / "runs", "small").cells] == ["ran", "stored", "ran"]
    assert len(list_runs(tmp_path / "runs")) == 3


def test_what_the_other_process_leaves_undone_is_done_here(planned: list[PlannedCell], held: FileLock, go: Any) -> None:
    together = Together(held.release)
    assert [one.num_new for one in go(planned, listener=together)] == [2, 1, 2]
    assert together.ended == [1, 3, 2]


def test_a_wait_can_be_interrupted(
    planned: list[PlannedCell], held: FileLock, go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lopa_bench.harness.sweeps.sweep.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        go(planned)
    held.release()
    assert [cell.state for cell in read_sweep(tmp_path / "runs", "small").cells] == ["ran", "planned", "ran"]
