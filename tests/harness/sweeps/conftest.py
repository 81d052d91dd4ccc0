"""A small sweep on a tiny random network: how it is planned, and how it is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness.sweeps.file import written_in_words
from lopa_bench.harness.sweeps.grid import cells_of
from lopa_bench.harness.sweeps.plan import PlannedCell, plan_cells
from lopa_bench.harness.sweeps.sweep import Outcome, run_sweep

Plan = Callable[..., list[PlannedCell]]


@pytest.fixture
def plan(tmp_path: Path, diffusion_checkpoint: Path) -> Plan:
    """Plan a small sweep; keywords change it."""

    def planned(*, consent_needed: bool = True, **changes: Any) -> list[PlannedCell]:
        small = {
            "task": "mini-maths", "decoder": ["d2f", "lopa"], "branches": [1, 2], "model": str(diffusion_checkpoint),
            "limit": 2, "warmup": 0, "max_new_tokens": 8, "block_size": 4, "threads": 1,
        }  # fmt: skip
        cells = cells_of(written_in_words({**small, **changes}), tmp_path / "runs")
        return plan_cells(cells, consent_needed=consent_needed)

    return planned


@pytest.fixture
def go(tmp_path: Path) -> Callable[..., list[Outcome]]:
    def run(planned: list[PlannedCell], **more: Any) -> list[Outcome]:
        return run_sweep(planned, tmp_path / "runs", **{"name": "small", **more})

    return run
