"""Makes the shared fakes importable; tiny random checkpoints for whole runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


@pytest.fixture(scope="session")
def diffusion_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny-diffusion")


@pytest.fixture(scope="session")
def causal_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny-causal", causal=True)
