"""Collectives of a group of processes, counted and timed, with errors that name rank, round and operation."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from lopa_bench.errors import CommunicationError

# The name since torch 2.13; the old one warns there and is all that there was before.
gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


@dataclass
class Meter:
    """What the collectives of an answer took.

    `comm_s` is communication, `wait_s` waiting for slower processes, both part of a decoding's seconds.
    `gathered_bytes` are those of the rows that decisions need, over all ranks; `sent_bytes` those of winners' keys.
    """

    comm_s: float = 0.0
    wait_s: float = 0.0
    num_calls: int = 0
    gathered_bytes: int = 0
    sent_bytes: int = 0


class TorchCommunicator:
    """`decoders.communication.Communicator` over torch.distributed: tensors only, never pickled objects.

    A process cannot tell by itself how much of a collective was waiting. Each one's duration of the last gather travels
    with the next: whoever came last waited for nobody, so that the shortest duration is communication and the rest of a
    longer one was waiting. No agreement of clocks is needed. A broadcast counts as communication.
    """

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        self.group = group
        self.device = device
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.meter = Meter()
        self.round = 0
        self._last = 0.0

    def start(self) -> Meter:
        """Begin to count for a new answer and return its meter."""
        self.meter, self.round, self._last = Meter(), 0, 0.0
        return self.meter

    def all_gather(self, part: Tensor) -> Tensor:
        """See `Communicator`; ends a round's count."""
        flat = torch.cat((part.reshape(-1), part.new_tensor([self._last]))).to(self.device)
        out = flat.new_empty(self.size * flat.numel())
        with self._named("all_gather"):
            gather_single(out, flat, group=self.group)
            rows = out.view(self.size, -1).cpu()
        self._settle(rows[:, -1])
        self.meter.gathered_bytes += rows.numel() * rows.element_size()
        self.round += 1
        return rows[:, :-1].reshape(self.size, *part.shape)

    def broadcast(self, tensor: Tensor, source: int) -> None:
        """See `Communicator`."""
        with self._named("broadcast"):
            dist.broadcast(tensor, group=self.group, group_src=source)
            if tensor.device.type != "cpu":
                torch.accelerator.synchronize()
        self.meter.comm_s += self._last
        self._last = 0.0
        self.meter.sent_bytes += tensor.numel() * tensor.element_size()

    def _settle(self, durations: Tensor) -> None:
        """Book the gather before this one, now that all ranks' durations of it are known."""
        own, shortest = float(durations[self.rank]), float(durations.min())
        self.meter.comm_s += shortest
        self.meter.wait_s += own - shortest

    @contextmanager
    def _named(self, operation: str) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            raise CommunicationError(
                f"rank {self.rank}: {operation} was called off the main thread, where it would hang"
            )
        begin = time.perf_counter()
        try:
            yield
        except (RuntimeError, ValueError) as problem:
            first_line = str(problem).partition("\n")[0]
            raise CommunicationError(
                f"rank {self.rank}, round {self.round}: {operation} among {self.size} ranks failed after "
                f"{time.perf_counter() - begin:.0f} s: {first_line}"
            ) from problem
        self._last = time.perf_counter() - begin
        self.meter.num_calls += 1
