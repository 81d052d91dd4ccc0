"""Programs that loop, fork, delete, phone home or forge: right verdict, in time, nothing left running or written."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from processes import marked

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness.code.expected import ExpectedOutputs
from lopa_bench.harness.code.judge import PROGRAM_LIMITS, InputJudge, TimeRule, check_controls
from lopa_bench.harness.sandbox import isolation
from lopa_bench.harness.sandbox import program as program_module
from lopa_bench.harness.sandbox.isolation import Limits
from lopa_bench.harness.sandbox.sandbox import Sandbox

TAG = "LOPA_BENCH_TEST_TAG"
LIMITS = Limits(memory_bytes=2**30, cpu_s=30, wall_s=60.0)
LONGEST_S = 45.0
"""For one program on a machine that is busy with other things; alone it is a tenth of it."""


def hostile_module() -> ModuleType:
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "hostile_programs.py"
    spec = importlib.util.spec_from_file_location("hostile_programs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


HOSTILE = hostile_module()
Running = Callable[[], list[str]]


@pytest.fixture(scope="module", params=["bubblewrap", "limits"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return Sandbox(LIMITS, request.param)
    except PrerequisiteError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def judge(sandbox: Sandbox) -> InputJudge:
    expected = ExpectedOutputs(sandbox, "humaneval", "own", folder=None)
    expected.get(HOSTILE.PROBLEM)
    return InputJudge("humaneval", expected, sandbox, TimeRule(min_s=0.5, load_s=0.5))


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    """What is running with this test's mark in its environment, which every child inherits."""
    mark = uuid.uuid4().hex
    plain = isolation.environment
    monkeypatch.setattr(isolation, "environment", lambda scratch: plain(scratch) | {TAG: mark})

    return lambda: marked(mark)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept").write_text("secret")
    yield folder
    assert [entry.name for entry in folder.iterdir()] == ["kept"], "written outside"
    assert (folder / "kept").read_text() == "secret", "changed outside"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


def test_right_and_wrong_are_told_apart(judge: InputJudge) -> None:
    check_controls(judge, HOSTILE.PROBLEM)


@pytest.mark.parametrize("program", HOSTILE.HOSTILE, ids=lambda program: program.name)
def test_hostile(
    program: Any,
    judge: InputJudge,
    sandbox: Sandbox,
    running: Running,
    outside: Path,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("LOPA_BENCH_SECRET", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(program_module, "WALL_FACTOR", 3.0)
    source = HOSTILE.source_of(program, str(outside), listener.getsockname()[1])

    start = time.monotonic()
    verdict = judge.judge(HOSTILE.PROBLEM, source)
    seconds = time.monotonic() - start

    whys = program.refused if sandbox.isolation.kind == "limits" and program.refused else program.whys
    if program.passes and not (whys and whys is program.refused):
        assert verdict.passed, verdict
    else:
        assert not verdict.passed
        assert verdict.why in whys, verdict
    assert seconds < LONGEST_S
    assert running() == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["outside"], "a scratch folder is left"


def test_the_mark_finds_what_runs(sandbox: Sandbox, running: Running) -> None:
    """Or the check above could not fail."""
    with sandbox.open() as program:
        program.load("x = 1", 1.0)
        assert running() != []
    assert running() == []


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_nothing_but_the_interpreter_is_seen_in_bubblewrap() -> None:
    sandbox = Sandbox(PROGRAM_LIMITS, "bubblewrap")
    home = str(Path("~").expanduser())
    with sandbox.open() as program:
        program.load("import os\ndef look(path): return os.path.exists(path)\ndef who(): return os.getuid()", 5.0)
        paths = [[str(Path(__file__))], [f"{home}/.bashrc"]]
        assert [output.data for output in program.call("look", paths, [1.0, 1.0])] == [False, False]
        (user,) = program.call("who", [[]], [1.0])
        assert user.data == isolation.NOBODY
    assert os.getuid() != isolation.NOBODY
