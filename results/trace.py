"""The trace of an answer: what every round did, kept when asked for, as frozen pydantic models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, NonNegativeFloat, NonNegativeInt, model_validator

from lopa_bench.results.schema import Record, SampleRecord

MOST_SLOTS = 1 << 20  # no answer is as long, and a figure draws every slot
Slot = Annotated[int, Field(ge=0, lt=MOST_SLOTS)]


class BranchRecord(Record):
    """One branch of a round: the position and token it assumed, that token's confidence, its score and masks left.

    The anchor assumes nothing: it has neither position nor token. `num_filled` are the slots that
    the branch would have filled in this round, its lookahead included, had it won; None in traces of schema version 1.
    """

    position: int | None = None
    token: int | None = None
    creation: float | None = None
    score: float | None = None
    num_masks: NonNegativeInt = 0
    num_filled: NonNegativeInt | None = None


class RoundRecord(Record):
    """One round: answer-relative positions filled and with what, the work done, the branches and which of them won.

    `num_slots` are the slots of the answer that are open after the round, filled or masked; None in traces of schema
    version 1. `no_candidate`: LoPA found no position to look ahead to. Of a round that several processes made
    together, `comm_s` and `wait_s` are this process's seconds of communication and of waiting for slower ones; where
    they shared its branches, `gathered_bytes` what the decision took, over all processes, `sent_bytes` the winner's
    keys. None otherwise, and where a round's calls were those of other answers too.
    """

    index: NonNegativeInt
    positions: tuple[Slot, ...] = ()
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
    num_slots: Annotated[int, Field(ge=0, le=MOST_SLOTS)] | None = None
    no_candidate: bool = False
    comm_s: NonNegativeFloat | None = None
    wait_s: NonNegativeFloat | None = None
    gathered_bytes: NonNegativeInt | None = None
    sent_bytes: NonNegativeInt | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> RoundRecord:
        if len(self.positions) != len(self.tokens):
            raise ValueError(f"{len(self.positions)} positions for {len(self.tokens)} tokens")
        if self.winner is not None and not 0 <= self.winner < max(len(self.branches), 1):
            raise ValueError(f"branch {self.winner} won of {len(self.branches)}")
        return self

    @property
    def lookahead_won(self) -> bool:
        """True when the branch that was kept is not the anchor."""
        return self.winner is not None and bool(self.branches) and self.branches[self.winner].position is not None

    @property
    def anchor(self) -> BranchRecord | None:
        """The branch that assumed nothing."""
        return next((branch for branch in self.branches if branch.position is None), None)

    @property
    def gain(self) -> int | None:
        """Slots filled more than the anchor would have; None where there was no other branch or it is unknown."""
        if self.winner is None or len(self.branches) < 2:
            return None
        return self.gain_of(self.branches[self.winner])

    def gain_of(self, branch: BranchRecord) -> int | None:
        """Slots that one branch would have filled more than the anchor; None where that is not known."""
        if branch.num_filled is None or self.anchor is None or self.anchor.num_filled is None:
            return None
        return branch.num_filled - self.anchor.num_filled

    def margin_of(self, branch: BranchRecord) -> float | None:
        """A branch's score less the anchor's; None where one is not known."""
        if branch.score is None or self.anchor is None or self.anchor.score is None:
            return None
        return branch.score - self.anchor.score


class TraceRecord(Record):
    """All rounds of one sample, one line of `traces.jsonl.gz`; `texts` spells each token id that was filled in."""

    id: str
    rounds: tuple[RoundRecord, ...]
    texts: dict[int, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _counts_its_rounds(self) -> TraceRecord:
        if any(one.index != place for place, one in enumerate(self.rounds)):
            raise ValueError("its rounds are not counted from 0")
        return self

    @property
    def filled_in(self) -> dict[int, int]:
        """The round in which each position got its final token."""
        return {position: one.index for one in self.rounds for position in one.positions}

    @property
    def tokens(self) -> dict[int, int]:
        """The final token of each position that was filled."""
        return {
            position: token for one in self.rounds for position, token in zip(one.positions, one.tokens, strict=True)
        }

    @property
    def num_slots(self) -> int:
        """Slots of the answer at the end; in a trace that does not say it, as far as the last one filled."""
        stated = [one.num_slots for one in self.rounds if one.num_slots is not None]
        return stated[-1] if stated else max(self.filled_in, default=-1) + 1

    def led_to(self, answer: SampleRecord) -> bool:
        """Whether this may be the trace of an answer: it has its tokens, and rounds as many as were counted.

        Of an autoregressive decoder every call is a round here, also the one that only found the EOS.
        """
        tokens, work = self.tokens, answer.work
        counted = {work.rounds, work.model_calls} - {0}
        is_as_long = not counted or len(self.rounds) in counted
        return is_as_long and all(tokens.get(place) == token for place, token in enumerate(answer.token_ids))

    def spell(self, token: int) -> str:
        """Return a token's text, or `<id>` where the trace does not hold it."""
        return self.texts.get(token, f"<{token}>")


def useful_length(trace: TraceRecord, eos_id: int | None) -> int:
    """Return the answer's length before its first EOS, or before the first slot that was never filled."""
    tokens = trace.tokens
    position = 0
    while position in tokens and tokens[position] != eos_id:
        position += 1
    return position


def ids_in(rounds: Sequence[RoundRecord]) -> set[int]:
    """Return every token id that `rounds` filled in or looked ahead to."""
    filled = {token for one in rounds for token in one.tokens}
    return filled | {branch.token for one in rounds for branch in one.branches if branch.token is not None}
