"""Starts the ranks of a job on this machine, through torch elastic's process machinery, and ends them together.

A rank is the very command that the user gave, started again with its place in the environment, just as torchrun would.
The launcher is the one who speaks when something went wrong: it sees all of them, and which one was the cause.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lopa_bench.errors import CommunicationError, InUse, LopaBenchError, Stopped
from lopa_bench.harness.distributed.beats import (
    FOLDER,
    FOLDER_PREFIX,
    PARENT,
    READER_LEFT,
    VERDICT,
    Ending,
    ending_of,
    last_sign,
)
from lopa_bench.harness.distributed.mesh import RENDEZVOUS
from lopa_bench.harness.distributed.watch import Watch, quiet_seconds, watch_of_processes

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.api import SubprocessContext

POLL_S = 0.05
SETTLE_S = 0.5  # after the first failure, for the one that caused it to end too
GRACE_S = 2
ENGINE_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
STOP_S = 5.0  # for rank 0 to store its last word after Ctrl-C
GO_ON = "what was finished is stored, the same command goes on from there"


def launch(
    arguments: Sequence[str],
    num_ranks: int,
    timeout_s: float = 120.0,
    program: Sequence[str] = ("-m", "lopa_bench.cli.app"),
) -> int:
    """Run `lopa-bench ARGUMENTS` in `num_ranks` processes; rank 0 speaks for all.

    As soon as one fails, or gives no sign of life for `timeout_s` in the warm-up or an answer or for `quiet_seconds`
    elsewhere, the others are killed: what they finished is on the disk, and they would only wait. `program` are
    Python's own arguments.

    Returns:
        Rank 0's exit code.

    Raises:
        CommunicationError: a rank failed, hung or was killed; says which, and where it was.
        ConfigError: `quiet_seconds` cannot be what the environment says.
        Stopped: the user stopped it.
    """
    quiet_seconds()
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, start_processes

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    scratch = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    quiet = dict.fromkeys(range(1, num_ranks), Std.ALL)
    with _own_signals():
        context = start_processes(
            name="lopa-bench",
            entrypoint=sys.executable,
            args=dict.fromkeys(range(num_ranks), (*program, *arguments)),
            envs={rank: _environment(rank, num_ranks, scratch) for rank in range(num_ranks)},
            logs_specs=DefaultLogsSpecs(log_dir=str(scratch), redirects={0: Std.NONE, **quiet}),
        )
    keep = False
    try:
        return _supervise(context, scratch, timeout_s)  # type: ignore[arg-type]
    except CommunicationError:
        keep = bool(list(scratch.glob("*.traceback")))
        raise
    finally:
        # A stopped process obeys nothing but a kill.
        context.close(death_sig=signal.SIGKILL, timeout=GRACE_S)
        _close_logs(context)  # type: ignore[arg-type]
        if not keep:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this program's way with signals, which the engine replaces by exceptions of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in ENGINE_SIGNALS}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _close_logs(context: SubprocessContext) -> None:
    """Close the files of processes that ended by themselves, which the engine leaves open."""
    for handler in context.subprocess_handlers.values():
        for stream in (handler._stdout, handler._stderr):
            if stream is not None:
                stream.close()


def _environment(rank: int, num_ranks: int, scratch: Path) -> dict[str, str]:
    """A rank's place; the ranks of one machine find each other through a file, so that no port can be taken."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks, "LOCAL_WORLD_SIZE": num_ranks}
    own = {name: str(value) for name, value in place.items()}
    own[RENDEZVOUS] = (scratch / "rendezvous").as_uri()
    own[FOLDER], own[PARENT] = str(scratch), str(os.getpid())
    own["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    own["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // num_ranks)))
    return own


def _supervise(context: SubprocessContext, scratch: Path, timeout_s: float) -> int:
    processes = {rank: handler.proc for rank, handler in context.subprocess_handlers.items()}
    watch = watch_of_processes(scratch, {rank: process.pid for rank, process in processes.items()}, timeout_s)
    try:
        while True:
            codes = {rank: process.poll() for rank, process in processes.items()}
            if codes[0] == 0 and _has_ended_as(scratch, 0, READER_LEFT):
                return 0
            if any(code and not _has_ended_as(scratch, rank, VERDICT) for rank, code in codes.items()):
                break
            if None not in codes.values():
                return codes[0] or 0
            running = [rank for rank, code in codes.items() if code is None]
            if hung := watch.look(running):
                raise CommunicationError(f"{hung}; {GO_ON}")
            time.sleep(POLL_S)
        time.sleep(SETTLE_S)
        codes = {rank: process.poll() for rank, process in processes.items()}
        raise _cause(codes, scratch, watch)
    except KeyboardInterrupt:
        raise _stop(context, scratch) from None


def _has_ended_as(scratch: Path, rank: int, kind: str) -> bool:
    """Whether a rank left word of that kind: VERDICT when its exit code is what the command came to, no failure."""
    ending = ending_of(scratch, rank)
    return ending is not None and ending.kind == kind


def _cause(codes: dict[int, int | None], scratch: Path, watch: Watch) -> LopaBenchError:
    """The failure that the others followed from: a kill, an error of a rank's own, a rank that went silent."""
    size = len(codes)
    by_signal = {rank: -code for rank, code in codes.items() if code is not None and code < 0}
    # NCCL ends a rank that waits in vain for another with SIGABRT: no cause, unless no other is found.
    killed = [rank for rank, number in by_signal.items() if number != signal.SIGABRT]
    if killed:
        return _was_ended(killed[0], by_signal[killed[0]], size, scratch)
    endings = {rank: ending_of(scratch, rank) for rank, code in codes.items() if code}
    told = {rank: ending for rank, ending in endings.items() if ending is not None}
    own = {rank: ending for rank, ending in told.items() if ending.kind != CommunicationError.__name__}
    if own:
        rank, ending = min(own.items(), key=lambda pair: pair[1].seconds)
        return _as_error(rank, ending, size, scratch)
    for rank, code in codes.items():
        if code and rank not in told and rank not in by_signal:
            said = _last_line(scratch, rank)
            return CommunicationError(f"rank {rank} of {size} failed: {said or f'exit code {code}'}; {GO_ON}")
    running = [rank for rank, code in codes.items() if code is None]
    if silent := watch.most_silent(running):
        return CommunicationError(f"{silent}; {GO_ON}")
    if by_signal:
        rank = min(by_signal)
        return _was_ended(rank, by_signal[rank], size, scratch)
    rank, ending = min(told.items(), key=lambda pair: pair[1].seconds)
    return CommunicationError(f"{ending.sentence} ({last_sign(scratch, rank)}); {GO_ON}")


def _was_ended(rank: int, number: int, size: int, scratch: Path) -> CommunicationError:
    """A rank that a signal ended."""
    name = signal.Signals(number).name
    return CommunicationError(f"rank {rank} of {size} was ended by {name} ({last_sign(scratch, rank)}); {GO_ON}")


def _as_error(rank: int, ending: Ending, size: int, scratch: Path) -> LopaBenchError:
    """A rank's own error: a user's mistake as it is, anything else with the rank and where it was."""
    if ending.kind == Stopped.__name__:  # by a signal to it alone, or the launcher would have stopped them all
        return _was_ended(rank, signal.SIGINT, size, scratch)
    if ending.code != CommunicationError.exit_code:
        error = (InUse if ending.kind == InUse.__name__ else LopaBenchError)(ending.sentence)
        error.exit_code = ending.code
        return error
    return CommunicationError(f"rank {rank} of {size} failed ({last_sign(scratch, rank)}): {ending.sentence}; {GO_ON}")


def _stop(context: SubprocessContext, scratch: Path) -> Stopped:
    """Pass the user's wish on to rank 0, whose word of what is stored is the one to tell."""
    first = context.subprocess_handlers[0].proc
    if first.poll() is None:
        first.send_signal(signal.SIGINT)
        deadline = time.monotonic() + STOP_S
        while first.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
    ending = ending_of(scratch, 0)
    said_so = ending is not None and ending.kind == Stopped.__name__
    return Stopped(ending.sentence if ending is not None and said_so else f"stopped; {GO_ON}")


def _last_line(scratch: Path, rank: int) -> str:
    """What a rank that left no word printed last."""
    for log in sorted(scratch.glob(f"*/*/{rank}/stderr.log")):
        told = [line.strip() for line in log.read_text(errors="replace").split("\n") if line.strip()]
        if told:
            return told[-1]
    return ""
