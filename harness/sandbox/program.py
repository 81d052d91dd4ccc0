"""One child process of the sandbox: lines to it, lines from it, its end and what is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_S = 60.0
END_S = 5.0
WALL_FACTOR = 10.0
WALL_EXTRA_S = 2.0
WRITING_S = 120.0
MAX_LINE = 2 * 2**20
MAX_BYTES = 2**28
CHUNK = 2**16


class ProgramGone(Exception):
    """The program's process has ended or was ended: `why` is "timeout", "crashed", "killed" or "too much output"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Output:
    """What one call gave.

    `data` is the value as `plain_values.encode` wrote it, or `digest` its digest when it was too big to send;
    `type_name` its own type. `error` is "TypeError: ..." when there is no value, `why` one word for it ("error",
    "timeout", "crashed", "killed", "too much output"). `cpu_s` is what the child says the call took.
    """

    data: Any = None
    digest: str | None = None
    type_name: str = ""
    cpu_s: float = 0.0
    error: str | None = None
    why: str | None = None


class Program:
    """One child process; made by `Sandbox.open`. Close it, or use it as a context manager.

    Args:
        process: bubblewrap or the keeper, which end when all that they started has ended.
        scratch: the folder that is removed at the end, None when it vanishes by itself.
        wall_s: seconds until no more is waited for.
    """

    def __init__(self, process: subprocess.Popen[bytes], scratch: Path | None, wall_s: float) -> None:
        self._process = process
        self._scratch = scratch
        self.first_process: int | None = None
        """The process that takes all others with it, where that is not `process` itself."""
        self._deadline = time.monotonic() + wall_s
        self._buffer = b""
        self._num_read = 0
        self.limits: dict[str, int] = {}
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, source: str, limit_s: float) -> Output:
        """Run the program's own statements for at most `limit_s` of processor time."""
        try:
            self.send({"do": "load", "source": source, "limit_s": limit_s})
            return read_output(self.receive(wall_limit(limit_s)))
        except ProgramGone as gone:
            return Output(error=gone.why, why=gone.why)

    def call(self, function: str, calls: Sequence[Any], limits_s: Sequence[float]) -> Iterator[Output]:
        """Call a function with each of the encoded argument lists; nothing follows an output with an error."""
        request = {"do": "call", "function": function, "calls": calls, "limits_s": limits_s}
        return self._outputs(request, limits_s)

    def evaluate(self, expressions: Sequence[str], limit_s: float) -> Iterator[Output]:
        """Evaluate expressions in the program's namespace; nothing follows an output with an error."""
        request = {"do": "evaluate", "expressions": expressions, "limit_s": limit_s}
        return self._outputs(request, [limit_s] * len(expressions))

    def _outputs(self, request: dict[str, Any], limits_s: Sequence[float]) -> Iterator[Output]:
        try:
            self.send(request)
            for limit_s in limits_s:
                output = read_output(self.receive(wall_limit(limit_s)))
                yield output
                if output.why:
                    return
        except ProgramGone as gone:
            yield Output(error=gone.why, why=gone.why)

    def send(self, message: Any, timeout_s: float = START_S) -> None:
        """Write one line to the child."""
        assert self._process.stdin is not None
        data = memoryview(json.dumps(message).encode("ascii") + b"\n")
        deadline = min(time.monotonic() + timeout_s, self._deadline)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdin, selectors.EVENT_WRITE)
            while data:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise ProgramGone("timeout")
                try:
                    data = data[os.write(self._process.stdin.fileno(), data[:CHUNK]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    raise self._gone() from None

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Return the next line's object; one that says that a big value is being written gives more time."""
        message = self._read_object(timeout_s)
        if message == {"writing": True}:
            message = self._read_object(WRITING_S)
        return message

    def _read_object(self, timeout_s: float) -> dict[str, Any]:
        line = self._read_line(min(time.monotonic() + timeout_s, self._deadline))
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise ProgramGone("crashed") from None  # the program wrote into the channel
        if not isinstance(message, dict):
            raise ProgramGone("crashed")
        return message

    def _read_line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise ProgramGone("timeout")
                chunk = os.read(self._process.stdout.fileno(), CHUNK)
                if not chunk:
                    raise self._gone()
                self._buffer += chunk
                self._num_read += len(chunk)
                if len(self._buffer) > MAX_LINE or self._num_read > MAX_BYTES:
                    raise ProgramGone("too much output")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _gone(self) -> ProgramGone:
        """Say how a process that closed its output ended; a shell's way of telling signals is bubblewrap's too."""
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return ProgramGone("crashed")
        ended_by = -status if status < 0 else status - 128
        words: dict[int, str] = {signal.SIGXCPU: "timeout", signal.SIGKILL: "killed"}
        return ProgramGone(words.get(ended_by, "crashed"))

    def complaint(self) -> str:
        """Return the first line that a process that has ended wrote on its error output."""
        stream = self._process.stderr
        if stream is None or self._process.poll() is None:
            return ""
        lines = stream.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in lines if line.strip()), "")

    def close(self) -> None:
        """End the process and all it started, and remove what it wrote."""
        process = self._process
        if process.poll() is None:
            self._end()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode < 0:  # ended by force before it could end the others, which keep its group's id in use
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _end(self) -> None:
        """Tell the processes to end, in the way in which `process` ends last.

        The kernel ends a name space with its first process, and bubblewrap waits for that; killing bubblewrap itself
        would come to the same, later and unseen.
        """
        if self.first_process is None:
            self._process.terminate()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.first_process, signal.SIGKILL)


def read_output(message: dict[str, Any]) -> Output:
    """Return the output that a child's message tells; a message of any other form is the program's own doing."""
    told = message.get("cpu_s")
    cpu_s = told if isinstance(told, float) and told >= 0 else 0.0
    if "error" in message:
        why = "timeout" if message.get("timeout") is True else "error"
        return Output(cpu_s=cpu_s, error=str(message["error"]), why=why)
    digest, name = message.get("digest"), str(message.get("type"))
    if isinstance(digest, str):
        return Output(digest=digest, type_name=name, cpu_s=cpu_s)
    if "value" not in message and "loaded" not in message:
        return Output(error="a reply of another form", why="crashed")
    return Output(data=message.get("value"), type_name=name, cpu_s=cpu_s)


def wall_limit(limit_s: float) -> float:
    """Return the wall clock for a call of `limit_s` processor seconds: a busy machine must not fail a right answer."""
    return limit_s * WALL_FACTOR + WALL_EXTRA_S
