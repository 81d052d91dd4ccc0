"""How the branches of a round go through the network: packed into one call, or one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.confidence import Scores
from lopa_bench.decoders.pipeline import Window
from lopa_bench.models.cache import KVCache
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.visibility import Visibility

Scorer = Callable[[Tensor, int, Sequence[Sequence[int]], Sequence[int] | None], list[Scores]]
"""(logits [B, rows, vocab_size], first position, each branch's open slots, seeds) -> candidates of each on the host."""


class Executor(Protocol):
    """Verifies branches and commits the winner; whatever carries it out, the result is the same."""

    num_calls: int

    def verify(
        self, canvases: Sequence[Canvas], window: Window, visibility: Visibility, seeds: Sequence[int] | None = None
    ) -> list[Scores]:
        """Candidates of every branch; `seeds`, one a branch, are given where tokens are drawn at a temperature."""

    def commit(self, winner: int) -> None:
        """Make the winner's finished blocks part of the shared prefix."""


def open_slots(canvases: Sequence[Canvas], window: Window) -> list[list[int]]:
    """Each canvas' masked positions, absolute; nothing is ever asked of the others."""
    return [canvas.masks(window.first, len(canvas)) for canvas in canvases]


def union(slots: Sequence[Sequence[int]]) -> list[int]:
    """Positions that are open in any branch, ascending."""
    return sorted({slot for of_branch in slots for slot in of_branch})


class PackedExecutor:
    """All branches in one batched call over one shared prefix, on one device."""

    def __init__(self, model: LanguageModel, cache: KVCache | None, scorer: Scorer) -> None:
        self.model, self.cache, self.scorer = model, cache, scorer
        self.num_calls = 0

    def verify(
        self, canvases: Sequence[Canvas], window: Window, visibility: Visibility, seeds: Sequence[int] | None = None
    ) -> list[Scores]:
        """Candidates of every branch from `window.first` on; shorter branches are padded with unseen masks."""
        longest = max(len(canvas) for canvas in canvases)
        padding = [canvases[0].mask_id] * longest
        rows = [(canvas.tokens + padding)[window.start : longest] for canvas in canvases]
        logits = self.model.predict(
            torch.tensor(rows, dtype=torch.long),
            (window.first, longest),
            start=window.start,
            cache=self.cache,
            num_commit=window.num_commit,
            visibility=visibility,
            lengths=[len(canvas) - window.start for canvas in canvases],
        )
        self.num_calls += 1
        return self.scorer(logits, window.first, open_slots(canvases, window), seeds)

    def commit(self, winner: int) -> None:
        """Copy the winner's staged keys into the prefix; the others' are dropped."""
        if self.cache is not None:
            self.cache.commit(winner)


class SequentialExecutor:
    """The branches one by one, each in a call of its own; slower, and the check that packing changes nothing."""

    def __init__(self, model: LanguageModel, cache: KVCache | None, scorer: Scorer) -> None:
        self.model, self.cache, self.scorer = model, cache, scorer
        self.num_calls = 0
        self._kept: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self._window = Window(0, 0, 0)

    def verify(
        self, canvases: Sequence[Canvas], window: Window, visibility: Visibility, seeds: Sequence[int] | None = None
    ) -> list[Scores]:
        """Candidates of every branch; the keys that each wrote are kept aside."""
        self._kept, self._window = [], window
        each = [None] * len(canvases) if seeds is None else [[seed] for seed in seeds]
        return [self._one(canvas, window, visibility, own) for canvas, own in zip(canvases, each, strict=True)]

    def _one(self, canvas: Canvas, window: Window, visibility: Visibility, seeds: Sequence[int] | None) -> Scores:
        logits = self.model.predict(
            torch.tensor([canvas.tokens[window.start :]], dtype=torch.long),
            (window.first, len(canvas)),
            start=window.start,
            cache=self.cache,
            num_commit=window.num_commit,
            visibility=visibility,
        )
        self.num_calls += 1
        if self.cache is not None and window.num_commit:
            span = slice(window.start, window.start + window.num_commit)
            keys, values = self.cache.keys[..., span, :], self.cache.values[..., span, :]
            self._kept.append((keys.clone(), values.clone(), self.cache.staged_boundary))
        return self.scorer(logits, window.first, open_slots([canvas], window), seeds)[0]

    def commit(self, winner: int) -> None:
        """Put the winner's keys back into their slots and commit them."""
        if self.cache is None:
            return
        keys, values, boundary = self._kept[winner]
        span = slice(self._window.start, self._window.start + self._window.num_commit)
        self.cache.keys[..., span, :] = keys
        self.cache.values[..., span, :] = values
        self.cache.staged_boundary = boundary
        self.cache.commit()
