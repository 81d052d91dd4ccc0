"""The loop of LLaDA and Fast-dLLM: block after block on a whole canvas of masks, with or without a cache.

The caches are approximate (Fast-dLLM, section 3.2): the first forward of a block computes every position; after it the
prefix (`prefix`), or the prefix and everything behind the block (`dual`), is held as it was then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lopa_bench.decoders.base import Decoder, fill, filled, whole_canvas
from lopa_bench.decoders.canvas import Block, BlockState, Canvas
from lopa_bench.decoders.confidence import Sampling, Scores, filter_logits, forbid, to_host
from lopa_bench.decoders.rounds import Round
from lopa_bench.decoders.selection import Choice
from lopa_bench.decoders.vocabulary_parallel import part_llada_candidates
from lopa_bench.models.cache import KVCache
from lopa_bench.models.forward import Forward

if TYPE_CHECKING:
    from lopa_bench.models.tensor_parallel import VocabularyPart

Chooser = Callable[[int, Sequence[int], Tensor, tuple[int, int]], Choice]
"""(step within the block, masked positions, their confidences, bounds of the input) -> positions to fill."""


@dataclass(frozen=True, slots=True)
class BlockCache:
    """Which slots a forward computes and which are held; a policy over positions, the tensors lie in the KV cache."""

    kind: str

    def window(self, canvas: Canvas, block: Block, step: int) -> tuple[int, int]:
        """Input bounds of a step: the whole canvas at first, later from the block on, or the block alone."""
        if step == 0 or self.kind == "none":
            return 0, len(canvas)
        return block.start, (len(canvas) if self.kind == "prefix" else block.stop)

    def hold(self, cache: KVCache, canvas: Canvas, block: Block) -> None:
        """After a block's first forward: keep the prefix, or everything."""
        cache.hold(block.start, len(canvas) if self.kind == "dual" else block.start)

    @property
    def exists(self) -> bool:
        """Whether anything is held at all."""
        return self.kind != "none"


@dataclass(frozen=True, slots=True)
class LLaDARule:
    """How LLaDA's programs rank slots.

    Attributes:
        random: rank at random, their remasking = "random".
        in_float64: take probabilities in float64, as Fast-dLLM's program does; else in the model's dtype, as LLaDA's.
    """

    random: bool = False
    in_float64: bool = True


@torch.inference_mode()
def llada_candidates(
    logits: Tensor,
    sampling: Sampling,
    rule: LLaDARule,
    generator: torch.Generator,
    vocabulary: VocabularyPart | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """LLaDA's candidates: the token of the raw logits, with Gumbel noise above temperature 0, and its probability.

    The noise and the choice are computed in float64, as in the authors' programs.

    Args:
        logits: [B, rows, vocab_size].
        sampling: temperature, top-p and top-k; without a temperature the others change nothing.
        rule: how slots are ranked.
        generator: of this answer.
        vocabulary: the ids that this process has logits for; others, which call this too, have the rest.

    Returns:
        Confidence, probability, token, each [B, rows].
    """
    if vocabulary is not None:
        return part_llada_candidates(logits, sampling, rule, generator, vocabulary)
    exact = logits.double()
    noisy = exact
    if sampling.temperature > 0:
        noisy = filter_logits(exact, sampling)
        uniform = torch.rand(noisy.shape, generator=generator, device=noisy.device, dtype=torch.float64)
        noisy = noisy - torch.log(-torch.log(uniform))
    token = noisy.argmax(dim=-1)
    weights = torch.softmax(exact if rule.in_float64 else logits, dim=-1)
    probability = weights.gather(-1, token.unsqueeze(-1)).squeeze(-1)
    if rule.random:
        confidence = torch.rand(probability.shape, generator=generator, device=logits.device, dtype=torch.float64)
        return confidence, probability, token
    return probability, probability, token


def llada_scores(decoder: Decoder, logits: Tensor, first: int, rule: LLaDARule, generator: torch.Generator) -> Scores:
    """Candidates of one canvas on the host; logits [1, rows, vocab_size], row 0 standing at position `first`."""
    vocabulary = decoder.model.vocabulary
    forbid(logits, decoder.forbidden_id, vocabulary)
    drawn = to_host(*llada_candidates(logits, decoder.config.sampling, rule, generator, vocabulary))
    return Scores(first, *(rows[0] for rows in drawn))


def block_rounds(
    decoder: Decoder,
    canvas: Canvas,
    generator: torch.Generator,
    choose: Chooser,
    *,
    cache_policy: BlockCache = BlockCache("none"),
    rule: LLaDARule = LLaDARule(),
    refine_always: bool = False,
) -> Iterator[Round | Forward]:
    """Fill block after block, `choose` saying which slots each forward fills.

    Args:
        decoder: gives the model and `config.block_size`.
        canvas: holds the prompt; the whole answer is appended here.
        generator: of this answer.
        choose: the selection rule.
        cache_policy: what is held between the forwards of a block.
        rule: how slots are ranked.
        refine_always: run a second forward in every block, needed or not, as Fast-dLLM's cached loops do.
    """
    model, config = decoder.model, decoder.config
    whole_canvas(canvas, config.block_size)
    cache = model.new_cache(len(canvas)) if cache_policy.exists else None
    index = 0
    for block in canvas.blocks[1:]:
        block.state = BlockState.ACTIVE
        step = 0
        while step == 0 or canvas.num_masks(block) or (refine_always and step == 1):
            start, stop = cache_policy.window(canvas, block, step)
            if cache is not None and step == 0:
                cache.reset()
            masks = canvas.masks(block.start, block.stop)
            # Committing the prefix keeps the row before the block, which families with shifted rows read later.
            num_commit = block.start if cache is not None and step == 0 else 0
            yield (call := _forward(decoder, canvas, cache, (start, stop), masks, num_commit))
            if cache is not None and step == 0:
                cache.commit()
                cache_policy.hold(cache, canvas, block)
            choice, positions, tokens = Choice([]), [], []
            if masks:
                scores = llada_scores(decoder, call.logits, masks[0], rule, generator)
                choice = choose(step, masks, scores.at(masks).confidence, (start, stop))
                positions = sorted(choice.positions)
                tokens = scores.at(positions).token.tolist()
            fill(canvas, positions, tokens)
            yield Round(
                index,
                *filled(canvas, positions, tokens),
                num_positions=stop - start,
                input_length=stop - start,
                prefill=start == 0,
                num_forced=choice.num_forced,
            )
            index += 1
            step += 1
            if canvas.is_closed:
                return
        block.state = BlockState.CACHED


def _forward(
    decoder: Decoder,
    canvas: Canvas,
    cache: KVCache | None,
    span: tuple[int, int],
    masks: Sequence[int],
    num_commit: int,
) -> Forward:
    """A call over the slots of `span` for the rows from the first to the last mask."""
    start, stop = span
    rows = (masks[0], masks[-1] + 1) if masks else (start + 1, start + 1)
    return Forward(decoder._input(canvas, start, stop), rows, start, cache, num_commit)
