"""Autoregressive decoding against the plain loop without a cache."""

from __future__ import annotations

import pytest
import torch
from fakes_models import EOS, MASK, ScriptedModel, sure, table, tiny_model

from lopa_bench.decoders.registry import create
from lopa_bench.models.visibility import CAUSAL

PROMPT = [3, 1, 4, 1, 5]


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_greedy_loop_over_the_whole_text(seed: int) -> None:
    model = tiny_model("ar", seed, eos_token_id=None)
    text = list(PROMPT)
    for _ in range(10):
        logits = model.predict(torch.tensor([text]), (len(text), len(text) + 1), visibility=CAUSAL)[0, 0].clone()
        logits[MASK] = float("-inf")
        text.append(int(logits.argmax()))
    generation = create("ar", model, {"max_new_tokens": 10}).decode(PROMPT)
    rounds = generation.run()
    assert generation.answer == text[len(PROMPT) :]
    assert [one.positions for one in rounds] == [(slot,) for slot in range(10)]
    assert [one.num_positions for one in rounds] == [5] + [1] * 9
    assert [one.prefill for one in rounds] == [True] + [False] * 9


def test_it_stops_at_the_eos_and_keeps_it() -> None:
    model = ScriptedModel(table({7: sure(EOS, 0.9)}, sure(3, 0.5)), "ar")
    for early_stop, expected in ((True, [3, 3, EOS]), (False, [3, 3, EOS, 3, 3])):
        generation = create("ar", model, {"max_new_tokens": 5, "early_stop": early_stop}).decode(PROMPT)
        assert len(generation.run()) == len(expected)
        assert generation.answer == expected


def test_every_round_computes_only_what_is_new() -> None:
    model = ScriptedModel(table({}, sure(3, 0.5)), "ar")
    create("ar", model, {"max_new_tokens": 3}).decode(PROMPT).run()
    assert [(call.start, call.stop, call.num_commit) for call in model.calls] == [(0, 5, 5), (5, 6, 1), (6, 7, 1)]
    assert create("ar", model, {"max_new_tokens": 3}).round_range == (3, 3)
