"""What is masked, and how much each masked position counts: noise of masked diffusion and of D2F."""

from __future__ import annotations

import torch
from torch import Tensor

FILL_WEIGHT = 0.1
"""How much a position of the EOS fill counts beside one of the answer."""


def block_noise(
    num_samples: int,
    answer_length: int,
    block_size: int,
    generator: torch.Generator,
    low: float = 0.2,
    high: float = 0.7,
) -> Tensor:
    """D2F's noise levels: rising from block to block, so that a block is never noisier than the next.

    The first level is uniform in [low, high); each later one adds a uniform share of what is left up to `high`,
    divided by the number of blocks after the first (Wang et al. 2025, arXiv:2508.09192, section 3.2 and code).

    Returns:
        [num_samples, answer_length] the masking probability of each position, constant inside a block.
    """
    num_blocks = -(-answer_length // block_size)
    first = low + (high - low) * torch.rand(num_samples, 1, generator=generator)
    steps = torch.rand(num_samples, num_blocks, generator=generator) * (high - first) / max(1, num_blocks - 1)
    steps[:, 0] = 0.0
    rates = first + steps.cumsum(1)
    return rates.repeat_interleave(block_size, dim=1)[:, :answer_length]


def position_weights(lengths: Tensor, answer_length: int) -> Tensor:
    """[B, A] weight of each position by what stands there: answer 1, fill FILL_WEIGHT."""
    inside = torch.arange(answer_length)[None] < lengths[:, None]
    return torch.where(inside, 1.0, FILL_WEIGHT)


def uniform_noise(lengths: Tensor, answer_length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """LLaDA's noise: one level t per sample for all positions, each masked position weighted by 1 / t.

    Levels are stratified over the batch, and the weight bounded by 10, which both only lower the variance.

    Returns:
        ([B, A] bool masked, [B, A] weights, zero where not masked).
    """
    num_samples = lengths.shape[0]
    strata = torch.randperm(num_samples, generator=generator) + torch.rand(num_samples, generator=generator)
    level = (0.03 + 0.97 * strata / num_samples)[:, None]
    masked = torch.rand(num_samples, answer_length, generator=generator) < level
    weights = masked * position_weights(lengths, answer_length) / level.clamp(min=0.1)
    return masked, weights / lengths[:, None]


def frontier_noise(lengths: Tensor, answer_length: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Noise as decoding meets it: a finished prefix, a window with many masks, and nothing but masks after it.

    Uniform noise nearly always shows what stands on both sides of a gap, so a small network learns to copy results
    that it should compute; here what is asked for has not been written anywhere yet. The first masked position,
    which every decoder commits first, counts double; what lies beyond the window counts a tenth.

    Returns:
        ([B, A] bool masked, [B, A] weights, zero where not masked, at most 1 in total per sample, [B, A] bool beyond
        the window).
    """
    num_samples = lengths.shape[0]
    columns = torch.arange(answer_length)[None]
    start = (torch.rand(num_samples, generator=generator) * lengths).long()[:, None]
    stop = start + torch.randint(4, 33, (num_samples, 1), generator=generator)
    level = 1 - 0.95 * torch.rand(num_samples, 1, generator=generator) ** 2
    in_window = (columns >= start) & (columns < stop)
    beyond = columns >= stop
    masked = (in_window & (torch.rand(num_samples, answer_length, generator=generator) < level)) | beyond
    first = masked & (masked.long().cumsum(1) == 1)
    weights = position_weights(lengths, answer_length)
    weights = weights * ((masked & in_window) + 0.1 * beyond + first)
    return masked, weights / weights.sum(1, keepdim=True).clamp(min=1), beyond


def window_starts(groups: Tensor) -> Tensor:
    """[A] bool: the first column of each run of equal group numbers."""
    starts = torch.ones_like(groups, dtype=torch.bool)
    starts[1:] = groups[1:] != groups[:-1]
    return starts


def window_noise(lengths: Tensor, blocks: Tensor, groups: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noise of D2F's active windows: each group of blocks starts at its own level, which rises along the group.

    Args:
        lengths: [B] answer lengths.
        blocks: [A] block number of each column.
        groups: [A] number of the active window each column belongs to.

    Returns:
        ([B, A] bool masked, [B, A] weights, zero where not masked, at most 1 in total per sample). The first masked
        position of a window counts double; wholly masked blocks behind a window's first count little.
    """
    num_samples, answer_length = lengths.shape[0], blocks.shape[0]
    starts = window_starts(groups)
    first_blocks = torch.where(starts, blocks, 0).cummax(0).values
    depth = blocks - first_blocks
    num_groups = int(groups.max()) + 1
    level = 1 - 0.95 * torch.rand(num_samples, num_groups, generator=generator) ** 1.5
    level = level[:, groups]
    rise = torch.rand(num_samples, num_groups, generator=generator)[:, groups] * (1.2 - level)
    level = (level + depth * rise).clamp(max=1.0)
    masked = torch.rand(num_samples, answer_length, generator=generator) < level
    count = masked.long().cumsum(1)
    before = torch.where(starts[None], count - masked.long(), 0).cummax(1).values
    first = masked & (count - before == 1)
    far = torch.where((level > 0.98) & (depth[None] > 0), 0.15, 1.0)
    weights = position_weights(lengths, answer_length) * (masked * far + first)
    return masked, weights / weights.sum(1, keepdim=True).clamp(min=1)
