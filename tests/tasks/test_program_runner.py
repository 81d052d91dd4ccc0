"""The worker: its limits, what comes back from it, and what happens when it dies or cannot start."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lopa_bench.errors import PrerequisiteError
from lopa_bench.tasks.program_runner import WORKER, Output, ProgramRunner
from lopa_bench.tasks.program_worker import CPU_S


@pytest.fixture(scope="module")
def runner() -> Iterator[ProgramRunner]:
    with ProgramRunner() as runner:
        yield runner


def outputs(runner: ProgramRunner, source: str, *arguments: object) -> tuple[Output, ...]:
    return runner.run(source, "f", [[argument] for argument in arguments]).outputs


def test_outputs_come_back_in_order(runner: ProgramRunner) -> None:
    found = outputs(runner, "def f(x):\n    return [x, 10 // x]", 1, 0, 5)
    assert found == (
        Output([1, 10]),
        Output(error="ZeroDivisionError: integer division or modulo by zero"),
        Output([5, 2]),
    )


def test_programs_do_not_see_each_other(runner: ProgramRunner) -> None:
    assert outputs(runner, "g = 1\ndef f(x):\n    return g", 0)[0].value == 1
    (found,) = outputs(runner, "def f(x):\n    return g", 0)
    assert found.error == "NameError: name 'g' is not defined"


def test_only_the_listed_builtins_exist_there(runner: ProgramRunner) -> None:
    # Not checked beforehand here: this is the second wall, behind the check.
    for source in ("open('x')", "__import__('os')", "eval('1')", "getattr(x, 'y')"):
        (found,) = outputs(runner, f"def f(x):\n    return {source}", 0)
        assert found.error is not None
        assert found.error.startswith("NameError")
    (found,) = outputs(runner, "def f(x):\n    import os", 0)
    assert found.error == "ImportError: __import__ not found"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{1: 2}", "of type dict"),
        ("(1, 2)", "of type tuple"),
        ("[{1}]", "of type set"),
        ("map(str, [1])", "of type map"),
        ("f", "of type function"),
        ("[0] * 20000", "too big"),
        ("'a' * 200000", "too big"),
        ("['a' * 60000, 'b' * 60000]", "too big"),
        ("10 ** 5000", "too big"),
    ],
)
def test_what_cannot_be_an_answer_is_an_error(runner: ProgramRunner, expression: str, message: str) -> None:
    (found,) = outputs(runner, f"def f(x):\n    return {expression}", 0)
    assert found.error is not None
    assert found.error.startswith("NotPlain")
    assert message in found.error


def test_shared_and_circular_lists_do_not_blow_up(runner: ProgramRunner) -> None:
    for body in ("for _ in range(60): x = [x, x]", "x = []; x.append(x)", "for _ in range(100000): x = [x]"):
        (found,) = outputs(runner, f"def f(x):\n    {body}\n    return x", 0)
        assert found.error is not None
        assert found.error.startswith("NotPlain")


def test_a_program_that_takes_all_memory_gets_an_error_and_the_next_one_runs(runner: ProgramRunner) -> None:
    for body in ("[0] * 10**9", "'a' * 10**9", "['a' * 10**7 for _ in range(10**9)]", "'%999999999d' % 1"):
        (found,) = outputs(runner, f"def f(x):\n    return {body}", 0)
        assert found.error is not None
        assert found.error.startswith("MemoryError")
    assert outputs(runner, "def f(x):\n    return x", 3) == (Output(3),)


def test_an_endless_program_is_ended_by_its_processor_time(runner: ProgramRunner) -> None:
    # This one never comes back to the interpreter, so that no check inside it could end it.
    result = runner.run("def f(x):\n    return sum(range(10**15))", "f", [[0]])
    assert (result.why, result.outputs) == ("timeout", ())
    assert outputs(runner, "def f(x):\n    return x", 3) == (Output(3),)


def test_processor_time_is_counted_anew_for_every_program() -> None:
    busy = "def f(x):\n    n = 0\n    while n < 2000000: n += 1\n    return n"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with ProgramRunner() as own:
        for _ in range(60):
            assert outputs(own, busy, 0) == (Output(2_000_000),)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime > 2 * CPU_S  # together they took more than any one may


def worker_pid(runner: ProgramRunner) -> int:
    outputs(runner, "def f(x):\n    return x", 0)
    assert runner._worker is not None
    return runner._worker.pid


def test_a_worker_serves_many_programs_fast(runner: ProgramRunner) -> None:
    pid = worker_pid(runner)
    start = time.monotonic()
    for number in range(400):
        assert outputs(runner, "def f(x):\n    return x + 1", number) == (Output(number + 1),)
    assert time.monotonic() - start < 20  # well under a second on an idle machine
    assert worker_pid(runner) == pid


def test_the_wall_clock_ends_a_worker_that_does_not_answer() -> None:
    script = "import time; print('ready', flush=True); time.sleep(600)"
    with ProgramRunner([sys.executable, "-c", script], program_timeout_s=0.2) as runner:
        start = time.monotonic()
        assert runner.run("def f(): pass", "f", [[]]).why == "timeout"
        assert time.monotonic() - start < 10


def test_the_whole_group_is_killed() -> None:
    child = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print('ready', flush=True); input(); "
    script = child + 'print(\'{"outputs": [{"value": %d}]}\' % p.pid, flush=True); input()'
    with ProgramRunner([sys.executable, "-c", script]) as runner:
        pid = runner.run("", "f", [[]]).outputs[0].value
        assert Path(f"/proc/{pid}").exists() or sys.platform != "linux"
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    """Tell whether a process is there and not just waiting to be collected."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_a_worker_that_dies_is_a_crash_of_the_program_and_is_replaced() -> None:
    script = "import os; print('ready', flush=True); input(); os.abort()"
    with ProgramRunner([sys.executable, "-c", script]) as runner:
        assert runner.run("", "f", [[]]).why == "crashed"
        assert runner.run("", "f", [[]]).why == "crashed"


@pytest.mark.parametrize(
    "command",
    [["/no/such/python"], [sys.executable, "-c", "raise SystemExit(3)"], [sys.executable, "-c", "print('no')"]],
)
def test_a_worker_that_cannot_start_is_an_error_and_no_wrong_answer(command: list[str]) -> None:
    with ProgramRunner(command) as runner, pytest.raises(PrerequisiteError, match="programs cannot be judged"):
        runner.run("def f(x):\n    return x", "f", [[1]])


def test_threads_may_share_a_runner(runner: ProgramRunner) -> None:
    found: dict[int, object] = {}

    def work(number: int) -> None:
        found[number] = [outputs(runner, "def f(x):\n    return x", number + i)[0].value for i in range(20)]

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1000 * number: [1000 * number + i for i in range(20)] for number in range(4)}


def test_closing_ends_the_worker_and_so_does_forgetting_it() -> None:
    runner = ProgramRunner()
    pid = worker_pid(runner)
    runner.close()
    assert not is_running(pid)
    pid = worker_pid(runner)  # a closed runner starts again when it is asked
    del runner
    assert not is_running(pid)


def test_the_worker_needs_the_standard_library_alone() -> None:
    tree = ast.parse(WORKER.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)
