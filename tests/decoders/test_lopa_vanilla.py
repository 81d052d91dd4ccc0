"""LoPA over a plain diffusion model: threshold decoding of one open block at a time, looked ahead for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from decoder_cases import Scenario, few_examples, scenarios
from fakes_models import MASK, ScriptedModel, sure, table
from hypothesis import given
from hypothesis import strategies as st

from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Round


def rounds_of(model: ScriptedModel, **options: Any) -> list[Round]:
    settings = {"max_new_tokens": 8, "block_size": 4, "base": "vanilla", "strategy": "probability", **options}
    return create("lopa", model, settings).decode([1, 2]).run()


@few_examples
@given(scenarios, st.sampled_from([0.2, 0.5, 0.9, 1.1]))
def test_with_one_branch_it_is_threshold_decoding(scenario: Scenario, threshold: float) -> None:
    lopa, from_lopa = scenario.decode(
        "lopa", {"base": "vanilla", "branches": 1, "strategy": "probability", "tau_conf": threshold}
    )
    fast, from_fast = scenario.decode("fast-dllm", {"cache": "none", "threshold": threshold})
    assert [(one.positions, one.tokens, one.num_forced) for one in lopa] == [
        (one.positions, one.tokens, one.num_forced) for one in fast
    ]
    assert from_lopa.answer == from_fast.answer


def test_its_threshold_is_strict_where_fast_dllms_is_not() -> None:
    half = torch.full((16,), float("-inf"))
    half[3] = half[4] = 0.0
    assert half.softmax(-1)[3] == 0.5
    script = table({}, half)
    assert len(rounds_of(ScriptedModel(script), branches=1, tau_conf=0.5)) == 8
    settings = {"max_new_tokens": 8, "block_size": 4, "cache": "none", "threshold": 0.5}
    assert len(create("fast-dllm", ScriptedModel(script), settings).decode([1, 2]).run()) == 2


def test_the_whole_answer_is_on_the_canvas_from_the_first_round_on_and_nothing_is_cached() -> None:
    model = ScriptedModel(table({}))
    rounds_of(model, branches=3)
    for call in model.calls:
        assert (call.start, call.stop, call.num_commit) == (0, 10, 0)
        assert call.visibility.kind == "full"
    assert model.calls[0].tokens == ((1, 2, *[MASK] * 8),)


def test_blocks_open_one_after_another() -> None:
    rounds = rounds_of(ScriptedModel(table({}, sure(3, 0.5))), branches=3)
    order = [position for one in rounds for position in one.positions]
    assert sorted(order[:4]) == [0, 1, 2, 3]
    assert sorted(order[4:]) == [4, 5, 6, 7]


def test_lookaheads_stand_in_the_open_block() -> None:
    rounds = rounds_of(ScriptedModel(table({}, sure(3, 0.5))), branches=8)
    for one in rounds[1:3]:
        assert {branch.position for branch in one.branches} <= {0, 1, 2, 3, None}


def test_a_lookahead_that_fills_the_block_is_judged_by_the_next_one() -> None:
    def script(position: int, window: Mapping[int, int]) -> torch.Tensor:
        return sure(3, 0.95 if position < 5 else 0.5)

    rounds = rounds_of(ScriptedModel(script), branches=2)
    second = rounds[1]
    assert [branch.position for branch in second.branches] == [3, None]
    assert [branch.num_masks for branch in second.branches] == [4, 1]


def test_a_lookahead_that_fills_the_last_slot_of_all_scores_one_and_ends_it() -> None:
    rounds = rounds_of(ScriptedModel(table({}, sure(3, 0.5))), branches=8, max_new_tokens=2)
    last = rounds[-1]
    assert [branch.score for branch in last.branches] == pytest.approx([1.0, 0.5])
    assert (last.positions, last.winner) == ((1,), 0)


def test_random_and_first_winners_end_too() -> None:
    for rule in ("first", "random"):
        for base in ("vanilla", "d2f"):
            rounds = rounds_of(ScriptedModel(table({}, sure(3, 0.5))), branches=4, select=rule, base=base)
            assert sorted(position for one in rounds for position in one.positions) == list(range(8))
