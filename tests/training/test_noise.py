"""Noise: D2F's levels rise, masks and weights agree, and the levels are those asked for."""

from __future__ import annotations

import torch

from lopa_bench.models.training.noise import block_noise, frontier_noise, uniform_noise, window_noise


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_block_noise_rises_from_block_to_block_within_its_bounds() -> None:
    rates = block_noise(200, 75, 16, generator())
    assert rates.shape == (200, 75)
    assert (rates.diff(dim=1) >= 0).all()
    assert rates.min() >= 0.2
    assert rates.max() <= 0.7
    inside = torch.arange(74) % 16 != 15
    assert (rates.diff(dim=1)[:, inside] == 0).all()
    assert (rates.diff(dim=1)[:, ~inside] > 0).float().mean() > 0.99


def test_first_block_level_is_uniform_over_the_range() -> None:
    first = block_noise(4000, 32, 16, generator())[:, 0]
    assert abs(first.mean() - 0.45) < 0.01
    assert abs(first.std() - 0.5 / 12**0.5) < 0.01


def test_uniform_noise_weights_masked_positions_by_one_over_level() -> None:
    lengths = torch.full((64,), 40)
    masked, weights = uniform_noise(lengths, 48, generator())
    assert ((weights > 0) == masked).all()
    # Each answer's expected total is 1 wherever the bound on 1 / t does not cut.
    assert abs(weights[:, :40].sum(1).mean() - 1) < 0.15
    assert (weights[:, 40:].sum(1) < weights[:, :40].sum(1).max()).all()


def test_frontier_noise_masks_everything_behind_its_window() -> None:
    lengths = torch.randint(20, 60, (64,), generator=generator())
    masked, weights, beyond = frontier_noise(lengths, 64, generator())
    assert masked[beyond].all()
    assert ((weights > 0) == masked).all()
    assert (weights.sum(1) <= 1 + 1e-5).all()
    prefix = (masked.long().cumsum(1) == 0).sum(1)
    assert len(set(prefix.tolist())) > 10


def test_windows_get_noisier_towards_their_end() -> None:
    blocks = torch.arange(48) // 8
    groups = blocks // 3
    masked, weights = window_noise(torch.full((4000,), 48), blocks, groups, generator())
    shares = masked.float().mean(0).reshape(6, 8).mean(1)
    assert shares[0] < shares[1] < shares[2]
    assert shares[3] < shares[4] < shares[5]
    assert abs(shares[0] - shares[3]) < 0.03
    assert ((weights > 0) == masked).all()
