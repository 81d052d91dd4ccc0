"""The one state of a sample: token ids, what is still masked, block bounds, the first EOS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lopa_bench.errors import DecodeError


class BlockState(Enum):
    """Where a block stands in the pipeline."""

    WAITING = "waiting"
    ACTIVE = "active"
    TO_CACHE = "to cache"
    CACHED = "cached"


@dataclass(slots=True)
class Block:
    """Slots [start, stop) of the canvas; `full` is D2F's fully activated state, in which a block must make progress."""

    start: int
    stop: int
    state: BlockState
    full: bool = False

    @property
    def size(self) -> int:
        """Number of slots."""
        return self.stop - self.start


class Canvas:
    """Token ids of prompt and answer, and the blocks they are decoded in; block 0 is the prompt.

    Every count and bound is read from `tokens` when asked for; nothing is kept twice.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        *,
        max_new_tokens: int,
        mask_id: int,
        eos_id: int | None,
        stop_at_eos: bool,
    ) -> None:
        if not prompt:
            raise DecodeError("the prompt is empty; give at least one token, such as the model's BOS")
        self.tokens = list(prompt)
        self.prompt_length = len(prompt)
        self.max_new_tokens = max_new_tokens
        self.mask_id = mask_id
        self.eos_id = eos_id
        self.stop_at_eos = stop_at_eos
        self.blocks = [Block(0, len(prompt), BlockState.TO_CACHE, full=True)]

    def copy(self) -> Canvas:
        """An independent branch of this canvas."""
        twin = object.__new__(Canvas)
        twin.__dict__.update(self.__dict__)
        twin.tokens = self.tokens.copy()
        twin.blocks = [replace(block) for block in self.blocks]
        return twin

    def adopt(self, other: Canvas) -> None:
        """Become what a branch of this canvas has become."""
        self.tokens, self.blocks = other.tokens, other.blocks

    def __len__(self) -> int:
        return len(self.tokens)

    def append_block(self, size: int, state: BlockState) -> None:
        """Add a block of masks at the end."""
        start = len(self.tokens)
        self.tokens.extend([self.mask_id] * size)
        self.blocks.append(Block(start, start + size, state))

    def masks(self, start: int, stop: int) -> list[int]:
        """Absolute positions of the masks in [start, stop); a mask id inside the prompt is not one of them."""
        start = max(start, self.prompt_length)
        return [position for position in range(start, stop) if self.tokens[position] == self.mask_id]

    def num_masks(self, block: Block) -> int:
        """Masks left in a block; none in the prompt, whatever ids it holds."""
        if block.start < self.prompt_length:
            return 0
        return self.tokens[block.start : block.stop].count(self.mask_id)

    def progress(self, block: Block) -> float:
        """Filled share of a block, 1.0 for an empty one."""
        return (block.size - self.num_masks(block)) / block.size if block.size else 1.0

    @property
    def active_blocks(self) -> list[Block]:
        """Blocks that are being decoded."""
        return [block for block in self.blocks if block.state is BlockState.ACTIVE]

    @property
    def completed(self) -> set[int]:
        """Starts of the active blocks that have no mask left."""
        return {block.start for block in self.active_blocks if not self.num_masks(block)}

    @property
    def active_masks(self) -> list[int]:
        """Masks of all active blocks, left to right."""
        return [position for block in self.active_blocks for position in self.masks(block.start, block.stop)]

    @property
    def num_room(self) -> int:
        """Slots that may still be appended within the budget."""
        return self.prompt_length + self.max_new_tokens - len(self.tokens)

    @property
    def eos_position(self) -> int | None:
        """First EOS of the answer."""
        if self.eos_id is None:
            return None
        try:
            return self.tokens.index(self.eos_id, self.prompt_length)
        except ValueError:
            return None

    @property
    def is_closed(self) -> bool:
        """True when decoding stops at the EOS and everything before the first one is filled."""
        if not self.stop_at_eos:
            return False
        position = self.eos_position
        return position is not None and not self.masks(self.prompt_length, position)

    @property
    def answer(self) -> list[int]:
        """Ids after the prompt, within the budget; up to and with the first EOS when decoding stops there."""
        stop = self.prompt_length + self.max_new_tokens
        position = self.eos_position
        if self.stop_at_eos and position is not None:
            stop = min(stop, position + 1)
        return self.tokens[self.prompt_length : stop]
