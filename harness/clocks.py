"""The time of a device and of the answers that are made on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock beside a device whose work may run behind the host's."""

    def now(self) -> float:
        """Seconds; only differences mean anything."""
        ...

    def synchronise(self) -> None:
        """Wait until the device has done all that it was given."""
        ...


class HostClock:
    """The clock of a device that works in step with the host, as CPUs do."""

    def now(self) -> float:
        """Seconds."""
        return time.perf_counter()

    def synchronise(self) -> None:
        """Nothing to wait for."""


class DeviceClock(HostClock):
    """The clock of an accelerator: `synchronise` waits for its queue."""

    def __init__(self, device: object) -> None:
        self.device = device

    def synchronise(self) -> None:
        """Wait for the queue of the device."""
        import torch

        device = torch.device(str(self.device))
        module = getattr(torch, device.type, None)
        if module is not None and hasattr(module, "synchronize"):
            module.synchronize(device)


def clock_for(device: object) -> Clock:
    """Return the clock that fits a torch device or its name."""
    return HostClock() if str(device).startswith("cpu") else DeviceClock(device)


class Stopwatch:
    """A clock that stands still while the program looks at what it measures."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paused_s = 0.0

    def now(self) -> float:
        """Seconds, those paused left out."""
        return self._clock.now() - self._paused_s

    def synchronise(self) -> None:
        """Wait for the device."""
        self._clock.synchronise()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what happens inside."""
        start = self._clock.now()
        try:
            yield
        finally:
            self._paused_s += self._clock.now() - start


class Shares:
    """Seconds of answers that are in progress at once: each second is divided evenly among them.

    The shares of all answers together are the seconds during which any was in progress. Threads may share an object.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._shares: dict[Hashable, float] = {}
        self._last = clock.now()

    def join(self, name: Hashable) -> None:
        """Begin an answer."""
        with self._lock:
            self._pass()
            self._shares[name] = 0.0

    def leave(self, name: Hashable) -> float:
        """End an answer and return its share in seconds."""
        with self._lock:
            self._pass()
            return self._shares.pop(name)

    def _pass(self) -> None:
        now = self._clock.now()
        for name in self._shares:
            self._shares[name] += max(now - self._last, 0.0) / len(self._shares)
        self._last = now
