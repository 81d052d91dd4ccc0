from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from processes import marked

from lopa_bench.errors import PrerequisiteError, ScorerError
from lopa_bench.harness.code.compare import Comparison
from lopa_bench.harness.code.judge import AssertionJudge, check_controls
from lopa_bench.harness.sandbox import isolation, sandbox
from lopa_bench.harness.sandbox.isolation import Isolation, Limits
from lopa_bench.harness.sandbox.program import Output, read_output
from lopa_bench.harness.sandbox.sandbox import Sandbox, choose_isolation


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


SMALL = Limits(memory_bytes=2**30, cpu_s=20, wall_s=60.0)


@pytest.fixture(scope="module", params=["bubblewrap", "limits"])
def box(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return Sandbox(SMALL, request.param)
    except PrerequisiteError as error:
        pytest.skip(str(error))


def run(box: Sandbox, source: str, calls: list[list[Any]], limit_s: float = 2.0) -> list[Output]:
    with box.open() as program:
        loaded = program.load(source, 5.0)
        return [loaded] if loaded.why else list(program.call("f", calls, [limit_s] * len(calls)))


def test_outputs_of_calls(box: Sandbox) -> None:
    outputs = run(box, "def f(x, y=1): return (x, [y])", [[1], [2, "b"]])
    assert [output.data for output in outputs] == [{"tuple": [1, [1]]}, {"tuple": [2, ["b"]]}]
    assert {output.type_name for output in outputs} == {"tuple"}


def test_nothing_follows_an_error(box: Sandbox) -> None:
    outputs = run(box, "def f(x): return 1 // x", [[1], [0], [1]])
    assert [output.why for output in outputs] == [None, "error"]
    assert outputs[1].error == "ZeroDivisionError: integer division or modulo by zero"


def test_expressions_see_what_was_loaded(box: Sandbox) -> None:
    with box.open() as program:
        for source in ("class A: pass\ndef f(a): return a.x", "a = A()\na.x = {1, 2}"):
            assert program.load(source, 5.0).why is None
        (output,) = program.evaluate(["f(a)"], 2.0)
        assert output.data == {"set": [1, 2]}


def test_installed_packages_can_be_used(box: Sandbox) -> None:
    (output,) = run(box, "import numpy\ndef f(): return numpy.float64(1) / 4", [[]])
    assert (output.data, output.type_name) == (0.25, "numpy.float64")


def test_one_program_knows_nothing_of_another(box: Sandbox) -> None:
    run(box, "import builtins\nbuiltins.left = 1\nopen('left', 'w').write('x')\ndef f(): return 1", [[]])
    (output,) = run(box, "import os\ndef f(): return [os.listdir(), 'left' in dir(__builtins__)]", [[]])
    assert output.data == [[], False]


def test_order_in_sets_of_texts_is_the_same_every_time(box: Sandbox) -> None:
    source = "def f(): return list({'red', 'green', 'blue', 'yellow', 'black'})"
    assert len({str(run(box, source, [[]])[0].data) for _ in range(3)}) == 1


def test_big_values_come_as_digests(box: Sandbox) -> None:
    outputs = run(box, "def f(x): return [x] * 10**6", [[1], [1.0], [2]])
    assert [output.data for output in outputs] == [None] * 3
    assert outputs[0].digest == outputs[1].digest != outputs[2].digest


def test_processor_time_is_told(box: Sandbox) -> None:
    quick, slow = run(box, "def f(n):\n    for _ in range(n): pass", [[10], [3 * 10**6]])
    assert quick.cpu_s < slow.cpu_s


def test_the_children_import_no_torch(box: Sandbox) -> None:
    (output,) = run(box, "import sys\ndef f(): return sorted(sys.modules)", [[]])
    modules = set(output.data)
    assert not modules & {"torch", "numpy", "lopa_bench", "transformers", "evalplus", "dataclasses", "hashlib"}


def test_children_are_small(box: Sandbox) -> None:
    (output,) = run(box, "import resource\ndef f(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss", [[]])
    assert output.data < 40_000, "kilobytes"


@pytest.mark.parametrize(
    "message",
    [{}, {"value": 1}, {"digest": 5}, {"loaded": 1}, {"error": {"a": 1}}, {"error": "x", "timeout": 7},
     {"cpu_s": 10**400}, {"value": [{"int": "x"}], "type": 3}, {"value": 1, "cpu_s": "x"},
     {"value": 1, "cpu_s": float("nan")}, {"value": 1, "cpu_s": -5.0}, {"value": 1, "cpu_s": True}, {"passed": True}],
    ids=str,
)  # fmt: skip
def test_no_reply_of_a_program_s_own_confuses(message: dict[str, Any]) -> None:
    output = read_output(message)
    assert output.cpu_s >= 0.0
    assert output.why in (None, "error", "timeout", "crashed")
    assert not Comparison("humaneval", "f", 0).agrees([], output, Output(data=2, type_name="int"))


def test_many_at_once(box: Sandbox) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: run(box, "def f(x): return x * x", [[x]])[0].data, range(12)))
    assert found == [x * x for x in range(12)]


def test_the_record_says_how_programs_were_run(box: Sandbox) -> None:
    record = box.describe()
    assert record["limits"]["nproc"] == SMALL.num_processes
    if box.isolation.kind == "limits":
        assert "WITHOUT isolation" in record["warning"]
    else:
        assert record["isolation"].startswith("bubblewrap")
        assert record["warning"] is None


def test_bubblewrap_gives_way_to_limits_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_best", lambda: (None, "it is not installed"))
    chosen = choose_isolation()
    assert chosen.kind == "limits"
    assert chosen.warning is not None
    assert chosen.warning.endswith("(it is not installed)")
    with pytest.raises(PrerequisiteError, match="bubblewrap was asked for, but it is not installed"):
        choose_isolation("bubblewrap")


def test_missing_tool_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    assert isolation.bubblewrap() == "bubblewrap is not installed: `apt-get install bubblewrap`"


def test_a_tool_that_does_not_work_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "bwrap"
    tool.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(isolation.shutil, "which", lambda _: str(tool))
    assert isolation.bubblewrap() == "bubblewrap does not work here: bwrap: No permissions to create new namespace"


LOWERED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
from lopa_bench.harness.sandbox.sandbox import Sandbox
with Sandbox(kind=sys.argv[1]).open() as program:
    print(program.limits["nofile"], program.limits["fsize"], program.load("x = 1", 1.0).why)
"""


def test_a_lower_hard_limit_is_kept(box: Sandbox) -> None:
    command = [sys.executable, "-c", LOWERED, box.isolation.kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["40", str(2**20), "None"]


def test_limits_that_nothing_can_start_in_are_the_scorer_s_fault(box: Sandbox) -> None:
    """The child may start and then have no memory for a right program: the controls tell."""
    tiny = Sandbox(Limits(memory_bytes=2**20), box.isolation.kind)
    row = {
        "task_id": 1,
        "code": "def f(x):\n    bytearray(10**8)\n    return x",
        "test_list": ["assert f(1) == 1", "assert f(2) == 2"],
        "test_setup_code": "",
    }
    with pytest.raises(ScorerError, match=r"cannot be judged|scores would be too low"):
        check_controls(AssertionJudge(tiny), row)
    check_controls(AssertionJudge(box), row)


def test_an_interpreter_that_does_not_start_is_the_scorer_s_fault(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "python", lambda: "/nowhere/python")
    with pytest.raises(ScorerError, match="nowhere/python"):
        box.open()


def test_a_command_that_does_not_exist_is_the_scorer_s_fault(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Isolation, "command", lambda *_: ["/nowhere/bwrap"])
    with pytest.raises(ScorerError, match="/nowhere/bwrap does not start"):
        box.open()


def test_a_worker_killed_from_outside_is_told(box: Sandbox) -> None:
    with box.open() as program:
        program.load("import time\ndef f(): time.sleep(100)", 5.0)
        os.kill(worker_of(program), signal.SIGKILL)
        (output,) = program.call("f", [[]], [2.0])
    assert output.why == "killed"


def worker_of(program: Any) -> int:
    """The process of this machine that runs the program: the youngest descendant of the one we started."""
    found = program._process.pid
    while children := Path(f"/proc/{found}/task/{found}/children").read_text().split():
        found = int(children[-1])
    return found


PARENT = """
import sys, time
from lopa_bench.harness.sandbox.sandbox import Sandbox
program = Sandbox(kind=sys.argv[1]).open()
program.load("import os, time\\nif os.path.exists('/scratch'): os.fork()\\ndef f():\\n    while True: time.sleep(1)", 5)
print(program._process.pid, flush=True)
next(program.call("f", [[]], [1000.0]))
"""


def test_nothing_outlives_a_killed_parent(box: Sandbox, tmp_path: Path) -> None:
    mark = f"LOPA_BENCH_PARENT={os.getpid()}-{box.isolation.kind}"
    name, _, value = mark.partition("=")
    code = PARENT.replace(
        "program = ",
        "from lopa_bench.harness.sandbox import isolation\nplain = isolation.environment\n"
        f"isolation.environment = lambda scratch: plain(scratch) | {{{name!r}: {value!r}}}\nprogram = ",
    )
    command = [sys.executable, "-c", code, box.isolation.kind]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().strip().isdigit()
        assert marked(mark)
        parent.kill()
    deadline = time.monotonic() + 20
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(mark) == []
    assert list(tmp_path.iterdir()) == []
