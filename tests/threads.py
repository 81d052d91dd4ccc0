"""Groups of processes played by threads: what tests of tensor parallelism run on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor


class ThreadGroup:
    """`models.tensor_parallel.TensorGroup` between threads; counts its calls and bytes."""

    def __init__(self, meeting: threading.Barrier, parts: list[Any], rank: int) -> None:
        self.meeting, self.parts, self.rank, self.size = meeting, parts, rank, len(parts)
        self.reduced = 0
        self.gathered_bytes = 0

    def _meet(self, tensor: Tensor) -> Tensor:
        self.parts[self.rank] = tensor.clone()
        self.meeting.wait()
        stacked = torch.stack(self.parts)
        self.meeting.wait()
        return stacked

    def all_reduce(self, tensor: Tensor) -> None:
        self.reduced += 1
        tensor.copy_(self._meet(tensor).sum(dim=0))

    def all_gather(self, part: Tensor) -> Tensor:
        stacked = self._meet(part)
        self.gathered_bytes += stacked.numel() * stacked.element_size()
        return stacked


def on_ranks(size: int, work: Callable[[ThreadGroup], Any]) -> list[Any]:
    """What `work` returns on every rank; the first error of any of them is raised."""
    meeting, parts = threading.Barrier(size, timeout=30), [None] * size

    def one(rank: int) -> Any:
        try:
            return work(ThreadGroup(meeting, parts, rank))
        except BaseException:
            meeting.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    errors = [future.exception() for future in futures]
    told = [error for error in errors if error and not isinstance(error, threading.BrokenBarrierError)]
    if told or any(errors):
        raise next(iter([*told, *filter(None, errors)]))
    return [future.result() for future in futures]
