"""Ready-made samples and runs, so that a test names only what it is about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lopa_bench.results.schema import (
    DecoderInfo,
    ModelInfo,
    RunRecord,
    SampleRecord,
    TaskInfo,
    TimeLedger,
    TokenLedger,
    WorkLedger,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # makes the shared makers importable

settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")

MakeSample = Callable[..., SampleRecord]
MakeRun = Callable[..., RunRecord]


@pytest.fixture(scope="session")
def make_sample() -> MakeSample:
    """Build a sample, each ledger field given by its own name."""

    def build(id: str = "a", **values: Any) -> SampleRecord:
        ledgers = {"tokens": TokenLedger, "work": WorkLedger, "time": TimeLedger}
        parts = {
            name: kind(**{key: values.pop(key) for key in list(values) if key in kind.model_fields})
            for name, kind in ledgers.items()
        }
        return SampleRecord(id=id, **parts, **values)

    return build


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    def build(num_documents: int = 3, partial: bool = False, **values: Any) -> RunRecord:
        task = TaskInfo(name="mini-maths", version="1", num_documents=num_documents, num_available=400, partial=partial)
        return RunRecord(task=task, model=ModelInfo(name="bundled:d2f"), decoder=DecoderInfo(name="lopa"), **values)

    return build
