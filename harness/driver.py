"""The one consumer of a generation: iterates its rounds, keeps both ledgers and the clock.

All decoders go through here, so that tokens, work and seconds mean the same for every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import JsonValue

from lopa_bench.errors import DecodeError, ProcessFailed
from lopa_bench.harness.clocks import Clock, Stopwatch, clock_for
from lopa_bench.harness.distributed.traffic import Traffic
from lopa_bench.harness.failures import Failure, failure_of
from lopa_bench.harness.memory import free_memory
from lopa_bench.models.exhaustion import SharedOutOfMemory, lack_in_words
from lopa_bench.results.schema import TimeLedger, TokenLedger, Why, WorkLedger
from lopa_bench.results.trace import BranchRecord, RoundRecord

if TYPE_CHECKING:
    from lopa_bench.decoders.base import Decoder
    from lopa_bench.decoders.rounds import Generation, Round


@dataclass(frozen=True)
class Outcome:
    """What one generation came to.

    `answer` are the ids after the prompt, the EOS included if there is one; `useful` those before it. A generation
    that went wrong has `error`, a sentence, and `why`, one of `Why`'s words, and must not be scored; its ledgers hold
    what was measured up to then. `rounds` is empty unless a trace was asked for. `num_discarded` counts filled slots
    beyond the budget, `num_revised` those filled anew. `extra` is stored with the sample.
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
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


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

    def cross_border(self, first: Round, seconds: float) -> None:
        """Book the first round's time: prefill when it only read the prompt, a round of decoding when it filled."""
        if first.positions:
            self.first_round_s = seconds
        else:
            self.prefill_s = seconds


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
    watch = Stopwatch(clock or clock_for(decoder.model.device))
    one = Measured(decoder, prompt_ids, watch, trace=trace, on_round=on_round)
    with one.guarded():
        for step in one.begin(seed):
            one.enter(step)
    one.end()
    return one.outcome()


class Measured:
    """One answer in the making with its books and its clock, whoever carries its forwards out.

    `begin` it and `enter` its rounds inside `guarded`, `end` it, then ask for the `outcome`. `failure` is set when
    something went wrong.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompt_ids: Sequence[int],
        watch: Stopwatch,
        *,
        trace: bool = False,
        on_round: Callable[[Round], None] | None = None,
    ) -> None:
        self.decoder, self.prompt_ids, self.watch = decoder, prompt_ids, watch
        self.trace, self.on_round = trace, on_round
        self.failure: Failure | None = None
        self._books = _Books(decoder.config.max_new_tokens)
        self._generation: Generation | None = None
        watch.synchronise()
        self._traffic = Traffic(decoder)
        self._traffic.start()
        self._start = self._before = watch.now()
        self._elapsed = 0.0

    @property
    def is_out_of_memory(self) -> bool:
        """Whether memory did not suffice."""
        return self.failure is not None and self.failure.why == Why.OUT_OF_MEMORY

    def begin(self, seed: int) -> Generation:
        """Start to decode."""
        self._generation = self.decoder.decode(self.prompt_ids, seed=seed)
        return self._generation

    def enter(self, one: Round) -> None:
        """Book a round that has just ended."""
        books = self._books
        if one.index == 0:
            self.watch.synchronise()
            books.cross_border(one, max(self.watch.now() - self._start, 0.0))
        books.enter(one)
        self._traffic.round_ended()
        if not self.trace and self.on_round is None:
            return
        now = self.watch.now()
        with self.watch.paused():
            if self.trace:
                books.trace.append(round_record(one, now - self._before))
            if self.on_round is not None:
                self.on_round(one)
        self._before = now

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Keep what goes wrong with this answer as its failure; faults of the program pass through.

        Raises:
            ProcessFailed: memory did not suffice for what this process alone was at, of several that make the answer.
        """
        try:
            yield
        except (DecodeError, MemoryError, RuntimeError) as problem:
            self.failure = failure_of(problem)
            if self.failure is None:
                raise
            if self._traffic.is_shared and self.is_out_of_memory and not isinstance(problem, SharedOutOfMemory):
                # The others go on with this answer, and would take this process's next one for it.
                raise ProcessFailed(
                    f"memory did not suffice between two forwards: {lack_in_words(problem)}"
                ) from problem

    def end(self) -> None:
        """Stop the clock once the device has done its work."""
        # Only now is the error gone, and with it the frames that hold the cache and the failed call's activations.
        if self.is_out_of_memory:
            free_memory()
        self.watch.synchronise()
        self._elapsed = max(self.watch.now() - self._start, 0.0)
        self._traffic.finish()

    def outcome(self, share_s: float | None = None) -> Outcome:
        """What it came to; `share_s` is the part of its seconds that is its own, where others ran beside it."""
        books, generation = self._books, self._generation
        answer = tuple(generation.answer) if generation is not None else ()
        eos = self.decoder.model.config.eos_token_id
        ended = eos is not None and eos in answer
        useful = answer[: answer.index(eos)] if ended else answer
        masks = generation.masks_left if generation is not None else 0
        failure = self.failure
        if masks and failure is None:
            sentence = f"{masks} mask{'s' if masks > 1 else ''} left in the answer after the last round"
            failure = Failure(Why.MASKS_LEFT, sentence)
        if self.decoder.model.config.causal:
            # Every call of an autoregressive model gives one token; the one that only finds the EOS no useful one.
            books.work["rounds"] = sum(position < len(useful) for position in books.last_position)
        num_prompt = len(self.prompt_ids)
        # Answers made beside each other share their calls, whose bytes are none's own.
        told = self._traffic.totals(has_own_calls=share_s is None)
        return Outcome(
            answer=answer,
            useful=useful,
            ended_by_eos=ended,
            tokens=TokenLedger(prompt=num_prompt, useful=len(useful), committed=len(books.filled), kept=len(useful)),
            work=WorkLedger(**books.work),
            time=self._time(share_s),
            masks_left=masks,
            num_discarded=books.num_discarded,
            num_revised=books.num_revised,
            error=None if failure is None else failure.sentence,
            why=None if failure is None else failure.why,
            rounds=self._traffic.told(books.trace, has_own_calls=share_s is None),
            extra={"traffic": told} if told else {},
        )

    def _time(self, share_s: float | None) -> TimeLedger:
        elapsed = self._elapsed
        share = elapsed if share_s is None else min(share_s, elapsed)
        part = share / elapsed if elapsed else 1.0
        prefill = min(self._books.prefill_s, elapsed) * part
        comm_s, wait_s = self._traffic.seconds(part)
        return TimeLedger(
            prefill_s=prefill,
            decode_s=max(share - prefill, 0.0),
            comm_s=comm_s,
            rank_wait_s=wait_s,
            wait_s=elapsed - share,
            first_round_s=self._books.first_round_s,
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
