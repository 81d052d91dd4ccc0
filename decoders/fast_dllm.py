"""Fast-dLLM (arXiv 2505.22618): several confident tokens a forward, and approximate caches held within a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lopa_bench.decoders.base import Decoder, fill, relative, whole_canvas
from lopa_bench.decoders.canvas import Block, Canvas
from lopa_bench.decoders.options import DecoderConfig, one_of, option, require
from lopa_bench.decoders.rounds import Round
from lopa_bench.decoders.selection import at_least, by_factor, dream_count, dream_timesteps, ranked
from lopa_bench.decoders.semi_autoregressive import BlockCache, Chooser, block_rounds
from lopa_bench.decoders.vanilla import quotas
from lopa_bench.errors import ConfigError, DecodeError


@dataclass(frozen=True, kw_only=True)
class FastDLLMConfig(DecoderConfig):
    """Options of `fast-dllm`.

    The slots of a forward are chosen by `threshold`, else by `factor`, else by the quotas of `steps`.
    `rule` dream is the program for Dream: without a cache it ranks the whole answer under a cap of `steps`; with
    one it always takes a block's first token from the block's first forward.
    """

    rule: str = option("llada", "llada or dream, the authors' two programs")
    cache: str = option("prefix", "none, prefix or dual")
    block_size: int = option(32, "slots decoded before the next block opens", "block_length")
    threshold: float | None = option(0.9, "fill every slot at least this confident", "tau")
    factor: float | None = option(None, "fill by the factor rule; threshold must be none")
    steps: int | None = option(None, "forwards in all when neither threshold nor factor is given", "diffusion_steps")
    remasking: str = option("low_confidence", "llada: low_confidence or random")
    alg: str = option("confidence_threshold", "dream: confidence_threshold or entropy")
    eps: float = option(1e-3, "dream: end of the time grid")
    refine_always: bool = option(False, "with a cache: two forwards in every block, needed or not (the authors')")

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "rule", ("llada", "dream"))
        one_of(self, "cache", ("none", "prefix", "dual"))
        one_of(self, "remasking", ("low_confidence", "random"))
        one_of(self, "alg", ("confidence_threshold", "entropy"))
        require(self, "block_size", self.block_size >= 1, "at least 1")
        require(self, "steps", self.steps is None or self.steps >= 1, "at least 1")
        if self.threshold is not None and self.factor is not None:
            raise ConfigError("threshold and factor exclude each other; set one of them to none")
        if self.rule == "dream" and self.factor is not None:
            raise ConfigError("factor belongs to the llada rule; the dream rule knows threshold and entropy")
        if self.rule == "dream" and self.alg == "confidence_threshold" and self.threshold is None:
            raise ConfigError("the dream rule's confidence_threshold needs a threshold")

    @property
    def num_steps(self) -> int:
        """Forwards in all where a fixed number is planned."""
        return self.steps if self.steps is not None else self.max_new_tokens


class FastDLLMDecoder(Decoder):
    """Parallel decoding by confidence, with no, a prefix or a dual cache."""

    name = "fast-dllm"
    config_type = FastDLLMConfig

    @property
    def round_range(self) -> tuple[int, int]:
        """One forward a block at best, one a token at worst (and a block's first, with a cache)."""
        config = self.config
        num_blocks = -(-config.max_new_tokens // config.block_size)
        extra = num_blocks if config.cache != "none" else 0
        return (1 if config.early_stop else num_blocks), config.max_new_tokens + extra

    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        config = self.config
        if config.rule == "llada":
            return block_rounds(
                self,
                canvas,
                generator,
                self._chooser(canvas),
                cache_policy=BlockCache(config.cache),
                random_confidence=config.remasking == "random",
                refine_always=config.refine_always and config.cache != "none",
            )
        if config.cache == "none":
            return self._dream_global(canvas, generator)
        return self._dream_blocks(canvas, generator)

    def _chooser(self, canvas: Canvas) -> Chooser:
        config = self.config
        if config.threshold is not None:
            return lambda step, masks, confidence, span: at_least(confidence, masks, span, config.threshold)
        if config.factor is not None:
            return lambda step, masks, confidence, span: by_factor(confidence, masks, span, config.factor)
        plan = quotas(config.max_new_tokens, config.block_size, config.steps)

        def choose(step: int, masks: Sequence[int], confidence: Tensor, span: tuple[int, int]) -> list[int]:
            counts = plan[(masks[0] - canvas.prompt_length) // config.block_size]
            if step >= len(counts):
                raise DecodeError("masks are left after a block's last step; give it more steps, or a threshold")
            return ranked(confidence, masks, span, counts[step])

        return choose

    def _dream_global(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        """Dream without a cache: a cap of masks / steps a forward, what misses the threshold is carried over.

        Whenever the planned forwards run out, one is added for each slot refused in the last of them, and the
        forwards go on to that number even when nothing is left, unless decoding stops at the EOS.
        """
        config = self.config
        whole_canvas(canvas, config.max_new_tokens)
        num_steps = config.num_steps
        if config.max_new_tokens % num_steps:
            raise ConfigError(f"steps = {num_steps} must divide the answer's {config.max_new_tokens} slots")
        share, carried, step = config.max_new_tokens // num_steps, 0, 0
        while step < num_steps:
            masks = canvas.masks(0, len(canvas))
            if not masks and config.early_stop:
                return
            logits = self.model.predict(self._input(canvas, 0), (canvas.prompt_length, len(canvas)))
            [scores] = self._score(logits, canvas.prompt_length, "probability", generator)
            count = min(share + carried, len(masks))
            picked: list[int] = []
            if count:
                confidence = scores.at(masks).confidence
                order = ranked(confidence, masks, (0, len(canvas)), count)
                passing = (scores.at(order).probability >= config.threshold).tolist()
                picked = [position for rank, position in enumerate(order) if rank == 0 or passing[rank]]
            carried = count - len(picked)
            if step == num_steps - 1 and carried:
                share, num_steps = 0, num_steps + carried
            step += 1
            yield self._commit(canvas, picked, scores.at(picked).token.tolist(), step - 1, (0, len(canvas)))
            if canvas.is_closed:
                return

    def _dream_blocks(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        """Dream with a cache, block after block."""
        config = self.config
        whole_canvas(canvas, config.block_size)
        cache = self.model.new_cache(len(canvas))
        policy = BlockCache(config.cache)
        num_blocks = len(canvas.blocks) - 1
        if config.num_steps % num_blocks:
            raise ConfigError(f"steps = {config.num_steps} does not divide over the {num_blocks} blocks")
        times = dream_timesteps(config.num_steps // num_blocks, config.eps)
        index = 0
        for block in canvas.blocks[1:]:
            cache.reset()
            span = policy.window(canvas, block, 0)
            first = block.start
            logits = self.model.predict(self._input(canvas, *span), (first, first + 1), start=0, cache=cache)
            [scores] = self._score(logits, first, "probability", generator)
            policy.hold(cache, canvas, block)
            yield self._commit(canvas, [first], [int(scores.token[0])], index, span)
            index += 1
            step = 1
            while not canvas.is_closed and (canvas.num_masks(block) or (config.refine_always and step == 1)):
                if config.alg == "entropy" and step >= len(times) - 1:
                    break
                span = policy.window(canvas, block, step)
                yield self._commit(
                    canvas, *self._dream_inner(canvas, block, cache, span, times, step, generator), index, span
                )
                index += 1
                step += 1
            if canvas.is_closed:
                return

    def _dream_inner(
        self,
        canvas: Canvas,
        block: Block,
        cache: object,
        span: tuple[int, int],
        times: Tensor,
        step: int,
        generator: torch.Generator,
    ) -> tuple[list[int], list[int]]:
        """One forward inside a block: positions and tokens to fill."""
        config = self.config
        by_threshold = config.alg == "confidence_threshold"
        rows = (block.start + 1, block.stop)
        tokens = self._input(canvas, *span)
        logits = self.model.predict(tokens, rows, start=span[0], cache=cache)  # type: ignore[arg-type]
        masks = canvas.masks(block.start + 1, block.stop)
        if not masks:
            return [], []
        # Without a threshold the authors' cached loop ranks by negative entropy, whatever it is told.
        [scores] = self._score(logits, rows[0], "probability" if by_threshold else "neg_entropy", generator)
        confidence = scores.at(masks).confidence
        if by_threshold:
            picked = at_least(confidence, masks, span, config.threshold)
        else:
            count = dream_count(len(masks), times, step)
            picked = ranked(confidence, masks, span, count) if count else []
        return picked, scores.at(picked).token.tolist()

    @staticmethod
    def _commit(canvas: Canvas, picked: list[int], tokens: list[int], index: int, span: tuple[int, int]) -> Round:
        fill(canvas, picked, tokens)
        size = span[1] - span[0]
        return Round(index, relative(canvas, picked), tuple(tokens), size, size, prefill=span[0] == 0)
