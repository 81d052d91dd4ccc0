"""Several processes at one store, and processes that are killed while they write."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ResultsError
from lopa_bench.results import locks
from lopa_bench.results.store import list_runs, read_run
from lopa_bench.results.writer import create_run, reopen_run

NUM_KILLS = 6

PRELUDE = """
import sys
from pathlib import Path
from lopa_bench.results.schema import DecoderInfo, ModelInfo, RunRecord, SampleRecord, TaskInfo
from lopa_bench.results.writer import create_run
root = Path(sys.argv[1])
record = RunRecord(task=TaskInfo(name="t"), model=ModelInfo(name="m"), decoder=DecoderInfo(name="d"), fingerprint="f")
"""

CREATE_MANY = """
print("ready", flush=True)
sys.stdin.readline()
for _ in range(15):
    with create_run(root, sys.argv[2], record) as writer:
        print(writer.path.name, flush=True)
"""

HOLD = """
writer = create_run(root, "x", record)
writer.append(SampleRecord(id="a"))
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def running(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PRELUDE + script, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[str]) -> str:
    """Kill the process and return what it had still to say."""
    process.kill()
    return process.communicate()[0] if process.stdout and not process.stdout.closed else ""


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_processes_starting_at_once_get_different_numbers(tmp_path: Path) -> None:
    with running(CREATE_MANY, tmp_path, "one") as first, running(CREATE_MANY, tmp_path, "two") as second:
        assert [next_line(process) for process in (first, second)] == ["ready", "ready"]
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        names = [name for process in (first, second) for name in process.communicate(timeout=30)[0].split()]
        assert (first.returncode, second.returncode) == (0, 0)
    assert sorted(int(name[:4]) for name in names) == list(range(1, 31))
    assert [run.path.name for run in list_runs(tmp_path)] == sorted(names)
    assert not list(tmp_path.glob(".new-*"))


def test_another_process_cannot_write_the_run_until_the_first_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "0001-x"
    with running(HOLD, tmp_path) as holder:
        assert next_line(holder) == "ready"
        assert read_run(path).status == "running"
        with pytest.raises(ResultsError, match=rf"run 0001-x is in use by process {holder.pid} on "):
            reopen_run(path)
    assert read_run(path).status == "interrupted"
    with reopen_run(path) as writer:
        assert writer.done == {"a"}


def test_a_probe_of_the_lock_does_not_keep_a_writer_out(
    tmp_path: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_run(tmp_path, "x", make_run()).close()
    with (tmp_path / "0001-x" / ".lock").open() as probe:
        fcntl.flock(probe, fcntl.LOCK_SH)  # what `is_locked` does for a moment
        monkeypatch.setattr(locks, "sleep", lambda seconds: fcntl.flock(probe, fcntl.LOCK_UN))
        reopen_run(tmp_path / "0001-x").close()


def test_kill_9_while_appending_loses_no_finished_sample(tmp_path: Path) -> None:
    command = [sys.executable, Path(__file__).with_name("kill_loop.py"), tmp_path, str(NUM_KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    num_confirmed, _ = map(int, done.stdout.split())
    assert num_confirmed >= NUM_KILLS
