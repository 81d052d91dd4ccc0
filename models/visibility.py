"""Which positions see which: the three attention rules of autoregressive and diffusion language models."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_KINDS = ("full", "causal", "block-causal")


@dataclass(frozen=True, slots=True)
class Visibility:
    """A rule over absolute positions.

    `full`: everything in one forward sees everything, and the cached prefix. `causal`: a position sees itself and
    what stands before it. `block-causal` (D2F, paper section 3.2): the prompt is block 0, then come blocks of
    `block_size`; a position sees its own block and all earlier ones.
    """

    kind: str = "full"
    prompt_length: int = 0
    block_size: int = 1

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"visibility {self.kind!r} is not one of {', '.join(_KINDS)}")

    def block_of(self, positions: Tensor) -> Tensor:
        """Block number of each absolute position; the prompt is block 0."""
        return torch.clamp((positions - self.prompt_length) // self.block_size + 1, min=0)

    def mask(self, start: int, stop: int, key_stop: int, device: torch.device) -> Tensor | None:
        """Bool [stop - start, key_stop], True where query position `start + i` sees key j; None when all is seen."""
        if self.kind == "full" or (self.kind == "causal" and stop - start == 1 and key_stop == stop):
            return None
        queries = torch.arange(start, stop, device=device)
        keys = torch.arange(key_stop, device=device)
        if self.kind == "causal":
            return keys[None, :] <= queries[:, None]
        if self._one_block(start, key_stop):
            return None
        return self.block_of(keys)[None, :] <= self.block_of(queries)[:, None]

    def _one_block(self, start: int, key_stop: int) -> bool:
        """True when all keys after `start` stand in the block of the first query, so that nothing is hidden."""
        if start < self.prompt_length:
            return key_stop <= self.prompt_length
        first = (start - self.prompt_length) // self.block_size
        return (key_stop - 1 - self.prompt_length) // self.block_size == first


FULL = Visibility("full")
CAUSAL = Visibility("causal")


def block_causal(prompt_length: int, block_size: int) -> Visibility:
    """D2F's rule: the prompt as block 0, then blocks of `block_size`."""
    return Visibility("block-causal", prompt_length, block_size)
