"""Fast-dLLM's two programs on scripted models: what a forward computes, fills and holds back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from decoder_cases import Scenario, few_examples, scenarios
from fakes_models import MASK, ScriptedModel, sure, table, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Generation, Round
from lopa_bench.models.language_model import LanguageModel

PROMPT = [1, 2]


def decode(model: Any, preset: str | None = None, **options: Any) -> tuple[list[Round], Generation]:
    generation = create("fast-dllm", model, {"max_new_tokens": 8, "block_size": 4, **options}, preset).decode(PROMPT)
    return generation.run(), generation


def unsure(position: int, window: Mapping[int, int]) -> Tensor:
    return sure(position % 10, 0.3 + position / 100)


@pytest.mark.parametrize(
    ("cache", "windows"),
    [
        ("none", [(0, 10)] * 8),
        ("prefix", [(0, 10), *[(2, 10)] * 3, (0, 10), *[(6, 10)] * 3]),
        ("dual", [(0, 10), *[(2, 6)] * 3, (0, 10), *[(6, 10)] * 3]),
    ],
)
@pytest.mark.parametrize("rule", ["llada", "dream"])
def test_what_each_cache_computes(rule: str, cache: str, windows: list[tuple[int, int]]) -> None:
    model = ScriptedModel(unsure)
    rounds, _ = decode(model, rule=rule, cache=cache)
    assert [(call.start, call.stop) for call in model.calls] == windows
    assert [one.num_positions for one in rounds] == [stop - start for start, stop in windows]
    assert [one.prefill for one in rounds] == [start == 0 for start, _ in windows]


@pytest.mark.parametrize(("cache", "extents"), [("prefix", (2, 6)), ("dual", (10, 10))])
@pytest.mark.parametrize("rule", ["llada", "dream"])
def test_what_each_cache_holds_back(rule: str, cache: str, extents: tuple[int, int]) -> None:
    model = ScriptedModel(unsure)
    decode(model, rule=rule, cache=cache)
    held = [call.held for call in model.calls]
    assert held == [(0, 0), *[(2, extents[0])] * 3, (0, 0), *[(6, extents[1])] * 3]


def test_the_threshold_accepts_equality_and_a_forced_token_is_counted() -> None:
    half = torch.full((16,), float("-inf"))
    half[3] = half[4] = 0.0
    for threshold, per_round in ((0.5, 4), (0.5001, 1)):
        rounds, _ = decode(ScriptedModel(table({}, half)), cache="none", threshold=threshold)
        assert {len(one.positions) for one in rounds} == {per_round}
        assert {one.num_forced for one in rounds} == {int(per_round == 1)}


def test_the_factor_rule_fills_by_rank() -> None:
    rows = {2: sure(3, 0.9), 3: sure(3, 0.7), 4: sure(3, 0.6), 5: sure(3, 0.5)}
    rounds, _ = decode(ScriptedModel(table(rows, sure(3, 0.9))), cache="none", threshold=None, factor=1.0)
    # 0.9; 0.7 >= 2/3; 0.6 < 3/4. Then of 0.6 and 0.5 the last rank fails, and is taken too.
    assert [one.positions for one in rounds[:2]] == [(0, 1), (2, 3)]


def test_quotas_of_the_steps() -> None:
    rounds, _ = decode(ScriptedModel(unsure), threshold=None, steps=4, cache="none")
    assert [len(one.positions) for one in rounds] == [2, 2, 2, 2]
    rounds, _ = decode(ScriptedModel(unsure), threshold=None, steps=2, cache="prefix")
    assert [len(one.positions) for one in rounds] == [4, 4], "one step a block needs no second forward"


@pytest.mark.parametrize("preset", ["fast-dllm-llada", "fast-dllm-dream"])
@few_examples
@given(scenario=scenarios, cache=st.sampled_from(["prefix", "dual"]))
def test_the_authors_cached_loops_take_two_forwards_a_block_at_least(
    preset: str, scenario: Scenario, cache: str
) -> None:
    options = {"cache": cache, "threshold": 0.0, "allow_mask_token": False}
    rounds, _ = scenario.decode("fast-dllm", options, preset)
    num_blocks = -(-scenario.max_new_tokens // scenario.block_size)
    assert len(rounds) == 2 * num_blocks
    without, _ = scenario.decode("fast-dllm", {"cache": cache, "threshold": 0.0, "early_stop": False})
    assert len(without) == num_blocks


class Recorder(LanguageModel):
    """Keeps the logits of one position from every call that gives them."""

    def __init__(self, model: LanguageModel, position: int) -> None:
        super().__init__(model.network)
        self.position, self.rows = position, []

    def predict(self, tokens: Tensor, predict: tuple[int, int], **options: Any) -> Tensor:
        logits = super().predict(tokens, predict, **options)
        if predict[0] <= self.position < predict[1]:
            self.rows.append((options.get("start", 0), logits[0, self.position - predict[0]].clone()))
        return logits


@pytest.mark.parametrize("cache", ["prefix", "dual"])
def test_where_rows_are_shifted_a_blocks_first_slot_is_read_from_the_row_before_it(cache: str) -> None:
    """Held as the block's first forward left it: no later forward computes that row."""
    compared = 0
    for seed in range(6):
        recorder = Recorder(tiny_model("dream", seed, sharpness=0.3, eos_token_id=None), 6)
        decode(recorder, cache=cache, threshold=1.1)
        held = [row for start, row in recorder.rows if start == 6]
        first_of_block = [row for start, row in recorder.rows if start == 0][-1]
        compared += len(held)
        for row in held:
            torch.testing.assert_close(row, first_of_block)
    assert compared > 0


def test_a_mask_proposed_for_a_blocks_first_slot_is_filled_from_the_row_that_their_program_reads() -> None:
    """They shift the rows of a later forward by repeating the first, which speaks of the slot after it."""

    def late(position: int, window: Mapping[int, int]) -> Tensor:
        return sure(MASK if position == 2 else position, 0.95 if position != 4 else 0.5)

    for cache in ("prefix", "dual"):
        model = ScriptedModel(late)
        rounds, generation = decode(model, "fast-dllm-dream", cache=cache, max_new_tokens=4)
        assert [sorted(one.positions) for one in rounds] == [[], [0, 1, 3], [2]]
        assert generation.answer == [3, 3, 4, 5]


def test_dream_takes_a_blocks_first_token_from_its_first_forward() -> None:
    rows = {2: sure(3, 0.2), 6: sure(4, 0.95)}
    rounds, generation = decode(ScriptedModel(table(rows, sure(5, 0.95))), rule="dream")
    assert [tuple(sorted(one.positions)) for one in rounds] == [(0,), (1, 2, 3), (4,), (5, 6, 7)]
    assert [one.num_forced for one in rounds] == [1, 0, 0, 0]
    assert generation.answer == [3, 5, 5, 5, 4, 5, 5, 5]


def test_dreams_schedule_within_a_block_ranks_by_entropy() -> None:
    def two_opinions(position: int, window: Mapping[int, int]) -> Tensor:
        """Slot 1 is the surest by probability, slot 2 by entropy."""
        shares = {3: [0.61, 0.3, 0.03, 0.03, 0.03], 4: [0.6, 0.4]}.get(position, [0.2] * 5)
        logits = torch.full((16,), float("-inf"))
        logits[: len(shares)] = torch.log(torch.tensor(shares))
        return logits

    rounds, _ = decode(ScriptedModel(two_opinions), rule="dream", alg="entropy", steps=3, max_new_tokens=4)
    # The first token, then half of three by the time grid, then the rest.
    assert [sorted(one.positions) for one in rounds] == [[0], [2], [1, 3]]


def test_dream_without_a_cache_carries_over_what_missed_the_threshold() -> None:
    low = ScriptedModel(table({}, sure(3, 0.3)))
    rounds, _ = decode(low, "fast-dllm-dream", cache="none", max_new_tokens=32, steps=4)
    # The fourth forward refuses 28 slots; one more forward for each, but three of them had been filled by then.
    assert len(rounds) == 4 + 28
    assert [len(one.positions) for one in rounds] == [1] * 32


def test_dream_without_a_cache_fills_at_most_its_share_of_the_steps() -> None:
    high = ScriptedModel(table({}, sure(3, 0.95)))
    rounds, _ = decode(high, rule="dream", cache="none", max_new_tokens=32, steps=8)
    assert [len(one.positions) for one in rounds] == [4] * 8


def test_dream_without_a_cache_fills_at_most_a_blocks_worth_by_default() -> None:
    high = ScriptedModel(table({}, sure(3, 0.95)))
    rounds, _ = decode(high, rule="dream", cache="none", max_new_tokens=20, block_size=8)
    assert [len(one.positions) for one in rounds] == [8, 8, 4]


def test_dream_may_take_as_long_as_its_schedule_says() -> None:
    """More steps than slots: many forwards fill nothing, and that is no endless loop."""
    options = {"rule": "dream", "alg": "entropy", "steps": 256, "max_new_tokens": 8, "block_size": 8}
    rounds, generation = decode(ScriptedModel(unsure), **options)
    assert generation.masks_left == 0
    assert sum(not one.positions for one in rounds) > 32
