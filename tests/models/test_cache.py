"""Cached = uncached, in float64, for every way to keep keys: commits, held prefixes, held canvases, branches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from lopa_bench.errors import DecodeError
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.visibility import CAUSAL, block_causal

Make = Callable[..., LanguageModel]
BOTH = pytest.mark.parametrize("family", ["dream", "llada"])
SHAPES = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=0)


def some_tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 58, shape, generator=torch.Generator().manual_seed(seed))


class Oracle:
    """The network written out for one sequence; the keys and values in `frozen` stand in for recomputed ones."""

    def __init__(self, model: LanguageModel) -> None:
        self.network, self.config = model.network, model.config

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        half = self.config.head_dim // 2
        frequencies = 1.0 / self.config.rope_theta ** (torch.arange(half).float() * 2 / self.config.head_dim)
        angles = torch.outer(positions.float(), frequencies)
        # Sines and cosines in float32, as everybody's tables are; only then wider.
        turn = torch.complex(angles.cos().double(), angles.sin().double())
        pairs = torch.complex(heads[..., :half], heads[..., half:]) * turn
        return torch.cat((pairs.real, pairs.imag), dim=-1)

    def encode(
        self, tokens: Tensor, start: int, frozen: list[tuple[Tensor, Tensor]] | None
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Logit rows [T, vocab] of the window, and all keys and values with the window's in place."""
        positions = torch.arange(start, start + len(tokens))
        hidden, kept = self.network.embed(tokens), []
        for index, layer in enumerate(self.network.layers):
            normed = layer.attention_norm(hidden)
            query, key, value = (
                projection(normed).view(len(tokens), -1, self.config.head_dim).transpose(0, 1)
                for projection in (layer.attention.q_proj, layer.attention.k_proj, layer.attention.v_proj)
            )
            query, key = self.rotate(query, positions), self.rotate(key, positions)
            if frozen is not None:
                key, value = (
                    torch.cat((old[:, :start], new, old[:, start + len(tokens) :]), dim=1)
                    for old, new in zip(frozen[index], (key, value), strict=True)
                )
            kept.append((key, value))
            groups = self.config.num_query_groups
            wide_key, wide_value = key.repeat_interleave(groups, 0), value.repeat_interleave(groups, 0)
            weights = torch.softmax(query @ wide_key.transpose(1, 2) / self.config.head_dim**0.5, dim=-1)
            hidden = hidden + layer.attention.o_proj((weights @ wide_value).transpose(0, 1).flatten(1))
            hidden = hidden + layer.mlp(layer.mlp_norm(hidden))
        return self.network.logits(self.network.norm(hidden)), kept


def first_position(model: LanguageModel, start: int) -> int:
    """The first position whose row stands inside a window that begins at `start`."""
    return start + model.config.logit_shift


def rows_for(model: LanguageModel, rows: Tensor) -> Tensor:
    """The rows of a window that speak of its positions from `first_position` on."""
    return rows[: len(rows) - model.config.logit_shift]


@BOTH
def test_oracle_agrees_with_the_network(tiny_model: Make, family: str) -> None:
    model = tiny_model(family, dtype=torch.float64)
    tokens = some_tokens(1, 23)
    rows, _ = Oracle(model).encode(tokens[0], 0, None)
    same(model.predict(tokens, (first_position(model, 0), 23))[0], rows_for(model, rows))


@BOTH
@SHAPES
@given(data=st.data())
def test_committing_block_by_block(tiny_model: Make, family: str, data: st.DataObject) -> None:
    """One window over a growing prefix, some blocks in view behind the committed ones, against one plain forward."""
    model = tiny_model(family, dtype=torch.float64)
    prompt, block = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 7))
    ahead = data.draw(st.integers(0, 2))
    num_blocks = data.draw(st.integers(1, 4))
    total = prompt + block * (num_blocks + ahead)
    tokens, rule = some_tokens(1, total), block_causal(prompt, block)
    cache = model.new_cache(total)
    model.predict(tokens[:, :prompt], (0, 1), cache=cache, num_commit=prompt, visibility=rule)
    cache.commit()
    for number in range(num_blocks):
        start = prompt + number * block
        stop = start + block * (1 + ahead)
        cached = model.predict(
            tokens[:, start:stop], (start, stop), start=start, cache=cache, num_commit=block, visibility=rule
        )
        same(cached, model.predict(tokens[:, :stop], (start, stop), visibility=rule))
        cache.commit()
        assert cache.length == cache.extent == start + block


@BOTH
def test_positions_behind_the_commit_are_forgotten(tiny_model: Make, family: str) -> None:
    """A long window leaves keys in later slots; a shorter one after it must not see them."""
    model = tiny_model(family, dtype=torch.float64)
    rule, tokens = block_causal(6, 4), some_tokens(1, 10)
    cache = model.new_cache(30)
    model.predict(some_tokens(1, 30, seed=1)[:, :30], (0, 1), cache=cache, visibility=rule)
    model.predict(tokens[:, :6], (0, 1), cache=cache, num_commit=6, visibility=rule)
    cache.commit()
    cached = model.predict(tokens[:, 6:], (6, 10), start=6, cache=cache, visibility=rule)
    same(cached, model.predict(tokens, (6, 10), visibility=rule))


@BOTH
def test_prefix_hold(tiny_model: Make, family: str) -> None:
    """Fast-dLLM's prefix cache: one forward over the canvas, then only what stands behind a frozen prefix."""
    model = tiny_model(family, dtype=torch.float64)
    tokens, start = some_tokens(1, 24), 9
    oracle = Oracle(model)
    cache = model.new_cache(24)
    model.predict(tokens, (first_position(model, 0), 24), cache=cache)
    cache.hold(start, start)
    _, frozen = oracle.encode(tokens[0], 0, None)
    for seed in (1, 2):
        tokens[:, start:] = some_tokens(1, 24 - start, seed=seed)
        cached = model.predict(tokens[:, start:], (first_position(model, start), 24), start=start, cache=cache)
        rows, _ = oracle.encode(tokens[0, start:], start, frozen)
        same(cached[0], rows_for(model, rows))
        assert (cache.length, cache.extent) == (start, start)


@BOTH
def test_dual_hold(tiny_model: Make, family: str) -> None:
    """Fast-dLLM's dual cache: the block's keys are replaced in place, everything on both sides is frozen."""
    model = tiny_model(family, dtype=torch.float64)
    tokens, oracle = some_tokens(1, 26), Oracle(model)
    cache = model.new_cache(26)
    model.predict(tokens, (first_position(model, 0), 26), cache=cache)
    _, frozen = oracle.encode(tokens[0], 0, None)
    for start, stop in ((8, 14), (14, 20)):
        cache.hold(start, 26)
        for seed in (1, 2):
            tokens[:, start:stop] = some_tokens(1, stop - start, seed=seed)
            window = tokens[:, start:stop]
            cached = model.predict(window, (first_position(model, start), stop), start=start, cache=cache)
            rows, frozen = oracle.encode(tokens[0, start:stop], start, frozen)
            same(cached[0], rows_for(model, rows))


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_causal_token_by_token(tiny_model: Make, family: str) -> None:
    model = tiny_model(family, dtype=torch.float64)
    tokens = some_tokens(1, 17)
    expected = model.predict(tokens, (1, 18), visibility=CAUSAL)
    cache = model.new_cache(17)
    found = [model.predict(tokens[:, :5], (1, 6), cache=cache, num_commit=5, visibility=CAUSAL)]
    cache.commit()
    for position in range(5, 17):
        token = tokens[:, position : position + 1]
        span = (position + 1, position + 2)
        found.append(model.predict(token, span, start=position, cache=cache, num_commit=1, visibility=CAUSAL))
        cache.commit()
    same(torch.cat(found, dim=1), expected)


@BOTH
@pytest.mark.parametrize("extra", [0, 1, 24])
def test_capacity_does_not_change_the_logits(tiny_model: Make, family: str, extra: int) -> None:
    model = tiny_model(family)
    rule, tokens = block_causal(9, 5), some_tokens(1, 24)

    def decode(cache: object) -> Tensor:
        model.predict(tokens[:, :9], (0, 1), cache=cache, num_commit=9, visibility=rule)
        cache.commit()
        return model.predict(tokens[:, 9:], (9, 24), start=9, cache=cache, visibility=rule)

    cache = model.new_cache(24 + extra)
    first = decode(cache)
    torch.testing.assert_close(first, model.predict(tokens, (9, 24), visibility=rule), atol=1e-5, rtol=0)
    assert torch.equal(first, decode(model.new_cache(24)))
    cache.reset()
    assert torch.equal(first, decode(cache)), "a cache that was reset must be as a fresh one"


def test_boundary_row_must_be_known(tiny_model: Make) -> None:
    model = tiny_model("dream")
    cache = model.new_cache(12)
    model.predict(some_tokens(1, 12), (0, 1), cache=cache)
    cache.hold(4, 4)
    with pytest.raises(DecodeError, match="position 4 cannot be predicted"):
        model.predict(some_tokens(1, 8), (4, 12), start=4, cache=cache)


def test_window_outside_the_cache_is_refused(tiny_model: Make) -> None:
    model = tiny_model("llada")
    with pytest.raises(DecodeError, match="position 8 is outside the cache of 8 positions"):
        model.predict(some_tokens(1, 9), (0, 9), cache=model.new_cache(8))


def test_commit_must_continue_the_prefix(tiny_model: Make) -> None:
    model = tiny_model("llada")
    cache = model.new_cache(8)
    with pytest.raises(DecodeError, match="cannot commit from position 2"):
        model.predict(some_tokens(1, 4), (2, 6), start=2, cache=cache, num_commit=4)


def test_cache_memory_is_what_it_says(tiny_model: Make) -> None:
    model = tiny_model("dream", dtype=torch.bfloat16)
    # 2 tensors x 2 layers x 2 key/value heads x 100 positions x 8 numbers x 2 bytes
    assert model.new_cache(100).num_bytes == 2 * 2 * 2 * 100 * 8 * 2
