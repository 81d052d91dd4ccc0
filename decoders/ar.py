"""Autoregressive decoding, greedy or sampled, over a cache: the baseline that gives one token a forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from lopa_bench.decoders.base import Decoder, filled
from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.options import DecoderConfig
from lopa_bench.decoders.rounds import Round
from lopa_bench.models.forward import Forward
from lopa_bench.models.visibility import CAUSAL


@dataclass(frozen=True, kw_only=True)
class ARConfig(DecoderConfig):
    """Options of `ar`: those that all decoders share."""


class ARDecoder(Decoder):
    """One token a forward, left to right; the prompt goes through with the first."""

    name = "ar"
    config_type = ARConfig
    needs_diffusion = False
    batches = True

    @property
    def round_range(self) -> tuple[int, int]:
        """As many rounds as tokens."""
        return self.config.max_new_tokens, self.config.max_new_tokens

    @property
    def most_idle_rounds(self) -> int | None:
        """The budget ends it."""
        return None

    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round | Forward]:
        cache = self.model.new_cache(canvas.prompt_length + self.config.max_new_tokens)
        for index in range(self.config.max_new_tokens):
            start, stop = cache.length, len(canvas)
            rows = (stop, stop + 1)
            yield (call := Forward(self._input(canvas, start), rows, start, cache, stop - start, CAUSAL))
            cache.commit()
            [scores] = self._score(call.logits, stop, "probability", generator)
            token = int(scores.token[0])
            canvas.tokens.append(token)
            positions, tokens = filled(canvas, [stop], [token])
            yield Round(
                index=index,
                positions=positions,
                tokens=tokens,
                num_positions=stop - start,
                input_length=stop - start,
                prefill=index == 0,
            )
            if canvas.is_closed:
                return
