"""The launcher with ranks that are small programs of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lopa_bench.errors import CommunicationError, LopaBenchError
from lopa_bench.harness.distributed.launch import launch

PLACES = "import os, sys, time\nrank, size = os.environ['RANK'], os.environ['WORLD_SIZE']\nfolder = sys.argv[1]\n"
STOPPED = """
from lopa_bench.errors import Stopped
from lopa_bench.harness.distributed.launch import launch
try:
    launch([FOLDER], 2, 60.0, ["-c", PROGRAM])
except Stopped as stopped:
    print("told:", stopped)
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_ranks_know_their_place_and_end_together(tmp_path: Path) -> None:
    program = f"{PLACES}open(f'{{folder}}/{{rank}}-of-{{size}}', 'w').write(os.environ['LOCAL_RANK'])"
    assert launch([str(tmp_path)], 3, program=["-c", program]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0-of-3", "1-of-3", "2-of-3"]


def test_a_rank_that_ends_in_error_takes_the_others_with_it_and_its_last_line_is_told(tmp_path: Path) -> None:
    ending = "open(f'{folder}/{rank}', 'w').write(str(os.getpid()))\n"
    ending += "if rank == '1':\n    sys.exit('no luck')\ntime.sleep(100)"
    with pytest.raises(CommunicationError) as failed:
        launch([str(tmp_path)], 2, program=["-c", PLACES + ending])
    assert str(failed.value).startswith("rank 1 of 2 failed: no luck; what was finished is stored")
    assert not is_alive(int((tmp_path / "0").read_text()))


@pytest.mark.parametrize(
    ("problem", "words"),
    [("BrokenPipeError(32, 'x')", None), ("OSError(28, 'No space')", "the output cannot be written: No space")],
)
def test_output_that_nobody_reads_ends_all_in_peace_and_full_output_in_a_sentence(
    problem: str, words: str | None, tmp_path: Path
) -> None:
    body = f"from lopa_bench.cli.ranks import as_rank\nwith as_rank():\n    if rank == '0':\n        raise {problem}\n"
    ending = f"open(f'{{folder}}/{{rank}}', 'w').write(str(os.getpid()))\n{body}    time.sleep(100)"
    if words is None:
        assert launch([str(tmp_path)], 2, program=["-c", PLACES + ending]) == 0
    else:
        with pytest.raises(LopaBenchError) as failed:
            launch([str(tmp_path)], 2, program=["-c", PLACES + ending])
        assert (str(failed.value), failed.value.exit_code) == (words, 2)
    assert not any(is_alive(int(file.read_text() or 0)) for file in tmp_path.iterdir())


def test_ranks_end_with_their_launcher_even_stopped_ones_and_leave_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ending = "from lopa_bench.harness.distributed.beats import die_with_parent\ndie_with_parent()\n"
    program = f"{PLACES}{ending}open(f'{{folder}}/{{rank}}', 'w').write(str(os.getpid()))\ntime.sleep(100)"
    source = STOPPED.replace("FOLDER", repr(str(tmp_path))).replace("PROGRAM", repr(program))
    launcher = subprocess.Popen([sys.executable, "-c", source])
    pid_files = [tmp_path / "0", tmp_path / "1"]
    wait_for(lambda: all(file.exists() and file.read_text() for file in pid_files))
    pids = [int(file.read_text()) for file in pid_files]
    assert list(tmp_path.glob("lopa-bench-ranks-*"))
    os.kill(pids[1], signal.SIGSTOP)
    launcher.kill()
    launcher.wait(60)
    wait_for(lambda: not any(is_alive(pid) for pid in pids))
    assert not list(tmp_path.glob("lopa-bench-ranks-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_with_one_sentence(number: signal.Signals, tmp_path: Path) -> None:
    program = f"{PLACES}open(f'{{folder}}/{{rank}}', 'w').write(str(os.getpid()))\ntime.sleep(100)"
    source = STOPPED.replace("FOLDER", repr(str(tmp_path))).replace("PROGRAM", repr(program))
    as_command = "import signal\nsignal.signal(signal.SIGTERM, signal.default_int_handler)\n"
    launcher = subprocess.Popen([sys.executable, "-c", as_command + source], stdout=subprocess.PIPE, text=True)
    pid_files = [tmp_path / "0", tmp_path / "1"]
    wait_for(lambda: all(file.exists() and file.read_text() for file in pid_files))
    launcher.send_signal(number)
    said, _ = launcher.communicate(timeout=60)
    assert said == "told: stopped; what was finished is stored, the same command goes on from there\n"
    assert not any(is_alive(int(file.read_text())) for file in pid_files)
