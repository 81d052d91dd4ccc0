"""Fixtures of all tests: reference data that may be absent, and one thread so that sums are steady."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest


def pytest_configure() -> None:
    # A shell starts what runs in the background with Ctrl-C ignored, and children inherit that: theirs is under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _reference() -> Path:
    default = Path(__file__).resolve().parent.parent.parent / "shared"
    return Path(os.environ.get("LOPA_BENCH_REFERENCE", default))


def _existing(path: Path, what: str) -> Path:
    if not path.exists():
        pytest.skip(f"{what} not found; set LOPA_BENCH_REFERENCE to the folder that holds it")
    return path


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    return _existing(_reference(), "reference data")


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    return _existing(_reference() / "golden", "reference decodings (golden/)")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    return _existing(_reference() / "data", "task data (data/)")
