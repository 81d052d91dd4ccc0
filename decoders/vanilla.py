"""The decoders that diffusion language models were published with: LLaDA's quotas and Dream's schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lopa_bench.decoders.base import Decoder, fill, relative, whole_canvas
from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.confidence import Scores
from lopa_bench.decoders.options import DecoderConfig, one_of, option, require
from lopa_bench.decoders.rounds import Round
from lopa_bench.decoders.selection import dream_count, dream_timesteps, ranked, split_evenly
from lopa_bench.decoders.semi_autoregressive import block_rounds
from lopa_bench.errors import ConfigError, DecodeError

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
    idle_steps: bool = option(False, "llada: run a block's remaining forwards though nothing is left to fill")

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "rule", ("llada", "dream"))
        one_of(self, "remasking", ("low_confidence", "random"))
        one_of(self, "alg", tuple(DREAM_ALGORITHMS))
        require(self, "block_size", self.block_size >= 1, "at least 1")
        require(self, "steps", self.steps is None or self.steps >= 1, "at least 1")
        require(self, "eps", 0 < self.eps < 1, "between 0 and 1")

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

    @property
    def round_range(self) -> tuple[int, int]:
        """A fixed number of forwards, fewer when an answer ends early."""
        return (1 if self.config.early_stop else self.config.num_steps), self.config.num_steps

    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        if self.config.rule == "dream":
            return self._dream_rounds(canvas, generator)
        return self._llada_rounds(canvas, generator)

    def _llada_rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        config = self.config
        plan = quotas(config.max_new_tokens, config.block_size, config.steps)

        def choose(step: int, masks: Sequence[int], confidence: Tensor, span: tuple[int, int]) -> list[int]:
            counts = plan[(masks[0] - canvas.prompt_length) // config.block_size]
            if step >= len(counts):
                raise DecodeError("masks are left after a block's last step: the model proposed the mask id")
            return ranked(confidence, masks, span, counts[step])

        rounds = block_rounds(self, canvas, generator, choose, random_confidence=config.remasking == "random")
        if not config.idle_steps:
            return rounds
        return self._with_idle(canvas, rounds, plan)

    def _with_idle(self, canvas: Canvas, rounds: Iterator[Round], plan: list[list[int]]) -> Iterator[Round]:
        """Add the forwards that LLaDA's program runs when a block has more steps than slots."""
        index = 0
        for counts in plan:
            for count in counts:
                if count:
                    done = next(rounds, None)
                    if done is None:
                        return
                    yield Round(index, done.positions, done.tokens, done.num_positions, done.input_length, prefill=True)
                else:
                    self.model.predict(self._input(canvas, 0), (len(canvas) - 1, len(canvas)))
                    yield Round(index, (), (), len(canvas), len(canvas), prefill=True)
                index += 1
        for done in rounds:
            raise DecodeError(f"masks are left after the last step: {len(done.positions)} filled beyond the plan")

    def _dream_rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        config = self.config
        whole_canvas(canvas, config.max_new_tokens)
        times = dream_timesteps(config.num_steps, config.eps)
        for step in range(config.num_steps):
            masks = canvas.masks(0, len(canvas))
            logits = self.model.predict(self._input(canvas, 0), (canvas.prompt_length, len(canvas)))
            strategy = DREAM_ALGORITHMS[config.alg] or "probability"
            [scores] = self._score(logits, canvas.prompt_length, strategy, generator)
            chosen = scores.at(masks)
            picked = sorted(self._dream_pick(chosen, masks, times, step, len(canvas), generator))
            tokens = scores.at(picked).token.tolist()
            fill(canvas, picked, tokens)
            size = len(canvas)
            yield Round(step, relative(canvas, picked), tuple(tokens), size, size, prefill=True)
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
        weights = torch.softmax(scores.confidence.to(generator.device) / config.alg_temp, dim=-1)
        rows = torch.multinomial(weights, count, generator=generator).tolist()
        return [masks[row] for row in rows]
