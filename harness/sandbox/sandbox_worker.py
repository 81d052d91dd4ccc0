"""The child process that runs one program. Started by its path, with the standard library alone.

It speaks JSON lines: the first line of standard input holds the limits, it answers "ready" with those in force, and
then serves `load`, `call` and `evaluate` requests until its input ends. It judges nothing: no expected value ever
comes here, so that all a program can gain by tampering with this process is to give other outputs.
"""

from __future__ import annotations

import builtins
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lopa_bench.harness.sandbox import plain_values, sandbox_child, sandbox_guard, value_digest
else:  # found beside this file: the package is not there, and nothing else is imported
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    import plain_values
    import sandbox_child
    import sandbox_guard
    import value_digest

    sys.path.pop(0)

ENCODE_S = 60.0
CPU_GRACE_S = 1


class OutOfTime(BaseException):
    """The time of one call is over; no Exception, so that a program's `except Exception` does not catch it."""


def describe(error: BaseException) -> dict[str, Any]:
    """Return the type of an error and, where that is a text, its message."""
    message = error.args[0][:200] if error.args and type(error.args[0]) is str else ""
    return {"error": f"{type(error).__name__}: {message}", "timeout": type(error) is OutOfTime}


class Clock:
    """Processor time for what a program does: a signal after the time given, the system's own limit soon after.

    The signal is an exception in the program. One that catches it, or sits in a loop of C, is ended by the system.
    """

    def __init__(self) -> None:
        self._set_limit = resource.setrlimit
        self._is_running = False
        self.trusted: Callable[[Callable[[], None]], None] = lambda act: act()

    def start(self, seconds: float) -> None:
        """Give what follows so many seconds."""
        signal.signal(signal.SIGPROF, self._ring)
        self._allow(seconds)
        self._is_running = True
        signal.setitimer(signal.ITIMER_PROF, seconds)

    def stop(self) -> None:
        """Disarm the signal; one that is on its way, after a long loop of C, does nothing any more."""
        self._is_running = False
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _allow(self, seconds: float) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        soft = math.ceil(used.ru_utime + used.ru_stime + seconds) + CPU_GRACE_S
        soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
        self.trusted(lambda: self._set_limit(resource.RLIMIT_CPU, (soft, hard)))

    def _ring(self, *_: object) -> None:
        if self._is_running:
            raise OutOfTime


class Worker:
    """One program's namespace and what is done with it."""

    def __init__(self, reply: Callable[[dict[str, Any]], None], clock: Clock) -> None:
        self._reply = reply
        self._clock = clock
        self._namespace: dict[str, Any] = {"__builtins__": builtins}

    def load(self, request: dict[str, Any]) -> None:
        """Run the program's own statements."""
        try:
            try:
                self._clock.start(request["limit_s"])
                exec(compile(request["source"], "<program>", "exec", dont_inherit=True), self._namespace)
            finally:
                self._clock.stop()
            reply = {"loaded": True}
        except BaseException as error:
            reply = describe(error)
        self._reply(reply)

    def call(self, request: dict[str, Any]) -> None:
        """Call a function with each list of arguments; one reply each, none after the first error."""
        name = request["function"]

        def act(arguments: list[Any]) -> Any:
            if name not in self._namespace:
                raise NameError(f"the program defines no '{name}'")
            return self._namespace[name](*arguments)

        for encoded, limit_s in zip(request["calls"], request["limits_s"], strict=True):
            if not self._answer(act, plain_values.decode(encoded), limit_s):
                return

    def evaluate(self, request: dict[str, Any]) -> None:
        """Evaluate expressions in the program's namespace; one reply each, none after the first error."""

        def act(expression: str) -> Any:
            return eval(compile(expression, "<test>", "eval", dont_inherit=True), self._namespace)

        for expression in request["expressions"]:
            if not self._answer(act, expression, request["limit_s"]):
                return

    def _answer(self, act: Callable[[Any], Any], question: Any, limit_s: float) -> bool:
        cpu_s = 0.0
        try:
            try:
                self._clock.start(limit_s)
                start = time.thread_time()  # with the alarm set, the process's own clock only moves in ticks
                value = act(question)
                cpu_s = time.thread_time() - start
                value = plain_values.settle(value)
            finally:
                self._clock.stop()
            reply = self._write(value)
        except BaseException as error:
            reply = describe(error)
        reply["cpu_s"] = cpu_s
        self._reply(reply)
        return "error" not in reply

    def _write(self, value: Any) -> dict[str, Any]:
        name = plain_values.type_name(value) if type(value) is not plain_values.Opaque else value.type_name
        try:
            return {"value": plain_values.encode(value, [plain_values.MAX_COST]), "type": name}
        except plain_values.TooBig:
            self._reply({"writing": True})
            self._clock.start(ENCODE_S)
            try:
                return {"digest": value_digest.digest(value), "type": name}
            except value_digest.NotPlain as error:
                return {"value": {"opaque": [f"{name}, {error}", True]}, "type": name}
            finally:
                self._clock.stop()


def main() -> None:
    """Serve until there are no more requests."""
    started = sandbox_child.start()
    if started is None:
        return
    channel, config = started
    clock = Clock()
    if config["guard"]:
        clock.trusted = sandbox_guard.install(config["writable"][0], config["readable"])
    worker = Worker(channel.send, clock)
    acts = {"load": worker.load, "call": worker.call, "evaluate": worker.evaluate}
    while (request := channel.receive()) is not None:
        acts[request["do"]](request)


if __name__ == "__main__":
    main()
