"""Fill rules: how a canvas opens blocks, which slots a round fills, and when a block is finished.

Two rules drive the same loops. `PipelineRule` is D2F's: blocks are appended while earlier ones are still being filled,
and finished ones go into an exact cache. `CanvasRule` is threshold decoding of a plain diffusion model on a whole
canvas without a cache, block after block; it lets LoPA run on models that were not distilled.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol

from lopa_bench.decoders.base import fill, whole_canvas
from lopa_bench.decoders.canvas import Block, BlockState, Canvas
from lopa_bench.decoders.confidence import Scores
from lopa_bench.decoders.selection import above, most_confident
from lopa_bench.models.visibility import FULL, Visibility, block_causal


@dataclass(frozen=True, slots=True)
class Window:
    """What one round feeds to the network: slots from `start` on, the first `num_commit` of which become prefix.

    `first` is the first position whose candidates are wanted.
    """

    start: int
    num_commit: int
    first: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Slots that a round filled, absolute, with their tokens; `num_forced` of them below the threshold."""

    positions: list[int]
    tokens: list[int]
    num_forced: int


class FillRule(Protocol):
    """What LoPA asks of the decoder it looks ahead for."""

    uses_cache: bool

    def open(self, canvas: Canvas) -> None:
        """Let the canvas open blocks before a round."""

    def is_finished(self, canvas: Canvas) -> bool:
        """True when no round is left to run."""

    def window(self, canvas: Canvas) -> Window:
        """Input of the coming round."""

    def visibility(self, canvas: Canvas) -> Visibility:
        """Which positions see which."""

    def fill(self, canvas: Canvas, scores: Scores) -> Fill:
        """Fill slots of all active blocks."""

    def settle(self, canvas: Canvas, done: Container[int]) -> None:
        """Move on the states of blocks after a round; `done` holds the starts of those that the fill completed."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """tau_add, tau_act and tau_conf of D2F (paper section 3.3)."""

    tau_add: float
    tau_act: float
    tau_conf: float


def fill_active(canvas: Canvas, scores: Scores, tau_conf: float) -> Fill:
    """Fill each active block's slots above tau_conf; a full block without any takes its most confident one."""
    positions: list[int] = []
    num_forced = 0
    for block in canvas.active_blocks:
        masks = canvas.masks(block.start, block.stop)
        if not masks:
            continue
        of_block = scores.at(masks)
        picked = above(of_block.probability, masks, tau_conf)
        if not picked and block.full:
            picked = [most_confident(of_block.confidence, masks)]
            num_forced += 1
        positions += picked
    tokens = scores.at(positions).token.tolist()
    fill(canvas, positions, tokens)
    return Fill(positions, tokens, num_forced)


class PipelineRule:
    """D2F's state machine (its paper, section 3.3), compared as its program does: tau_add, tau_act >=, tau_conf >."""

    uses_cache = True

    def __init__(self, block_size: int, thresholds: Thresholds, full_attention: bool, whole_blocks: bool) -> None:
        self.block_size = block_size
        self.thresholds = thresholds
        self.full_attention = full_attention
        self.whole_blocks = whole_blocks

    def open(self, canvas: Canvas) -> None:
        """Append at most one block, then activate fully every block whose predecessor is filled far enough."""
        size = min(self.block_size, canvas.num_room)
        allowed = size == self.block_size if self.whole_blocks else size > 0
        if allowed and canvas.eos_position is None and canvas.progress(canvas.blocks[-1]) >= self.thresholds.tau_add:
            canvas.append_block(size, BlockState.ACTIVE)
        for block, following in zip(canvas.blocks, canvas.blocks[1:], strict=False):
            if not following.full and canvas.progress(block) >= self.thresholds.tau_act:
                following.full = True

    def is_finished(self, canvas: Canvas) -> bool:
        """No active block; its masks would keep one active."""
        return not canvas.active_blocks

    def window(self, canvas: Canvas) -> Window:
        """Finished blocks that are not cached yet, then everything that is open."""
        pending = [block for block in canvas.blocks if block.state is BlockState.TO_CACHE]
        first = canvas.active_blocks[0].start
        start = pending[0].start if pending else first
        return Window(start, first - start, first)

    def visibility(self, canvas: Canvas) -> Visibility:
        """Everything, as LoPA's scripts do, or block-causal, as D2F was trained."""
        return FULL if self.full_attention else block_causal(canvas.prompt_length, self.block_size)

    def fill(self, canvas: Canvas, scores: Scores) -> Fill:
        """Fill slots of all active blocks."""
        return fill_active(canvas, scores, self.thresholds.tau_conf)

    def settle(self, canvas: Canvas, done: Container[int]) -> None:
        """What was to be cached now is; a completed block becomes cacheable once no earlier one is active."""
        for block in canvas.blocks:
            if block.state is BlockState.TO_CACHE:
                block.state = BlockState.CACHED
        for block in canvas.active_blocks:
            if block.start not in done or canvas.num_masks(block):
                return
            block.state = BlockState.TO_CACHE


class CanvasRule:
    """Threshold decoding on a whole canvas: one block is open at a time, the masks behind it are visible."""

    uses_cache = False

    def __init__(self, block_size: int, tau_conf: float) -> None:
        self.block_size = block_size
        self.tau_conf = tau_conf

    def open(self, canvas: Canvas) -> None:
        """Append the whole answer at first; then open the first block that still has masks."""
        if len(canvas.blocks) == 1:
            whole_canvas(canvas, self.block_size)
        for block in canvas.blocks[1:]:
            block.state = BlockState.WAITING if canvas.num_masks(block) else BlockState.CACHED
        unfinished = _first_waiting(canvas)
        if unfinished is not None:
            unfinished.state, unfinished.full = BlockState.ACTIVE, True

    def is_finished(self, canvas: Canvas) -> bool:
        """No block with masks is left."""
        return not canvas.active_blocks

    def window(self, canvas: Canvas) -> Window:
        """The whole canvas, nothing committed."""
        return Window(0, 0, canvas.active_blocks[0].start)

    def visibility(self, canvas: Canvas) -> Visibility:
        """Bidirectional."""
        return FULL

    def fill(self, canvas: Canvas, scores: Scores) -> Fill:
        """Fill slots of the open block."""
        return fill_active(canvas, scores, self.tau_conf)

    def settle(self, canvas: Canvas, done: Container[int]) -> None:
        """Nothing to do: `open` reads the states from the masks."""


def _first_waiting(canvas: Canvas) -> Block | None:
    return next((block for block in canvas.blocks if block.state is BlockState.WAITING), None)
