"""Which of the masked slots are filled in a round: pure functions over confidences on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Choice:
    """Slots to fill, absolute; `num_forced` of them only because none passed the threshold."""

    positions: list[int]
    num_forced: int = 0


def split_evenly(total: int, parts: int) -> list[int]:
    """`total` in `parts` whole numbers, the first ones one larger (LLaDA's quota of each step)."""
    base, extra = divmod(total, parts)
    return [base + (part < extra) for part in range(parts)]


def ranked(confidence: Tensor, positions: Sequence[int], span: tuple[int, int], count: int) -> list[int]:
    """The `count` most confident positions, best first.

    The authors rank inside a row as long as their input, with -inf wherever nothing is to be filled. torch.topk does
    not say how it breaks ties and its choice depends on the row, so the same row is built here.

    Args:
        confidence: [len(positions)].
        positions: absolute, ascending.
        span: absolute bounds of that row.
        count: how many; at most all positions are returned.
    """
    row = torch.full((span[1] - span[0],), float("-inf"), dtype=confidence.dtype)
    row[torch.tensor(positions, dtype=torch.long) - span[0]] = confidence
    order = torch.topk(row, min(count, len(positions))).indices + span[0]
    return order.tolist()


def at_least(confidence: Tensor, positions: Sequence[int], span: tuple[int, int], threshold: float) -> Choice:
    """The most confident position, and all others whose confidence is not below the threshold (Fast-dLLM)."""
    return first_and_passing(ranked(confidence, positions, span, len(positions)), confidence >= threshold, positions)


def first_and_passing(order: Sequence[int], passing: Tensor, positions: Sequence[int]) -> Choice:
    """The first of `order` in any case, and those others that pass; `passing` has one flag per `positions`."""
    passes = dict(zip(positions, passing.tolist(), strict=True))
    chosen = [position for rank, position in enumerate(order) if rank == 0 or passes[position]]
    return Choice(chosen, num_forced=int(bool(order) and not passes[order[0]]))


def by_factor(confidence: Tensor, positions: Sequence[int], span: tuple[int, int], factor: float) -> list[int]:
    """Fast-dLLM's factor rule: take the best r while the r-th confidence reaches 1 - factor / (r + 1).

    As in the authors' program at least one is taken, and when only the last rank fails, it is taken as well.
    """
    order = ranked(confidence, positions, span, len(positions))
    values = torch.sort(confidence, descending=True).values.tolist()
    limits = [-1.0] + [1 - factor / (rank + 1) for rank in range(2, len(values) + 1)]
    failing = [rank for rank, (value, limit) in enumerate(zip(values, limits, strict=True)) if value < limit]
    taken = failing[0] if failing else len(values) - 1
    if taken in (0, len(values) - 1):
        taken += 1
    return order[:taken]


def above(probability: Tensor, positions: Sequence[int], threshold: float) -> list[int]:
    """Positions whose probability is strictly above the threshold (D2F's tau_conf).

    The comparison happens in the model's dtype, as torch does it: bfloat16 rounds the threshold too.
    """
    passing = (probability > threshold).tolist()
    return [position for position, passes in zip(positions, passing, strict=True) if passes]


def most_confident(confidence: Tensor, positions: Sequence[int]) -> int:
    """The single most confident position, by the same torch.topk as the authors' programs."""
    return positions[int(torch.topk(confidence, 1).indices[0])]


def dream_timesteps(num_steps: int, eps: float) -> Tensor:
    """Dream's time grid from 1 down to eps, [num_steps + 1] in float32, on which its counts depend."""
    return torch.linspace(1, eps, num_steps + 1)


def dream_count(num_masks: int, times: Tensor, step: int) -> int:
    """How many of `num_masks` slots Dream fills at a step of its grid: all at the last, else their share 1 - s / t."""
    if step == len(times) - 2:
        return num_masks
    share = 1 - times[step + 1] / times[step]
    return int(torch.tensor(num_masks, dtype=torch.float32) * share)
