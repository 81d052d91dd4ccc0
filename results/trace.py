"""The trace of an answer: what every round did, kept when asked for, as frozen pydantic models."""

from __future__ import annotations

from pydantic import NonNegativeFloat, NonNegativeInt

from lopa_bench.results.schema import Record


class BranchRecord(Record):
    """One branch of a round: the position and token it assumed, that token's confidence, its score and masks left."""

    position: int | None = None
    token: int | None = None
    creation: float | None = None
    score: float | None = None
    num_masks: NonNegativeInt = 0


class RoundRecord(Record):
    """One round: answer-relative positions filled and with what, the work done, the branches and which of them won."""

    index: NonNegativeInt
    positions: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    model_calls: NonNegativeInt = 1
    branch_forwards: NonNegativeInt = 1
    num_positions: NonNegativeInt = 0
    input_length: NonNegativeInt = 0
    prefill: bool = False
    num_forced: NonNegativeInt = 0
    branches: tuple[BranchRecord, ...] = ()
    winner: int | None = None
    seconds: NonNegativeFloat | None = None


class TraceRecord(Record):
    """All rounds of one sample, one line of `traces.jsonl.gz`."""

    id: str
    rounds: tuple[RoundRecord, ...]
