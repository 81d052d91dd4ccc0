"""The three recipes: which objectives a training step is drawn from, and how often."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.training.batches import Batch
from lopa_bench.models.training.objectives import (
    Work,
    active_windows,
    autoregressive,
    block_distillation,
    masked_diffusion,
)

OBJECTIVES: tuple[str, ...] = ("autoregressive", "diffusion", "windows", "distillation")

DEFAULT_SHARES: dict[str, dict[str, float]] = {
    "ar": {"autoregressive": 1.0},
    "dllm": {"autoregressive": 0.2, "diffusion": 0.5, "windows": 0.3},
    "d2f": {"autoregressive": 0.1, "diffusion": 0.1, "windows": 0.7, "distillation": 0.1},
}
"""Share of the steps of each objective. A network of a million parameters that sees masked text only forgets its
arithmetic; some autoregressive steps keep it. `dllm` with {"diffusion": 1} and `d2f` with {"distillation": 1} are the
methods as published."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How steps are drawn.

    Attributes:
        name: `ar`, `dllm` or `d2f`.
        shares: share of each objective; they need not add up to 1.
        block_sizes: block sizes drawn from, for the objectives with blocks.
        window_blocks: numbers of blocks in an active window, drawn from.
        canvas: answer columns of the longest canvas; diffusion sees canvases up to it, as decoders do.
        distill: part of the windows' targets that is the teacher's distribution.
        open_share: share of diffusion's frontier samples whose canvas ends with the window, as D2F's grow.
    """

    name: str
    shares: Mapping[str, float]
    block_sizes: Sequence[int] = (8, 16, 32)
    window_blocks: Sequence[int] = (1, 2, 2, 3, 4)
    canvas: int = 192
    distill: float = 0.0
    open_share: float = 0.0

    def __post_init__(self) -> None:
        for kind in self.shares:
            if kind not in OBJECTIVES:
                raise ConfigError(
                    f"no training objective is called '{kind}'{nearest(kind, OBJECTIVES)}: choose from "
                    f"{', '.join(OBJECTIVES)}"
                )
        if not any(share > 0 for share in self.shares.values()):
            raise ConfigError("every objective has share 0: give at least one a positive share")

    @property
    def needs_teacher(self) -> bool:
        """Whether any step reads a teacher's distribution."""
        return self.shares.get("distillation", 0) > 0 or (self.distill > 0 and self.shares.get("windows", 0) > 0)

    def kind(self, step: int, seed: int) -> str:
        """The objective of a step, the same at every call."""
        kinds = [kind for kind in OBJECTIVES if self.shares.get(kind, 0) > 0]
        return random.Random(f"{seed}/{step}").choices(kinds, [self.shares[kind] for kind in kinds])[0]

    def work(self, batch: Batch, config: ModelConfig, step: int, seed: int) -> tuple[str, Work]:
        """Lay out the batch of a step: (objective, work), a pure function of its arguments."""
        kind = self.kind(step, seed)
        if kind == "autoregressive":
            return kind, autoregressive(batch)
        rng = random.Random(f"{seed}/{step}/layout")
        generator = torch.Generator().manual_seed(rng.getrandbits(48))
        batch = batch.with_canvas(self._canvas(batch.answer_length, kind, rng))
        mask_token_id, shift = config.mask_token_id, config.logit_shift
        if mask_token_id is None:
            raise ConfigError(f"recipe {self.name} needs a mask token; the network's config has none")
        if kind == "diffusion":
            return kind, masked_diffusion(batch, mask_token_id, shift, generator, open_share=self.open_share)
        block_size = rng.choice(list(self.block_sizes))
        if kind == "distillation":
            return kind, block_distillation(batch, mask_token_id, shift, block_size, generator)
        window_blocks, full = rng.choice(list(self.window_blocks)), rng.random() < 0.5
        return kind, active_windows(
            batch,
            mask_token_id,
            shift,
            block_size=block_size,
            window_blocks=window_blocks,
            full=full,
            generator=generator,
            distill=self.distill,
        )

    def _canvas(self, answer_length: int, kind: str, rng: random.Random) -> int:
        """Columns of the canvas: whole blocks of 16, often with some or (diffusion) much EOS fill."""
        fitting = -(-answer_length // 16) * 16
        if kind != "diffusion":
            return fitting + rng.choices((0, 16, 32), (0.6, 0.25, 0.15))[0]
        longest = rng.randrange(fitting, max(fitting, self.canvas) + 1, 16)
        return rng.choice((fitting, fitting + 16, longest))


def make_recipe(name: str, shares: Mapping[str, float] | None = None, **options: Any) -> Recipe:
    """Return the recipe called `name`; `shares` and `options` (fields of `Recipe`) replace its defaults."""
    if name not in DEFAULT_SHARES:
        raise ConfigError(
            f"no recipe is called '{name}'{nearest(name, DEFAULT_SHARES)}: choose from {', '.join(DEFAULT_SHARES)}"
        )
    defaults: dict[str, Any] = {"open_share": 0.5 if name == "d2f" else 0.0}
    return Recipe(name, dict(shares or DEFAULT_SHARES[name]), **{**defaults, **options})
