"""When the calls of a group of processes began and ended, by the clock of the device that carries them out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch


class Moments(Protocol):
    """A way to note moments, cheap enough for every call, and to tell later how far apart they were."""

    def now(self) -> Any:
        """A moment."""

    def between(self, begin: Any, end: Any) -> float:
        """Seconds from one moment to another, both past."""


class HostMoments:
    """Moments of a device that works in step with the host, as CPUs do."""

    def now(self) -> float:
        """See `Moments`."""
        return time.perf_counter()

    def between(self, begin: float, end: float) -> float:
        """See `Moments`."""
        return end - begin


class DeviceMoments:
    """Moments in the work that a device was given, where the host only queues it: events in the device's own queue.

    Args:
        make_event: makes one that can be recorded and told apart from another by its time, as torch.cuda.Event.
    """

    def __init__(self, make_event: Callable[[], Any]) -> None:
        self._make_event = make_event

    def now(self) -> Any:
        """See `Moments`."""
        event = self._make_event()
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> float:
        """See `Moments`; waits until the device has come to the second."""
        end.synchronize()
        return begin.elapsed_time(end) / 1000


def moments_of(device: str) -> Moments | None:
    """How moments are noted on a device, such as `cuda:1`; None where its queue cannot tell the time."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return HostMoments()
    make = getattr(torch.get_device_module(kind), "Event", None)
    return None if make is None else DeviceMoments(lambda: make(enable_timing=True))


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Seconds of a round's calls on this process: of communication, and of waiting for slower processes."""

    comm_s: float = 0.0
    wait_s: float = 0.0


class CallMeter:
    """The calls of one answer, and after which of them each of its rounds was over.

    Attributes:
        num_bytes: what this process handed over.
    """

    def __init__(self, moments: Moments | None) -> None:
        self._moments = moments
        self._calls: list[tuple[Any, Any]] = []
        self._round_ends: list[int] = []
        self.num_bytes = 0

    @property
    def num_calls(self) -> int:
        """Calls so far."""
        return len(self._calls)

    def add(self, begin: Any, end: Any, num_bytes: int) -> None:
        """A call is over, or given to the device."""
        self._calls.append((begin, end))
        self.num_bytes += num_bytes

    def round_ended(self) -> None:
        """The calls since the last round, or the beginning, were this one's."""
        self._round_ends.append(len(self._calls))

    def durations(self) -> list[float] | None:
        """Seconds of each call; None where they cannot be known."""
        if self._moments is None:
            return None
        return [self._moments.between(begin, end) for begin, end in self._calls]

    def by_round(self, durations: Sequence[Sequence[float]], rank: int) -> list[RoundTimes]:
        """Part each call's seconds, of all processes by rank, into communication and this one's waiting.

        Whoever came last to a call waited for nobody: the shortest duration is communication, the rest of a longer
        one was waiting.

        Returns:
            One for each round, and one for the calls after the last.
        """
        shortest = [min(of_call) for of_call in zip(*durations, strict=True)]
        own = durations[rank]
        ends = [0, *self._round_ends, len(self._calls)]
        return [
            RoundTimes(sum(shortest[start:stop]), max(sum(own[start:stop]) - sum(shortest[start:stop]), 0.0))
            for start, stop in pairwise(ends)
        ]
