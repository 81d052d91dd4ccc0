"""LoPA's three pure steps: spawn branches, score them, select one (LoPA, arXiv 2512.16229, section 3.2).

A branch is the canvas that the base rule left behind, plus one token at a position that the rule refused. The anchor is
that canvas unchanged, so the base decoder's own choice always competes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.confidence import Scores

SELECTIONS = ("confidence", "anchor", "first", "random")


@dataclass(frozen=True, slots=True)
class Branch:
    """One candidate canvas; `position` (absolute) and `token` are its lookahead, None for the anchor."""

    canvas: Canvas
    creation: float = 1.0
    position: int | None = None
    token: int | None = None


@dataclass(frozen=True, slots=True)
class BranchScore:
    """How a branch is judged.

    Attributes:
        least_confident: share of its masks, the least confident ones, that are averaged; 1.0 takes all.
        window: when set, the score is the lowest mean over that many neighbouring masks instead.
        creation_weight: weight of the confidence that the lookahead token itself had.
    """

    least_confident: float = 1.0
    window: int | None = None
    creation_weight: float = 0.0

    def __call__(self, creation: float, confidence: Tensor) -> float:
        """Score a branch from its creation confidence and those of its masks, [num_masks] left to right.

        A branch without masks has nothing left to doubt: 1.0, which beats every negative entropy.
        """
        future = self._future(confidence)
        return self.creation_weight * creation + (1 - self.creation_weight) * future

    def _future(self, confidence: Tensor) -> float:
        count = len(confidence)
        if count == 0:
            return 1.0
        if self.window is not None:
            return confidence.unfold(0, min(self.window, count), 1).mean(dim=-1).min().item()
        kept = max(1, int(count * self.least_confident))
        if kept < count:
            confidence = torch.sort(confidence).values[:kept]
        return confidence.mean().item()


def spawn(canvas: Canvas, scores: Scores, positions: Sequence[int], num_lookahead: int) -> list[Branch]:
    """Copies of the canvas with one more token each, the most confident position first, and the anchor last.

    Args:
        canvas: what the base rule left behind.
        scores: the candidates that the rule filled from.
        positions: masks that may be looked ahead to, ascending; ties go to the earlier one.
        num_lookahead: most copies to make.
    """
    branches = []
    if positions and num_lookahead:
        of_positions = scores.at(positions)
        confidence, tokens = of_positions.confidence.tolist(), of_positions.token.tolist()
        best = sorted(range(len(positions)), key=lambda row: -confidence[row])[:num_lookahead]
        for row in best:
            twin = canvas.copy()
            twin.tokens[positions[row]] = tokens[row]
            branches.append(Branch(twin, confidence[row], positions[row], tokens[row]))
    return [*branches, Branch(canvas.copy())]


def select(scores: Sequence[float], rule: str, generator: torch.Generator) -> int:
    """Index of the branch to keep; the anchor stands last, and ties go to the first.

    `confidence` is LoPA; the other rules are controls: always the `anchor` (the base decoder), always the `first`
    lookahead, or one at `random`.
    """
    if rule == "anchor":
        return len(scores) - 1
    if rule == "first":
        return 0
    if rule == "random":
        return int(torch.randint(len(scores), (1,), generator=generator, device=generator.device))
    return max(range(len(scores)), key=lambda index: scores[index])
