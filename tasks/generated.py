"""Held-out splits and training streams of generated tasks, kept apart problem by problem."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, cached_property
from typing import Generic, Protocol, TypeVar

from lopa_bench.errors import ConfigError, nearest

SPLIT_SIZES: dict[str, int] = {"test": 400, "dev": 200}


class Problem(Protocol):
    """Anything with a `key` that is equal for two problems exactly when they count as the same problem."""

    @property
    def key(self) -> Hashable:
        """The identity of the problem, whatever words it is put into."""
        ...


P = TypeVar("P", bound=Problem)
T = TypeVar("T")


def draw_wording(rng: random.Random, alternatives: Sequence[T]) -> T:
    """Draw one of the ways to say a thing, the n-th with a weight of 1 / n, as frequencies go in language (Zipf).

    Were all equally likely, the most probable words of two places would belong to different sentences, and a decoder
    that fills several places at once could only produce a jumble of them.
    """
    return rng.choices(alternatives, [1 / rank for rank in range(1, len(alternatives) + 1)])[0]


@cache
def drawn_splits(name: str, levels: tuple[int, ...], draw: Callable[[random.Random, int], P]) -> dict[str, list[P]]:
    """Return the problems of every split, drawn once in a process: a sweep asks for them in each of its cells."""
    taken: set[Hashable] = set()
    splits: dict[str, list[P]] = {}
    for split, size in SPLIT_SIZES.items():
        rng = random.Random(f"{name}/{split}")
        problems: list[P] = []
        while len(problems) < size:
            problem = draw(rng, levels[len(problems) % len(levels)])
            if problem.key not in taken:
                taken.add(problem.key)
                problems.append(problem)
        splits[split] = problems
    return splits


class HeldOut(Generic[P]):
    """Draws the fixed splits of a task and a training stream that never meets them.

    `draw(rng, level)` makes one problem. No problem stands twice in a split, none in two splits.
    """

    def __init__(self, name: str, levels: Sequence[int], draw: Callable[[random.Random, int], P]) -> None:
        self._name = name
        self._levels = levels
        self._draw = draw

    def problems(self, split: str) -> Iterator[tuple[str, P, random.Random]]:
        """Yield (id, problem, generator for its words) of a split, in order; levels take turns."""
        if split not in SPLIT_SIZES:
            raise ConfigError(
                f"task {self._name} has no split '{split}'{nearest(split, SPLIT_SIZES)}: it has "
                f"{', '.join(SPLIT_SIZES)}"
            )
        prefix = self._name if split == "test" else f"{self._name}-{split}"
        for index, problem in enumerate(self._splits[split]):
            document_id = f"{prefix}-{index:04d}"
            yield document_id, problem, random.Random(f"{document_id}/words")

    def training_problems(self, seed: int) -> Iterator[tuple[P, random.Random]]:
        """Yield (problem, generator for its words) for ever, skipping whatever a split holds."""
        held_out = self._keys
        rng = random.Random(f"{self._name}/train/{seed}")
        while True:
            problem = self._draw(rng, rng.choice(self._levels))
            if problem.key not in held_out:
                yield problem, rng

    @property
    def _splits(self) -> dict[str, list[P]]:
        return drawn_splits(self._name, tuple(self._levels), self._draw)

    @cached_property
    def _keys(self) -> frozenset[Hashable]:
        return frozenset(problem.key for problems in self._splits.values() for problem in problems)
