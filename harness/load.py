"""How busy the machine is with other work while answers are made: a condition that a speed was measured under."""

from __future__ import annotations

import os
import time
from pathlib import Path

# user, nice, system, irq, softirq and steal of /proc/stat's first line (proc(5)); guests are in user already.
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
STAT = Path("/proc/stat")
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


class Neighbours:
    """Measures which share of the machine's processors other processes had, span after span.

    The system counts in ticks of some milliseconds, so that a short span may seem to have less than nothing; what it
    lacks is kept for the next one, and the mean over many spans is right.
    """

    def __init__(self, file: Path = STAT) -> None:
        self._file = file
        self._carried_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin a span."""
        self._busy_s, self._own_s, self._start = busy_seconds(self._file), time.process_time(), time.monotonic()

    def end(self) -> float | None:
        """Return the share, 0 to 1, since `begin`; None where it was too short or the system does not tell."""
        busy_s, passed_s = busy_seconds(self._file), time.monotonic() - self._start
        if busy_s is None or self._busy_s is None or passed_s < SHORTEST_S:
            return None
        others_s = self._carried_s + (busy_s - self._busy_s) - (time.process_time() - self._own_s)
        self._carried_s = min(others_s, 0.0)
        return min(max(others_s, 0.0) / (passed_s * (os.cpu_count() or 1)), 1.0)
