"""The decoders that diffusion language models were published with: LLaDA's quotas and Dream's schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lopa_bench.decoders.base import Decoder, fill, filled, whole_canvas
from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.confidence import Scores
from lopa_bench.decoders.options import DecoderConfig, belongs_to, one_of, option, require
from lopa_bench.decoders.rounds import Round
from lopa_bench.decoders.selection import Choice, dream_count, dream_timesteps, ranked, split_evenly
from lopa_bench.decoders.semi_autoregressive import Chooser, LLaDARule, block_rounds, llada_scores
from lopa_bench.errors import ConfigError, DecodeError
from lopa_bench.models.forward import Forward

DREAM_ALGORITHMS = {"entropy": "neg_entropy", "maskgit_plus": "probability", "topk_margin": "margin", "origin": ""}


@dataclass(frozen=True, kw_only=True)
class VanillaConfig(DecoderConfig):
    """Options of `vanilla`.

    `rule` llada fills block after block, a fixed number of slots a step; dream spreads its steps over the whole answer.
    By default every step fills one token.
    """

    rule: str = option("llada", "llada (semi-autoregressive quotas) or dream (schedule over the whole answer)")
    block_size: int = option(32, "llada: slots decoded before the next block opens", "block_length")
    steps: int | None = option(None, "forwards in all; one per token when not given", "diffusion_steps")
    remasking: str = option("low_confidence", "llada: low_confidence or random")
    alg: str = option("entropy", "dream: entropy, maskgit_plus, topk_margin or origin")
    alg_temp: float | None = option(None, "dream: draw the slots at this temperature instead of taking the best")
    eps: float = option(1e-3, "dream: end of the time grid")
    idle_steps: bool = option(False, "llada: run every planned forward, needed or not")
    float64_ranking: bool = option(True, "llada: rank by float64 probabilities; off: in the model's dtype")

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "rule", ("llada", "dream"))
        one_of(self, "remasking", ("low_confidence", "random"))
        one_of(self, "alg", tuple(DREAM_ALGORITHMS))
        require(self, "block_size", self.block_size >= 1, "at least 1")
        require(self, "steps", self.steps is None or self.steps >= 1, "at least 1")
        require(self, "eps", 0 < self.eps < 1, "between 0 and 1")
        require(self, "alg_temp", self.alg_temp is None or self.alg_temp >= 0, "0 or more")
        belongs_to(self, "rule", "dream", "alg", "alg_temp", "eps")
        belongs_to(self, "rule", "llada", "remasking", "idle_steps", "float64_ranking")
        if self.rule == "llada":
            quotas(self.max_new_tokens, self.block_size, self.steps)

    @property
    def num_steps(self) -> int:
        """Forwards in all."""
        return self.steps if self.steps is not None else self.max_new_tokens


def quotas(max_new_tokens: int, block_size: int, steps: int | None) -> list[list[int]]:
    """Slots to fill at each step of each block; without `steps` one a step.

    Raises:
        ConfigError: the steps do not spread evenly over the blocks.
    """
    sizes = [min(block_size, max_new_tokens - start) for start in range(0, max_new_tokens, block_size)]
    if steps is None:
        return [[1] * size for size in sizes]
    if steps % len(sizes):
        below = max(steps // len(sizes), 1) * len(sizes)
        raise ConfigError(
            f"steps = {steps} does not divide over the {len(sizes)} blocks of {block_size} tokens; "
            f"take {below} or {below + len(sizes)}, or leave steps out"
        )
    return [split_evenly(size, steps // len(sizes)) for size in sizes]


class VanillaDecoder(Decoder):
    """LLaDA's or Dream's own decoding, without a cache."""

    name = "vanilla"
    config_type = VanillaConfig
    batches = True

    @property
    def round_range(self) -> tuple[int, int]:
        """A fixed number of forwards, fewer when an answer ends early."""
        return (1 if self.config.early_stop else self.config.num_steps), self.config.num_steps

    @property
    def most_idle_rounds(self) -> int | None:
        """The plan ends it."""
        return None

    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round | Forward]:
        config = self.config
        if config.rule == "dream":
            return self._dream_rounds(canvas, generator)
        plan = quotas(config.max_new_tokens, config.block_size, config.steps)
        rule = LLaDARule(config.remasking == "random", config.float64_ranking)
        if config.idle_steps:
            return self._planned_rounds(canvas, plan, rule, generator)
        return block_rounds(self, canvas, generator, quota_chooser(canvas, config.block_size, plan), rule=rule)

    def _planned_rounds(
        self, canvas: Canvas, plan: list[list[int]], rule: LLaDARule, generator: torch.Generator
    ) -> Iterator[Round | Forward]:
        """LLaDA's own loop: every planned forward runs, and a mask left behind may still be filled in a later block."""
        whole_canvas(canvas, self.config.block_size)
        size, index = len(canvas), 0
        for block, counts in zip(canvas.blocks[1:], plan, strict=True):
            for count in counts:
                masks = canvas.masks(0, block.stop)
                yield (call := Forward(self._input(canvas, 0), (canvas.prompt_length, block.stop)))
                scores = llada_scores(self, call.logits, canvas.prompt_length, rule, generator)
                picked = sorted(ranked(scores.at(masks).confidence, masks, (0, size), count)) if masks else []
                tokens = scores.at(picked).token.tolist()
                fill(canvas, picked, tokens)
                yield Round(index, *filled(canvas, picked, tokens), size, size, prefill=True)
                index += 1
                if canvas.is_closed:
                    return

    def _dream_rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round | Forward]:
        config = self.config
        whole_canvas(canvas, config.max_new_tokens)
        times = dream_timesteps(config.num_steps, config.eps)
        size = len(canvas)
        for step in range(config.num_steps):
            masks = canvas.masks(0, size)
            if not masks and config.early_stop:
                return
            yield (call := Forward(self._input(canvas, 0), (canvas.prompt_length, size)))
            strategy = DREAM_ALGORITHMS[config.alg] or "probability"
            [scores] = self._score(call.logits, canvas.prompt_length, strategy, generator)
            picked = sorted(self._dream_pick(scores.at(masks), masks, times, step, size, generator))
            tokens = scores.at(picked).token.tolist()
            fill(canvas, picked, tokens)
            yield Round(step, *filled(canvas, picked, tokens), size, size, prefill=True)
            if canvas.is_closed:
                return

    def _dream_pick(
        self, scores: Scores, masks: list[int], times: Tensor, step: int, length: int, generator: torch.Generator
    ) -> list[int]:
        config = self.config
        if config.alg == "origin":
            last = step == config.num_steps - 1
            share = 1.0 if last else float(1 - times[step + 1] / times[step])
            draws = torch.rand(len(masks), generator=generator, device=generator.device).tolist()
            return [position for position, draw in zip(masks, draws, strict=True) if draw < share]
        count = dream_count(len(masks), times, step)
        if not count:
            return []
        if not config.alg_temp:
            return ranked(scores.confidence, masks, (0, length), count)
        # Gumbel noise draws without replacement from softmax(confidence / alg_temp), whatever underflows in it.
        uniform = torch.rand(len(masks), generator=generator, device=generator.device).to(scores.confidence.device)
        noisy = scores.confidence.float() / config.alg_temp - torch.log(-torch.log(uniform))
        return [masks[row] for row in torch.topk(noisy, count).indices.tolist()]


def quota_chooser(canvas: Canvas, block_size: int, plan: list[list[int]]) -> Chooser:
    """Fill by the quotas of a plan, as `quotas` makes it."""

    def choose(step: int, masks: Sequence[int], confidence: Tensor, span: tuple[int, int]) -> Choice:
        counts = plan[(masks[0] - canvas.prompt_length) // block_size]
        if step >= len(counts):
            raise DecodeError(
                "masks are left after a block's last step: the model proposed the mask id; "
                "decode with allow_mask_token off"
            )
        return Choice(ranked(confidence, masks, span, counts[step]))

    return choose
