"""Where no launcher of ours watches, as under torchrun, every rank watches over itself and the others, by a thread.

The threads tell each other their ranks' last signs through the job's store, over a connection of their own. Each counts
its own turns too: a process whose thread stands still is stopped, killed or cut off, whatever its rank was about.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple
from typing import TYPE_CHECKING

from lopa_bench.errors import CommunicationError, ProcessFailed
from lopa_bench.harness.distributed.beats import FOLDER, Beat, Sign
from lopa_bench.harness.distributed.meeting import LEFT
from lopa_bench.harness.distributed.watch import Look, Watch, mebibytes_moved, quiet_seconds

if TYPE_CHECKING:
    from torch.distributed import Store

    from lopa_bench.harness.distributed.mesh import World

TURN_S = 0.25
STILL_S = 2.5
"""A thread that took no turn for so long stands still; within an answer --comm-timeout is waited for on top."""
STOOD_STILL = "stood still, as one that is stopped or killed,"
LOST_S = 1.25  # enough where a connection to it broke as well
STILL_ELSEWHERE_S = 60.0  # reading may keep all threads of a process from running
EXPLAIN_S = 4.0
TERMINATED = 143
TERM_S = 10.0  # for the main thread to end by itself after SIGTERM, with its own last word
SPOKEN = "lookout/spoken"


class Lookout:
    """One rank's thread that looks out.

    It ends its process, and with it the job, when a rank gives no sign for longer than `Watch` allows; one of them says
    which rank it was.

    Args:
        rank: of this process.
        size: ranks in all.
        group_size: how many ranks, one after the other, make the same answers.
        store: the job's, over a connection that nobody else uses.
        beat: what this rank tells.
        timeout_s: of --comm-timeout.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        group_size: int,
        store: Store,
        beat: Beat,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rank, self.store, self.beat, self._clock = rank, store, beat, clock
        self.watch = Watch(
            self._look_at,
            size,
            timeout_s,
            quiet_seconds(),
            group_size=lambda: group_size,
            still_s=STILL_ELSEWHERE_S,
            seen_late_s=STILL_S,
            stood_still=STOOD_STILL,
            clock=clock,
        )
        self._looks = dict.fromkeys(range(size), Look(Sign()))
        self._turns: dict[int, tuple[int, float]] = {}
        self._gone: set[int] = set()
        self._num_turns = 0
        self._over = threading.Event()
        self._explains = False
        self._signals = _Signals()
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)

    def begin(self) -> None:
        """Start looking out."""
        self._signals.listen()
        self._thread.start()

    def end(self) -> None:
        """Look out no more, and let the others know that this rank is done."""
        self._over.set()
        self._thread.join(STILL_S)
        self._signals.close()

    def cause_of(self, problem: CommunicationError) -> CommunicationError:
        """Return what an error here followed from, as far as the others' words and signs tell it within seconds."""
        self._explains = True
        deadline = time.monotonic() + EXPLAIN_S
        with _deaf_to_term():  # torchrun ends the others soon, but one may still say why
            while time.monotonic() < deadline:
                if cause := self._told() or self._silent("timed out" in str(problem).lower()):
                    with suppress(RuntimeError):
                        self.store.add(SPOKEN, 1)
                    return problem if cause in str(problem) else CommunicationError(f"{cause} (here: {problem})")
                time.sleep(TURN_S)
        return problem

    def _told(self) -> str | None:
        """What the first rank that left said, None while none did."""
        try:
            return bytes(self.store.get(LEFT)).decode(errors="replace") if self.store.check([LEFT]) else None
        except RuntimeError:
            return None

    def _silent(self, is_late: bool) -> str | None:
        """Which of the others an error is due to: where it `is_late` one that gives no sign, else one that is gone."""
        others = [rank for rank in self._looks if rank != self.rank and rank not in self._gone]
        if is_late:
            return self.watch.most_silent(others)
        still = {rank: self._clock() - self._turns[rank][1] for rank in others if rank in self._turns}
        rank = max(still, key=lambda rank: still[rank], default=self.rank)
        if still.get(rank, 0.0) < LOST_S:
            return None
        return f"rank {rank} of {self.watch.size} {STOOD_STILL} for {still[rank]:.0f} s ({self._looks[rank].sign})"

    def _run(self) -> None:
        while not self._over.wait(TURN_S):
            alone = not self._exchange()
            watched = [self.rank] if alone else [rank for rank in self._looks if rank not in self._gone]
            if self._explains:
                continue
            if hung := self.watch.look(watched):
                self._leave(hung)
            if self._signals.seconds_since(signal.SIGTERM) > TERM_S:
                os._exit(TERMINATED)
        with suppress(RuntimeError):
            self.store.set(f"lookout/{self.rank}", "null")

    def _look_at(self, rank: int) -> Look:
        return self._looks[rank]

    def _exchange(self) -> bool:
        """Tell the others of this rank and hear of them; False where the store is gone."""
        self._num_turns += 1
        own = Look(self.beat.sign, progress=self._progress())
        self._looks[self.rank] = own
        try:
            self.store.set(f"lookout/{self.rank}", json.dumps([astuple(own.sign), own.progress, self._num_turns]))
            for rank in self._looks:
                if rank != self.rank and self.store.check([f"lookout/{rank}"]):
                    self._hear(rank, json.loads(self.store.get(f"lookout/{rank}")))
        except (RuntimeError, ValueError):
            return False
        return True

    def _hear(self, rank: int, told: list[object] | None) -> None:
        if told is None:
            self._gone.add(rank)
            return
        sign, progress, turns = told
        now = self._clock()
        if self._turns.get(rank, (None, 0.0))[0] != turns:
            self._turns[rank] = (turns, now)  # type: ignore[assignment]
        stands_still = now - self._turns[rank][1] > STILL_S
        self._looks[rank] = Look(Sign(*sign), stands_still, progress)  # type: ignore[misc, arg-type]

    def _progress(self) -> int:
        """What the process has moved without this thread, whose own reading is no progress."""
        return mebibytes_moved("/proc/self/io") - mebibytes_moved(f"/proc/self/task/{threading.get_native_id()}/io")

    def _leave(self, hung: str) -> None:
        """End this process; the first to do so says why."""
        is_first = True
        with suppress(RuntimeError):
            is_first = self.store.add(SPOKEN, 1) == 1
        if is_first:
            sys.stderr.write(f"lopa-bench: {hung}; what was finished is stored, the same command goes on from there\n")
            sys.stderr.flush()
        else:
            time.sleep(TURN_S)  # whoever speaks must not be ended before
        os._exit(1)


class _Signals:
    """Hears of signals while the main thread is within a collective, where Python's own handlers must wait."""

    def __init__(self) -> None:
        self._ends: tuple[socket.socket, ...] = ()
        self._before: int | None = None
        self._came: dict[int, float] = {}

    def listen(self) -> None:
        """Begin; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._ends = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        self._before = signal.set_wakeup_fd(self._ends[1].fileno(), warn_on_full_buffer=False)

    def seconds_since(self, number: int) -> float:
        """How long ago a signal came; 0 where it did not."""
        with suppress(OSError):  # nothing there, or closed
            for one in self._ends[0].recv(256) if self._ends else b"":
                self._came.setdefault(one, time.monotonic())
        return time.monotonic() - self._came[number] if number in self._came else 0.0

    def close(self) -> None:
        """End."""
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
        for end in self._ends:
            end.close()


@contextmanager
def _deaf_to_term() -> Iterator[None]:
    """Ignore the signal to terminate for a while; off the main thread change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def looked_after(world: World, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Look out while the body runs, where no launcher of ours does it.

    Raises:
        CommunicationError: the body's own, or the cause that it followed from.
    """
    if FOLDER in environment or world.size == 1:
        yield
        return
    size_of_group = world.size // world.shape.data
    clone = getattr(world.store, "clone", None)  # not every torch has it; without, the connection is shared
    store = world.store if clone is None else clone()
    lookout = Lookout(world.rank, world.size, size_of_group, store, world.beat, world.timeout_s)
    lookout.begin()
    try:
        yield
    except ProcessFailed:
        raise
    except CommunicationError as problem:
        raise lookout.cause_of(problem) from problem
    finally:
        lookout.end()
