"""The sums and gathers by which processes hold one network together, over torch.distributed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from lopa_bench.harness.distributed.collectives import gather_single, guarded


@dataclass
class TensorMeter:
    """What tensor parallelism took: calls, bytes that a process handed over, and seconds in them.

    The seconds hold the waiting for slower processes too; on an accelerator, where the calls only queue, they are the
    time to queue them.
    """

    num_calls: int = 0
    num_bytes: int = 0
    seconds: float = 0.0


class TorchTensorGroup:
    """`models.tensor_parallel.TensorGroup` over torch.distributed: tensors only, never pickled objects."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.meter = TensorMeter()

    def start(self) -> TensorMeter:
        """Begin to count anew and return the meter."""
        self.meter = TensorMeter()
        return self.meter

    def all_reduce(self, tensor: Tensor) -> None:
        """See `TensorGroup`."""
        with self._named("all_reduce", tensor):
            dist.all_reduce(tensor, group=self.group)

    def all_gather(self, part: Tensor) -> Tensor:
        """See `TensorGroup`."""
        flat = part.contiguous().view(-1)
        out = flat.new_empty(self.size * flat.numel())
        with self._named("all_gather", flat):
            gather_single(out, flat, group=self.group)
        return out.view(self.size, *part.shape)

    @contextmanager
    def _named(self, operation: str, tensor: Tensor) -> Iterator[None]:
        who = f"rank {self.rank} of the network"
        begin = time.perf_counter()
        with guarded(operation, who, f"{who}: {operation} number {self.meter.num_calls + 1} of {self.size} ranks"):
            yield
        self.meter.seconds += time.perf_counter() - begin
        self.meter.num_calls += 1
        self.meter.num_bytes += tensor.numel() * tensor.element_size()
