"""The child process that runs checked programs. Started by path, isolated, with the standard library alone.

Reads one JSON object a line from standard input, `{"source", "function", "calls": [[argument, ...], ...]}`, and
writes one a line to what standard output was at the start: `{"outputs": [{"value": ...} | {"error": ...}, ...]}`.
It judges nothing: it does not know the expected values.
"""

import builtins
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 256 * 2**20
CPU_S = 1
MAX_ITEMS = 10_000
MAX_CHARACTERS = 100_000
MAX_BITS = 10_000
MAX_DEPTH = 50


class NotPlain(Exception):
    """A value that cannot be an answer: of another type than int, float, bool, None, str and list, or too big."""


def limit(kind: int, value: int) -> None:
    """Set a hard limit of this process, or a lower one where there is one already."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def limit_cpu() -> None:
    """Let the system end this process unless it is done with the program in hand after about `CPU_S` seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(usage.ru_utime + usage.ru_stime) + 1 + CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def require_plain(value: Any, budget: list[int], depth: int = 0) -> None:
    """Raise NotPlain unless `value` is a small JSON value; `budget` holds the items and characters left."""
    budget[0] -= 1
    kind = type(value)
    if depth > MAX_DEPTH:
        raise NotPlain("a value nested too deeply to be shown")
    if kind is str:
        budget[1] -= len(value)
    elif kind is int and value.bit_length() > MAX_BITS:
        raise NotPlain("an integer too big to be shown")
    elif kind is list:
        for item in value:
            require_plain(item, budget, depth + 1)
            if budget[0] < 0:
                break
    elif kind not in (int, float, bool, type(None)):
        raise NotPlain(f"a value of type {kind.__name__}")
    if budget[0] < 0 or budget[1] < 0:
        raise NotPlain("a value too big to be shown")


def describe(error: BaseException) -> dict[str, Any]:
    """Return the type of an error and, where that is a text, its message."""
    message = error.args[0][:200] if error.args and type(error.args[0]) is str else ""
    return {"error": f"{type(error).__name__}: {message}"}


def call(function: Callable[..., Any], arguments: list[Any]) -> dict[str, Any]:
    """Call `function` and return what came out, as something that can be written down."""
    try:
        value = function(*arguments)
        require_plain(value, [MAX_ITEMS, MAX_CHARACTERS])
    except BaseException as error:
        return describe(error)
    return {"value": value}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Define the function in a fresh namespace with the allowed builtins only, and call it."""
    allowed = {name: getattr(builtins, name) for name in request["builtins"]}
    namespace: dict[str, Any] = {"__builtins__": allowed}
    try:
        exec(compile(request["source"], "<program>", "exec"), namespace)
    except BaseException as error:
        return {"outputs": [describe(error) for _ in request["calls"]]}
    function = namespace[request["function"]]
    return {"outputs": [call(function, arguments) for arguments in request["calls"]]}


def main() -> None:
    """Serve until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    if sys.platform != "darwin":  # macOS refuses this limit; there the processor time bounds the memory too
        limit(resource.RLIMIT_AS, MEMORY_BYTES)
    for kind, value in (
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        limit(kind, value)
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        limit_cpu()
        try:
            reply = json.dumps(run(json.loads(line)))
        except MemoryError:
            reply = json.dumps({"outputs": None})
        print(reply, file=replies, flush=True)


if __name__ == "__main__":
    main()
