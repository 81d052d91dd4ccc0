"""Which of the ranks on this machine has gone silent."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lopa_bench.harness.distributed.beats import last_sign

MARGIN_S = 1.0  # a collective's own timeout, which says more, comes first


class Watch:
    """Looks at the signs of life of some processes.

    A rank has gone silent when it wrote nothing new for `timeout_s` in the middle of an answer, or was stopped by a
    signal for as long at any time: reading weights or judging a program may take longer than that, and is no silence.

    Args:
        folder: where the signs are.
        pids: process id by rank.
        timeout_s: how long is too long.
    """

    def __init__(self, folder: Path, pids: Mapping[int, int], timeout_s: float) -> None:
        self.folder, self.pids, self.timeout_s = folder, pids, timeout_s
        now = time.monotonic()
        self._seen = dict.fromkeys(pids, (-1, now))
        self._stopped: dict[int, float] = {}
        self._next = now

    def look(self, running: Sequence[int]) -> str | None:
        """Say in words which of the ranks that still run is silent, None while all is well."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + min(0.25, self.timeout_s / 4)
        limit = self.timeout_s + MARGIN_S
        silent = []
        for rank in running:
            self._look_at(rank, now)
            is_busy = last_sign(self.folder, rank).is_busy
            if (is_busy and self._silent_s(rank, now) > limit) or now - self._stopped.get(rank, now) > limit:
                silent.append(rank)
        return self.most_silent(silent)

    def most_silent(self, ranks: Sequence[int]) -> str | None:
        """Of some ranks the one to blame: stopped, or computing while the others wait for it in a collective."""
        if not ranks:
            return None
        now = time.monotonic()

        def blame(rank: int) -> tuple[bool, bool, float]:
            is_waiting = last_sign(self.folder, rank).is_waiting
            return rank in self._stopped, not is_waiting, self._silent_s(rank, now)

        worst = max(ranks, key=blame)
        how = "was stopped" if worst in self._stopped else "gave no sign"
        sign = last_sign(self.folder, worst)
        return (
            f"rank {worst} of {len(self.pids)} {how} for {self._silent_s(worst, now):.0f} s ({sign}); a longer wait "
            "is allowed by --comm-timeout"
        )

    def _look_at(self, rank: int, now: float) -> None:
        count = last_sign(self.folder, rank).count
        if count != self._seen[rank][0]:
            self._seen[rank] = (count, now)
        if is_stopped(self.pids[rank]):
            self._stopped.setdefault(rank, now)
        else:
            self._stopped.pop(rank, None)

    def _silent_s(self, rank: int, now: float) -> float:
        return now - self._seen[rank][1]


def is_stopped(pid: int) -> bool:
    """Whether a child of this process is stopped by a signal, as by SIGSTOP; leaves its exit status to be read."""
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return found is not None and found.si_code == os.CLD_STOPPED
