"""Groups of processes played by threads: what tests of tensor and branch parallelism run on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from lopa_bench.decoders.communication import Exchange


class ThreadGroup:
    """`models.tensor_parallel.TensorGroup` between threads; counts its calls and bytes."""

    def __init__(self, meeting: threading.Barrier, parts: list[Any], rank: int) -> None:
        self.meeting, self.parts, self.rank, self.size = meeting, parts, rank, len(parts)
        self.reduced = 0
        self.gathered_bytes = 0

    def _meet(self, tensor: Tensor) -> Tensor:
        self.parts[self.rank] = tensor.clone().flatten()
        self.meeting.wait()
        stacked = torch.stack(self.parts)
        self.meeting.wait()
        return stacked.view(self.size, *tensor.shape)

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


class Meeting:
    """What the threads of one fake group share."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=30)
        self.parts: list[Any] = [None] * size
        self.num_broadcast = 0


class FakeCommunicator:
    """Collectives between threads."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank, self.size = meeting, rank, len(meeting.parts)

    def all_gather(self, part: Tensor) -> Tensor:
        self.meeting.parts[self.rank] = part
        self.meeting.barrier.wait()
        stacked = torch.stack(self.meeting.parts)
        self.meeting.barrier.wait()
        return stacked

    def start(self) -> None:
        pass

    def finish(self) -> list[Exchange]:
        return []

    def broadcast(self, tensor: Tensor, source: int) -> None:
        self.meeting.parts[self.rank] = tensor
        self.meeting.barrier.wait()
        if self.rank == source:
            self.meeting.num_broadcast += 1
        else:
            tensor.copy_(self.meeting.parts[source])
        self.meeting.barrier.wait()
