"""D2F (arXiv 2508.09192): blocks decoded in a pipeline over an exact block-causal cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import torch

from lopa_bench.decoders.base import Decoder, filled
from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.options import DecoderConfig, known_strategy, option, require, share
from lopa_bench.decoders.pipeline import PipelineRule, Thresholds
from lopa_bench.decoders.rounds import Round
from lopa_bench.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PipelineConfig(DecoderConfig):
    """Options of the pipeline, common to `d2f` and `lopa`; the defaults are D2F-Dream's for GSM8K (its Table 8)."""

    foreign: ClassVar[Mapping[str, str]] = {
        "block_length": "it orders the filling of one full canvas; the blocks that see only earlier ones are block_size"
    }

    block_size: int = option(32, "slots of a block")
    tau_add: float = option(0.1, "append a block when the last one is this far filled", "block_add_threshold")
    tau_act: float = option(
        0.95, "force progress in a block when its predecessor is this far", "decoded_token_threshold"
    )
    tau_conf: float = option(0.9, "fill every slot more probable than this", "skip_threshold")
    strategy: str = option("probability", "confidence: probability, margin or neg_entropy", "sampling_strategy")
    full_attention: bool = option(False, "let everything in a forward see everything", "use_full_attention")
    whole_blocks: bool = option(False, "drop a last block shorter than block_size (the authors do)")

    def __post_init__(self) -> None:
        super().__post_init__()
        known_strategy(self)
        require(self, "block_size", self.block_size >= 1, "at least 1")
        share(self, "tau_add", "tau_act")
        require(self, "tau_conf", self.tau_conf >= 0, "0 or more; above 1 only forced slots are filled")
        if not self.num_blocks:
            raise ConfigError(
                f"whole_blocks leaves nothing of max_new_tokens = {self.max_new_tokens} in blocks of "
                f"{self.block_size}; raise it, lower block_size, or set whole_blocks to false"
            )

    @property
    def pipeline(self) -> PipelineRule:
        """The fill rule that these options describe."""
        thresholds = Thresholds(self.tau_add, self.tau_act, self.tau_conf)
        return PipelineRule(self.block_size, thresholds, self.full_attention, self.whole_blocks)

    @property
    def num_blocks(self) -> int:
        """Blocks of a whole answer."""
        whole = self.max_new_tokens // self.block_size
        return whole if self.whole_blocks else -(-self.max_new_tokens // self.block_size)

    @property
    def num_slots(self) -> int:
        """Tokens of a whole answer: the budget, or the whole blocks in it."""
        return min(self.max_new_tokens, self.num_blocks * self.block_size)


@dataclass(frozen=True, kw_only=True)
class D2FConfig(PipelineConfig):
    """Options of `d2f`."""


class D2FDecoder(Decoder):
    """The pipeline, one canvas at a time."""

    name = "d2f"
    config_type = D2FConfig

    @property
    def round_range(self) -> tuple[int, int]:
        """One round a block at best; every round fills at least one slot."""
        return (1 if self.config.early_stop else self.config.num_blocks), self.config.num_slots

    def _rounds(self, canvas: Canvas, generator: torch.Generator) -> Iterator[Round]:
        rule = self.config.pipeline
        cache = self.model.new_cache(canvas.prompt_length + self.config.max_new_tokens)
        for index in count():
            rule.open(canvas)
            if rule.is_finished(canvas):
                return
            window = rule.window(canvas)
            logits = self.model.predict(
                self._input(canvas, window.start),
                (window.first, len(canvas)),
                start=window.start,
                cache=cache,
                num_commit=window.num_commit,
                visibility=rule.visibility(canvas),
            )
            if window.num_commit:
                cache.commit()
            masks = canvas.masks(window.first, len(canvas))
            [scores] = self._score(logits, window.first, self.config.strategy, generator, masks)
            chosen = rule.fill(canvas, scores)
            done = canvas.completed
            rule.settle(canvas, done)
            size = len(canvas) - window.start
            positions, tokens = filled(canvas, chosen.positions, chosen.tokens)
            yield Round(
                index=index,
                positions=positions,
                tokens=tokens,
                num_positions=size,
                input_length=size,
                prefill=window.start == 0,
                num_forced=chosen.num_forced,
            )
            if canvas.is_closed:
                return
