"""The baseline that this project gates itself with: whole, of all decoders, and of the problems asked today."""

from __future__ import annotations

from pathlib import Path

import pytest

from lopa_bench.harness.demo import DECODERS, TASKS
from lopa_bench.harness.identity import prompt_hash
from lopa_bench.results.comparison.baseline import HASH_DIGITS, Baseline, current_definitions
from lopa_bench.results.comparison.baseline_file import read_baseline
from lopa_bench.tasks.registry import get_task

FILE = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "baselines" / "bundled.json"


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return read_baseline(FILE)


def test_it_holds_every_decoder_on_every_mini_task(baseline: Baseline) -> None:
    cells = {(cell.run.task.name, cell.run.decoder.name) for cell in baseline.cells.values()}
    assert cells == {(task, decoder) for task in TASKS for decoder in DECODERS}
    assert {len(cell.samples) for cell in baseline.cells.values()} == {8}
    assert baseline.definitions == current_definitions()
    assert all(one.who and one.why for one in baseline.history)


def test_its_bounds_let_a_near_tie_pass_and_ten_percent_fail(baseline: Baseline) -> None:
    [stage] = baseline.stages.values()
    assert stage.bounds.max_drop == 0 and stage.min_samples == 8
    for bound, direction in ((stage.bounds.tpf, "higher"), (stage.bounds.forwards, "lower")):
        assert bound is not None and direction in ("higher", "lower")
        worse = 90.0 if direction == "higher" else 110.0
        assert not bound.allows(100.0, worse, direction)  # type: ignore[arg-type]
    fewest = min(sum(line.rounds for line in cell.samples.values()) for cell in baseline.cells.values())
    assert stage.bounds.forwards is not None and stage.bounds.forwards.allows(fewest, fewest + 3, "lower")


@pytest.mark.parametrize("task", TASKS)
def test_its_prompts_are_those_of_the_task(baseline: Baseline, task: str) -> None:
    now = {one.id: prompt_hash(one.prompt)[:HASH_DIGITS] for one in get_task(task).documents()}
    for cell in baseline.cells.values():
        if cell.run.task.name == task:
            assert {key: line.prompt for key, line in cell.samples.items()} == {key: now[key] for key in cell.samples}
