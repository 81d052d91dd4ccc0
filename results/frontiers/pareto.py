"""The settings worth having: Pareto fronts, and the fastest setting that keeps its accuracy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

ROUNDING = 1e-9  # 0.8 - 0.1 is a little more than 0.7

Half = Literal["choose", "report"]


def on_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Tell of each (speed, accuracy) point whether no other is at least as good in both and better in one.

    Equal points stand or fall together.
    """
    best_after = float("-inf")
    front = [False] * len(points)
    order = sorted(range(len(points)), key=lambda index: points[index], reverse=True)
    for index in order:
        accuracy = points[index][1]
        tied = any(points[other] == points[index] and front[other] for other in range(len(points)))
        if accuracy > best_after or tied:
            front[index] = True
            best_after = max(best_after, accuracy)
    return front


def fastest_within(points: Sequence[tuple[float, float]], least_accuracy: float) -> int | None:
    """Return the index of the fastest (speed, accuracy) point that is accurate enough, of equals the most accurate."""
    least = least_accuracy - ROUNDING
    allowed = [index for index, (_, accuracy) in enumerate(points) if accuracy >= least]
    return max(allowed, key=lambda index: points[index], default=None)


def half_of(sample_id: str) -> Half:
    """Return the half that a problem belongs to, by a hash of its id: the same in every run and on every machine."""
    return "report" if hashlib.sha256(sample_id.encode()).digest()[0] % 2 else "choose"


def halves(ids: Iterable[str]) -> dict[Half, list[int]]:
    """Return the indices of the ids in each half; a setting chosen on one is reported on the other."""
    found: dict[Half, list[int]] = {"choose": [], "report": []}
    for index, one in enumerate(ids):
        found[half_of(one)].append(index)
    return found
