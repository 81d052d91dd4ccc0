"""Attention over a shared prefix equals plain attention over the concatenated keys."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lopa_bench.models.attention import attend, attend_with_prefix, plain_attention

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2}


def concatenated(
    query: Tensor, key: Tensor, value: Tensor, prefix: tuple[Tensor, Tensor], mask: Tensor | None
) -> Tensor:
    """The definition, in float64: every window sees the whole prefix and, by `mask`, itself."""
    batch, heads, window, _ = query.shape
    groups, seen = heads // key.shape[1], prefix[0].shape[2]
    keys = torch.cat((prefix[0].expand(batch, -1, -1, -1), key), dim=2).repeat_interleave(groups, dim=1)
    values = torch.cat((prefix[1].expand(batch, -1, -1, -1), value), dim=2).repeat_interleave(groups, dim=1)
    if mask is not None:
        mask = torch.cat((torch.ones(batch, 1, window, seen, dtype=torch.bool), mask.expand(batch, 1, -1, -1)), dim=3)
    return plain_attention(query.double(), keys.double(), values.double(), mask)[0]


def padding_mask(lengths: list[int], window: int) -> Tensor:
    return (torch.arange(window) < torch.tensor(lengths)[:, None])[:, None, None, :].expand(-1, 1, window, -1)


@st.composite
def problems(draw: st.DrawFn) -> dict[str, object]:
    window = draw(st.integers(1, 9))
    batch = draw(st.integers(1, 4))
    return {
        "batch": batch,
        "window": window,
        "prefix": draw(st.integers(1, 40)),
        "kv_heads": draw(st.integers(1, 3)),
        "groups": draw(st.integers(1, 4)),
        "head_dim": draw(st.sampled_from([4, 8, 16, 24])),
        "dtype": draw(st.sampled_from(list(TOLERANCE))),
        "mask": draw(st.sampled_from(["none", "causal", "padding", "both"])),
        "lengths": [draw(st.integers(1, window)) for _ in range(batch)],
        "scale": draw(st.sampled_from([0.1, 1.0, 6.0])),
    }


@settings(max_examples=80, deadline=None, derandomize=True)
@given(problems())
def test_prefix_attention_is_attention_over_concatenated_keys(problem: dict[str, object]) -> None:
    batch, window, dim = problem["batch"], problem["window"], problem["head_dim"]
    kv_heads, dtype = problem["kv_heads"], problem["dtype"]
    torch.manual_seed(0)
    heads = kv_heads * problem["groups"]
    query = (problem["scale"] * torch.randn(batch, heads, window, dim)).to(dtype)
    key, value = torch.randn(2, batch, kv_heads, window, dim).to(dtype)
    prefix_key, prefix_value = torch.randn(2, 1, kv_heads, problem["prefix"], dim).to(dtype)
    causal = torch.ones(window, window, dtype=torch.bool).tril()[None, None]
    padding = padding_mask(problem["lengths"], window)
    mask = {"none": None, "causal": causal, "padding": padding, "both": causal & padding}[problem["mask"]]

    found = attend_with_prefix(query, key, value, prefix_key, prefix_value, mask)
    expected = concatenated(query, key, value, (prefix_key, prefix_value), mask)
    assert found.dtype == dtype and found.shape == query.shape
    torch.testing.assert_close(found.double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_scores_far_apart_do_not_overflow(dtype: torch.dtype) -> None:
    """One side holds all the weight: the joint must be that side, not NaN."""
    query = torch.full((2, 2, 3, 8), 20.0, dtype=dtype)
    key, value = torch.full((2, 1, 3, 8), -20.0, dtype=dtype), torch.full((2, 1, 3, 8), 5.0, dtype=dtype)
    prefix_key, prefix_value = torch.full((1, 1, 4, 8), 20.0, dtype=dtype), torch.full((1, 1, 4, 8), 7.0, dtype=dtype)
    assert (attend_with_prefix(query, key, value, prefix_key, prefix_value, None) == 7).all()
    assert (attend_with_prefix(query, -key, value, -prefix_key, prefix_value, None) == 5).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_plain_attend_shares_key_heads(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 6, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    found = attend(query.to(dtype), key.to(dtype), value.to(dtype), None, causal=True)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    wide = (tensor.repeat_interleave(3, dim=1).to(dtype).double() for tensor in (key, value))
    expected = plain_attention(query.to(dtype).double(), *wide, mask)[0]
    torch.testing.assert_close(found.double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
