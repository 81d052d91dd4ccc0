"""Several answers made together: the forwards that they wait for go through the network in one call.

Each answer keeps its own generation, and with it its own canvas, cache, random numbers and selection; only the network
sees them side by side, packed into one row without padding (`LanguageModel.carry_out`). An answer therefore has the
tokens and rounds that it would have alone, but for what the rounding of a larger matrix product can change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lopa_bench.errors import DecodeError
from lopa_bench.harness.clocks import Clock, Shares, Stopwatch, clock_for
from lopa_bench.harness.driver import Measured, Outcome, generate
from lopa_bench.harness.memory import free_memory
from lopa_bench.models.exhaustion import is_out_of_memory
from lopa_bench.models.forward import Forward

if TYPE_CHECKING:
    from lopa_bench.decoders.base import Decoder
    from lopa_bench.decoders.rounds import Round

logger = logging.getLogger(__name__)


class Batcher:
    """Makes several answers at once with one decoder.

    `most` is how many windows a call may hold; it falls by half whenever memory does not suffice for a call.
    """

    def __init__(self, decoder: Decoder, clock: Clock | None = None) -> None:
        self.decoder = decoder
        self.clock = clock or clock_for(decoder.model.device)
        self.most: int | None = None

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        *,
        trace: bool = False,
        on_round: Callable[[Round], None] | None = None,
    ) -> list[Outcome]:
        """Decode an answer to each prompt and measure it, as `driver.generate` does for one.

        All begin together; one that ends leaves the others to go on without it. What goes wrong with one is that
        one's error alone; one that memory does not suffice for is tried again by itself after the others.

        Args:
            prompts: token ids, of any lengths.
            seeds: of each answer's own random numbers.
            trace: keep every round.
            on_round: called after every round of any answer.
        """
        watch = Stopwatch(self.clock)
        shares = Shares(watch)
        rows = [_Row(Measured(self.decoder, one, watch, trace=trace, on_round=on_round), shares) for one in prompts]
        for row, seed in zip(rows, seeds, strict=True):
            row.begin(seed)
        self._decode(rows)
        too_large = [len(rows) > 1 and row.measured.is_out_of_memory for row in rows]
        outcomes = [row.outcome() for row in rows]
        del rows  # and with them the caches
        for index in [index for index, failed in enumerate(too_large) if failed]:
            outcomes[index] = generate(
                self.decoder, prompts[index], seed=seeds[index], clock=self.clock, trace=trace, on_round=on_round
            )
        return outcomes

    def _decode(self, rows: Sequence[_Row]) -> None:
        """Call after call until every row has ended."""
        while waiting := [row for row in rows if row.call is not None]:
            group = waiting[: self.most]
            self._carry_out(group)
            for row in group:
                row.go_on()

    def _carry_out(self, rows: Sequence[_Row]) -> None:
        """One call for all rows; where that fails, one for each half, down to the row that is at fault."""
        calls = [row.call for row in rows if row.call is not None]
        if len(rows) == 1:
            with rows[0].measured.guarded():
                self.decoder.model.carry_out(calls)
            return
        if (self.most is None or len(rows) <= self.most) and self._succeeds(calls):
            return
        half = (len(rows) + 1) // 2
        self._carry_out(rows[:half])
        self._carry_out(rows[half:])

    def _succeeds(self, calls: Sequence[Forward]) -> bool:
        try:
            self.decoder.model.carry_out(calls)
            return True
        except (DecodeError, MemoryError, RuntimeError) as problem:
            exhausted = is_out_of_memory(problem)
            if not (exhausted or isinstance(problem, DecodeError)):
                raise
        # Outside the handler, where the failed call's tensors are no longer referred to.
        if exhausted:
            self.most = (len(calls) + 1) // 2
            logger.warning("memory does not suffice for %d answers in a call; going on with %d", len(calls), self.most)
            free_memory()
        return False


class _Row:
    """One of several answers: `call` is the forward it waits for, None once it has ended."""

    def __init__(self, measured: Measured, shares: Shares) -> None:
        self.call: Forward | None = None
        self.measured, self.shares = measured, shares
        self.share_s = 0.0
        self.steps: Iterator[Round | Forward] = iter(())
        shares.join(self)

    def begin(self, seed: int) -> None:
        """Start to decode, up to the first forward."""
        with self.measured.guarded():
            self.steps = self.measured.begin(seed).steps
        self.go_on()

    def go_on(self) -> None:
        """Book the rounds up to the next forward; without one, or after a failure, end."""
        self.call = None
        if self.measured.failure is None:
            with self.measured.guarded():
                self.call = self._next_call()
        if self.call is None:
            self.steps = iter(())
            self.measured.end()
            self.share_s = self.shares.leave(self)

    def _next_call(self) -> Forward | None:
        for step in self.steps:
            if isinstance(step, Forward):
                return step
            self.measured.enter(step)
        return None

    def outcome(self) -> Outcome:
        """What it came to."""
        return self.measured.outcome(self.share_s)
