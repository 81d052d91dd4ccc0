"""D2F's state machine on scripted models: when blocks open, fill up, end, and go into the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from fakes_models import EOS, MASK, ScriptedModel, sure, table

from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Generation, Round

PROMPT = [1, 2]


def decode(model: ScriptedModel, **options: Any) -> tuple[list[Round], Generation]:
    generation = create("d2f", model, {"max_new_tokens": 8, "block_size": 4, **options}).decode(PROMPT)
    return generation.run(), generation


def one_half(token: int = 3) -> torch.Tensor:
    """Logits that give a token a probability of exactly one half."""
    logits = torch.full((16,), float("-inf"))
    logits[token] = logits[token + 1] = 0.0
    return logits


def test_the_prompt_and_the_first_block_go_through_together() -> None:
    model = ScriptedModel(table({}))
    rounds, _ = decode(model, tau_add=1.0)
    first = model.calls[0]
    assert (first.start, first.stop, first.num_commit, first.rows) == (0, 6, 2, (2, 6))
    assert [one.prefill for one in rounds] == [True] + [False] * (len(rounds) - 1)
    assert rounds[0].num_forced == 1, "the first block is full at once"


@pytest.mark.parametrize(("tau_conf", "num_rounds"), [(0.5, 8), (0.499, 2)])
def test_tau_conf_is_strict(tau_conf: float, num_rounds: int) -> None:
    rounds, _ = decode(ScriptedModel(table({}, one_half())), tau_conf=tau_conf, tau_add=1.0)
    assert len(rounds) == num_rounds


@pytest.mark.parametrize(("tau_add", "opened_in_round"), [(0.25, 1), (0.26, 2), (0.5, 2), (1.0, 4), (0.0, 1)])
def test_tau_add_accepts_equality_and_opens_one_block_a_round(tau_add: float, opened_in_round: int) -> None:
    model = ScriptedModel(table({}, sure(3, 0.5)))
    decode(model, tau_add=tau_add, tau_act=1.0)
    # One slot is filled a round, so one quarter of the first block before round 1.
    assert [call.stop for call in model.calls].index(10) == opened_in_round


@pytest.mark.parametrize(("tau_act", "second_block_forced_in_round"), [(0.5, 2), (0.51, 3), (1.0, 4)])
def test_tau_act_accepts_equality_and_forces_a_token_a_block(tau_act: float, second_block_forced_in_round: int) -> None:
    rounds, _ = decode(ScriptedModel(table({}, sure(3, 0.5))), tau_add=0.0, tau_act=tau_act)
    in_second = [one.index for one in rounds if any(position >= 4 for position in one.positions)]
    assert in_second[0] == second_block_forced_in_round
    assert rounds[second_block_forced_in_round].num_forced == (2 if tau_act < 1 else 1)


def test_a_block_that_is_not_full_fills_only_what_is_sure() -> None:
    rows = {position: sure(3, 0.5 - position / 100) for position in range(2, 10)} | {8: sure(5, 0.95)}
    rounds, _ = decode(ScriptedModel(table(rows)), tau_add=0.0, tau_act=1.0)
    assert [one.positions for one in rounds[:3]] == [(0,), (1, 6), (2,)]
    assert rounds[1].num_forced == 1


def test_a_block_that_ends_early_waits_for_those_before_it() -> None:
    late_block_first = {position: sure(5, 0.95) for position in range(6, 10)}
    model = ScriptedModel(table(late_block_first, sure(3, 0.5)))
    rounds, generation = decode(model, tau_add=0.0, max_new_tokens=12)
    assert {4, 5, 6, 7} <= {position for one in rounds[:2] for position in one.positions}
    committed = [(call.start, call.start + call.num_commit) for call in model.calls if call.num_commit]
    assert committed == [(0, 2), (2, 10)], "both blocks in one forward, once the first is done"
    assert generation.masks_left == 0


def test_a_finished_block_is_cached_with_its_final_tokens_in_the_next_forward() -> None:
    model = ScriptedModel(lambda position, window: sure(position % 10, 0.95))
    decode(model, tau_add=1.0, max_new_tokens=12)
    second = model.calls[1]
    assert (second.start, second.num_commit) == (2, 4)
    assert second.tokens == ((2, 3, 4, 5, *[MASK] * 4),)
    assert all(call.start + call.num_commit <= 10 for call in model.calls), "the last block is never cached"


def test_an_eos_anywhere_stops_new_blocks_and_all_existing_ones_are_still_filled() -> None:
    rows = {5: sure(EOS, 0.95)}
    rounds, generation = decode(
        ScriptedModel(table(rows, sure(3, 0.5))), max_new_tokens=16, tau_add=0.0, early_stop=False
    )
    assert len(generation.answer) == 4, "the EOS came in the first round, before a second block was opened"
    assert generation.answer == [3, 3, 3, EOS]
    assert len(rounds) == 4


def test_an_eos_of_the_prompt_stops_nothing() -> None:
    generation = create("d2f", ScriptedModel(table({})), {"max_new_tokens": 8, "block_size": 4}).decode([EOS, 2])
    generation.run()
    assert len(generation.answer) == 8


def test_thresholds_look_at_the_probability_and_forced_picks_at_the_strategy() -> None:
    """The slot with the better margin is not the one with the better probability."""
    by_probability, by_margin = torch.full((16,), float("-inf")), torch.full((16,), float("-inf"))
    by_probability[[3, 4]] = torch.log(torch.tensor([0.55, 0.45]))
    by_margin[[3, 4, 5]] = torch.log(torch.tensor([0.5, 0.25, 0.25]))
    rows = {2: by_probability, 3: by_margin}
    for strategy, forced in (("probability", 0), ("margin", 1)):
        rounds, _ = decode(ScriptedModel(table(rows)), max_new_tokens=2, block_size=2, strategy=strategy)
        assert rounds[0].positions == (forced,)
    for strategy in ("probability", "margin", "neg_entropy"):
        rounds, _ = decode(ScriptedModel(table(rows)), max_new_tokens=2, block_size=2, strategy=strategy, tau_conf=0.52)
        assert (rounds[0].positions, rounds[0].num_forced) == ((0,), 0)


@pytest.mark.parametrize("kind", ["dream", "llada"])
def test_the_rule_is_the_same_for_both_families(kind: str) -> None:
    def script(position: int, window: Mapping[int, int]) -> torch.Tensor:
        return sure(position % 7, 0.95 if position % 3 else 0.5)

    rounds, generation = decode(ScriptedModel(script, kind))
    assert generation.answer == [position % 7 for position in range(2, 10)]
    assert rounds[0].positions == (0, 2, 3)
