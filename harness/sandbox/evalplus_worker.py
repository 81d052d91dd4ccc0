"""The child process in which the evalplus package's own evaluator judges programs. Started by its path.

It is given a problem and a program a line and answers with the package's words for both halves of the tests. The
package runs the program in a child of this process and trusts what that child says; see `code_judge` for a verdict
that does not.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lopa_bench.harness.sandbox import sandbox_child
else:  # found beside this file: the package is not there, and nothing else is imported
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    import sandbox_child

    sys.path.pop(0)

LEAST_MEMORY = 2 * 2**30


def allowed_memory() -> int:
    """Return the most that the package may ask for: above a hard limit its children would all fail at their start."""
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_STACK)
    hard = [resource.getrlimit(kind)[1] for kind in kinds]
    return min((limit for limit in hard if limit != resource.RLIM_INFINITY), default=2**40)


def evaluator() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Import the package and return what judges one program."""
    os.environ["EVALPLUS_MAX_MEMORY_BYTES"] = str(allowed_memory())
    from evalplus.data.mbpp import mbpp_deserialize_inputs
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
    from evalplus.evaluate import check_correctness
    from evalplus.gen.util import trusted_exec

    last: dict[str, Any] = {}

    def prepare(family: str, row: dict[str, Any]) -> dict[str, Any]:
        """Return a problem with its ground truth, kept for the next program as long as that is for the same."""
        if last.get("task_id") != row["task_id"]:
            last.clear()
            last.update(row, truth={})
            for half in ("base", "plus"):
                inputs = list(row[f"{half}_input"])
                last[f"{half}_input"] = mbpp_deserialize_inputs(row["task_id"], inputs) if family == "mbpp" else inputs
                outputs, times = trusted_exec(
                    row["prompt"] + row["canonical_solution"],
                    last[f"{half}_input"],
                    row["entry_point"],
                    record_time=True,
                    output_not_none=family == "mbpp" and row["entry_point"] in MBPP_OUTPUT_NOT_NONE_TASKS,
                )
                last["truth"] |= {half: outputs, f"{half}_time": times}
        return last

    def judge(request: dict[str, Any]) -> dict[str, Any]:
        problem = prepare(request["family"], request["row"])
        result = check_correctness(
            request["family"],
            0,
            problem,
            request["source"],
            problem["truth"],
            base_only=request["base_only"],
            fast_check=True,
            min_time_limit=request["min_s"],
            gt_time_limit_factor=request["factor"],
        )
        return {half: result[half][0] for half in ("base", "plus") if half in result}

    return judge


def main() -> None:
    """Serve until there are no more requests."""
    started = sandbox_child.start()
    if started is None:
        return
    channel = started[0]
    try:
        if allowed_memory() < LEAST_MEMORY:
            raise MemoryError(f"hard limits leave {allowed_memory()} bytes; it needs {LEAST_MEMORY}")
        judge = evaluator()
    except Exception as error:
        channel.send({"fault": f"{type(error).__name__}: {error}"})
        return
    channel.send({"evaluator": "ready"})
    while (request := channel.receive()) is not None:
        try:
            channel.send(judge(request))
        except Exception as error:
            channel.send({"fault": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
