"""A static key/value cache whose slots are absolute positions.

One committed prefix is stored once, whatever the number of branches that read it. A single window writes its keys
straight into the slots behind the prefix, so that the attention reads one contiguous view and nothing is copied;
several branches keep theirs aside until one of them wins, and only the winner's leading positions are copied in.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lopa_bench.errors import DecodeError
from lopa_bench.models.config import ModelConfig


class KVCache:
    """Keys and values of every layer, each [layers, 1, kv_heads, capacity, head_dim], after RoPE.

    Attributes:
        length: positions [0, length) are committed: final, and seen by every later window.
        extent: slots [0, extent) hold keys that a window may see. Greater than `length` only while a whole canvas
            is held, as Fast-dLLM's dual cache does for the blocks behind the current one.
        boundary: [hidden_size], the network's output at position length - 1; families whose rows predict the
            next token read the first position after the prefix from it.
    """

    def __init__(self, config: ModelConfig, capacity: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = (config.num_layers, 1, config.num_kv_heads, capacity, config.head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.capacity = capacity
        self._boundary_like = torch.zeros(config.hidden_size, device=device, dtype=dtype)
        self.reset()

    @property
    def num_bytes(self) -> int:
        """Memory of the two tensors."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def reset(self) -> None:
        """Forget everything; the memory is kept."""
        self.length = 0
        self.extent = 0
        self.boundary: Tensor | None = None
        self._staged: dict[int, tuple[Tensor, Tensor]] = {}
        self.staged_boundary: Tensor | None = None
        self._num_staged = 0

    def write(self, layer: int, start: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put one window [1, kv_heads, T, head_dim] into slots start.. and return views of all that it may see."""
        stop = start + key.shape[2]
        self.keys[layer, :, :, start:stop] = key
        self.values[layer, :, :, start:stop] = value
        seen = max(stop, self.extent)
        return self.keys[layer, :, :, :seen], self.values[layer, :, :, :seen]

    def prefix(self, layer: int) -> tuple[Tensor, Tensor]:
        """Views [1, kv_heads, length, head_dim] of the committed prefix."""
        return self.keys[layer, :, :, : self.length], self.values[layer, :, :, : self.length]

    def begin(self, start: int, stop: int, num_commit: int) -> None:
        """Announce a forward over [start, stop) whose first `num_commit` positions may be committed after it."""
        if stop > self.capacity:
            raise DecodeError(f"position {stop - 1} is outside the cache of {self.capacity} positions")
        if num_commit and start != self.length:
            raise DecodeError(f"cannot commit from position {start}: the committed prefix ends at {self.length}")
        self._staged.clear()
        self.staged_boundary = None
        self._num_staged = num_commit

    def stage(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Keep the committable positions of B branches, each [B, kv_heads, T, head_dim], until one of them wins."""
        if self._num_staged:
            self._staged[layer] = (key[:, :, : self._num_staged], value[:, :, : self._num_staged])

    def stage_boundary(self, hidden: Tensor) -> None:
        """Keep the output rows [B, T, hidden_size] of the last committable position."""
        if self._num_staged:
            self.staged_boundary = hidden[:, self._num_staged - 1]

    def commit(self, branch: int = 0) -> None:
        """Make the announced positions of `branch` part of the prefix, in place of all other branches'."""
        stop = self.length + self._num_staged
        for layer, (key, value) in self._staged.items():
            self.keys[layer, 0, :, self.length : stop] = key[branch]
            self.values[layer, 0, :, self.length : stop] = value[branch]
        if self.staged_boundary is not None:
            self.boundary = self.staged_boundary[branch]
        self.length = self.extent = stop
        self._staged.clear()
        self._num_staged = 0

    def skip(self, num_positions: int) -> None:
        """Count positions as committed whose keys another process computed; `unpack` fills them in."""
        self.length = self.extent = self.length + num_positions
        self._staged.clear()
        self._num_staged = 0

    def pack(self, num_positions: int) -> Tensor:
        """The last committed positions' keys and values of all layers and the boundary row, as one flat tensor."""
        span = slice(self.length - num_positions, self.length)
        boundary = self._boundary_like if self.boundary is None else self.boundary
        parts = (self.keys[..., span, :], self.values[..., span, :], boundary)
        return torch.cat([part.reshape(-1) for part in parts])

    def unpack(self, flat: Tensor, num_positions: int) -> None:
        """Overwrite the last committed positions and the boundary row by what another process packed."""
        span = slice(self.length - num_positions, self.length)
        keys, values = self.keys[..., span, :], self.values[..., span, :]
        size = keys.numel()
        keys.copy_(flat[:size].view(keys.shape))
        values.copy_(flat[size : 2 * size].view(values.shape))
        self.boundary = flat[2 * size :].clone()

    def hold(self, length: int, extent: int) -> None:
        """Say which of the written slots count: a prefix of `length`, and all up to `extent` as context."""
        self.length, self.extent = length, extent
