"""LLaDA's quotas and Dream's schedules on scripted models, and the plain loops they must equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from decoder_cases import Scenario, few_examples, scenarios
from fakes_models import MASK, ScriptedModel, sure, tiny_model
from hypothesis import assume, given

from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Generation, Round

PROMPT = [1, 2]


def decode(model: Any, preset: str | None = None, **options: Any) -> tuple[list[Round], Generation]:
    generation = create("vanilla", model, {"max_new_tokens": 8, **options}, preset).decode(PROMPT)
    return generation.run(), generation


def rising(position: int, window: Mapping[int, int]) -> torch.Tensor:
    """The later the slot, the surer."""
    return sure(position % 10, 0.3 + position / 100)


def test_one_token_a_step_by_default_block_after_block_the_surest_first() -> None:
    rounds, _ = decode(ScriptedModel(rising), block_size=4)
    assert [one.positions for one in rounds] == [(3,), (2,), (1,), (0,), (7,), (6,), (5,), (4,)]
    assert [one.num_positions for one in rounds] == [10] * 8
    assert all(one.prefill for one in rounds)


def test_steps_are_spread_over_blocks_and_the_first_fill_more() -> None:
    rounds, _ = decode(ScriptedModel(rising), block_size=5, max_new_tokens=10, steps=4)
    assert [len(one.positions) for one in rounds] == [3, 2, 3, 2]
    rounds, _ = decode(ScriptedModel(rising), block_size=8, max_new_tokens=12, steps=6)
    assert [len(one.positions) for one in rounds] == [3, 3, 2, 2, 1, 1], "the last block is shorter"


@pytest.mark.parametrize(("idle", "forwards"), [(False, 8), (True, 16)])
def test_llada_runs_every_planned_forward_needed_or_not(idle: bool, forwards: int) -> None:
    model = ScriptedModel(rising)
    rounds, generation = decode(model, block_size=4, steps=16, idle_steps=idle)
    assert len(model.calls) == len(rounds) == forwards
    assert generation.answer == [position % 10 for position in range(2, 10)]
    # A block's quotas are 1, 1, 1, 1, 0, 0, 0, 0.
    assert [len(one.positions) for one in rounds] == ([1] * 4 + [0] * 4 * idle) * 2


@few_examples
@given(scenarios)
def test_llada_takes_as_many_forwards_as_steps(scenario: Scenario) -> None:
    num_blocks = -(-scenario.max_new_tokens // scenario.block_size)
    for a_block in (1, 3):
        steps = num_blocks * a_block
        rounds, _ = scenario.decode("vanilla", {"steps": steps}, "llada")
        assert len(rounds) == steps


@few_examples
@given(scenarios)
def test_the_two_llada_loops_fill_the_same(scenario: Scenario) -> None:
    plain, first = scenario.decode("vanilla", {"early_stop": False})
    planned, second = scenario.decode("vanilla", {"early_stop": False, "idle_steps": True})
    assert [one.positions for one in plain] == [one.positions for one in planned if one.positions]
    assert first.answer == second.answer


def test_under_lladas_convention_a_mask_left_behind_may_be_filled_in_a_later_block() -> None:
    def late(position: int, window: Mapping[int, int]) -> torch.Tensor:
        """The first slot is the mask's, and the least sure, until the second block has its first token."""
        if position == 2:
            return sure(MASK, 0.3) if window[9] == MASK else sure(3, 0.9)
        return sure(3, 0.5 + position / 100)

    rounds, generation = decode(ScriptedModel(late), "llada", block_size=4, steps=8)
    assert [one.positions for one in rounds] == [(3,), (2,), (1,), (), (7,), (0,), (6,), (5,)]
    # One forward was spent on a proposed mask, so that one is left; their program says nothing of it.
    assert generation.masks_left == 1


@pytest.mark.parametrize("alg", ["entropy", "maskgit_plus", "topk_margin", "origin"])
@pytest.mark.parametrize("steps", [1, 3, 8, 12])
def test_dream_takes_as_many_forwards_as_steps_whatever_the_algorithm(alg: str, steps: int) -> None:
    rounds, generation = decode(ScriptedModel(rising), "dream", alg=alg, steps=steps, max_new_tokens=8)
    assert len(rounds) == steps
    assert generation.masks_left == 0


def test_dream_fills_over_the_whole_answer_none_first_and_two_last() -> None:
    rounds, _ = decode(ScriptedModel(rising), rule="dream", alg="maskgit_plus")
    assert [one.positions for one in rounds] == [(), (7,), (6,), (5,), (4,), (3,), (2,), (0, 1)]


def three_opinions(position: int, window: Mapping[int, int]) -> torch.Tensor:
    """Slot 0 is the surest by probability, slot 1 by margin, slot 2 by entropy."""
    shares = {2: [0.61, 0.3, 0.03, 0.03, 0.03], 3: [0.5] + [0.125] * 4, 4: [0.6, 0.4]}[position]
    logits = torch.full((16,), float("-inf"))
    logits[: len(shares)] = torch.log(torch.tensor(shares))
    return logits


@pytest.mark.parametrize(("alg", "first"), [("maskgit_plus", 0), ("topk_margin", 1), ("entropy", 2)])
def test_dreams_algorithms_rank_by_their_own_measure(alg: str, first: int) -> None:
    rounds, _ = decode(ScriptedModel(three_opinions), rule="dream", alg=alg, max_new_tokens=3, steps=2)
    assert [len(one.positions) for one in rounds] == [1, 2]
    assert rounds[0].positions == (first,)


def test_slots_drawn_at_a_temperature_are_the_best_when_it_nears_zero() -> None:
    for alg_temp in (1e-6, 1e-3):
        rounds, _ = decode(ScriptedModel(rising), rule="dream", alg="maskgit_plus", alg_temp=alg_temp)
        assert [one.positions for one in rounds] == [(), (7,), (6,), (5,), (4,), (3,), (2,), (0, 1)]


def test_slots_drawn_at_a_temperature_depend_on_the_seed() -> None:
    decoder = create("vanilla", tiny_model(), {"max_new_tokens": 8, "rule": "dream", "alg_temp": 1.0})
    orders = [[one.positions for one in decoder.decode(PROMPT, seed=seed).run()] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_origin_fills_at_random_even_without_a_temperature() -> None:
    decoder = create("vanilla", tiny_model(), {"max_new_tokens": 8, "rule": "dream", "alg": "origin"})
    orders = [[one.positions for one in decoder.decode(PROMPT, seed=seed).run()] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


@few_examples
@given(scenarios)
def test_a_threshold_that_nothing_reaches_is_one_token_a_step(scenario: Scenario) -> None:
    assume(not scenario.with_eos)
    expected, vanilla = scenario.decode("vanilla", {})
    for name, options in (
        ("fast-dllm", {"cache": "none", "threshold": 1.1}),
        ("lopa", {"base": "vanilla", "branches": 1, "tau_conf": 1.1, "strategy": "probability"}),
    ):
        rounds, generation = scenario.decode(name, options)
        assert [(one.positions, one.tokens) for one in rounds] == [(one.positions, one.tokens) for one in expected]
        assert generation.answer == vanilla.answer
        assert all(one.num_forced == 1 for one in rounds)
