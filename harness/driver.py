"""The one consumer of a generation: iterates its rounds, keeps both ledgers and the clock.

All decoders go through here, so that tokens, work and seconds mean the same for every one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lopa_bench.errors import DecodeError, NaNLogits
from lopa_bench.harness.memory import free_memory, is_out_of_memory
from lopa_bench.results.schema import TimeLedger, TokenLedger, Why, WorkLedger
from lopa_bench.results.trace import BranchRecord, RoundRecord

if TYPE_CHECKING:
    from lopa_bench.decoders.base import Decoder
    from lopa_bench.decoders.rounds import Generation, Round


class Clock(Protocol):
    """A monotonic clock beside a device whose work may run behind the host's."""

    def now(self) -> float:
        """Seconds; only differences mean anything."""
        ...

    def synchronise(self) -> None:
        """Wait until the device has done all that it was given."""
        ...


class HostClock:
    """The clock of a device that works in step with the host, as CPUs do."""

    def now(self) -> float:
        """Seconds."""
        return time.perf_counter()

    def synchronise(self) -> None:
        """Nothing to wait for."""


class DeviceClock(HostClock):
    """The clock of an accelerator: `synchronise` waits for its queue."""

    def __init__(self, device: object) -> None:
        self.device = device

    def synchronise(self) -> None:
        """Wait for the queue of the device."""
        import torch

        device = torch.device(str(self.device))
        module = getattr(torch, device.type, None)
        if module is not None and hasattr(module, "synchronize"):
            module.synchronize(device)


def clock_for(device: object) -> Clock:
    """Return the clock that fits a torch device or its name."""
    return HostClock() if str(device).startswith("cpu") else DeviceClock(device)


@dataclass(frozen=True)
class Outcome:
    """What one generation came to.

    `answer` are the ids after the prompt, the EOS included if there is one; `useful` those before it. A generation
    that went wrong has `error`, a sentence, and `why`, one of `Why`'s words, and must not be scored; its ledgers hold
    what was measured up to then. `rounds` is empty unless a trace was asked for. `num_discarded` counts filled slots
    beyond the budget, `num_revised` those filled anew.
    """

    answer: tuple[int, ...] = ()
    useful: tuple[int, ...] = ()
    ended_by_eos: bool = False
    tokens: TokenLedger = field(default_factory=TokenLedger)
    work: WorkLedger = field(default_factory=WorkLedger)
    time: TimeLedger = field(default_factory=TimeLedger)
    masks_left: int = 0
    num_discarded: int = 0
    num_revised: int = 0
    error: str | None = None
    why: Why | None = None
    rounds: tuple[RoundRecord, ...] = ()


@dataclass
class _Books:
    """The running sums of one generation."""

    budget: int
    work: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WorkLedger.model_fields, 0))
    filled: set[int] = field(default_factory=set)
    num_revised: int = 0
    num_discarded: int = 0
    last_position: list[int] = field(default_factory=list)
    prefill_s: float = 0.0
    first_round_s: float | None = None
    observed_s: float = 0.0
    trace: list[RoundRecord] = field(default_factory=list)

    def enter(self, one: Round) -> None:
        """Add one round."""
        work = self.work
        work["prefill_calls"] += one.model_calls if one.prefill else 0
        work["rounds"] += 1
        work["model_calls"] += one.model_calls
        work["branch_forwards"] += one.branch_forwards
        work["positions"] += one.num_positions
        inside = [position for position in one.positions if position < self.budget]
        self.num_discarded += len(one.positions) - len(inside)
        self.num_revised += sum(position in self.filled for position in inside)
        self.filled.update(inside)
        self.last_position.append(max(inside, default=-1))


def generate(
    decoder: Decoder,
    prompt_ids: Sequence[int],
    *,
    seed: int = 0,
    clock: Clock | None = None,
    trace: bool = False,
    on_round: Callable[[Round], None] | None = None,
) -> Outcome:
    """Decode one answer and measure it.

    The device is synchronised at the start, after the first round and at the end, nowhere else. A DecodeError, an
    exhausted memory or masks left in the answer end in an outcome with an error; any other exception is a fault of the
    program and passes through.

    The seconds that traces and listeners take are not counted. At that point of a round its results are on the host
    and next to nothing is queued on the device, so that leaving them out hides no work of the device.

    Args:
        decoder: what decodes.
        prompt_ids: the prompt's token ids.
        seed: of this answer's own random numbers.
        clock: the device's clock; by default that of the decoder's model.
        trace: keep every round.
        on_round: called after every round, as by a live view.
    """
    clock = clock or clock_for(decoder.model.device)
    books = _Books(decoder.config.max_new_tokens)
    generation: Generation | None = None
    failure: _Failure | None = None
    clock.synchronise()
    start = clock.now()
    try:
        generation = decoder.decode(prompt_ids, seed=seed)
        _consume(generation, books, clock, start, trace, on_round)
    except (DecodeError, MemoryError, RuntimeError) as problem:
        failure = _failure_of(problem)
        if failure is None:
            raise
    # Only here is the error gone, and with it the frames that hold the cache and the activations of the failed call.
    if failure is not None and failure.why == Why.OUT_OF_MEMORY:
        free_memory()
    clock.synchronise()
    elapsed = max(clock.now() - start - books.observed_s, 0.0)
    return _outcome(decoder, len(prompt_ids), generation, books, elapsed, failure)


@dataclass(frozen=True)
class _Failure:
    """Why a generation has no answer that may be scored: a word and a sentence."""

    why: Why
    sentence: str


def _failure_of(problem: Exception) -> _Failure | None:
    """Return what an exception means for its sample; None for a fault of the program."""
    if isinstance(problem, DecodeError):
        return _Failure(Why.NAN_LOGITS if isinstance(problem, NaNLogits) else Why.DECODE_ERROR, str(problem))
    if is_out_of_memory(problem):
        first_line = str(problem).partition("\n")[0] or "no more could be allocated"
        return _Failure(Why.OUT_OF_MEMORY, f"{Why.OUT_OF_MEMORY}: {first_line}")
    return None


def _consume(
    generation: Generation,
    books: _Books,
    clock: Clock,
    start: float,
    trace: bool,
    on_round: Callable[[Round], None] | None,
) -> None:
    before = start
    for one in generation:
        if one.index == 0:
            clock.synchronise()
            _cross_border(books, one, clock.now() - start)
        books.enter(one)
        if not trace and on_round is None:
            continue
        now = clock.now()
        if trace:
            books.trace.append(round_record(one, now - before))
        if on_round is not None:
            on_round(one)
        before = clock.now()
        books.observed_s += before - now


def _cross_border(books: _Books, first: Round, seconds: float) -> None:
    """Book the first round: prefill when it only read the prompt, the first round of decoding when it filled slots."""
    if first.positions:
        books.first_round_s = max(seconds, 0.0)
    else:
        books.prefill_s = max(seconds, 0.0)


def _outcome(
    decoder: Decoder,
    num_prompt: int,
    generation: Generation | None,
    books: _Books,
    elapsed: float,
    failure: _Failure | None,
) -> Outcome:
    answer = tuple(generation.answer) if generation is not None else ()
    eos = decoder.model.config.eos_token_id
    ended = eos is not None and eos in answer
    useful = answer[: answer.index(eos)] if ended else answer
    masks = generation.masks_left if generation is not None else 0
    if masks and failure is None:
        sentence = f"{masks} mask{'s' if masks > 1 else ''} left in the answer after the last round"
        failure = _Failure(Why.MASKS_LEFT, sentence)
    if decoder.model.config.causal:
        # Every call of an autoregressive model gives one token; the one that only finds the EOS gives no useful one.
        books.work["rounds"] = sum(position < len(useful) for position in books.last_position)
    return Outcome(
        answer=answer,
        useful=useful,
        ended_by_eos=ended,
        tokens=TokenLedger(prompt=num_prompt, useful=len(useful), committed=len(books.filled), kept=len(useful)),
        work=WorkLedger(**books.work),
        time=TimeLedger(
            prefill_s=min(books.prefill_s, elapsed),
            decode_s=max(elapsed - books.prefill_s, 0.0),
            first_round_s=books.first_round_s,
        ),
        masks_left=masks,
        num_discarded=books.num_discarded,
        num_revised=books.num_revised,
        error=None if failure is None else failure.sentence,
        why=None if failure is None else failure.why,
        rounds=tuple(books.trace),
    )


def round_record(one: Round, seconds: float | None = None) -> RoundRecord:
    """Return a round as it is stored in a trace; must be called before the next round begins."""
    would_fill: Sequence[int | None] = one.would_fill() if one.would_fill is not None else (None,) * len(one.branches)
    return RoundRecord(
        index=one.index,
        positions=one.positions,
        tokens=one.tokens,
        model_calls=one.model_calls,
        branch_forwards=one.branch_forwards,
        num_positions=one.num_positions,
        input_length=one.input_length,
        prefill=one.prefill,
        num_forced=one.num_forced,
        num_slots=one.num_slots,
        no_candidate=one.no_candidate,
        branches=tuple(
            BranchRecord(
                position=branch.position,
                token=branch.token,
                creation=branch.creation,
                score=branch.score,
                num_masks=branch.num_masks,
                num_filled=num_filled,
            )
            for branch, num_filled in zip(one.branches, would_fill, strict=True)
        ),
        winner=one.winner,
        seconds=None if seconds is None else max(seconds, 0.0),
    )
