"""How much memory a model, its cache and the logits of a round will take, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.weights import torch_dtype


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes, by what they hold."""

    weights: int
    cache: int
    logits: int

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + self.cache + self.logits


def estimate_memory(
    config: ModelConfig,
    dtype: str | torch.dtype,
    capacity: int,
    branches: int = 1,
    *,
    window: int | None = None,
    batch_size: int = 1,
) -> MemoryEstimate:
    """Bytes that decoding needs at least.

    Args:
        config: the network.
        dtype: of the weights in memory.
        capacity: positions of the cache, prompt and answer together; the cache is stored once, not per branch.
        branches: windows that go through the network in one call.
        window: rows of logits asked for per branch; `capacity` when unknown, which bounds it from above.
        batch_size: answers made at once, each with a cache of its own.

    Returns:
        Weights and cache exactly, and the logits of one round twice over: in the model's dtype and as the float32
        probabilities a decoder makes of them. Activations inside the network are not counted.
    """
    size = torch.empty(0, dtype=torch_dtype(dtype)).element_size()
    rows = branches * (capacity if window is None else window)
    cache = 2 * config.num_layers * config.num_kv_heads * capacity * config.head_dim
    return MemoryEstimate(
        weights=count_parameters(config) * size,
        cache=batch_size * cache * size,
        logits=batch_size * rows * config.vocab_size * (size + 4),
    )


def count_parameters(config: ModelConfig) -> int:
    """Parameters of the network, counted on one built without memory."""
    return skeleton(config).num_parameters
