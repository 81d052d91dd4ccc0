"""How a machine's other work hinders answers in the making: a condition that a speed was measured under."""

from __future__ import annotations

import os
import time
from pathlib import Path

# user, nice, system, irq, softirq and steal of /proc/stat's first line (proc(5)); guests are in user already.
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
STAT = Path("/proc/stat")
SCHEDSTAT = Path("/proc/thread-self/schedstat")
SHORTEST_S = 0.01  # a tick; within less nothing can be told


def busy_seconds(file: Path = STAT) -> float | None:
    """Return the seconds that all processors were busy since the system began; None where it does not tell.

    What a hypervisor gave to other machines counts as busy.
    """
    try:
        with file.open("rb") as stream:
            word, *ticks = stream.readline().split()
        if word != b"cpu":
            return None
        return sum(int(ticks[field]) for field in BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def queued_seconds(file: Path = SCHEDSTAT) -> float | None:
    """Return the seconds that this thread was ready to run and had no processor; None where the system does not tell.

    The second number of a thread's schedstat, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
    """
    try:
        return int(file.read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


class Neighbours:
    """Measures, span after span, how long this thread had no processor and which share of them other processes had.

    The system counts in ticks of some milliseconds, so that a short span may seem to have less than nothing; what it
    lacks is kept for the next one, and the mean over many spans is right.
    """

    def __init__(self, file: Path = STAT) -> None:
        self._file = file
        self._carried_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin a span."""
        self._queued_s = queued_seconds()
        self._busy_s, self._own_s, self._start = busy_seconds(self._file), time.process_time(), time.monotonic()

    def watched_s(self) -> float:
        """Return the seconds since `begin`."""
        return time.monotonic() - self._start

    def queued_s(self) -> float | None:
        """Return the seconds since `begin` that this thread was ready and had no processor; None where unknown."""
        now = queued_seconds()
        return None if now is None or self._queued_s is None else max(now - self._queued_s, 0.0)

    def share(self) -> float | None:
        """Return the others' share since `begin`, 0 to 1; None where it was too short or the system does not tell."""
        busy_s, passed_s = busy_seconds(self._file), time.monotonic() - self._start
        if busy_s is None or self._busy_s is None or passed_s < SHORTEST_S:
            return None
        others_s = self._carried_s + (busy_s - self._busy_s) - (time.process_time() - self._own_s)
        self._carried_s = min(others_s, 0.0)
        return min(max(others_s, 0.0) / (passed_s * (os.cpu_count() or 1)), 1.0)
