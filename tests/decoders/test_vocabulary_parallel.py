"""Candidates found from parts of the vocabulary are those of the whole vocabulary; logits are never gathered."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fakes_models import tiny_model
from threads import ThreadGroup, on_ranks
from torch import Tensor

from lopa_bench.decoders.confidence import Sampling, candidates, forbid
from lopa_bench.decoders.registry import create
from lopa_bench.decoders.semi_autoregressive import LLaDARule, llada_candidates
from lopa_bench.errors import ConfigError, NaNLogits
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.tensor_parallel import VocabularyPart, span_of, split

VOCABULARY = 37
DTYPES = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def part(group: ThreadGroup, vocabulary: int = VOCABULARY) -> VocabularyPart:
    return VocabularyPart(group, *span_of(vocabulary, group.rank, group.size), vocabulary)


def spread(logits: Tensor, size: int, work: Any) -> list[Any]:
    def own(group: ThreadGroup) -> Any:
        mine = part(group, logits.shape[-1])
        return work(logits[..., mine.start : mine.stop].clone(), mine)

    return on_ranks(size, own)


def some_logits(dtype: torch.dtype = torch.float32, scale: float = 4.0) -> Tensor:
    return (torch.randn(2, 50, VOCABULARY, generator=torch.Generator().manual_seed(3)) * scale).to(dtype)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("strategy", ["probability", "margin", "neg_entropy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_strategy_gives_what_one_process_finds(size: int, strategy: str, dtype: torch.dtype) -> None:
    logits = some_logits(dtype)
    wanted = candidates(forbid(logits.clone(), 36), strategy)
    found = spread(logits, size, lambda own, mine: candidates(forbid(own, 36, mine), strategy, vocabulary=mine))
    for one in found:
        assert all(torch.equal(*pair) for pair in zip(one, found[0], strict=True))
        assert [value.dtype for value in one] == [value.dtype for value in wanted]
        assert torch.equal(one[2], wanted[2])
        for ours, theirs in zip(one[:2], wanted[:2], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("sampling", [Sampling(0.7), Sampling(1.3, top_k=5), Sampling(0.0, top_k=3)])
def test_draws_are_those_of_one_process(sampling: Sampling) -> None:
    logits = some_logits(scale=2.0)
    wanted = candidates(logits, "neg_entropy", sampling, torch.Generator().manual_seed(5))

    def own(mine: Tensor, ids: VocabularyPart) -> tuple[Tensor, Tensor, Tensor]:
        return candidates(mine, "neg_entropy", sampling, torch.Generator().manual_seed(5), ids)

    for found in spread(logits, 3, own):
        assert torch.equal(found[2], wanted[2])
        torch.testing.assert_close(found[:2], wanted[:2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.6), Sampling(0.6, top_k=4)])
@pytest.mark.parametrize("rule", [LLaDARule(), LLaDARule(random=True), LLaDARule(in_float64=False)])
def test_lladas_candidates_are_those_of_one_process(sampling: Sampling, rule: LLaDARule) -> None:
    logits = some_logits()
    wanted = llada_candidates(logits, sampling, rule, torch.Generator().manual_seed(5))

    def own(mine: Tensor, ids: VocabularyPart) -> tuple[Tensor, Tensor, Tensor]:
        return llada_candidates(mine, sampling, rule, torch.Generator().manual_seed(5), ids)

    for found in spread(logits, 2, own):
        assert torch.equal(found[2], wanted[2])
        torch.testing.assert_close(found[:2], wanted[:2], rtol=1e-6, atol=1e-7)


def test_among_equals_the_lowest_id_wins() -> None:
    logits = torch.zeros(1, 3, 10)
    logits[0, 1, [4, 7]] = 2.0
    logits[0, 2, [8, 9]] = 2.0
    for _, _, token in spread(logits, 4, lambda own, mine: candidates(own, vocabulary=mine)):
        assert token.tolist() == [[0, 4, 8]]


def test_a_nucleus_is_refused_in_a_sentence() -> None:
    def drawn(own: Tensor, mine: VocabularyPart) -> Any:
        return candidates(own, "probability", Sampling(0.5, top_p=0.9), torch.Generator(), mine)

    with pytest.raises(ConfigError, match=r"top_p = 0\.9 needs all probabilities in order"):
        spread(some_logits(), 2, drawn)


def test_a_few_numbers_a_row_travel_whatever_the_vocabulary() -> None:
    def sent(group: ThreadGroup) -> int:
        mine = part(group, 4000)
        candidates(torch.randn(1, 64, mine.stop - mine.start), "margin", vocabulary=mine)
        return group.gathered_bytes

    # Largest, sum; best, own, id, two best: float32 of two processes. Then whether memory sufficed.
    assert on_ranks(2, sent) == [(64 * 7 + 1) * 4 * 2] * 2


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("lopa", "dream", {"branches": 4, "block_size": 4, "tau_conf": 0.6}),
    ("lopa", "dream", {"branches": 3, "block_size": 4, "strategy": "margin", "temperature": 0.8}),
    ("lopa", "llada", {"branches": 3, "block_size": 4, "base": "vanilla"}),
    ("d2f", "dream", {"block_size": 4, "strategy": "neg_entropy"}),
    ("fast-dllm", "llada", {"block_size": 4}),
    ("vanilla", "dream", {"rule": "dream"}),
    ("vanilla", "llada", {"block_size": 8, "temperature": 0.5}),
    ("ar", "ar", {"temperature": 0.7}),
]


@pytest.mark.parametrize(("decoder", "kind", "options"), CASES)
def test_every_decoder_gives_the_same_answer(decoder: str, kind: str, options: dict[str, Any]) -> None:
    model = tiny_model(kind, sharpness=2.0)

    def answer(own: LanguageModel) -> tuple[list[int], int]:
        generation = create(decoder, own, {"max_new_tokens": 16, "early_stop": False, **options}).decode([5, 9, 4])
        num_rounds = len(generation.run())
        return generation.answer, num_rounds

    def on_rank(group: ThreadGroup) -> tuple[list[int], int]:
        network = skeleton(model.config)
        parts = split(network, group)
        state = model.network.state_dict()
        cut = {name: parts[name].of(tensor) if name in parts else tensor for name, tensor in state.items()}
        network.load_state_dict(cut, assign=True)
        return answer(LanguageModel(network, model.name))

    assert on_ranks(2, on_rank) == [answer(model)] * 2


def test_logits_that_are_not_numbers_are_noticed_by_all() -> None:
    model = tiny_model()

    def on_rank(group: ThreadGroup) -> str:
        mine = part(group, 16)
        logits = torch.zeros(1, 4, mine.stop - mine.start, dtype=torch.float64)
        logits[0, 2, 0] = float("nan") if group.rank == 1 else 0.0
        decoder = create("d2f", model, {"max_new_tokens": 8})
        decoder.model = LanguageModel(model.network)
        decoder.model.vocabulary = mine
        with pytest.raises(NaNLogits) as caught:
            decoder._score(logits, 0, "probability", torch.Generator())
        return type(caught.value).__name__

    assert on_ranks(2, on_rank) == ["NaNLogits"] * 2
