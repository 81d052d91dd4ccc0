"""The child process that runs a benchmark's own test code. Started by its path, with the standard library alone.

HumanEval's tests are functions that call the candidate as they go. They run here, in a process that the candidate
never sees: what they are given to test is a stand-in that asks the parent for the value of each call. The parent has
the program's process work it out and sends back a value of plain types.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lopa_bench.harness.sandbox import plain_values, sandbox_child
else:  # found beside this file: the package is not there, and nothing else is imported
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    import plain_values
    import sandbox_child

    sys.path.pop(0)


def check(request: dict[str, Any], candidate: Callable[..., Any]) -> dict[str, Any]:
    """Run the test code on the stand-in; helpers that the problem's prompt defines are the prompt's own."""
    random.seed(0)
    namespace: dict[str, Any] = {}
    exec(compile(request["prompt"], "<prompt>", "exec", dont_inherit=True), namespace)
    namespace[request["entry_point"]] = candidate
    exec(compile(request["test"], "<test>", "exec", dont_inherit=True), namespace)
    try:
        namespace["check"](candidate)
    except Exception as error:
        return {"passed": False, "reason": f"{type(error).__name__}: {str(error)[:200]}"}
    return {"passed": True}


def main() -> None:
    """Serve until there are no more requests."""
    started = sandbox_child.start()
    if started is None:
        return
    channel = started[0]

    def candidate(*arguments: Any) -> Any:
        channel.send({"arguments": [plain_values.encode(argument) for argument in arguments]})
        return plain_values.decode(channel.receive()["value"])

    while (request := channel.receive()) is not None:
        channel.send(check(request, candidate))


if __name__ == "__main__":
    main()
