"""What holds between decoders, and within every round, on any network: checked on tiny random ones in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from decoder_cases import ALL, Scenario, few_examples, label, scenarios, thresholds
from fakes_models import MASK
from hypothesis import given
from hypothesis import strategies as st

from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Round
from lopa_bench.models.visibility import block_causal

Outline = list[tuple[Any, ...]]


def outline(rounds: list[Round]) -> Outline:
    """What any two equal decodings share."""
    return [(one.positions, one.tokens, one.num_forced, one.input_length, one.prefill) for one in rounds]


@few_examples
@given(scenarios, thresholds, st.booleans())
def test_lopa_with_one_branch_is_d2f(scenario: Scenario, taus: dict[str, float], full_attention: bool) -> None:
    same = {**taus, "full_attention": full_attention, "strategy": "probability"}
    d2f, from_d2f = scenario.decode("d2f", same)
    lopa, from_lopa = scenario.decode("lopa", {**same, "branches": 1})
    assert outline(lopa) == outline(d2f)
    assert from_lopa.answer == from_d2f.answer
    assert all(one.branch_forwards == 1 for one in lopa)


@few_examples
@given(scenarios, thresholds, st.booleans(), st.integers(2, 6))
def test_lopa_whose_anchor_always_wins_is_lopa_with_one_branch(
    scenario: Scenario, taus: dict[str, float], full_attention: bool, branches: int
) -> None:
    same = {**taus, "full_attention": full_attention}
    alone, from_alone = scenario.decode("lopa", {**same, "branches": 1})
    forced, from_forced = scenario.decode("lopa", {**same, "branches": branches, "select": "anchor"})
    assert [(one.positions, one.tokens) for one in forced] == [(one.positions, one.tokens) for one in alone]
    assert from_forced.answer == from_alone.answer


@few_examples
@given(scenarios, thresholds, st.integers(1, 6), st.sampled_from(["d2f", "vanilla"]))
def test_what_every_round_of_lopa_keeps_to(
    scenario: Scenario, taus: dict[str, float], branches: int, base: str
) -> None:
    rounds, _ = scenario.decode("lopa", {**taus, "branches": branches, "base": base})
    assert rounds[0].branch_forwards == 1
    for one in rounds:
        assert one.model_calls == 1
        assert one.branch_forwards == len(one.branches) <= branches
        assert one.branches[-1].position is None, "the anchor stands last"
        best = max(branch.score for branch in one.branches)
        assert one.winner == [branch.score for branch in one.branches].index(best), "the best, the first on ties"
        winner = one.branches[one.winner]
        if winner.position is not None:
            assert (one.positions[0], one.tokens[0]) == (winner.position, winner.token)
        assert one.num_positions <= one.branch_forwards * one.input_length


@few_examples
@given(scenarios, thresholds, st.booleans(), st.sampled_from(["d2f", "vanilla"]))
def test_packed_branches_are_those_taken_one_by_one(
    scenario: Scenario, taus: dict[str, float], full_attention: bool, base: str
) -> None:
    same = {**taus, "full_attention": full_attention, "branches": 4, "base": base}
    packed, from_packed = scenario.decode("lopa", same)
    sequential, from_sequential = scenario.decode("lopa", {**same, "packed": False})
    assert outline(packed) == outline(sequential)
    assert from_packed.answer == from_sequential.answer
    for one, other in zip(packed, sequential, strict=True):
        assert other.model_calls == other.branch_forwards == one.branch_forwards
        scores = [[branch.score for branch in each.branches] for each in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-9)


def plain_d2f(scenario: Scenario, taus: dict[str, float]) -> list[int]:
    """D2F as its paper tells it, without a cache, rounds or canvas: the whole text through the network every time."""
    model, size = scenario.model, scenario.block_size
    prompt, budget = list(scenario.prompt), scenario.max_new_tokens
    text, full, seen_eos = list(prompt), [False] * (budget + 1), False

    def blocks() -> list[range]:
        starts = range(len(prompt), len(text), size)
        return [range(start, min(start + size, len(text))) for start in starts]

    def filled_share(block: range) -> float:
        return sum(text[position] != MASK for position in block) / len(block)

    while True:
        room = budget - (len(text) - len(prompt))
        if room and not seen_eos and (not blocks() or filled_share(blocks()[-1]) >= taus["tau_add"]):
            text += [MASK] * min(size, room)
        for number in range(len(blocks())):
            full[number] |= number == 0 or filled_share(blocks()[number - 1]) >= taus["tau_act"]
        if MASK not in text[len(prompt) :]:
            return text[len(prompt) :]
        rows = (len(prompt), len(text))
        logits = model.predict(torch.tensor([text]), rows, visibility=block_causal(len(prompt), size)).clone()
        logits[..., MASK] = float("-inf")
        probability, token = logits.softmax(-1)[0].max(-1)
        for number, block in enumerate(blocks()):
            masks = [position for position in block if text[position] == MASK]
            sure = [position for position in masks if probability[position - rows[0]] > taus["tau_conf"]]
            if not sure and masks and full[number]:
                sure = [max(masks, key=lambda position: probability[position - rows[0]].item())]
            for position in sure:
                text[position] = int(token[position - rows[0]])
                seen_eos |= text[position] == model.config.eos_token_id


@few_examples
@given(scenarios, thresholds)
def test_d2f_is_the_papers_own_rule_without_a_cache(scenario: Scenario, taus: dict[str, float]) -> None:
    _, generation = scenario.decode("d2f", {**taus, "early_stop": False})
    assert generation.answer == plain_d2f(scenario, taus)


@pytest.mark.parametrize(("name", "options"), ALL[1:], ids=[label(*one) for one in ALL[1:]])
@few_examples
@given(scenario=scenarios)
def test_every_slot_is_filled_once_and_every_round_fills_one(
    name: str, options: dict[str, Any], scenario: Scenario
) -> None:
    rounds, generation = scenario.decode(name, {**options, "early_stop": False})
    slots = [position for one in rounds for position in one.positions]
    assert sorted(slots) == list(range(len(generation.answer)))
    assert generation.masks_left == 0
    tokens = dict(pair for one in rounds for pair in zip(one.positions, one.tokens, strict=True))
    assert generation.answer == [tokens[position] for position in sorted(tokens)]
    scheduled = options.get("rule") == "dream" and options.get("cache") != "prefix"
    if not scheduled:
        assert all(one.positions for one in rounds)
    assert [one.index for one in rounds] == list(range(len(rounds)))
    fewest, most = create(name, scenario.model, {**scenario.settings, **options, "early_stop": False}).round_range
    if len(generation.answer) == scenario.max_new_tokens:
        assert fewest <= len(rounds) <= most


@pytest.mark.parametrize(("name", "options"), ALL[1:], ids=[label(*one) for one in ALL[1:]])
@few_examples
@given(scenario=scenarios)
def test_stopping_at_the_eos_changes_only_what_comes_after_it(
    name: str, options: dict[str, Any], scenario: Scenario
) -> None:
    stopped, short = scenario.decode(name, {**options, "early_stop": True})
    whole, long = scenario.decode(name, {**options, "early_stop": False})
    eos = long.canvas.eos_id
    cut = long.answer[: long.answer.index(eos) + 1] if eos in long.answer else long.answer
    assert short.answer == cut
    assert len(stopped) <= len(whole)
    assert outline(stopped) == outline(whole)[: len(stopped)]
