"""How much memory a model, its cache and the logits of a round will take, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.skeleton import parameter_shapes
from lopa_bench.models.tensor_parallel import key_value_heads, partition
from lopa_bench.models.weights import torch_dtype

SCALE_BYTES = 4


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
    eight_bit: bool = False,
    tensor_parallel: int = 1,
) -> MemoryEstimate:
    """Bytes that decoding needs at least.

    Args:
        config: the network.
        dtype: of the weights in memory.
        capacity: positions of the cache, prompt and answer together; the cache is stored once, not per branch.
        branches: windows that go through the network in one call.
        window: rows of logits asked for per branch; `capacity` when unknown, which bounds it from above.
        batch_size: answers made at once, each with a cache of its own.
        eight_bit: the layers' projections are kept in 8 bits (see `quantize`); while they are made so, one layer after
            the other, more is needed.
        tensor_parallel: processes that hold the network together; the estimate is of the one that holds most.

    Returns:
        Weights and cache exactly, and the logits of one round twice over: in the model's dtype and as the float32
        probabilities a decoder makes of them. Activations inside the network are not counted.
    """
    size = torch.empty(0, dtype=torch_dtype(dtype)).element_size()
    rows = branches * (capacity if window is None else window)
    heads = max(len(key_value_heads(config, rank, tensor_parallel)) for rank in range(tensor_parallel))
    cache = 2 * config.num_layers * heads * capacity * config.head_dim
    vocabulary = -(-config.vocab_size // tensor_parallel)
    return MemoryEstimate(
        weights=max(weight_bytes(config, size, eight_bit, rank, tensor_parallel) for rank in range(tensor_parallel)),
        cache=batch_size * cache * size,
        logits=batch_size * rows * vocabulary * (size + 4),
    )


def weight_bytes(config: ModelConfig, size: int, eight_bit: bool = False, rank: int = 0, processes: int = 1) -> int:
    """Bytes of the parameters that a process holds, each of `size` bytes but those kept in 8 bits with their scales."""
    parts = partition(config, rank, processes) if processes > 1 else {}
    total = 0
    for name, whole in parameter_shapes(config).items():
        shape = list(whole)
        if (part := parts.get(name)) is not None:
            shape[part.dim] = part.length
        is_coded = eight_bit and "_proj." in name and len(shape) == 2
        total += prod(shape) * (1 if is_coded else size) + (SCALE_BYTES * shape[0] if is_coded else 0)
    return total


def count_parameters(config: ModelConfig) -> int:
    """Parameters of the network, counted on one built without memory."""
    return sum(map(prod, parameter_shapes(config).values()))
