"""Fast-dLLM (arXiv 2505.22618): several confident tokens a forward, and approximate caches held within a block."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lopa_bench.decoders.base import Decoder, fill, filled, whole_canvas
from lopa_bench.decoders.canvas import Block, Canvas
from lopa_bench.decoders.options import DecoderConfig, belongs_to, one_of, option, require
from lopa_bench.decoders.rounds import Round
from lopa_bench.decoders.selection import (
    Choice,
    at_least,
    by_factor,
    dream_count,
    dream_timesteps,
    first_and_passing,
    ranked,
)
from lopa_bench.decoders.semi_autoregressive import BlockCache, Chooser, LLaDARule, block_rounds
from lopa_bench.decoders.vanilla import quota_chooser, quotas
from lopa_bench.errors import ConfigError
from lopa_bench.models.cache import KVCache
from lopa_bench.models.forward import Forward


@dataclass(frozen=True, kw_only=True)
class FastDLLMConfig(DecoderConfig):
    """Options of `fast-dllm`.

    `rule` llada: a forward fills by `threshold`, else by `factor`, else by the quotas of `steps`. `rule` dream is the
    program for Dream: `alg` confidence_threshold fills by `threshold`, entropy by the schedule of `steps`; without a
    cache it ranks the whole answer, at most its share of `steps` a forward; with one it always takes a block's first
    token from the block's first forward.
    """

    rule: str = option("llada", "llada or dream, the authors' two programs")
    cache: str = option("prefix", "none, prefix or dual")
    block_size: int = option(32, "slots decoded before the next block opens", "block_length")
    threshold: float | None = option(0.9, "fill every slot at least this confident", "tau")
    factor: float | None = option(None, "llada: fill by the factor rule; threshold must be none")
    steps: int | None = option(None, "forwards in all where no threshold or factor decides", "diffusion_steps")
    remasking: str = option("low_confidence", "llada: low_confidence or random")
    alg: str = option("confidence_threshold", "dream: confidence_threshold, or entropy with a cache")
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
        require(self, "threshold", self.threshold is None or self.threshold >= 0, "0 or more")
        require(self, "factor", self.factor is None or self.factor >= 0, "0 or more")
        require(self, "eps", 0 < self.eps < 1, "between 0 and 1")
        belongs_to(self, "rule", "llada", "factor", "remasking")
        belongs_to(self, "rule", "dream", "alg", "eps")
        if self.threshold is not None and self.factor is not None:
            raise ConfigError("threshold and factor exclude each other; set one of them to none")
        if self.rule == "dream":
            self._check_dream()
        elif self.decides == "steps":
            quotas(self.max_new_tokens, self.block_size, self.steps)

    def _check_dream(self) -> None:
        if self.alg == "confidence_threshold" and self.threshold is None:
            raise ConfigError("the dream rule's confidence_threshold needs a threshold")
        if self.alg == "entropy" and self.cache == "none":
            raise ConfigError(
                "the dream rule's entropy without a cache is decoder vanilla with rule dream; choose that, or a cache"
            )
        if self.steps is None or "steps" in self.without_effect():
            return
        if self.cache == "none" and self.max_new_tokens % self.steps:
            raise ConfigError(f"steps = {self.steps} must divide the answer's {self.max_new_tokens} slots")
        if self.cache != "none" and self.steps % self.num_blocks:
            raise ConfigError(f"steps = {self.steps} does not divide over the {self.num_blocks} blocks")

    @property
    def decides(self) -> str:
        """The option that says which slots a forward fills: threshold, factor or steps."""
        if self.rule == "dream":
            return "threshold" if self.alg == "confidence_threshold" else "steps"
        if self.threshold is not None:
            return "threshold"
        return "factor" if self.factor is not None else "steps"

    def without_effect(self) -> dict[str, str]:
        """`steps` beside a threshold or factor, but where it caps a forward; `threshold` beside dream's schedule."""
        capped = self.rule == "dream" and self.cache == "none"
        unused = {}
        if self.steps is not None and self.decides != "steps" and not capped:
            deciding = f"{self.decides} = {getattr(self, self.decides)}"
            unused["steps"] = f"{deciding} decides which slots are filled; set one of them to none"
        if self.threshold is not None and self.decides != "threshold":
            unused["threshold"] = f"alg = {self.alg} fills by its schedule of steps; leave it out"
        return unused

    @property
    def num_blocks(self) -> int:
        """Blocks of the answer, the last one as short as the budget asks."""
        return -(-self.max_new_tokens // self.block_size)

    def steps_in(self, block_size: int) -> int:
        """Forwards of a block on Dream's schedule; one a slot when `steps` is not given."""
        return block_size if self.steps is None else max(self.steps // self.num_blocks, 1)

    @property
    def cap(self) -> int:
        """Dream without a cache: most slots that a forward fills, but for what was carried over; a block's worth."""
        return min(self.block_size, self.max_new_tokens) if self.steps is None else self.max_new_tokens // self.steps


class FastDLLMDecoder(Decoder):
    """Parallel decoding by confidence, with no, a prefix or a dual cache."""

    name = "fast-dllm"
    config_type = FastDLLMConfig
    batches = True

    @property
    def round_range(self) -> tuple[int, int]:
        """One forward a block at best, one a token at worst, unless a schedule or the authors' habit asks for more."""
        config = self.config
        num_blocks = config.num_blocks
        twice = config.cache != "none" and config.refine_always
        scheduled = config.steps or 0 if config.rule == "dream" else 0
        most = max(config.max_new_tokens + (num_blocks if twice else 0), scheduled)
        return (1 if config.early_stop else num_blocks * (1 + twice)), most

    @property
    def most_idle_rounds(self) -> int | None:
        """Dream's plan ends it where there is one."""
        planned = self.config.rule == "dream" and (self.config.cache == "none" or self.config.decides == "steps")
        return None if planned else super().most_idle_rounds

    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round | Forward]:
        config = self.config
        if config.rule == "llada":
            return block_rounds(
                self,
                canvas,
                generator,
                self._chooser(canvas),
                cache_policy=BlockCache(config.cache),
                rule=LLaDARule(random=config.remasking == "random"),
                refine_always=config.refine_always and config.cache != "none",
            )
        if config.cache == "none":
            return self._dream_global(canvas, generator)
        return self._dream_blocks(canvas, generator)

    def _chooser(self, canvas: Canvas) -> Chooser:
        config = self.config
        if config.decides == "threshold":
            return lambda step, masks, confidence, span: at_least(confidence, masks, span, config.threshold)
        if config.decides == "factor":
            return lambda step, masks, confidence, span: Choice(by_factor(confidence, masks, span, config.factor))
        plan = quotas(config.max_new_tokens, config.block_size, config.steps)
        return quota_chooser(canvas, config.block_size, plan)

    def _dream_global(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round | Forward]:
        """Dream without a cache: a cap of slots a forward, what misses the threshold is carried over.

        Whenever the planned forwards run out, one is added for each slot refused in the last of them, and the
        forwards go on to that number even when nothing is left, unless decoding stops at the EOS.
        """
        config = self.config
        whole_canvas(canvas, config.max_new_tokens)
        span = (0, len(canvas))
        cap, num_steps, carried, step = config.cap, -(-config.max_new_tokens // config.cap), 0, 0
        while step < num_steps:
            masks = canvas.masks(*span)
            if not masks and config.early_stop:
                return
            yield (call := Forward(self._input(canvas, 0), (canvas.prompt_length, span[1])))
            [scores] = self._score(call.logits, canvas.prompt_length, "probability", generator)
            of_masks = scores.at(masks)
            count = min(cap + carried, len(masks))
            order = ranked(of_masks.confidence, masks, span, count) if count else []
            choice = first_and_passing(order, of_masks.probability >= config.threshold, masks)
            carried = count - len(choice.positions)
            if step == num_steps - 1 and carried:
                cap, num_steps = 0, num_steps + carried
            yield self._commit(canvas, choice, scores.at(choice.positions).token.tolist(), step, span)
            step += 1
            if canvas.is_closed:
                return

    def _dream_blocks(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round | Forward]:
        """Dream with a cache, block after block."""
        config = self.config
        whole_canvas(canvas, config.block_size)
        cache = self.model.new_cache(len(canvas))
        policy = BlockCache(config.cache)
        index = 0
        for block in canvas.blocks[1:]:
            cache.reset()
            times = dream_timesteps(config.steps_in(block.size), config.eps)
            span = policy.window(canvas, block, 0)
            first = block.start
            yield (call := Forward(self._input(canvas, *span), (first, first + 1), cache=cache))
            [scores] = self._score(call.logits, first, "probability", generator)
            policy.hold(cache, canvas, block)
            forced = config.decides == "threshold" and bool(scores.probability[0] < config.threshold)
            yield self._commit(canvas, Choice([first], int(forced)), scores.token.tolist(), index, span)
            index += 1
            step = 1
            while not canvas.is_closed and (canvas.num_masks(block) or (config.refine_always and step == 1)):
                if config.decides == "steps" and step >= len(times) - 1:
                    break
                span = policy.window(canvas, block, step)
                choice, tokens = yield from self._dream_inner(canvas, block, cache, span, times, step, generator)
                yield self._commit(canvas, choice, tokens, index, span)
                index += 1
                step += 1
            if canvas.is_closed:
                return

    def _dream_inner(
        self,
        canvas: Canvas,
        block: Block,
        cache: KVCache,
        span: tuple[int, int],
        times: Tensor,
        step: int,
        generator: torch.Generator,
    ) -> Generator[Forward, None, tuple[Choice, list[int]]]:
        """One forward inside a block: slots to fill, and their tokens."""
        config = self.config
        by_threshold = config.decides == "threshold"
        masks = canvas.masks(block.start, block.stop)
        first = block.start + (block.start not in masks)
        logits = yield from self._rows_of_block(canvas, block, cache, span, first)
        if not masks:
            return Choice([]), []
        # Without a threshold the authors' cached loop ranks by negative entropy, whatever it is told.
        [scores] = self._score(logits, first, "probability" if by_threshold else "neg_entropy", generator)
        confidence = scores.at(masks).confidence
        if by_threshold:
            choice = at_least(confidence, masks, span, config.threshold)
        else:
            count = dream_count(len(masks), times, step)
            choice = Choice(ranked(confidence, masks, span, count) if count else [])
        return choice, scores.at(choice.positions).token.tolist()

    def _rows_of_block(
        self, canvas: Canvas, block: Block, cache: KVCache, span: tuple[int, int], first: int
    ) -> Generator[Forward, None, Tensor]:
        """One forward; logits of a block's slots from `first` on, which is its first slot only if a mask is left there.

        That can be only where the mask id may be proposed. Rows that speak of the next slot are then shifted as in the
        authors' program, which repeats the first one.
        """
        repeat = first == block.start and self.model.config.logit_shift
        rows = (first + repeat, max(block.stop, first + repeat + 1) if repeat else block.stop)
        yield (call := Forward(self._input(canvas, *span), rows, span[0], cache))
        return torch.cat((call.logits[:, :1], call.logits), dim=1) if repeat else call.logits

    @staticmethod
    def _commit(canvas: Canvas, choice: Choice, tokens: list[int], index: int, span: tuple[int, int]) -> Round:
        fill(canvas, choice.positions, tokens)
        size = span[1] - span[0]
        slots = filled(canvas, choice.positions, tokens)
        return Round(index, *slots, size, size, prefill=span[0] == 0, num_forced=choice.num_forced)
