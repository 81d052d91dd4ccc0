"""Runs checked programs in a child process and returns what their calls gave.

One worker serves many programs. It is limited in memory and processor time, lives in a session of its own, and is
killed with its group and replaced when a program does not end.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lopa_bench.errors import PrerequisiteError
from lopa_bench.tasks.restricted import BUILTINS

WORKER = Path(__file__).with_name("program_worker.py")
START_TIMEOUT_S = 60.0
PROGRAM_TIMEOUT_S = 20.0
"""Wall clock, for all calls of one program. The worker's own limit on processor time is far shorter and usually
ends a program first; a machine busy with other work must not turn a right answer into a timeout."""


@dataclass(frozen=True)
class Output:
    """What one call gave: a value, or an error as "TypeError: ..."."""

    value: Any = None
    error: str | None = None


@dataclass(frozen=True)
class ProgramResult:
    """What a program gave: one output per call, or why there are none ("timeout", "crashed")."""

    outputs: tuple[Output, ...] = ()
    why: str | None = None


class WorkerGone(Exception):
    """The worker ended, or (`is_late`) does not answer in time."""

    def __init__(self, is_late: bool) -> None:
        super().__init__("the worker does not answer" if is_late else "the worker has ended")
        self.is_late = is_late


class ProgramRunner:
    """Serves `run` from a worker that starts at the first program. May be shared by threads.

    Close it, or use it as a context manager; a runner that is collected ends its worker too.
    """

    def __init__(self, command: Sequence[str] | None = None, program_timeout_s: float = PROGRAM_TIMEOUT_S) -> None:
        self._command = list(command or (sys.executable, "-I", "-S", str(WORKER)))
        self._program_timeout_s = program_timeout_s
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[[subprocess.Popen[bytes]], ProgramRunner] | None = None

    def __enter__(self) -> ProgramRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker, if there is one; the next `run` starts another."""
        with self._lock:
            self._stop()

    def run(self, source: str, function: str, calls: Sequence[Sequence[Any]]) -> ProgramResult:
        """Run `source`, which `restrict` has checked, and call `function` with each argument list of `calls`.

        Raises PrerequisiteError when no worker can be started; whatever the program does is in the result.
        """
        request = {"source": source, "function": function, "calls": calls, "builtins": sorted(BUILTINS)}
        with self._lock:
            worker = self._start()
            try:
                reply = self._ask(worker, json.dumps(request).encode("ascii") + b"\n", self._program_timeout_s)
            except WorkerGone as gone:
                is_late = gone.is_late or ended_by_its_limit(worker)
                self._stop()
                return ProgramResult(why="timeout" if is_late else "crashed")
        outputs = json.loads(reply)["outputs"]
        if outputs is None:
            outputs = [{"error": "MemoryError: while the outputs were written"}] * len(calls)
        return ProgramResult(tuple(Output(**output) for output in outputs))

    def _start(self) -> subprocess.Popen[bytes]:
        """Return the running worker, or a new one that has said that it is ready."""
        if self._worker is not None and self._worker.poll() is None:
            return self._worker
        self._stop()
        try:
            worker = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=os.sep,
                env={},
                start_new_session=True,
            )
        except OSError as error:
            reason = f"{self._command[0]} does not start: {error}"
            raise PrerequisiteError(f"programs cannot be judged: {reason}") from error
        self._worker = worker
        self._finalizer = weakref.finalize(self, end_worker, worker)
        try:
            greeting = self._ask(worker, b"", START_TIMEOUT_S)
        except WorkerGone:
            greeting = b""
        if greeting != b"ready":
            self._stop()
            raise PrerequisiteError(
                f"programs cannot be judged: the worker ended or did not answer; "
                f"run `{' '.join(self._command)}` to see why"
            )
        return worker

    def _ask(self, worker: subprocess.Popen[bytes], request: bytes, timeout_s: float) -> bytes:
        """Send `request` and return the next line that the worker writes, without its end."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        deadline = time.monotonic() + timeout_s
        reply = b""
        try:
            worker.stdin.write(request)
            worker.stdin.flush()
        except BrokenPipeError:
            raise WorkerGone(is_late=False) from None
        with selectors.DefaultSelector() as selector:
            selector.register(worker.stdout, selectors.EVENT_READ)
            while not reply.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise WorkerGone(is_late=True)
                chunk = os.read(worker.stdout.fileno(), 2**16)
                if not chunk:
                    raise WorkerGone(is_late=False)
                reply += chunk
        return reply[:-1]

    def _stop(self) -> None:
        """End the worker, if there is one."""
        self._worker = None
        if self._finalizer is not None:
            self._finalizer()


def ended_by_its_limit(worker: subprocess.Popen[bytes]) -> bool:
    """Tell whether a worker that closed its output was ended for using too much processor time."""
    try:
        return worker.wait(timeout=5.0) == -signal.SIGXCPU
    except subprocess.TimeoutExpired:
        return False


def end_worker(worker: subprocess.Popen[bytes]) -> None:
    """Kill the worker's whole group and wait for it."""
    if worker.poll() is None:
        try:
            os.killpg(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            worker.kill()
    worker.wait()
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            stream.close()
