"""Which rank of a job has gone silent, and which one is to blame when several have."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lopa_bench.errors import ConfigError
from lopa_bench.harness.distributed.beats import READING, STARTING, Sign, group_size_of, last_sign

MARGIN_S = 1.0  # a collective's own timeout, which says more, comes first
LONGEST_STEP_S = 1.0
QUIET = "LOPA_BENCH_QUIET_S"
QUIET_S = 900.0  # the slowest judge that there is, EvalPlus on one answer, has ten minutes
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen of a rank: its last sign, whether its process stands still, and how many MiB it has moved."""

    sign: Sign
    is_stopped: bool = False
    progress: int = 0


class Watch:
    """Looks at the signs of life of the ranks of a job.

    A rank has gone silent when it wrote nothing new for `timeout_s` in the warm-up or in the middle of an answer, for
    `quiet_s` at any other time, or when its process stood still for `timeout_s`. What it reads and writes while it
    starts or loads its weights counts as a sign. Time in which nobody looked, as when everything was suspended, counts
    as a moment.

    Args:
        look_at: what is seen of a rank now.
        size: how many ranks there are.
        timeout_s: how long is too long while ranks wait for each other.
        quiet_s: how long is too long at any other time.
        group_size: how many ranks, one after the other, make the same answers; asked when somebody is to be blamed.
        still_s: how long a process may stand still where no answer is in the making, if longer than `timeout_s`.
        seen_late_s: how long one has stood still already when it is seen to.
        stood_still: what a process is said to have done then.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        look_at: Callable[[int], Look],
        size: int,
        timeout_s: float,
        quiet_s: float = QUIET_S,
        *,
        group_size: Callable[[], int] | None = None,
        still_s: float = 0.0,
        seen_late_s: float = 0.0,
        stood_still: str = "was stopped",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.look_at, self.size, self.timeout_s = look_at, size, timeout_s
        self.limit_s = timeout_s + MARGIN_S
        self.quiet_s, self.still_s = max(quiet_s, self.limit_s), max(still_s, self.limit_s)
        self._group_size = group_size or (lambda: size)
        self._stood_still, self._seen_late_s, self._clock = stood_still, seen_late_s, clock
        self._last, self._now, self._next = clock(), 0.0, 0.0
        self._looks = {rank: Look(Sign(-1)) for rank in range(size)}
        self._seen = dict.fromkeys(range(size), 0.0)
        self._stopped: dict[int, float] = {}

    def look(self, running: Iterable[int]) -> str | None:
        """Say in words which of the ranks that still run is to blame for a silence, None while all is well."""
        self._count_time()
        if self._now < self._next:
            return None
        self._next = self._now + min(0.25, self.timeout_s / 4)
        running = list(running)
        for rank in running:
            self._look_at(rank)
        silent = [rank for rank in running if self._is_silent(rank)]
        if not silent:
            return None
        first = max(silent, key=self._silent_s)
        group = first // self._group_size()
        return self._words(self._worst([rank for rank in running if rank // self._group_size() == group]) or first)

    def most_silent(self, ranks: Sequence[int]) -> str | None:
        """Of ranks that others have lost say which one is to blame; None where all of them were heard of just now."""
        self._count_time()
        for rank in ranks:
            self._look_at(rank)
        worst = self._worst(ranks)
        return None if worst is None else self._words(worst)

    def _worst(self, ranks: Sequence[int]) -> int | None:
        """Of the silent ones that which was stopped, or which computes while others wait for it, or is behind."""

        def blame(rank: int) -> tuple[bool, bool, int, float]:
            sign = self._looks[rank].sign
            return rank in self._stopped, not sign.is_waiting, -sign.collectives, self._silent_s(rank)

        silent = [rank for rank in ranks if rank in self._stopped or self._silent_s(rank) > self.timeout_s / 2]
        return max(silent, key=blame) if silent else None

    def _words(self, rank: int) -> str:
        sign, is_stopped = self._looks[rank].sign, rank in self._stopped
        how = self._stood_still if is_stopped else "gave no sign"
        option = "--comm-timeout" if is_stopped or sign.is_busy else QUIET
        seconds = self._stopped_s(rank) + self._seen_late_s if is_stopped else self._silent_s(rank)
        return f"rank {rank} of {self.size} {how} for {seconds:.0f} s ({sign}); a longer wait is allowed by {option}"

    def _look_at(self, rank: int) -> None:
        look, before = self.look_at(rank), self._looks[rank]
        gets_on = look.progress > before.progress and look.sign.operation in (STARTING, READING)
        if look.sign.count != before.sign.count or gets_on:
            self._seen[rank] = self._now
        self._looks[rank] = look
        if look.is_stopped:
            self._stopped.setdefault(rank, self._now)
        else:
            self._stopped.pop(rank, None)

    def _is_silent(self, rank: int) -> bool:
        is_busy = self._looks[rank].sign.is_busy
        if self._silent_s(rank) > (self.limit_s if is_busy else self.quiet_s):
            return True
        return self._stopped_s(rank) > (self.limit_s if is_busy else self.still_s)

    def _silent_s(self, rank: int) -> float:
        return self._now - self._seen[rank]

    def _stopped_s(self, rank: int) -> float:
        return self._now - self._stopped.get(rank, self._now)

    def _count_time(self) -> None:
        now = self._clock()
        self._now += min(max(now - self._last, 0.0), LONGEST_STEP_S)
        self._last = now


def watch_of_processes(folder: Path, pids: Mapping[int, int], timeout_s: float, quiet_s: float | None = None) -> Watch:
    """The watch of a launcher over its own processes, given by rank, whose signs are in a folder."""

    def look_at(rank: int) -> Look:
        return Look(last_sign(folder, rank), is_stopped(pids[rank]), mebibytes_moved(f"/proc/{pids[rank]}/io"))

    quiet_s = quiet_seconds() if quiet_s is None else quiet_s
    return Watch(look_at, len(pids), timeout_s, quiet_s, group_size=lambda: group_size_of(folder, len(pids)))


def quiet_seconds(environment: Mapping[str, str] = os.environ) -> float:
    """How long a rank may give no sign while it starts, reads weights or judges.

    Raises:
        ConfigError: the user set it to what is no number of seconds.
    """
    value = environment.get(QUIET, str(QUIET_S))
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"{QUIET}={value!r} in the environment is no number of seconds above 0")
    return seconds


def mebibytes_moved(file: str) -> int:
    """MiB that a process or thread has read and written, from its `io` file of proc(5); 0 where no system tells.

    Pages of mapped files count where they came from the disk.
    """
    try:
        with open(file, "rb") as stream:  # noqa: PTH123
            fields = dict(line.split(b": ") for line in stream.read().splitlines())
        return sum(int(fields[name]) for name in (b"rchar", b"wchar", b"read_bytes")) // MEBIBYTE
    except (OSError, ValueError, KeyError):
        return 0


def is_stopped(pid: int) -> bool:
    """Whether a child of this process is stopped by a signal, as by SIGSTOP; leaves its exit status to be read."""
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return found is not None and found.si_code == os.CLD_STOPPED
