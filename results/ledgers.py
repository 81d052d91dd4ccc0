"""What is counted and timed for every sample, and the base of everything that is stored."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Sums of what is counted and timed stay numbers, and exact ones; nothing that was measured is as large.
Count = Annotated[int, Field(ge=0, le=1 << 53)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]


class Record(BaseModel):
    """Base of everything stored: frozen, no unknown fields, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TokenLedger(Record):
    """Tokens of one sample, or sums of them.

    `prompt`: tokens given to the model. `useful`: generated before the first EOS, the EOS itself not counted.
    `committed`: every slot filled for good, EOS and what follows it included. `kept`: tokens of the text that is left
    after stop strings and post-processing.
    """

    prompt: Count = 0
    useful: Count = 0
    committed: Count = 0
    kept: Count = 0


class WorkLedger(Record):
    """Work of one sample, or sums of it.

    `prefill_calls`: model calls the prompt went through. `rounds`: scheduling steps that ran the network; the branches
    verified together are one round. An autoregressive decoder's rounds are the calls that gave a useful token: the call
    that only finds the EOS is not one. `model_calls`: calls of the network. `branch_forwards`: branches computed,
    summed over rounds. `positions`: token slots computed, over all branches.
    """

    prefill_calls: Count = 0
    rounds: Count = 0
    model_calls: Count = 0
    branch_forwards: Count = 0
    positions: Count = 0


class TimeLedger(Record):
    """Seconds of one sample, or sums of them, by a monotonic clock with the device synchronised at both ends.

    `prefill_s`: a first round that read the prompt and filled nothing; 0 for a decoder whose first round fills slots
    too, as all built-in ones' does. `decode_s`: all other rounds, communication included. `comm_s`: the part of
    `decode_s` spent in communication between the processes that make an answer together, `rank_wait_s` the part spent
    waiting for slower ones of them; what is left is computing; both are None on a device that cannot time them.
    `first_round_s`: a first round that filled slots, a part of `decode_s`; None where it filled nothing. Tokenising,
    text work and scoring are in none of them.

    Where several answers are made at once, every second is divided evenly among those in progress: `prefill_s` and
    `decode_s` are an answer's own part, so that all answers' sum is the time that passed, `wait_s` is the rest of the
    time from its start to its end, and `first_round_s` what passed until its first tokens, waiting included.
    """

    prefill_s: Seconds = 0.0
    decode_s: Seconds = 0.0
    comm_s: Seconds | None = 0.0
    rank_wait_s: Seconds | None = 0.0
    wait_s: Seconds = 0.0
    first_round_s: Seconds | None = None

    @property
    def total_s(self) -> float:
        """Seconds from the prompt's first call to the last round, less what was others' part of them."""
        return self.prefill_s + self.decode_s

    @property
    def latency_s(self) -> float:
        """Seconds from the prompt's first call to the last round, whatever else was done meanwhile."""
        return self.total_s + self.wait_s
