"""The loop of LLaDA and Fast-dLLM: block after block on a whole canvas of masks, with or without a cache.

The caches are approximate (Fast-dLLM, section 3.2): the first forward of a block computes every position; after it the
prefix (`prefix`), or the prefix and everything behind the block (`dual`), is held as it was then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lopa_bench.decoders.base import Decoder, fill, relative, whole_canvas
from lopa_bench.decoders.canvas import Block, BlockState, Canvas
from lopa_bench.decoders.confidence import Sampling, filter_logits, forbid, to_host
from lopa_bench.decoders.rounds import Round
from lopa_bench.models.cache import KVCache

Chooser = Callable[[int, Sequence[int], Tensor, tuple[int, int]], list[int]]
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


@torch.inference_mode()
def llada_candidates(
    logits: Tensor, sampling: Sampling, random_confidence: bool, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """LLaDA's candidates: the token of the raw logits, with Gumbel noise above temperature 0, and its probability.

    Everything is computed in float64 as in Fast-dLLM's program; `random_confidence` is its remasking="random".

    Args:
        logits: [B, rows, vocab_size].

    Returns:
        Confidence, probability, token, each [B, rows].
    """
    exact = logits.double()
    noisy = exact
    if sampling.temperature > 0:
        noisy = filter_logits(exact, sampling)
        uniform = torch.rand(noisy.shape, generator=generator, device=noisy.device, dtype=torch.float64)
        noisy = noisy - torch.log(-torch.log(uniform))
    token = noisy.argmax(dim=-1)
    probability = torch.softmax(exact, dim=-1).gather(-1, token.unsqueeze(-1)).squeeze(-1)
    if random_confidence:
        confidence = torch.rand(probability.shape, generator=generator, device=logits.device, dtype=torch.float64)
        return confidence, probability, token
    return probability, probability, token


def block_rounds(
    decoder: Decoder,
    canvas: Canvas,
    generator: torch.Generator,
    choose: Chooser,
    *,
    cache_policy: BlockCache = BlockCache("none"),
    random_confidence: bool = False,
    refine_always: bool = False,
) -> Iterator[Round]:
    """Fill block after block, `choose` saying which slots each forward fills.

    Args:
        decoder: gives the model and `config.block_size`.
        canvas: holds the prompt; the whole answer is appended here.
        generator: of this answer.
        choose: the selection rule.
        cache_policy: what is held between the forwards of a block.
        random_confidence: rank slots at random.
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
            logits = _forward(decoder, canvas, cache, (start, stop), masks)
            if cache is not None and step == 0:
                cache_policy.hold(cache, canvas, block)
            picked, tokens = [], []
            if masks:
                forbid(logits, decoder.forbidden_id)
                drawn = llada_candidates(logits, config.sampling, random_confidence, generator)
                confidence, _, token = (row[0] for row in to_host(*drawn))
                rows = torch.tensor(masks) - masks[0]
                picked = sorted(choose(step, masks, confidence[rows], (start, stop)))
                tokens = token[torch.tensor(picked, dtype=torch.long) - masks[0]].tolist()
            fill(canvas, picked, tokens)
            yield Round(
                index=index,
                positions=relative(canvas, picked),
                tokens=tuple(tokens),
                num_positions=stop - start,
                input_length=stop - start,
                prefill=start == 0,
            )
            index += 1
            step += 1
            if canvas.is_closed:
                return
        block.state = BlockState.CACHED


def _forward(
    decoder: Decoder, canvas: Canvas, cache: KVCache | None, span: tuple[int, int], masks: Sequence[int]
) -> Tensor:
    """One call over the slots of `span`, returning the rows from the first to the last mask."""
    start, stop = span
    first, last = (masks[0], masks[-1] + 1) if masks else (start + 1, start + 1)
    return decoder.model.predict(decoder._input(canvas, start, stop), (first, last), start=start, cache=cache)
