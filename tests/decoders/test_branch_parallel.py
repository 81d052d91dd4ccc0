"""Branches spread over processes decide as one process does, whatever the number of processes and the protocol."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from fakes_models import tiny_model
from threads import FakeCommunicator, Meeting
from torch import Tensor

from lopa_bench.decoders import branch_parallel
from lopa_bench.decoders.communication import CACHE_PROTOCOLS, BranchGroup, share_of
from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Round
from lopa_bench.errors import CommunicationError, ConfigError, DecodeError, NaNLogits
from lopa_bench.models.exhaustion import SharedOutOfMemory

PROMPT = [5, 9, 4, 7, 3]
OPTIONS = {"max_new_tokens": 24, "block_size": 4, "tau_conf": 0.6, "early_stop": False}


def decode(model: Any, options: dict[str, Any], group: BranchGroup | None = None) -> tuple[list[int], list[Round]]:
    decoder = create("lopa", model, {**OPTIONS, **options})
    decoder.group = group
    generation = decoder.decode(PROMPT, seed=11)
    rounds = generation.run()
    return generation.answer, rounds


def on_ranks(size: int, work: Callable[[FakeCommunicator], Any]) -> tuple[list[Any], Meeting]:
    meeting = Meeting(size)
    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(work, FakeCommunicator(meeting, rank)) for rank in range(size)]
    return [future.exception() or future.result() for future in futures], meeting


def told(rounds: list[Round]) -> list[Any]:
    """All that a round says; a score may differ in its last bits, for products of other sizes round otherwise."""
    return [
        (
            (one.positions, one.tokens, one.winner, one.model_calls, one.branch_forwards, one.num_positions),
            [(info.position, info.token, info.num_masks, pytest.approx(info.score)) for info in one.branches],
        )
        for one in rounds
    ]


@pytest.mark.parametrize("protocol", CACHE_PROTOCOLS)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("branches", [1, 2, 4])
def test_any_number_of_processes_gives_what_one_gives(size: int, branches: int, protocol: str) -> None:
    model = tiny_model("dream", 3, torch.float64, 0.3)
    options = {"branches": branches, "full_attention": False}
    tokens, rounds = decode(model, options)
    results, meeting = on_ranks(size, lambda who: decode(model, options, BranchGroup(who, protocol)))
    for found in results:
        assert found[0] == tokens and told(found[1]) == told(rounds)
    assert (meeting.num_broadcast == 0) == (protocol == "single-phase")


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7}, {"strategy": "margin"}, {"base": "vanilla"}], ids=str)
def test_under_full_attention_the_winners_keys_reach_all(options: dict[str, Any]) -> None:
    model = tiny_model("dream", 4, torch.float64, 0.3)
    tokens, rounds = decode(model, {"branches": 4, **options})
    results, _ = on_ranks(3, lambda who: decode(model, {"branches": 4, **options}, BranchGroup(who)))
    for found in results:
        assert found[0] == tokens and told(found[1]) == told(rounds)
    assert any(one.winner not in (None, len(one.branches) - 1) for one in rounds), "no lookahead ever won"


@pytest.mark.parametrize(
    ("protocol", "full"), [("two-phase", True), ("two-phase", False), ("single-phase", False)], ids=str
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_branches_one_by_one_are_calls_of_their_own_on_any_number_of_processes(
    size: int, protocol: str, full: bool
) -> None:
    model = tiny_model("dream", 3, torch.float64, 0.3)
    options = {"branches": 4, "full_attention": full, "packed": False}
    tokens, rounds = decode(model, options)
    calls: list[int] = []
    predict = model.predict
    model.predict = lambda rows, *rest, **more: calls.append(len(rows)) or predict(rows, *rest, **more)
    results, _ = on_ranks(size, lambda who: decode(model, options, BranchGroup(who, protocol)))
    for found in results:
        assert found[0] == tokens and told(found[1]) == told(rounds)
    assert set(calls) == {1} and max(one.model_calls for one in rounds) == 4


def test_packed_and_one_by_one_draw_the_same_tokens() -> None:
    model = tiny_model("llada", 4, torch.float64, 0.3)
    packed, one_by_one = (decode(model, {"branches": 4, "temperature": 0.9, "packed": on}) for on in (True, False))
    assert packed[0] == one_by_one[0] and len(packed[1]) == len(one_by_one[1])


def test_one_phase_is_refused_where_branches_write_different_keys() -> None:
    model = tiny_model("dream", 3, torch.float64, 0.3)
    results, _ = on_ranks(2, lambda who: decode(model, {"branches": 2}, BranchGroup(who, "single-phase")))
    assert all(isinstance(one, ConfigError) and "block-causal" in str(one) for one in results)


def test_keys_of_branches_are_equal_under_block_causal_visibility_alone() -> None:
    spread = {}
    for full in (False, True):
        model = tiny_model("dream", 4, torch.float64, 0.3)
        differences: list[float] = []
        cache_type = type(model.new_cache(1))
        commit = cache_type.commit

        def watched(cache: Any, branch: int = 0, commit: Any = commit, differences: list[float] = differences) -> None:
            for pair in cache._staged.values():
                differences.extend(float((one - one[:1]).abs().max()) for one in pair)
            commit(cache, branch)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cache_type, "commit", watched)
            decode(model, {"branches": 4, "full_attention": full})
        spread[full] = max(differences)
    assert spread[False] < 1e-12 < 1e-6 < spread[True]


def test_a_failure_on_one_process_makes_all_leave_in_the_same_round() -> None:
    model = tiny_model("dream", 3, torch.float64, 0.3)
    rounds_seen = [0, 0, 0]

    def work(who: FakeCommunicator) -> None:
        decoder = create("lopa", model, {**OPTIONS, "branches": 3})
        decoder.group = BranchGroup(who)
        score = decoder._score_branches

        def failing(generator: Any, logits: Tensor, *rest: Any) -> Any:
            if who.rank == 1 and rounds_seen[1] == 3:
                logits = torch.full_like(logits, float("nan"))
            return score(generator, logits, *rest)

        decoder._score_branches = failing
        for _ in decoder.decode(PROMPT):
            rounds_seen[who.rank] += 1

    results, _ = on_ranks(3, work)
    assert all(isinstance(one, NaNLogits) for one in results), results
    assert rounds_seen == [3, 3, 3]


def test_a_cache_that_one_process_cannot_make_is_told_in_the_first_exchange() -> None:
    model = tiny_model("dream", 3, torch.float64, 0.3)

    def work(who: FakeCommunicator) -> None:
        decoder = create("lopa", model, {**OPTIONS, "branches": 3})
        decoder.group = BranchGroup(who)
        if who.rank == 1:
            decoder.model = NoMemory(model)
        decoder.decode(PROMPT).run()

    results, _ = on_ranks(3, work)
    assert all(isinstance(one, SharedOutOfMemory) for one in results), results


class NoMemory:
    """A model whose caches do not fit."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def new_cache(self, capacity: int) -> None:
        raise torch.OutOfMemoryError(f"no room for {capacity} positions")


def test_processes_that_hold_other_branches_end_the_job() -> None:
    model = tiny_model("dream", 3, torch.float64, 0.3)

    def work(who: FakeCommunicator) -> None:
        decoder = create("lopa", model, {**OPTIONS, "branches": 3})
        decoder.group = BranchGroup(who)
        decoder.decode([*PROMPT[:-1], PROMPT[-1] + who.rank]).run()

    results, _ = on_ranks(2, work)
    assert all(isinstance(one, CommunicationError) and "went apart" in str(one) for one in results), results


def test_an_exchange_as_large_as_logits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_parallel, "MOST_BYTES", 64)
    model = tiny_model("dream", 3, torch.float64, 0.3)
    results, _ = on_ranks(2, lambda who: decode(model, {"branches": 2}, BranchGroup(who)))
    assert all(isinstance(one, DecodeError) and "open slots" in str(one) for one in results), results


def test_shares_cover_all_branches_once() -> None:
    for size in range(1, 7):
        for branches in range(1, 12):
            shares = [list(share_of(branches, rank, size)) for rank in range(size)]
            assert [branch for share in shares for branch in share] == list(range(branches))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
