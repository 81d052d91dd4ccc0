"""LoPA's pure steps by hand-computed values: spawning, scoring, selecting."""

from __future__ import annotations

import pytest
import torch
from fakes_models import EOS, MASK

from lopa_bench.decoders.branches import BranchScore, select, spawn
from lopa_bench.decoders.canvas import BlockState, Canvas
from lopa_bench.decoders.confidence import Scores


def canvas_of(answer: list[int]) -> Canvas:
    """A prompt of two tokens, then one active block that holds `answer`."""
    canvas = Canvas([1, 2], max_new_tokens=len(answer), mask_id=MASK, eos_id=EOS, stop_at_eos=True)
    canvas.append_block(len(answer), BlockState.ACTIVE)
    canvas.tokens[2:] = answer
    return canvas


def scores_of(confidence: list[float], tokens: list[int]) -> Scores:
    """Candidates of the positions from 2 on."""
    values = torch.tensor(confidence)
    return Scores(2, values, values, torch.tensor(tokens))


def test_lookaheads_come_best_first_and_the_anchor_last() -> None:
    canvas = canvas_of([MASK, 5, MASK, MASK])
    branches = spawn(canvas, scores_of([0.3, 0.99, 0.9, 0.6], [7, 8, 9, 10]), [2, 4, 5], 2)
    assert [(branch.position, branch.token) for branch in branches] == [(4, 9), (5, 10), (None, None)]
    assert [branch.creation for branch in branches] == pytest.approx([0.9, 0.6, 1.0])
    assert [branch.canvas.tokens[2:] for branch in branches] == [
        [MASK, 5, 9, MASK],
        [MASK, 5, MASK, 10],
        [MASK, 5, MASK, MASK],
    ]


def test_ties_go_to_the_earlier_position() -> None:
    canvas = canvas_of([MASK] * 4)
    branches = spawn(canvas, scores_of([0.5, 0.7, 0.7, 0.5], [3, 4, 5, 6]), [2, 3, 4, 5], 4)
    assert [branch.position for branch in branches] == [3, 4, 2, 5, None]


def test_no_more_lookaheads_than_positions() -> None:
    canvas = canvas_of([MASK, MASK])
    assert len(spawn(canvas, scores_of([0.5, 0.7], [3, 4]), [2, 3], 8)) == 3
    assert len(spawn(canvas, scores_of([0.5, 0.7], [3, 4]), [2, 3], 0)) == 1
    assert len(spawn(canvas, scores_of([0.5, 0.7], [3, 4]), [], 8)) == 1


def test_branches_share_nothing_with_the_canvas() -> None:
    canvas = canvas_of([MASK, MASK])
    lookahead, anchor = spawn(canvas, scores_of([0.5, 0.7], [3, 4]), [2, 3], 1)
    anchor.canvas.tokens[2] = 11
    anchor.canvas.blocks[1].full = True
    lookahead.canvas.blocks[1].state = BlockState.CACHED
    assert canvas.tokens == [1, 2, MASK, MASK]
    assert not canvas.blocks[1].full
    assert canvas.blocks[1].state is BlockState.ACTIVE


FIVE = torch.tensor([0.9, 0.1, 0.5, 0.3, 0.7], dtype=torch.float64)


@pytest.mark.parametrize(
    ("score", "creation", "expected"),
    [
        (BranchScore(), 0.4, 0.5),  # the mean of all
        (BranchScore(least_confident=0.4), 0.4, 0.2),  # two of five: 0.1 and 0.3
        (BranchScore(least_confident=0.59), 0.4, 0.2),  # int(2.95) are two
        (BranchScore(least_confident=0.0), 0.4, 0.1),  # never fewer than one
        (BranchScore(window=1), 0.4, 0.1),  # the worst mask
        (BranchScore(window=2), 0.4, 0.3),  # runs 0.5, 0.3, 0.4, 0.5
        (BranchScore(window=3), 0.4, 0.3),  # runs 0.5, 0.3, 0.5
        (BranchScore(window=9), 0.4, 0.5),  # longer than what is left: the mean
        (BranchScore(creation_weight=0.25), 0.4, 0.25 * 0.4 + 0.75 * 0.5),
        (BranchScore(creation_weight=1.0), 0.4, 0.4),
        (BranchScore(least_confident=0.4, creation_weight=0.5), -0.6, 0.5 * -0.6 + 0.5 * 0.2),
    ],
)
def test_branch_score(score: BranchScore, creation: float, expected: float) -> None:
    assert score(creation, FIVE) == pytest.approx(expected)


def test_a_branch_without_masks_scores_one_and_beats_every_negative_entropy() -> None:
    nothing = torch.tensor([], dtype=torch.float64)
    assert BranchScore()(0.3, nothing) == 1.0
    assert BranchScore(window=3)(0.3, nothing) == 1.0
    assert BranchScore(creation_weight=0.5)(0.3, nothing) == pytest.approx(0.65)
    assert BranchScore()(0.3, nothing) > BranchScore()(0.3, torch.tensor([0.0]))


def test_means_of_bfloat16_are_rounded_to_it_so_that_scores_tie() -> None:
    pair = [torch.tensor([0.90234375, value], dtype=torch.bfloat16) for value in (0.8984375, 0.89453125)]
    assert BranchScore()(1.0, pair[0]) == BranchScore()(1.0, pair[1])


def test_select_takes_the_best_and_the_first_on_ties() -> None:
    generator = torch.Generator()
    assert select([-0.5, -0.1, -0.3], "confidence", generator) == 1
    assert select([-0.5, -0.1, -0.1], "confidence", generator) == 1
    assert select([0.0, 0.0], "confidence", generator) == 0


def test_controls_ignore_the_scores() -> None:
    generator = torch.Generator()
    assert select([0.9, 0.1, 0.2], "anchor", generator) == 2
    assert select([0.1, 0.9, 0.2], "first", generator) == 0


def test_random_winner_is_drawn_by_the_seed_and_from_all() -> None:
    def draws(seed: int) -> list[int]:
        generator = torch.Generator().manual_seed(seed)
        return [select([0.9, 0.1, 0.2, 0.3], "random", generator) for _ in range(40)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert set(draws(1)) == {0, 1, 2, 3}
