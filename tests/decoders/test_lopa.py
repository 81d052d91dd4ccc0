"""LoPA's rounds on scripted models: what is looked ahead to, who wins, what the winner keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from fakes_models import EOS, MASK, ScriptedModel, sure, table, tiny_model

from lopa_bench.decoders.executors import PackedExecutor, SequentialExecutor
from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Round
from lopa_bench.models.cache import KVCache
from lopa_bench.models.visibility import block_causal

PROMPT = [1, 2]


def rounds_of(model: ScriptedModel, **options: Any) -> list[Round]:
    settings = {"max_new_tokens": 4, "block_size": 4, "strategy": "probability", **options}
    return create("lopa", model, settings).decode(PROMPT).run()


def unsure(position: int, window: Mapping[int, int]) -> torch.Tensor:
    """Slots 2, 3, 4, 5 with probabilities 0.8, 0.3, 0.6, 0.5, whatever else is known."""
    return sure(position, {2: 0.8, 3: 0.3, 4: 0.6, 5: 0.5}[position])


def test_the_first_round_has_the_anchor_alone_and_the_next_its_lookaheads_best_first() -> None:
    first, second, *_ = rounds_of(ScriptedModel(unsure), branches=3)
    assert [one.position for one in first.branches] == [None]
    assert (first.positions, first.num_forced) == ((0,), 1)
    assert [(one.position, one.token) for one in second.branches] == [(2, 4), (3, 5), (None, None)]
    assert [one.creation for one in second.branches] == pytest.approx([0.6, 0.5, 1.0])
    assert [one.num_masks for one in second.branches] == [2, 2, 3]


def test_the_score_is_the_mean_confidence_of_the_masks_that_are_left() -> None:
    second = rounds_of(ScriptedModel(unsure), branches=3)[1]
    # Left to doubt: 0.3 and 0.5; 0.3 and 0.6; all three.
    assert [one.score for one in second.branches] == pytest.approx([0.4, 0.45, 1.4 / 3])
    assert second.winner == 2
    assert second.positions == (2,)


def test_the_winner_is_filled_by_the_logits_that_it_was_scored_with() -> None:
    def helped_by_the_last(position: int, window: Mapping[int, int]) -> torch.Tensor:
        return sure(position + (6 if window[5] != MASK else 0), 0.95 if window[5] != MASK else 0.5 - position / 100)

    model = ScriptedModel(helped_by_the_last)
    rounds = rounds_of(model, branches=4)
    second = rounds[1]
    assert second.branches[second.winner].position == 3
    assert second.positions == (3, 1, 2), "its lookahead first, then what the rule fills"
    assert second.tokens == (5, 9, 10)
    assert len(rounds) == len(model.calls) == 2


@pytest.mark.parametrize(("candidates", "expected"), [("active", [2, 3, None]), ("full", [None])])
def test_candidates_may_be_held_to_full_blocks(candidates: str, expected: list[int | None]) -> None:
    # The second block opens when the first is half filled, and is not full before the first is done.
    rows = {2: sure(5, 0.95), 3: sure(5, 0.5), 4: sure(5, 0.7), 5: sure(5, 0.6)}
    options = {"block_size": 2, "tau_add": 0.5, "tau_act": 0.95, "select": "anchor"}
    rounds = rounds_of(ScriptedModel(table(rows)), branches=4, candidates=candidates, **options)
    assert [one.positions for one in rounds[:2]] == [(0,), (1,)]
    assert [one.position for one in rounds[2].branches] == expected


def test_no_candidate_is_said_when_a_round_leaves_no_mask_behind() -> None:
    rounds = rounds_of(ScriptedModel(table({}, sure(3, 0.95))), branches=4, max_new_tokens=8)
    assert [one.no_candidate for one in rounds] == [True, True]
    assert [one.branch_forwards for one in rounds] == [1, 1]
    alone = rounds_of(ScriptedModel(table({}, sure(3, 0.95))), branches=1, max_new_tokens=8)
    assert [one.no_candidate for one in alone] == [False, False]


def test_branches_of_unequal_length_are_padded_and_the_padding_is_seen_by_nobody() -> None:
    model = ScriptedModel(table({position: sure(3, 0.5 - position / 100) for position in range(2, 10)}))
    rounds = rounds_of(model, branches=3, max_new_tokens=8, tau_add=0.5, full_attention=False)
    unequal = [call for call in model.calls if len(set(call.lengths)) > 1]
    assert unequal, "a lookahead pushed its own last block over tau_add"
    for call in unequal:
        for row, length in zip(call.tokens, call.lengths, strict=True):
            assert set(row[length:]) <= {MASK}
    assert any(one.num_positions < one.branch_forwards * one.input_length for one in rounds)


def test_an_eos_looked_ahead_to_stops_only_the_branch_that_has_it() -> None:
    rows = {2: sure(5, 0.6), 3: sure(EOS, 0.5), 4: sure(5, 0.3), 5: sure(5, 0.3)}
    model = ScriptedModel(table(rows, sure(5, 0.2)))
    decoder = create(
        "lopa", model, {"max_new_tokens": 8, "block_size": 4, "branches": 2, "tau_add": 0.25, "select": "anchor"}
    )
    generation = decoder.decode(PROMPT)
    next(iter(generation))
    next(iter(generation))
    lookahead, anchor = model.calls[1].lengths
    assert lookahead == anchor - 4, "after an EOS no block is appended, in that branch"
    generation.run()


def test_the_blocks_that_a_lookahead_completes_stay_active_for_its_round() -> None:
    """Only what the fill completed goes into the cache; a branch whose own token completed a block goes on with it."""
    rows = {2: sure(5, 0.95), 3: sure(5, 0.6)}
    model = ScriptedModel(table(rows, sure(6, 0.3)))
    rounds = rounds_of(model, branches=2, block_size=2, max_new_tokens=4)
    second = rounds[1]
    assert second.branches[0].num_masks == 2, "its completed block holds no mask, its new one two"
    assert model.calls[1].num_commit == 0, "nothing was finished when the branches were made"


@pytest.mark.parametrize("full_attention", [True, False])
def test_everything_or_only_earlier_blocks_is_seen(full_attention: bool) -> None:
    model = ScriptedModel(unsure)
    rounds_of(model, branches=2, full_attention=full_attention)
    assert {call.visibility.kind for call in model.calls} == {"full" if full_attention else "block-causal"}


def test_the_prompt_goes_through_once() -> None:
    model = ScriptedModel(table({}, sure(3, 0.5)))
    rounds = rounds_of(model, branches=3, max_new_tokens=12)
    assert [one.prefill for one in rounds] == [True] + [False] * (len(rounds) - 1)
    assert (model.calls[0].start, model.calls[0].num_commit) == (0, 2)
    assert all(call.start >= 2 for call in model.calls[1:])


def test_finished_blocks_are_committed_once_and_in_order() -> None:
    model = ScriptedModel(table({}, sure(3, 0.5)))
    rounds_of(model, branches=3, max_new_tokens=12)
    committed = [(call.start, call.start + call.num_commit) for call in model.calls if call.num_commit]
    assert committed == [(0, 2), (2, 6), (6, 10)], "the last block is never cached"


@pytest.mark.parametrize("packed", [True, False])
def test_the_keys_that_are_kept_are_the_winners(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    kind = PackedExecutor if packed else SequentialExecutor
    commit = kind.commit

    def noted(self: Any, winner: int) -> None:
        kept.append(winner)
        commit(self, winner)

    monkeypatch.setattr(kind, "commit", noted)
    model = tiny_model("dream", seed=3, sharpness=0.3, eos_token_id=None)
    options = {"max_new_tokens": 24, "block_size": 3, "branches": 4, "packed": packed}
    rounds = create("lopa", model, options).decode(PROMPT).run()
    winners = [one.winner for one in rounds]
    assert len(kept) > 3
    assert len(set(kept)) > 1, "not always the same branch"
    position = 0
    for winner in kept:
        position = winners.index(winner, position) + 1


def test_the_stored_prefix_is_what_the_winner_alone_would_have_left() -> None:
    """Each block's keys, recomputed by a decoding whose only branch is the one that won, are those in the cache."""
    model = tiny_model("dream", seed=3, sharpness=0.3, eos_token_id=None)
    caches: list[KVCache] = []
    new_cache = model.new_cache
    model.new_cache = lambda capacity: caches.append(new_cache(capacity)) or caches[-1]  # type: ignore[method-assign]
    options = {"max_new_tokens": 12, "block_size": 3, "branches": 4, "full_attention": False}
    generation = create("lopa", model, options).decode(PROMPT)
    generation.run()
    [cache] = caches
    assert cache.length >= 8
    plain = new_cache(cache.length)
    tokens = torch.tensor([generation.canvas.tokens[: cache.length]])
    model.predict(
        tokens, (2, cache.length), cache=plain, num_commit=cache.length, visibility=block_causal(len(PROMPT), 3)
    )
    torch.testing.assert_close(cache.keys[..., : cache.length, :], plain.keys)
    torch.testing.assert_close(cache.values[..., : cache.length, :], plain.values)


def test_a_slot_for_which_the_rule_chose_the_mask_id_is_not_looked_ahead_to() -> None:
    rows = {2: sure(MASK, 0.8), 3: sure(3, 0.6), 4: sure(3, 0.5), 5: sure(3, 0.4)}
    options = {"max_new_tokens": 4, "block_size": 4, "branches": 8, "allow_mask_token": True}
    generation = create("lopa", ScriptedModel(table(rows)), options).decode(PROMPT)
    first, second = next(iter(generation)), next(iter(generation))
    assert first.positions == ()
    assert [one.position for one in second.branches] == [1, 2, 3, None]
