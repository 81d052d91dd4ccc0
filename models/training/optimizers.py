"""Muon for the matrices and AdamW for everything else, under one learning-rate factor."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lopa_bench.errors import ConfigError, nearest

OPTIMIZERS: tuple[str, ...] = ("muon", "adamw")


class Optimizers:
    """One or two optimizers stepped together.

    `muon` orthogonalises the updates of the layers' matrices (Jordan et al. 2024) and leaves embedding, head, norms,
    biases and LoRA's thin matrices to AdamW; `adamw` gives all to AdamW. `rate` is the learning rate of what Muon
    moves (of everything, for `adamw`) and `vector_rate` of what AdamW moves beside it.
    """

    def __init__(self, network: nn.Module, kind: str, rate: float, vector_rate: float) -> None:
        if kind not in OPTIMIZERS:
            raise ConfigError(
                f"no optimizer is called '{kind}'{nearest(kind, OPTIMIZERS)}: choose {' or '.join(OPTIMIZERS)}"
            )
        named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        matrices = [p for name, p in named if kind == "muon" and _is_matrix(name, p)]
        chosen = {id(p) for p in matrices}
        others = [p for _, p in named if id(p) not in chosen]
        self._all: list[tuple[torch.optim.Optimizer, float]] = []
        if matrices:
            muon = torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, momentum=0.95, adjust_lr_fn="original")
            self._all.append((muon, rate))
        if others:
            base = vector_rate if kind == "muon" else rate
            self._all.append((torch.optim.AdamW(others, lr=base, betas=(0.9, 0.97), weight_decay=0.0), base))

    def step(self, factor: float) -> None:
        """Update with every learning rate times `factor`, then clear the gradients."""
        for optimizer, rate in self._all:
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """What `load_state_dict` needs to go on exactly."""
        return [optimizer.state_dict() for optimizer, _ in self._all]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Take over the state that `state_dict` gave."""
        for (optimizer, _), state in zip(self._all, states, strict=True):
            optimizer.load_state_dict(state)


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    return parameter.dim() == 2 and not name.startswith(("embed", "head")) and "lora_" not in name


def rate_factor(step: int, num_steps: int, warmup: int, decay_share: float) -> float:
    """Share of the full learning rate at `step`: linear warm-up, constant, linear decay over the last part."""
    left = (num_steps - step) / num_steps
    return min(1.0, (step + 1) / max(1, warmup)) * min(1.0, max(0.01, left / decay_share))
