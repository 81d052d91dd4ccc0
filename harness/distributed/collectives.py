"""Collectives of a group of processes, counted and timed, with errors that name rank, round and operation."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from lopa_bench.decoders.communication import Exchange
from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed.beats import COMPUTING, Beat
from lopa_bench.harness.distributed.meeting import reason_of

# The name since torch 2.13; the old one warns there and is all that there was before.
gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class TorchCommunicator:
    """`decoders.communication.Communicator` over torch.distributed: tensors only, never pickled objects.

    A process cannot tell by itself how much of a collective was waiting. Each one's duration of a gather travels with
    the next: whoever came last waited for nobody, so that the shortest duration is communication and the rest of a
    longer one was waiting. No agreement of clocks is needed. A broadcast follows at once on a gather and counts as
    communication; an answer's last gather is settled by an empty one in `finish`, outside the answer's time.

    Args:
        group: the processes.
        device: where their tensors are.
        beat: hears the name of every collective before it begins, and that computing goes on after it.
    """

    def __init__(self, group: dist.ProcessGroup, device: torch.device, beat: Beat) -> None:
        self.group = group
        self.device = device
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self._beat = beat
        self._exchanges: list[Exchange] = []
        self._last_s = 0.0

    def start(self) -> None:
        """See `Communicator`."""
        self._exchanges, self._last_s = [], 0.0

    def finish(self) -> Sequence[Exchange]:
        """See `Communicator`."""
        self._gather(torch.empty(0))
        return self._exchanges

    def all_gather(self, part: Tensor) -> Tensor:
        """See `Communicator`; begins a round's count."""
        rows = self._gather(part)
        num_values = rows.numel() + self.size  # with each process's duration
        self._exchanges.append(Exchange(gathered_bytes=num_values * rows.element_size()))
        return rows

    def broadcast(self, tensor: Tensor, source: int) -> None:
        """See `Communicator`."""
        with self._named("broadcast"):
            begin = time.perf_counter()
            dist.broadcast(tensor, group=self.group, group_src=source)
            if tensor.device.type != "cpu":
                torch.accelerator.synchronize()
        if self._exchanges:
            self._exchanges[-1].comm_s += time.perf_counter() - begin
            self._exchanges[-1].sent_bytes += tensor.numel() * tensor.element_size()

    def _gather(self, part: Tensor) -> Tensor:
        flat = torch.cat((part.reshape(-1), part.new_tensor([self._last_s]))).to(self.device)
        out = flat.new_empty(self.size * flat.numel())
        with self._named("all_gather"):
            begin = time.perf_counter()
            gather_single(out, flat, group=self.group)
            rows = out.view(self.size, -1).cpu()
        self._settle(rows[:, -1])
        self._last_s = time.perf_counter() - begin
        return rows[:, :-1].reshape(self.size, *part.shape)

    def _settle(self, durations: Tensor) -> None:
        """Book the gather before this one, now that all ranks' durations of it are known."""
        if self._exchanges:
            own, shortest = float(durations[self.rank]), float(durations.min())
            self._exchanges[-1].comm_s += shortest
            self._exchanges[-1].wait_s += max(own - shortest, 0.0)

    @contextmanager
    def _named(self, operation: str) -> Iterator[None]:
        with told_to(self._beat, operation, f"{operation} among {self.size} ranks"):
            yield


@contextmanager
def told_to(beat: Beat, operation: str, call: str) -> Iterator[None]:
    """Carry out a collective, whose beginning and end this process's beat hears of.

    Args:
        beat: knows the process and the round that it is in.
        operation: the collective's name in signs of life.
        call: the same in what is said when it fails.

    Raises:
        CommunicationError: it failed, or was called off the main thread.
    """
    who = f"rank {beat.rank}"
    if threading.current_thread() is not threading.main_thread():
        raise CommunicationError(f"{who}: {operation} was called off the main thread, where it would hang")
    beat.collective(operation)
    begin = time.perf_counter()
    try:
        yield
    except (RuntimeError, ValueError) as problem:
        seconds = time.perf_counter() - begin
        where = who if beat.sign.round < 0 else f"{who}, round {beat.sign.round}"
        raise CommunicationError(f"{where}: {call} failed after {seconds:.0f} s: {reason_of(problem)}") from problem
    beat.tell(COMPUTING)
