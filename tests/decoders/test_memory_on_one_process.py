"""Memory that fails one of the holders of a network costs that one answer, on all of them in the same round."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from fakes_models import tiny_model
from threads import FakeCommunicator, Meeting, ThreadGroup, on_ranks
from torch import Tensor

from lopa_bench.decoders import vocabulary_parallel
from lopa_bench.decoders.base import Decoder
from lopa_bench.decoders.communication import BranchGroup
from lopa_bench.decoders.registry import create
from lopa_bench.errors import ProcessFailed
from lopa_bench.harness.driver import generate
from lopa_bench.models.cache import KVCache
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.quantize import quantize
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.tensor_parallel import VocabularyPart, split
from lopa_bench.results.schema import Why

PROMPT = [5, 9, 4]
LACK = torch.OutOfMemoryError("out of memory, for a test\nmore of it")
OPTIONS: dict[str, dict[str, Any]] = {
    "lopa": {"branches": 3, "block_size": 4, "tau_conf": 0.6},
    "d2f": {"block_size": 4, "temperature": 0.7, "top_k": 3},
    "fast-dllm": {"block_size": 4, "temperature": 0.5},
}
# Made once: the seed of its random numbers is all threads'.
WHOLE = {kind: tiny_model(kind, sharpness=2.0) for kind in ("dream", "llada")}


def part_of(group: ThreadGroup, kind: str) -> LanguageModel:
    """This rank's part of one network."""
    whole = WHOLE[kind]
    network = skeleton(whole.config)
    parts = split(network, group)
    state = whole.network.state_dict()
    network.load_state_dict({name: parts[name].of(t) if name in parts else t for name, t in state.items()}, assign=True)
    return LanguageModel(network, whole.name)


def decoder_on(group: ThreadGroup, name: str, eight_bit: bool = False) -> Decoder:
    model = part_of(group, "llada" if name == "fast-dllm" else "dream")
    if eight_bit:
        quantize(model.network)
    return create(name, model, {"max_new_tokens": 16, "early_stop": False, **OPTIONS[name]})


def fail_in(module: Any, attribute: str, call: int) -> None:
    """Let a module's method run out of memory in its call number `call`, before it does anything."""
    whole, num_calls = getattr(module, attribute), 0

    def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == call:
            raise LACK
        return whole(*arguments, **more)

    object.__setattr__(module, attribute, counted)


PLACES = {
    "embedding": lambda network: (network, "_rope"),
    "attention": lambda network: (network.layers[0].attention, "mix"),
    "feed-forward": lambda network: (network.layers[1].mlp, "forward"),
    "last norm": lambda network: (network.norm, "forward"),
    "head": lambda network: (network, "logits"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "eight_bit"), [("lopa", False), ("d2f", True), ("fast-dllm", False)])
def test_all_leave_the_answer_in_the_same_round_and_make_the_next(name: str, eight_bit: bool, place: str) -> None:
    def on_rank(group: ThreadGroup) -> tuple[Any, ...]:
        decoder = decoder_on(group, name, eight_bit)
        wanted = generate(decoder, PROMPT)
        if group.rank == 1:
            fail_in(*PLACES[place](decoder.model.network), 2)
        failed, after = generate(decoder, PROMPT), generate(decoder, PROMPT)
        return wanted.answer, after.answer, failed.why, failed.work.rounds, failed.error

    first, second = on_ranks(2, on_rank)
    assert first[:4] == second[:4]
    wanted, after, why, _, sentence = first
    assert after == wanted and why == Why.OUT_OF_MEMORY
    assert sentence == "out_of_memory: memory did not suffice on rank 1 of the network"
    assert second[4] == f"{sentence}: out of memory, for a test"


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
@pytest.mark.parametrize("name", OPTIONS)
def test_candidates_that_one_cannot_compute_cost_that_answer(
    name: str, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, num_calls = vocabulary_parallel._gather, 0

    def failing(rows: list[Tensor], dtype: torch.dtype, part: VocabularyPart) -> Tensor:
        nonlocal num_calls
        num_calls += part.group.rank == 0
        if part.group.rank == 0 and num_calls == stage:
            raise LACK
        return whole(rows, dtype, part)

    monkeypatch.setattr(vocabulary_parallel, "_gather", failing)

    def on_rank(group: ThreadGroup) -> tuple[Any, ...]:
        decoder = decoder_on(group, name)
        failed, after, again = (generate(decoder, PROMPT) for _ in range(3))
        return failed.why, failed.work.rounds, after.why, after.answer, again.answer

    first, second = on_ranks(2, on_rank)
    assert first == second
    assert (first[0], first[2]) == (Why.OUT_OF_MEMORY, None) and first[3] == first[4]


def test_a_cache_that_one_has_no_room_for_costs_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made, turns = KVCache.__init__, iter(range(2))

    def failing(cache: KVCache, *rest: Any) -> None:
        if next(turns) == 1:
            raise LACK
        made(cache, *rest)

    monkeypatch.setattr(KVCache, "__init__", failing)

    def on_rank(group: ThreadGroup) -> tuple[Why | None, int]:
        outcome = generate(decoder_on(group, "lopa"), PROMPT)
        return outcome.why, outcome.work.rounds

    assert on_ranks(2, on_rank) == [(Why.OUT_OF_MEMORY, 0)] * 2


def test_an_error_of_another_kind_is_no_answers() -> None:
    def on_rank(group: ThreadGroup) -> None:
        decoder = decoder_on(group, "d2f")
        if group.rank == 1:
            object.__setattr__(decoder.model.network.norm, "forward", lambda hidden: 1 / 0)
        generate(decoder, PROMPT)

    with pytest.raises(ZeroDivisionError):
        on_ranks(2, on_rank)


def test_memory_that_fails_one_between_two_forwards_ends_the_job() -> None:
    def on_rank(group: ThreadGroup) -> None:
        decoder = decoder_on(group, "lopa")
        if group.rank == 1:
            fail_in(decoder, "_judge", 2)
        generate(decoder, PROMPT)

    with pytest.raises(ProcessFailed, match="memory did not suffice between two forwards: out of memory, for a test"):
        on_ranks(2, on_rank)


def test_four_that_share_branches_and_network_leave_together() -> None:
    networks = [(threading.Barrier(2, timeout=30), [None] * 2) for _ in range(2)]
    branches = [Meeting(2) for _ in range(2)]

    def on_rank(rank: int) -> tuple[Any, ...]:
        place, part = divmod(rank, 2)
        decoder = decoder_on(ThreadGroup(*networks[place], part), "lopa")
        decoder.group = BranchGroup(FakeCommunicator(branches[part], place))  # type: ignore[attr-defined]
        wanted = generate(decoder, PROMPT)
        if rank == 3:
            fail_in(decoder.model.network.layers[1].mlp, "forward", 1)
        failed, after = generate(decoder, PROMPT), generate(decoder, PROMPT)
        return wanted.answer, after.answer, failed.why, failed.work.rounds

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(on_rank, range(4)))
    assert found == [found[0]] * 4
    wanted, after, why, num_rounds = found[0]
    assert wanted == after and why == Why.OUT_OF_MEMORY and num_rounds > 0
