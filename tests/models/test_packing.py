"""Calls carried out together: each sees itself and its own cache, none sees the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from fakes_models import tiny_model
from torch import Tensor

from lopa_bench.models.forward import Forward
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.visibility import CAUSAL, FULL

LENGTHS = (3, 11, 7)


def some_tokens(length: int, seed: int) -> Tensor:
    return torch.randint(0, 14, (1, length), generator=torch.Generator().manual_seed(seed))


def forwards(model: LanguageModel, prefixes: Sequence[int] = (4, 0, 9)) -> list[Forward]:
    """One window behind a prefix of each length, in caches that already hold those prefixes."""
    rule = CAUSAL if model.config.causal else FULL
    asked = []
    for seed, (length, prefix) in enumerate(zip(LENGTHS, prefixes, strict=True)):
        cache = model.new_cache(prefix + length)
        if prefix:
            tokens = some_tokens(prefix, 50 + seed)
            model.predict(tokens, (0, 1), cache=cache, num_commit=prefix, visibility=rule)
            cache.commit()
        span = (prefix + (prefix == 0), prefix + length)
        asked.append(Forward(some_tokens(length, seed), span, prefix, cache, length, rule))
    return asked


def alone(model: LanguageModel, one: Forward) -> Tensor:
    model.carry_out([one])
    return one.logits


@pytest.mark.parametrize("kind", ["dream", "llada", "ar"])
def test_windows_behind_prefixes_of_any_length_are_answered_as_alone(kind: str) -> None:
    model = tiny_model(kind)
    together, singly = forwards(model), forwards(model)
    model.carry_out(together)
    for packed, one in zip(together, singly, strict=True):
        torch.testing.assert_close(packed.logits, alone(model, one), atol=1e-12, rtol=0)
        assert packed.cache is not None and one.cache is not None
        packed.cache.commit()
        one.cache.commit()
        torch.testing.assert_close(packed.cache.keys, one.cache.keys, atol=1e-12, rtol=0)
        torch.testing.assert_close(packed.cache.boundary, one.cache.boundary, atol=1e-12, rtol=0)


def test_what_stands_beside_a_window_does_not_change_it() -> None:
    model = tiny_model("dream")
    first, *_ = forwards(model)
    model.carry_out([first, Forward(some_tokens(5, 1), (1, 5))])
    again, *_ = forwards(model)
    model.carry_out([again, Forward(some_tokens(5, 2), (1, 5))])
    assert torch.equal(first.logits, again.logits)


def test_a_call_may_be_carried_out_again_and_its_logits_are_the_askers_own() -> None:
    model = tiny_model("ar")
    asked = forwards(model)
    model.carry_out(asked)
    before = [one.logits.clone() for one in asked]
    with torch.inference_mode():
        asked[0].logits[:] = float("nan")
    assert not asked[1].logits.isnan().any()
    model.carry_out(asked)
    for one, earlier in zip(asked, before, strict=True):
        assert torch.equal(one.logits, earlier)


def test_a_window_without_rows_asks_for_none() -> None:
    model = tiny_model("llada")
    empty, other = Forward(some_tokens(4, 1), (1, 1)), Forward(some_tokens(4, 2), (0, 4))
    model.carry_out([empty, other])
    assert empty.logits.shape == (1, 0, 16) and other.logits.shape == (1, 4, 16)
