"""Runs for reports: LoPA with some numbers of branches beside the same setting with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from stored import more_work, record, samples, store

from lopa_bench.results.jsonl import gzip_member
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import TRACES_FILE, StoredRun
from lopa_bench.results.trace import BranchRecord, RoundRecord, TraceRecord

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


def with_traces(run: StoredRun, wins: Callable[[int], bool] = lambda index: index % 2 == 0) -> StoredRun:
    """Give every answer of a stored run its trace, left to right; `wins` tells in which rounds a lookahead wins."""
    branches = run.record.decoder.options.get("branches", 1)
    traces = [TraceRecord(id=one.id, rounds=tuple(_rounds(one, branches, wins))) for one in run.samples]
    members = [gzip_member(one.model_dump_json().encode() + b"\n") for one in traces]
    (run.path / TRACES_FILE).write_bytes(b"".join(members))
    return run


def _rounds(one: SampleRecord, branches: int, wins: Callable[[int], bool]) -> Iterator[RoundRecord]:
    """Yield the rounds of an answer, its tokens shared out evenly."""
    ends = [len(one.token_ids) * index // one.work.rounds for index in range(one.work.rounds + 1)]
    for index, (start, end) in enumerate(pairwise(ends)):
        ahead = [
            BranchRecord(position=start, token=7, creation=-0.5, score=-0.5 - place, num_filled=3 + place % 2)
            for place in range(branches - 1)
        ]
        anchor = BranchRecord(creation=1.0, score=-1.0, num_filled=1 + index % 3)
        yield RoundRecord(
            index=index, positions=tuple(range(start, end)), tokens=one.token_ids[start:end], num_forced=index % 2,
            branches=(*ahead, anchor) if ahead else (), winner=(0 if wins(index) else branches - 1) if ahead else None,
        )  # fmt: skip
