"""Makes the shared fakes importable; tiny random checkpoints for whole runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lopa_bench.harness.settings import RunSpec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


@pytest.fixture(scope="session")
def diffusion_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny-diffusion")


@pytest.fixture(scope="session")
def causal_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny-causal", causal=True)


@pytest.fixture
def start(tmp_path: Path, diffusion_checkpoint: Path) -> Callable[..., RunSpec]:
    """Make the specification of a small run; keywords change it."""
    from lopa_bench.harness.settings import RunSpec

    def spec(**changes: Any) -> RunSpec:
        options = {"max_new_tokens": 12, "block_size": 4, "branches": 2, **changes.pop("options", {})}
        small = {"task": "mini-maths", "decoder": "lopa", "model": str(diffusion_checkpoint), "limit": 3, "warmup": 0}
        return RunSpec(runs_dir=tmp_path / "runs", options=options, **{**small, "threads": 1, **changes})

    return spec
