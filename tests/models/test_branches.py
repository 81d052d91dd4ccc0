"""Several windows over one shared prefix equal each of them alone, in float64; the winner's commit equals its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.visibility import CAUSAL, FULL, block_causal

Make = Callable[..., LanguageModel]
BOTH = pytest.mark.parametrize("family", ["dream", "llada"])
SHAPES = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=0)


def some_tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 58, shape, generator=torch.Generator().manual_seed(seed))


@BOTH
@SHAPES
@given(data=st.data())
def test_branches_over_a_shared_prefix(tiny_model: Make, family: str, data: st.DataObject) -> None:
    """Several windows in one call, one of them committed: each like a plain forward alone, and so is what follows."""
    model = tiny_model(family, dtype=torch.float64)
    prompt, block, branches = (
        data.draw(st.integers(1, 12)),
        data.draw(st.integers(1, 5)),
        data.draw(st.integers(2, 4)),
    )
    winner = data.draw(st.integers(0, branches - 1))
    rule, stop = block_causal(prompt, block), prompt + 3 * block
    tokens = some_tokens(1, prompt).expand(branches, -1)
    tokens = torch.cat((tokens, some_tokens(branches, 3 * block, seed=1)), dim=1)
    cache = model.new_cache(stop)
    model.predict(tokens[:1, :prompt], (0, 1), cache=cache, num_commit=prompt, visibility=rule)
    cache.commit()

    window = tokens[:, prompt:]
    cached = model.predict(window, (prompt, stop), start=prompt, cache=cache, num_commit=block, visibility=rule)
    for branch in range(branches):
        same(cached[branch], model.predict(tokens[branch : branch + 1], (prompt, stop), visibility=rule)[0])
    cache.commit(winner)

    start = prompt + block
    follow_up = tokens.clone()
    follow_up[:, :start] = tokens[winner, :start]
    cached = model.predict(follow_up[:, start:], (start, stop), start=start, cache=cache, visibility=rule)
    same(cached, model.predict(follow_up, (start, stop), visibility=rule))


@BOTH
@pytest.mark.parametrize("rule", ["full", "block-causal"])
def test_unequal_branches_padded_equal_one_by_one(tiny_model: Make, family: str, rule: str) -> None:
    model = tiny_model(family, dtype=torch.float64)
    prompt, lengths = 7, [5, 9, 12]
    visibility = FULL if rule == "full" else block_causal(prompt, 3)
    prefix, windows = some_tokens(1, prompt), some_tokens(3, 12, seed=1)

    def cache_with_prompt() -> object:
        cache = model.new_cache(prompt + 12)
        model.predict(prefix, (0, 1), cache=cache, num_commit=prompt, visibility=visibility)
        cache.commit()
        return cache

    span = (prompt, prompt + 12)
    packed = model.predict(
        windows, span, start=prompt, cache=cache_with_prompt(), visibility=visibility, lengths=lengths
    )
    for branch, length in enumerate(lengths):
        stop = prompt + length
        window = windows[branch : branch + 1, :length]
        alone = model.predict(window, (prompt, stop), start=prompt, cache=cache_with_prompt(), visibility=visibility)
        same(packed[branch, :length], alone[0])
    uncached = model.predict(windows, (1, 12), lengths=lengths, visibility=FULL)
    for branch, length in enumerate(lengths):
        alone = model.predict(windows[branch : branch + 1, :length], (1, length), visibility=FULL)
        same(uncached[branch, : length - 1], alone[0])


def test_several_causal_windows_over_an_empty_cache(tiny_model: Make) -> None:
    """Branches that begin at position 0 attend causally, as one window does."""
    model = tiny_model("qwen2", dtype=torch.float64)
    tokens = some_tokens(3, 11)
    cached = model.predict(tokens, (1, 12), cache=model.new_cache(11), visibility=CAUSAL)
    for branch in range(3):
        same(cached[branch], model.predict(tokens[branch : branch + 1], (1, 12), visibility=CAUSAL)[0])


def test_several_causal_windows_over_a_prefix(tiny_model: Make) -> None:
    model = tiny_model("qwen3", dtype=torch.float64)
    prefix, windows = some_tokens(1, 6), some_tokens(3, 5, seed=1)
    cache = model.new_cache(11)
    model.predict(prefix, (1, 2), cache=cache, num_commit=6, visibility=CAUSAL)
    cache.commit()
    cached = model.predict(windows, (6, 12), start=6, cache=cache, visibility=CAUSAL)
    whole = torch.cat((prefix.expand(3, -1), windows), dim=1)
    same(cached, model.predict(whole, (6, 12), visibility=CAUSAL))
