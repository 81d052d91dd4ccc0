"""The sums and gathers by which processes hold one network together, over torch.distributed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed.beats import Beat
from lopa_bench.harness.distributed.call_times import CallMeter, RoundTimes, moments_of
from lopa_bench.harness.distributed.collectives import gather_single, told_to


class TorchTensorGroup:
    """`models.tensor_parallel.TensorGroup` over torch.distributed: tensors only, never pickled objects.

    Its calls can be timed, for several answers at once: each has a meter from `start` to `finish`.

    Args:
        group: the processes.
        device: where their tensors are, such as `cuda:1`.
        beat: hears the name of every call before it begins, and that computing goes on after it.
    """

    def __init__(self, group: dist.ProcessGroup, device: str, beat: Beat) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self._device = device
        self._beat = beat
        self._moments = moments_of(device)
        self._meters: list[CallMeter] = []
        self._num_calls = 0

    def start(self) -> CallMeter:
        """Begin to time an answer's calls, on every process."""
        meter = CallMeter(self._moments)
        self._meters.append(meter)
        return meter

    def finish(self, meter: CallMeter) -> list[RoundTimes] | None:
        """End an answer, on every process, once the device has done its work; the processes tell each other how long
        each call took, outside the answer's time.

        Returns:
            One for each of the answer's rounds, and one for the calls after the last; None where a call's time cannot
            be known.

        Raises:
            CommunicationError: the processes made different calls, which then were not of one network.
        """
        self._meters = [one for one in self._meters if one is not meter]
        self._check_as_many(meter.num_calls)
        durations = meter.durations()
        if durations is None:
            return None
        if not durations:
            return meter.by_round([[]] * self.size, self.rank)
        own = torch.tensor(durations, dtype=torch.float32, device=self._device)
        return meter.by_round(self._gather(own).tolist(), self.rank)

    def _check_as_many(self, num_calls: int) -> None:
        counts = self._gather(torch.tensor([num_calls], device=self._device)).flatten().tolist()
        apart = [rank for rank, count in enumerate(counts) if count != counts[0]]
        if apart:
            raise CommunicationError(
                f"rank {apart[0]} of the network made {counts[apart[0]]} calls for this answer, rank 0 {counts[0]}: "
                "the processes went apart"
            )

    def all_reduce(self, tensor: Tensor) -> None:
        """See `TensorGroup`."""
        with self._timed("all_reduce", tensor):
            dist.all_reduce(tensor, group=self.group)

    def all_gather(self, part: Tensor) -> Tensor:
        """See `TensorGroup`."""
        flat = part.contiguous().view(-1)
        out = flat.new_empty(self.size * flat.numel())
        with self._timed("all_gather", flat):
            gather_single(out, flat, group=self.group)
        return out.view(self.size, *part.shape)

    def _gather(self, part: Tensor) -> Tensor:
        """Every process's tensor [n], stacked by rank; in no answer's time."""
        out = part.new_empty(self.size * part.numel())
        with self._named("all_gather"):
            gather_single(out, part, group=self.group)
        return out.view(self.size, -1).cpu()

    @contextmanager
    def _timed(self, operation: str, tensor: Tensor) -> Iterator[None]:
        """A call of the network, in the time of all answers in the making."""
        with self._named(operation):
            begin = None if self._moments is None else self._moments.now()
            yield
            end = None if self._moments is None else self._moments.now()
        num_bytes = tensor.numel() * tensor.element_size()
        for meter in self._meters:
            meter.add(begin, end, num_bytes)

    @contextmanager
    def _named(self, operation: str) -> Iterator[None]:
        self._num_calls += 1
        name = f"{operation} of the network"
        with told_to(self._beat, name, f"{name}, number {self._num_calls}, among {self.size} ranks"):
            yield
