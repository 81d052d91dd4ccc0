"""From logits to candidates: a token for every slot, its probability, and how sure the model is of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor

from lopa_bench.decoders.vocabulary_parallel import part_candidates
from lopa_bench.errors import NaNLogits

if TYPE_CHECKING:
    from lopa_bench.models.tensor_parallel import VocabularyPart

NAN = float("nan")
STRATEGIES = ("probability", "margin", "neg_entropy")
STRATEGY_ALIASES = {"default": "probability", "confidence": "probability", "margin_confidence": "margin"}


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn; temperature 0 takes the most probable one."""

    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The candidates of one branch on the host, row i standing for absolute position `first` + i.

    Attributes:
        confidence: [rows], by strategy, in the model's dtype as in the authors' programs (rounding decides ties); the
            entropy of float16 in float32.
        probability: [rows], the token's probability; what thresholds are compared with.
        token: [rows] ids.
    """

    first: int
    confidence: Tensor
    probability: Tensor
    token: Tensor

    def at(self, positions: Sequence[int]) -> Scores:
        """The rows of some absolute positions, in that order."""
        rows = torch.tensor(positions, dtype=torch.long) - self.first
        return Scores(0, self.confidence[rows], self.probability[rows], self.token[rows])


@torch.inference_mode()
def forbid(logits: Tensor, token_id: int | None, vocabulary: VocabularyPart | None = None) -> Tensor:
    """Make one id impossible, in place; `vocabulary` says which ids the logits are of, None for all."""
    index = token_id if vocabulary is None or token_id is None else vocabulary.index(token_id)
    if index is not None:
        logits[..., index] = float("-inf")
    return logits


def filter_logits(logits: Tensor, sampling: Sampling) -> Tensor:
    """Divide by the temperature, then keep the nucleus (top-p) and the best k, in the authors' order."""
    if sampling.temperature > 0:
        # With the best logit at 0 no temperature, however small, leaves the dtype's range at the top.
        logits = (logits - logits.amax(dim=-1, keepdim=True)) / sampling.temperature
    if sampling.top_p is not None and sampling.top_p < 1:
        ordered, order = torch.sort(logits, descending=True, dim=-1)
        beyond = torch.cumsum(F.softmax(ordered, dim=-1), dim=-1) > sampling.top_p
        # The token that crosses the border stays in.
        beyond = torch.cat((torch.zeros_like(beyond[..., :1]), beyond[..., :-1]), dim=-1)
        drop = torch.zeros_like(beyond).scatter(-1, order, beyond)
        logits = logits.masked_fill(drop, float("-inf"))
    if sampling.top_k is not None:
        smallest = torch.topk(logits, min(sampling.top_k, logits.shape[-1]), dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    return logits


@torch.inference_mode()
def candidates(
    logits: Tensor,
    strategy: str = "probability",
    sampling: Sampling = Sampling(),
    generator: torch.Generator | None = None,
    vocabulary: VocabularyPart | None = None,
    rows: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Confidence, probability and token of every row, or of some, in the logits' dtype and on their device.

    Args:
        logits: [..., rows, vocab_size], or of the ids in `vocabulary`.
        strategy: `probability` of the token, `margin` between the two best, or `neg_entropy`
            (sum of p log p, natural logarithm, never above 0).
        sampling: temperature, top-p, top-k.
        generator: source of randomness when the temperature is above 0.
        vocabulary: the ids that this process has logits for; others, which call this too, have the rest.
        rows: [n] the rows wanted, on the logits' device; all if not given.

    Returns:
        Three tensors [..., rows].
    """
    if vocabulary is not None:
        return part_candidates(logits, strategy, sampling, generator, vocabulary, rows)
    if rows is not None:
        logits = logits[..., rows, :]
    probabilities = F.softmax(filter_logits(logits, sampling), dim=-1)
    if sampling.temperature > 0:
        flat = probabilities.flatten(0, -2)
        # NaN rows are reported when they reach the host; drawing from them would stop the device first.
        token = torch.multinomial(flat.nan_to_num(nan=1.0), 1, generator=generator).view(probabilities.shape[:-1])
        probability = probabilities.gather(-1, token.unsqueeze(-1)).squeeze(-1)
    else:
        probability, token = probabilities.max(dim=-1)
    if strategy == "margin":
        best = torch.topk(probabilities, 2, dim=-1).values
        return best[..., 0] - best[..., 1], probability, token
    if strategy == "neg_entropy":
        # float16 knows no 1e-10: the logarithm of an impossible token would be infinite, and the sum NaN.
        exact = probabilities.float() if probabilities.dtype == torch.float16 else probabilities
        return (exact + 1e-10).log_().mul_(exact).sum(dim=-1), probability, token
    return probability, probability, token


def confidence_dtype(strategy: str, dtype: torch.dtype) -> torch.dtype:
    """What `candidates` gives confidences in, for logits of a dtype."""
    return torch.float32 if strategy == "neg_entropy" and dtype == torch.float16 else dtype


def to_host(confidence: Tensor, probability: Tensor, token: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bring three equally shaped tensors to the host in one transfer; ids below 2**24 pass through floats unharmed."""
    carrier = torch.float64 if confidence.dtype == torch.float64 else torch.float32
    packed = torch.stack((confidence.to(carrier), probability.to(carrier), token.to(carrier))).cpu()
    if torch.isnan(packed).any():
        raise NaNLogits("the model returned NaN logits; the answer cannot be used")
    confidence, probability = packed[0].to(confidence.dtype), packed[1].to(probability.dtype)
    return confidence, probability, packed[2].to(torch.long)


def host_scores(
    logits: Tensor,
    first: int,
    strategy: str = "probability",
    sampling: Sampling = Sampling(),
    generator: torch.Generator | None = None,
    only: Sequence[int] | None = None,
    vocabulary: VocabularyPart | None = None,
) -> list[Scores]:
    """Candidates of B branches on the host.

    Args:
        logits: [B, rows, vocab_size], row 0 standing at absolute position `first`.
        strategy: as for `candidates`.
        sampling: as for `candidates`.
        generator: as for `candidates`.
        only: absolute positions that candidates are wanted for; the others' confidence and probability are NaN.
        vocabulary: as for `candidates`.
    """
    if only is None or len(only) == logits.shape[1]:
        rows = to_host(*candidates(logits, strategy, sampling, generator, vocabulary))
        return [Scores(first, *branch) for branch in zip(*rows, strict=True)]
    # A row's candidate does not depend on other rows, so that leaving out filled slots changes nothing but the time.
    index = torch.tensor(only, dtype=torch.long) - first
    some = to_host(*candidates(logits, strategy, sampling, generator, vocabulary, index.to(logits.device)))
    spread = [
        torch.full(logits.shape[:2], fill, dtype=one.dtype) for one, fill in zip(some, (NAN, NAN, 0), strict=True)
    ]
    for whole, part in zip(spread, some, strict=True):
        whole[:, index] = part
    return [Scores(first, *branch) for branch in zip(*spread, strict=True)]


def drawn_scores(
    logits: Tensor,
    first: int,
    strategy: str,
    sampling: Sampling,
    seeds: Sequence[int],
    slots: Sequence[Sequence[int]],
    vocabulary: VocabularyPart | None = None,
) -> list[Scores]:
    """Candidates of B branches whose tokens are drawn, each from random numbers of its own.

    A branch's draws then do not hang on the branches that it is computed with. One transfer to the host serves all.

    Args:
        logits: [B, rows, vocab_size], row 0 standing at absolute position `first`.
        strategy: as for `candidates`.
        sampling: with a temperature above 0.
        seeds: one a branch.
        slots: each branch's absolute positions that candidates are wanted for.
        vocabulary: as for `candidates`.
    """
    drawn = []
    for row, seed, wanted in zip(logits, seeds, slots, strict=True):
        generator = torch.Generator(logits.device).manual_seed(seed)
        index = torch.tensor(wanted or [first], dtype=torch.long) - first
        drawn.append(candidates(row, strategy, sampling, generator, vocabulary, index.to(logits.device)))
    together = to_host(*(torch.cat(parts) for parts in zip(*drawn, strict=True)))
    lengths = [max(len(wanted), 1) for wanted in slots]
    found = []
    for wanted, *values in zip(slots, *(part.split(lengths) for part in together), strict=True):
        index = torch.tensor(wanted or [first], dtype=torch.long) - first
        found.append(Scores(first, *(_spread(part, index, logits.shape[1]) for part in values)))
    return found


def _spread(values: Tensor, index: Tensor, length: int) -> Tensor:
    """[length] with values [n] at their places; NaN, or id 0, elsewhere."""
    whole = torch.full((length,), NAN if values.is_floating_point() else 0, dtype=values.dtype)
    whole[index] = values
    return whole
