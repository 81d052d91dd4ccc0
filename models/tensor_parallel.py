"""Tensor parallelism: one network over several processes, each holding a part of every large matrix (Megatron-LM).

Query, key, value, gate and up projections are split by their outputs, so that heads stay whole; the output and down
projections by their inputs, each followed by one sum over the processes. What is summed up is not rounded to 16 bits
before, only the sum is, as on one device: rounded halves would change every third number. The embedding and the head
are split by the vocabulary: logits stay where they are computed, and decoders combine a few numbers a row instead of
gathering them.

Heads, the width of the feed-forward and the vocabulary need not divide by the number of processes. Where query heads of
different processes share a key/value head, each of them holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor, nn

from lopa_bench.errors import ConfigError
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.network import Layer, Transformer
from lopa_bench.models.shared_steps import Exchange, SharedSteps

COLUMN = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROW = ("o_proj", "down_proj")


class TensorGroup(Protocol):
    """The processes that hold one network together; every call is made by all of them, in the same order."""

    @property
    def rank(self) -> int:
        """This process, 0 .. size - 1."""

    @property
    def size(self) -> int:
        """Processes in the group."""

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor by the sum of all processes' tensors, the same bits on each."""

    def all_gather(self, part: Tensor) -> Tensor:
        """Every process's tensor of one shape and dtype [...], stacked by rank: [size, ...]; on its device."""


@dataclass(frozen=True, slots=True)
class VocabularyPart:
    """The ids [start, stop) of `total` that this process has logits for."""

    group: TensorGroup
    start: int
    stop: int
    total: int

    def index(self, token_id: int) -> int | None:
        """Where an id stands among this process's logits, None when another has it."""
        return token_id - self.start if self.start <= token_id < self.stop else None


@dataclass(frozen=True, slots=True)
class Part:
    """What a process keeps of a parameter: the spans [start, stop) of one dimension, one behind the other."""

    dim: int
    spans: tuple[tuple[int, int], ...]

    @property
    def length(self) -> int:
        """Of the kept dimension."""
        return sum(stop - start for start, stop in self.spans)

    def of(self, stored: Any) -> Tensor:
        """Cut it out of a tensor, or of a slice of a safetensors file, of which then only this is read."""
        cut = [stored[start:stop] if self.dim == 0 else stored[:, start:stop] for start, stop in self.spans]
        return cut[0] if len(cut) == 1 else torch.cat(cut, dim=self.dim)


def span_of(total: int, rank: int, size: int) -> tuple[int, int]:
    """A process's share [start, stop) of `total` things in order; shares differ by one at most."""
    whole, more = divmod(total, size)
    start = rank * whole + min(rank, more)
    return start, start + whole + (rank < more)


def key_value_heads(config: ModelConfig, rank: int, size: int) -> list[int]:
    """Key/value heads that a process holds for its query heads, in order, every one serving equally many of them.

    A head appears more than once where the process's query heads would share it unevenly with their neighbours.
    """
    start, stop = span_of(config.num_heads, rank, size)
    wanted = [query // config.num_query_groups for query in range(start, stop)]
    # The fewest copies: the largest number of neighbours that always share one head.
    runs = (length for length in range(len(wanted), 0, -1) if len(wanted) % length == 0)
    step = next(length for length in runs if wanted == [head for head in wanted[::length] for _ in range(length)])
    return wanted[::step]


def check_tensor_parallel(config: ModelConfig, size: int) -> None:
    """Refuse more processes than the network has heads to deal out.

    Raises:
        ConfigError: there are.
    """
    if size > config.num_heads:
        raise ConfigError(
            f"tensor parallelism over {size} processes leaves some without a head: the model has {config.num_heads} "
            "attention heads"
        )


def partition(config: ModelConfig, rank: int, size: int) -> dict[str, Part]:
    """What a process holds of each parameter that is split, by our parameter names; all others are whole."""
    width = config.head_dim
    first, last = span_of(config.num_heads, rank, size)
    queries = ((first * width, last * width),)
    keys = _joined([(head * width, (head + 1) * width) for head in key_value_heads(config, rank, size)])
    inner = (span_of(config.intermediate_size, rank, size),)
    parts = {"embed.weight": Part(0, (span_of(config.vocab_size, rank, size),))}
    if not config.tied_head:
        parts["head.weight"] = parts["embed.weight"]
    for layer in range(config.num_layers):
        attention, mlp = f"layers.{layer}.attention", f"layers.{layer}.mlp"
        for name, spans in {"q_proj": queries, "k_proj": keys, "v_proj": keys}.items():
            parts[f"{attention}.{name}.weight"] = Part(0, spans)
            if config.qkv_bias:
                parts[f"{attention}.{name}.bias"] = Part(0, spans)
        parts[f"{attention}.o_proj.weight"] = Part(1, queries)
        parts[f"{mlp}.gate_proj.weight"] = parts[f"{mlp}.up_proj.weight"] = Part(0, inner)
        parts[f"{mlp}.down_proj.weight"] = Part(1, inner)
    return parts


def _joined(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same spans, neighbours that follow each other made one."""
    cuts = [0, *(index for index, (one, other) in enumerate(pairwise(spans), 1) if one[1] != other[0]), len(spans)]
    return tuple((spans[start][0], spans[stop - 1][1]) for start, stop in pairwise(cuts))


class RowLinear(nn.Linear):
    """A projection whose inputs are spread over the group: each multiplies its own, one sum joins them."""

    group: TensorGroup
    gathers_scales = False

    @property
    def sum_dtype(self) -> torch.dtype:
        """What is summed up: of 16-bit weights float32."""
        return torch.promote_types(self.weight.dtype, torch.float32)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [..., own inputs] to the whole output, on every process, in the input's dtype."""
        out = unrounded_product(hidden, self.weight, self.sum_dtype)
        self.group.all_reduce(out)
        return (out if self.bias is None else out.add_(self.bias)).to(hidden.dtype)


def unrounded_product(hidden: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Map [..., in] by a weight [out, in] to [..., out], every sum of products in `dtype`, float32 or wider.

    Where no kernel multiplies 16-bit numbers into float32, as on CPUs, both factors are widened: their products are
    the same, the weight takes twice its memory meanwhile.
    """
    if dtype == hidden.dtype:
        return F.linear(hidden, weight)
    if not _has_unrounded_product(hidden.device.type, hidden.dtype, dtype):
        return F.linear(hidden.to(dtype), weight.to(dtype))
    rows = hidden.reshape(-1, hidden.shape[-1])
    return torch.mm(rows, weight.t(), out_dtype=dtype).view(*hidden.shape[:-1], -1)


@cache
def _has_unrounded_product(device_type: str, narrow: torch.dtype, wide: torch.dtype) -> bool:
    """Ask torch itself, with a small matrix."""
    small = torch.zeros((16, 16), device=device_type, dtype=narrow)
    try:
        return torch.mm(small, small, out_dtype=wide).dtype == wide
    except (RuntimeError, TypeError):  # no such kernel; no such argument before torch 2.8
        return False


class PartEmbedding(nn.Embedding):
    """An embedding whose ids are spread over the group: each looks up its own, one sum joins them."""

    part: VocabularyPart
    group: TensorGroup

    def forward(self, tokens: Tensor) -> Tensor:
        """Rows [..., hidden_size] of ids [...], on every process."""
        own = (tokens >= self.part.start) & (tokens < self.part.stop)
        rows = F.embedding((tokens - self.part.start).where(own, 0), self.weight)
        rows = rows * own.unsqueeze(-1)
        self.group.all_reduce(rows)
        return rows


def split(network: Transformer, group: TensorGroup) -> dict[str, Part]:
    """Make a network on the meta device this process's part of itself, to be given its parts of the weights.

    Returns:
        What is to be kept of each split parameter, by our names.

    Raises:
        ConfigError: more processes than heads.
    """
    config = network.config
    check_tensor_parallel(config, group.size)
    parts = partition(config, group.rank, group.size)
    steps = SharedSteps(group)
    vocabulary = VocabularyPart(group, *span_of(config.vocab_size, group.rank, group.size), config.vocab_size)
    for name, part in parts.items():
        owner, _, leaf = name.rpartition(".")
        module = network.get_submodule(owner)
        shape = list(getattr(module, leaf).shape)
        shape[part.dim] = part.length
        setattr(module, leaf, nn.Parameter(torch.empty(shape, device="meta"), requires_grad=False))
        last = owner.rpartition(".")[2]
        if last in ROW:
            _become(module, RowLinear, group=steps)
        elif last == "embed":
            _become(module, PartEmbedding, part=vocabulary, group=steps)
    network.vocabulary, network.steps = vocabulary, steps
    network.num_local_kv_heads = len(key_value_heads(config, group.rank, group.size))
    return parts


def exchanges_of(network: Transformer, num_rows: int) -> list[Exchange]:
    """What a forward over so many tokens exchanges: the embedding's sum, then two of every layer."""
    shape = (num_rows, network.config.hidden_size)
    found = [Exchange(True, shape, network.embed.weight.dtype)]
    for layer in network.layers:
        assert isinstance(layer, Layer)
        projections: list[Any] = [layer.attention.o_proj, layer.mlp.down_proj]
        for projection in projections:
            if projection.gathers_scales:
                found.append(Exchange(False, (num_rows, 1), torch.float32))
            found.append(Exchange(True, shape, projection.sum_dtype))
    return found


def _become(module: nn.Module, kind: type[nn.Module], **attributes: Any) -> None:
    """Give a module another forward; its parameters keep their names."""
    module.__class__ = kind
    for name, value in attributes.items():
        object.__setattr__(module, name, value)
