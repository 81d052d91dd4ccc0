"""Candidates where every process has the logits of a part of the vocabulary, which are never gathered.

Two small exchanges a call: each process's largest logit and the sum of its exponentials, from which all know the
probabilities of their own ids; then its best id, the two largest probabilities and its share of the entropy. Among
equal probabilities the lowest id wins, as on one process. Random numbers are those that one process would draw: each
draws them for the whole vocabulary and keeps its own. Where memory does not suffice for one process, all of them give
up (`models.shared_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lopa_bench.errors import ConfigError
from lopa_bench.models.shared_steps import Exchange, SharedSteps

if TYPE_CHECKING:
    from lopa_bench.decoders.confidence import Sampling
    from lopa_bench.decoders.semi_autoregressive import LLaDARule
    from lopa_bench.models.tensor_parallel import VocabularyPart

NO_ID = float("inf")


def check_sampling(sampling: Sampling) -> None:
    """Refuse what would need the whole vocabulary in order.

    Raises:
        ConfigError: a nucleus is asked for.
    """
    if sampling.top_p is not None and sampling.top_p < 1:
        raise ConfigError(
            f"top_p = {sampling.top_p} needs all probabilities in order, which tensor parallelism never gathers; "
            "leave top_p out, or spread over branches or samples instead"
        )


def part_candidates(
    logits: Tensor,
    strategy: str,
    sampling: Sampling,
    generator: torch.Generator | None,
    part: VocabularyPart,
    rows: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `confidence.candidates`, from this process's logits [..., rows, part.stop - part.start].

    Returns:
        Confidence, probability and token [..., rows], the same on every process.

    Raises:
        ConfigError: sampling from a nucleus.
        SharedOutOfMemory: memory did not suffice for one of the processes.
    """
    check_sampling(sampling)
    told = 3 + {"margin": 2, "neg_entropy": 1}.get(strategy, 0)
    numbers = [*_filtering(sampling, part), 2, told]
    shape = logits.shape[:-1] if rows is None else (*logits.shape[:-2], len(rows))

    def work(part: VocabularyPart) -> tuple[Tensor, Tensor, Tensor]:
        chosen = logits if rows is None else logits[..., rows, :]
        return _candidates(chosen, strategy, sampling, generator, part)

    return _together(work, numbers, tuple(shape), _carrier(logits.dtype), logits.device, part)


def _candidates(
    logits: Tensor, strategy: str, sampling: Sampling, generator: torch.Generator | None, part: VocabularyPart
) -> tuple[Tensor, Tensor, Tensor]:
    probabilities = _softmax(_filtered(logits, sampling, part), part)
    preferred = probabilities
    if sampling.temperature > 0:
        preferred = probabilities / _exponential(probabilities, generator, part)
    best, index = preferred.max(dim=-1)
    own = probabilities.gather(-1, index.unsqueeze(-1)).squeeze(-1)
    told = [best, own, (index + part.start).to(_carrier(logits.dtype))]
    if strategy == "margin":
        told += _two_best(probabilities)
    elif strategy == "neg_entropy":
        told.append(_entropy(probabilities))
    gathered = _gather(told, logits.dtype, part)
    probability, token = _first_best(gathered)
    probability = probability.to(logits.dtype)
    if strategy == "margin":
        pairs = torch.topk(torch.cat((gathered[:, 3], gathered[:, 4])), 2, dim=0).values.to(logits.dtype)
        return pairs[0] - pairs[1], probability, token
    if strategy == "neg_entropy":
        total = gathered[:, 3].sum(dim=0)
        return total.to(torch.float32 if logits.dtype == torch.float16 else logits.dtype), probability, token
    return probability, probability, token


def part_llada_candidates(
    logits: Tensor, sampling: Sampling, rule: LLaDARule, generator: torch.Generator, part: VocabularyPart
) -> tuple[Tensor, Tensor, Tensor]:
    """As `semi_autoregressive.llada_candidates`, from this process's logits [B, rows, part.stop - part.start].

    Raises:
        ConfigError: sampling from a nucleus.
        SharedOutOfMemory: memory did not suffice for one of the processes.
    """
    numbers = [2, 3]
    if sampling.temperature > 0:
        check_sampling(sampling)
        numbers = [*_filtering(sampling, part), *numbers]

    def work(part: VocabularyPart) -> tuple[Tensor, Tensor, Tensor]:
        return _llada_candidates(logits, sampling, rule, generator, part)

    return _together(work, numbers, tuple(logits.shape[:-1]), torch.float64, logits.device, part)


def _llada_candidates(
    logits: Tensor, sampling: Sampling, rule: LLaDARule, generator: torch.Generator, part: VocabularyPart
) -> tuple[Tensor, Tensor, Tensor]:
    exact = logits.double()
    noisy = exact
    if sampling.temperature > 0:
        noisy = _filtered(exact, sampling, part)
        shape = (*noisy.shape[:-1], part.total)
        uniform = torch.rand(shape, generator=generator, device=noisy.device, dtype=torch.float64)
        noisy = noisy - torch.log(-torch.log(uniform[..., part.start : part.stop]))
    best, index = noisy.max(dim=-1)
    weights = _softmax(exact if rule.in_float64 else logits, part)
    own = weights.gather(-1, index.unsqueeze(-1)).squeeze(-1)
    gathered = _gather([best, own, (index + part.start).double()], torch.float64, part)
    probability, token = _first_best(gathered)
    probability = probability.to(weights.dtype)
    if rule.random:
        confidence = torch.rand(probability.shape, generator=generator, device=logits.device, dtype=torch.float64)
        return confidence, probability, token
    return probability, probability, token


def _together(
    work: Callable[[VocabularyPart], tuple[Tensor, Tensor, Tensor]],
    numbers: Sequence[int],
    shape: tuple[int, ...],
    carrier: torch.dtype,
    device: torch.device,
    part: VocabularyPart,
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what exchanges `numbers` a row of `shape`, one exchange after the other; all come through it or none."""
    steps = SharedSteps(part.group)
    exchanges = [Exchange(False, (number, *shape), carrier) for number in numbers]
    return steps.take(lambda: work(replace(part, group=steps)), exchanges, device)


def _filtering(sampling: Sampling, part: VocabularyPart) -> list[int]:
    """Numbers a row in each exchange of `_filtered`."""
    return [1] * (sampling.temperature > 0) + ([_best_told(sampling.top_k, part)] if _cuts(sampling, part) else [])


def _cuts(sampling: Sampling, part: VocabularyPart) -> bool:
    return sampling.top_k is not None and sampling.top_k < part.total


def _best_told(top_k: int | None, part: VocabularyPart) -> int:
    """How many of its best logits a process tells, for all of the best `top_k` to be among them."""
    return min(top_k or 0, -(-part.total // part.group.size))


def _carrier(dtype: torch.dtype) -> torch.dtype:
    """What small exchanges travel in; float32 holds ids below 2**24 and all narrower numbers unharmed."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _gather(rows: list[Tensor], dtype: torch.dtype, part: VocabularyPart) -> Tensor:
    """Some numbers a row [...] of every process: [processes, numbers, ...]."""
    return part.group.all_gather(torch.stack([row.to(_carrier(dtype)) for row in rows]))


def _first_best(gathered: Tensor) -> tuple[Tensor, Tensor]:
    """Probability and id of what is preferred most, the lowest id among equals; [processes, (best, own, id), ...]."""
    best, own, ids = gathered[:, 0], gathered[:, 1], gathered[:, 2]
    lowest = ids.where(best == best.amax(dim=0), NO_ID).amin(dim=0)
    probability = own.where(ids == lowest, 0).amax(dim=0)
    # A row of NaN has no best; it is reported when it reaches the host.
    broken = torch.isnan(best).any(dim=0)
    return probability.masked_fill(broken, float("nan")), lowest.masked_fill(broken, 0).long()


def _softmax(logits: Tensor, part: VocabularyPart) -> Tensor:
    """Probabilities of this process's ids, in the logits' dtype, computed in float32 or wider as torch does."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    largest = wide.amax(dim=-1)
    # Where every id of this process is ruled out, its share is 0 and not NaN.
    shift = largest.masked_fill(torch.isneginf(largest), 0)
    share = (wide - shift.unsqueeze(-1)).exp_().sum(dim=-1)
    gathered = _gather([largest, share], logits.dtype, part)
    top = gathered[:, 0].amax(dim=0)
    total = (gathered[:, 1] * (gathered[:, 0] - top).exp()).sum(dim=0)
    return (wide - top.unsqueeze(-1)).exp_().div_(total.unsqueeze(-1)).to(logits.dtype)


def _filtered(logits: Tensor, sampling: Sampling, part: VocabularyPart) -> Tensor:
    """As `confidence.filter_logits`, without a nucleus."""
    if sampling.temperature > 0:
        top = _gather([logits.amax(dim=-1)], logits.dtype, part).amax(dim=(0, 1)).to(logits.dtype)
        logits = (logits - top.unsqueeze(-1)) / sampling.temperature
    if sampling.top_k is not None and _cuts(sampling, part):
        count = _best_told(sampling.top_k, part)
        padded = torch.nn.functional.pad(logits, (0, max(0, count - logits.shape[-1])), value=float("-inf"))
        rows = list(torch.topk(padded, count, dim=-1).values.unbind(-1))
        gathered = _gather(rows, logits.dtype, part).flatten(0, 1).to(logits.dtype)
        smallest = torch.topk(gathered, sampling.top_k, dim=0).values[-1]
        logits = logits.masked_fill(logits < smallest.unsqueeze(-1), float("-inf"))
    return logits


def _exponential(like: Tensor, generator: torch.Generator | None, part: VocabularyPart) -> Tensor:
    """Noise by which torch.multinomial draws: the largest p / noise is a draw from p."""
    num_rows = like[..., 0].numel()
    noise = torch.empty((num_rows, part.total), device=like.device, dtype=like.dtype).exponential_(generator=generator)
    return noise[:, part.start : part.stop].view(like.shape)


def _two_best(probabilities: Tensor) -> list[Tensor]:
    padded = torch.nn.functional.pad(probabilities, (0, max(0, 2 - probabilities.shape[-1])))
    return list(torch.topk(padded, 2, dim=-1).values.unbind(-1))


def _entropy(probabilities: Tensor) -> Tensor:
    """This process's share of the sum of p log p, whose terms round as on one process."""
    exact = probabilities.float() if probabilities.dtype == torch.float16 else probabilities
    return (exact + 1e-10).log_().mul_(exact).sum(dim=-1, dtype=_carrier(exact.dtype))
