"""What a decoder yields: one `Round` per scheduling step, and the `Generation` that they belong to.

Between rounds a decoder may yield a `Forward`: a call of the network that it needs before it can go on. Whoever
consumes the steps carries it out, alone or together with those of other answers. Decoders that call the model
themselves yield rounds only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lopa_bench.decoders.canvas import Canvas
from lopa_bench.models.forward import Forward


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """One branch of a LoPA round.

    Attributes:
        position: where its lookahead token stands, counted from the start of the answer; None for the anchor.
        token: that token, or None.
        creation: the token's confidence when the branch was made; 1.0 for the anchor.
        score: what the branches were ranked by.
        num_masks: masks left in it when it was scored.
    """

    position: int | None
    token: int | None
    creation: float
    score: float
    num_masks: int


@dataclass(frozen=True, slots=True)
class Round:
    """One scheduling step, that is one model call (LoPA's branches are verified together in one).

    Attributes:
        index: 0, 1, ... within the answer.
        positions: slots filled for good in this round, counted from the start of the answer; in LoPA the winner's
            lookahead token belongs to the round that it won.
        tokens: what they were filled with.
        num_positions: token slots that the network computed, over all branches.
        input_length: slots of one branch's input, the longest where they differ.
        model_calls: calls of the network; 1 but where a decoder says otherwise.
        branch_forwards: single-branch forwards in them.
        prefill: True when the prompt went through the network in this round.
        num_forced: slots filled only because nothing passed the threshold.
        branches: LoPA's candidates, in the order they were compared.
        winner: index of the chosen one.
        no_candidate: LoPA found no position to look ahead to, though it would have used one.
        num_slots: slots of the answer that are open after the round, filled or masked; set by `Decoder.decode`.
        would_fill: LoPA: slots that each of `branches` would have filled, its lookahead included, had it won; for a
            trace, which must ask before the next round begins.
    """

    index: int
    positions: tuple[int, ...]
    tokens: tuple[int, ...]
    num_positions: int
    input_length: int
    model_calls: int = 1
    branch_forwards: int = 1
    prefill: bool = False
    num_forced: int = 0
    branches: tuple[BranchInfo, ...] = ()
    winner: int | None = None
    no_candidate: bool = False
    num_slots: int = 0
    would_fill: Callable[[], tuple[int, ...]] | None = field(default=None, compare=False, repr=False)


CarryOut = Callable[[Sequence[Forward]], None]
"""Sets the logits of some forwards, as `LanguageModel.carry_out` does."""


class Generation:
    """One answer in the making: iterate it for its rounds, then read `answer`.

    All state belongs to the generation, so that several may be in progress on one decoder. `steps` are the rounds and
    the forwards between them, for those who carry these out themselves; it is the same sequence, to be consumed once.
    """

    def __init__(self, canvas: Canvas, steps: Iterator[Round | Forward], carry_out: CarryOut) -> None:
        self.canvas = canvas
        self.steps = steps
        self._rounds = self._carried_out(carry_out)

    def __iter__(self) -> Iterator[Round]:
        return self._rounds

    def _carried_out(self, carry_out: CarryOut) -> Iterator[Round]:
        for step in self.steps:
            if isinstance(step, Forward):
                carry_out([step])
            else:
                yield step

    def run(self) -> list[Round]:
        """Decode to the end and return all rounds."""
        return list(self._rounds)

    @property
    def answer(self) -> list[int]:
        """Token ids after the prompt: at most max_new_tokens, up to and with the EOS when decoding stops there."""
        return self.canvas.answer

    @property
    def masks_left(self) -> int:
        """Mask ids in the answer; more than none after the last round is an error."""
        return self.answer.count(self.canvas.mask_id)
