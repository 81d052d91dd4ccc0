"""From logits to candidates: strategies, filters, draws, and what must not pass."""

from __future__ import annotations

import math

import pytest
import torch
from fakes_models import sure
from scipy.stats import chisquare

from lopa_bench.decoders.confidence import STRATEGIES, Sampling, candidates, filter_logits, forbid, host_scores, to_host
from lopa_bench.decoders.semi_autoregressive import LLaDARule, llada_candidates
from lopa_bench.errors import DecodeError

# Probabilities 1/2, 1/4, 1/8, 1/8.
HALVES = torch.log(torch.tensor([[[0.5, 0.25, 0.125, 0.125]]], dtype=torch.float64))
DRAWS = 4000


def test_probability_is_that_of_the_best_token() -> None:
    confidence, probability, token = candidates(HALVES)
    assert (confidence.item(), probability.item(), token.item()) == pytest.approx((0.5, 0.5, 0))


def test_margin_and_negative_entropy() -> None:
    margin, probability, _ = candidates(HALVES, "margin")
    assert (margin.item(), probability.item()) == pytest.approx((0.25, 0.5))
    entropy, probability, _ = candidates(HALVES, "neg_entropy")
    assert entropy.item() == pytest.approx(-1.75 * math.log(2), abs=1e-6)
    assert probability.item() == pytest.approx(0.5)


def test_ties_go_to_the_first_token() -> None:
    assert candidates(torch.zeros(1, 1, 8))[2].item() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_negative_entropy_is_finite_where_probabilities_vanish(dtype: torch.dtype) -> None:
    logits = torch.tensor([[[30.0, 0.0, -30.0, float("-inf")]]]).to(dtype)
    [scores] = host_scores(logits, 0, "neg_entropy")
    assert -1e-3 < scores.confidence[0] <= 0


def test_a_forbidden_token_is_never_the_candidate() -> None:
    logits = forbid(HALVES.clone(), 0)
    _, probability, token = candidates(logits)
    assert (probability.item(), token.item()) == pytest.approx((0.5, 1))
    assert torch.equal(forbid(HALVES.clone(), None), HALVES)


def support(sampling: Sampling) -> list[int]:
    return filter_logits(HALVES, sampling)[0, 0].isfinite().nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(1.0), [0, 1, 2, 3]),
        (Sampling(1.0, top_p=0.6), [0, 1]),  # the token that crosses the border stays in
        (Sampling(1.0, top_p=0.4), [0]),
        (Sampling(1.0, top_p=1.0), [0, 1, 2, 3]),
        (Sampling(1.0, top_p=1e-9), [0]),
        (Sampling(1.0, top_k=2), [0, 1]),
        (Sampling(1.0, top_k=99), [0, 1, 2, 3]),
        (Sampling(1.0, top_p=0.6, top_k=1), [0]),
    ],
)
def test_filters_keep_the_best(sampling: Sampling, kept: list[int]) -> None:
    assert support(sampling) == kept


def test_temperature_sharpens_before_the_nucleus_is_cut() -> None:
    assert support(Sampling(1.0, top_p=0.74)) == [0, 1]
    assert support(Sampling(0.5, top_p=0.72)) == [0]  # 0.5 ** 2 of 0.34375 is 0.727


@pytest.mark.parametrize(("sampling", "probability"), [(Sampling(top_p=0.6), 2 / 3), (Sampling(top_k=1), 1.0)])
def test_without_a_temperature_the_filters_only_raise_the_probability(sampling: Sampling, probability: float) -> None:
    _, found, token = candidates(HALVES, sampling=sampling)
    assert (found.item(), token.item()) == (pytest.approx(probability), 0)
    assert llada_candidates(HALVES, sampling, LLaDARule(), torch.Generator())[1].item() == pytest.approx(0.5)


@pytest.mark.parametrize("sampling", [Sampling(1.0, top_p=0.6), Sampling(1.0, top_k=2)])
def test_draws_stay_inside_the_support(sampling: Sampling) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = HALVES.expand(1, 500, 4)
    assert set(candidates(logits, sampling=sampling, generator=generator)[2].unique().tolist()) == {0, 1}
    drawn = llada_candidates(logits, sampling, LLaDARule(), generator)[2]
    assert set(drawn.unique().tolist()) == {0, 1}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("program", ["dream", "llada"])
def test_draws_follow_the_softmax_at_the_temperature(program: str, temperature: float) -> None:
    generator = torch.Generator().manual_seed(7)
    logits = HALVES.expand(1, DRAWS, 4)
    if program == "dream":
        token = candidates(logits, "probability", Sampling(temperature), generator)[2]
    else:
        token = llada_candidates(logits, Sampling(temperature), LLaDARule(), generator)[2]
    expected = torch.softmax(HALVES[0, 0] / temperature, dim=-1) * DRAWS
    assert chisquare(torch.bincount(token.flatten(), minlength=4).numpy(), expected.numpy()).pvalue > 0.01


def test_lladas_probability_is_that_without_the_temperature() -> None:
    generator = torch.Generator().manual_seed(7)
    _, probability, token = llada_candidates(HALVES.expand(1, 50, 4), Sampling(0.3), LLaDARule(), generator)
    torch.testing.assert_close(probability, HALVES.exp()[0, 0][token])


def test_lladas_program_ranks_in_the_models_dtype_and_fast_dllms_in_float64() -> None:
    logits = HALVES.to(torch.bfloat16)
    generator = torch.Generator()
    exact = llada_candidates(logits, Sampling(), LLaDARule(), generator)[0]
    rounded = llada_candidates(logits, Sampling(), LLaDARule(in_float64=False), generator)[0]
    assert (exact.dtype, rounded.dtype) == (torch.float64, torch.bfloat16)


def test_random_remasking_ranks_at_random_and_keeps_the_token() -> None:
    confidence, probability, token = llada_candidates(
        HALVES.expand(1, 50, 4), Sampling(), LLaDARule(random=True), torch.Generator().manual_seed(1)
    )
    assert len(confidence.unique()) == 50
    assert token.unique().tolist() == [0]
    torch.testing.assert_close(probability, torch.full((1, 50), 0.5, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-4, 1e-8])
def test_a_temperature_near_zero_is_greedy(dtype: torch.dtype, temperature: float) -> None:
    logits = torch.stack([sure(token, 0.9) for token in range(16)])[None].to(dtype) + 20
    token = candidates(logits, "probability", Sampling(temperature), torch.Generator().manual_seed(3))[2]
    assert token[0].tolist() == list(range(16))
    token = llada_candidates(logits, Sampling(temperature), LLaDARule(), torch.Generator().manual_seed(3))[2]
    assert token[0].tolist() == list(range(16))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_an_error(bad: float, temperature: float) -> None:
    logits = torch.zeros(1, 3, 4)
    logits[0, 1, 2] = bad
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(DecodeError, match="NaN logits"):
        host_scores(logits, 0, "neg_entropy", Sampling(temperature), generator)
    with pytest.raises(DecodeError, match="NaN logits"):
        to_host(*llada_candidates(logits, Sampling(temperature), LLaDARule(random=True), generator))


def test_large_token_ids_survive_the_transfer() -> None:
    ids = torch.tensor([[151_666, 16_777_215]])
    values = torch.tensor([[0.25, 0.5]], dtype=torch.bfloat16)
    confidence, probability, token = to_host(values, values, ids)
    assert token.tolist() == ids.tolist()
    assert (confidence.dtype, probability.dtype) == (torch.bfloat16, torch.bfloat16)
    assert torch.equal(probability, values)


def test_rows_are_read_by_absolute_position() -> None:
    logits = torch.stack([sure(token, 0.5) for token in range(4)])[None]
    [scores] = host_scores(logits, 10)
    assert scores.at([12, 10]).token.tolist() == [2, 0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_candidates_of_some_positions_are_those_among_all(strategy: str) -> None:
    logits = torch.randn(3, 7, 11, generator=torch.Generator().manual_seed(3))
    everywhere = host_scores(logits.clone(), 20, strategy)
    some = host_scores(logits.clone(), 20, strategy, only=[21, 25])
    for whole, part in zip(everywhere, some, strict=True):
        for name in ("confidence", "probability", "token"):
            assert torch.equal(getattr(whole.at([21, 25]), name), getattr(part.at([21, 25]), name))
        assert part.confidence.isnan().sum() == 5
