"""Which slots a forward fills: every rule against values worked out by hand."""

from __future__ import annotations

import pytest
import torch

from lopa_bench.decoders.selection import (
    above,
    at_least,
    by_factor,
    dream_count,
    dream_timesteps,
    most_confident,
    ranked,
    split_evenly,
)

# Exactly what bfloat16 can say between one half and one.
BFLOAT16_GRID = torch.arange(128).div(256).add(0.5).to(torch.bfloat16)


@pytest.mark.parametrize(
    ("total", "parts", "expected"),
    [(8, 4, [2, 2, 2, 2]), (10, 4, [3, 3, 2, 2]), (3, 5, [1, 1, 1, 0, 0]), (0, 2, [0, 0]), (7, 1, [7])],
)
def test_quotas_give_the_first_steps_one_more(total: int, parts: int, expected: list[int]) -> None:
    assert split_evenly(total, parts) == expected


def test_ranked_gives_the_best_first_and_no_more_than_there_are() -> None:
    confidence = torch.tensor([0.2, 0.9, 0.5])
    assert ranked(confidence, [4, 6, 7], (0, 10), 2) == [6, 7]
    assert ranked(confidence, [4, 6, 7], (4, 8), 5) == [6, 7, 4]


def test_ranked_breaks_ties_as_topk_does_in_a_row_of_the_inputs_length() -> None:
    positions = list(range(20, 52))
    row = torch.full((96,), float("-inf"))
    row[20:52] = 0.25
    expected = torch.topk(row, 5).indices.tolist()
    assert ranked(torch.full((32,), 0.25), positions, (0, 96), 5) == expected


def test_at_least_accepts_equality_and_drops_what_is_below() -> None:
    choice = at_least(torch.tensor([0.9, 0.5, 0.8999, 0.95]), [3, 4, 5, 6], (0, 8), 0.9)
    assert sorted(choice.positions) == [3, 6]
    assert choice.num_forced == 0


def test_at_least_always_keeps_the_first_and_calls_it_forced() -> None:
    choice = at_least(torch.tensor([0.1, 0.3, 0.2]), [3, 4, 5], (0, 8), 0.9)
    assert choice.positions == [4]
    assert choice.num_forced == 1


@pytest.mark.parametrize(
    ("values", "factor", "expected"),
    [
        # Limits for factor 1: rank 2 needs 2/3, rank 3 needs 3/4, rank 4 needs 4/5.
        ([0.9, 0.7, 0.6, 0.5], 1.0, 2),  # rank 3 fails
        ([0.9, 0.5, 0.4, 0.3], 1.0, 1),  # rank 2 fails
        ([0.9, 0.85, 0.82, 0.81], 1.0, 4),  # none fails
        ([0.9, 0.85, 0.82, 0.79], 1.0, 4),  # only the last fails: the program takes it too
        ([0.9, 0.5], 1.0, 2),  # the last of two is the last rank
        ([0.01], 1.0, 1),  # one slot is always taken
        ([0.9, 0.85, 0.5, 0.81, 0.4], 1.0, 3),  # sorted first: 0.81 passes at rank 3, 0.5 fails at rank 4
        # Factor 2 asks for 1/3, 1/2, 3/5.
        ([0.9, 0.4, 0.4, 0.3, 0.2], 2.0, 2),  # rank 3 fails
    ],
)
def test_factor_rule(values: list[float], factor: float, expected: int) -> None:
    positions = list(range(10, 10 + len(values)))
    taken = by_factor(torch.tensor(values, dtype=torch.float64), positions, (0, 32), factor)
    best = sorted(positions, key=lambda position: -values[position - 10])
    assert taken == best[:expected]


def test_above_is_strict() -> None:
    probability = torch.tensor([0.5, 0.75, 0.7500001, 1.0])
    assert above(probability, [1, 2, 3, 4], 0.75) == [3, 4]
    assert above(probability, [1, 2, 3, 4], 1.0) == []


@pytest.mark.parametrize(
    ("threshold", "rounded", "first_accepted"),
    [
        (0.95, 0.94921875, 0.953125),
        (0.9, 0.8984375, 0.90234375),
        (0.85, 0.8515625, 0.85546875),
        (0.8, 0.80078125, 0.8046875),
        (0.75, 0.75, 0.75390625),
        (0.7, 0.69921875, 0.703125),
    ],
)
def test_above_rounds_the_threshold_to_bfloat16_too(threshold: float, rounded: float, first_accepted: float) -> None:
    assert torch.tensor(threshold).to(torch.bfloat16).item() == rounded
    accepted = above(BFLOAT16_GRID, range(len(BFLOAT16_GRID)), threshold)
    assert BFLOAT16_GRID[accepted[0]].item() == first_accepted


@pytest.mark.parametrize(("threshold", "first_accepted"), [(0.85, 0.8515625), (0.8, 0.80078125)])
def test_above_in_float32_accepts_what_bfloat16_refuses(threshold: float, first_accepted: float) -> None:
    accepted = above(BFLOAT16_GRID.float(), range(len(BFLOAT16_GRID)), threshold)
    assert BFLOAT16_GRID[accepted[0]].item() == first_accepted


def test_most_confident_is_topks_choice() -> None:
    confidence = torch.full((64,), 0.5)
    assert most_confident(confidence, list(range(100, 164))) == 100 + int(torch.topk(confidence, 1).indices[0])
    confidence[7] = 0.6
    assert most_confident(confidence, list(range(100, 164))) == 107


def schedule(length: int, steps: int) -> list[int]:
    times = dream_timesteps(steps, 1e-3)
    left, counts = length, []
    for step in range(steps):
        counts.append(dream_count(left, times, step))
        left -= counts[-1]
    return counts


@pytest.mark.parametrize("length", [*range(8, 40), 64, 100, 128, 255, 256, 384, 511, 512])
def test_dream_fills_none_first_and_two_last_with_a_step_per_token(length: int) -> None:
    counts = schedule(length, length)
    assert counts == [0] + [1] * (length - 2) + [2]
    assert sum(counts) == length


@pytest.mark.parametrize("length", [16, 32, 64, 256, 512])
def test_dream_with_fewer_steps(length: int) -> None:
    assert schedule(length, length // 2) == [1] + [2] * (length // 2 - 2) + [3]
    assert schedule(length, length // 4) == [3] + [4] * (length // 4 - 2) + [5]


@pytest.mark.parametrize("steps", [1, 2, 7, 300])
def test_dream_fills_everything_by_the_last_step(steps: int) -> None:
    assert sum(schedule(128, steps)) == 128


def test_dream_times_are_float32_from_one_to_eps() -> None:
    times = dream_timesteps(4, 0.2)
    assert times.dtype == torch.float32
    torch.testing.assert_close(times, torch.tensor([1.0, 0.8, 0.6, 0.4, 0.2]))
