"""Runs for reports: LoPA with some numbers of branches beside the same setting with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stored import more_work, record, samples, store

from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import StoredRun

RIGHT: Sequence[float | None] = (1.0,) * 16 + (0.0,) * 4


def lopa(
    root: Path,
    branches: int = 1,
    *,
    rounds: float = 1.0,
    slower: float = 1.0,
    correct: Sequence[float | None] = RIGHT,
    edit: Callable[[SampleRecord], SampleRecord] = lambda one: one,
    tau: float = 0.9,
    **changes: Any,
) -> StoredRun:
    """A run whose answers take `rounds` times the rounds and `slower` times the seconds of the plain ones."""
    options = {"branches": branches, "tau_conf": tau}
    about = record(num_documents=len(correct), options=options, settings=options, **changes)
    answers = [edit(more_work(one, rounds)) for one in samples(correct, slower=slower)]
    return store(root, answers, about)


def other(root: Path, decoder: str, options: dict[str, Any] | None = None, **changes: Any) -> StoredRun:
    """A run of another decoder with no options but these."""
    about = record(decoder=decoder, **changes)
    own = {"tau_conf": 0.9, "temperature": 0.0} if options is None else options
    settings = {name: one for name, one in about.configuration.items() if name != "branches"}
    run = about.model_copy(
        update={"decoder": about.decoder.model_copy(update={"options": own}), "configuration": settings}
    )
    return store(root, samples(), run)
