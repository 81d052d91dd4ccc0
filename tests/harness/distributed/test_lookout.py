"""Ranks that watch over themselves and each other, where no launcher of ours does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from lopa_bench.errors import CommunicationError, ConfigError
from lopa_bench.harness.distributed.beats import FOLDER, READING, Beat, Sign
from lopa_bench.harness.distributed.lookout import STILL_S, TERMINATED, Lookout, looked_after
from lopa_bench.harness.distributed.meeting import tell_left
from lopa_bench.harness.distributed.place import check_not_one_of_many

HANGS = """
import sys, time
import torch.distributed as dist
from lopa_bench.harness.distributed.beats import Beat
from lopa_bench.harness.distributed.lookout import Lookout
beat = Beat(0, {})
lookout = Lookout(0, 2, 1, dist.HashStore(), beat, 0.5)
beat.begin("gsm8k-0007")
lookout.begin()
time.sleep(600)
"""
DEAF = """
import hashlib, signal
import torch.distributed as dist
from lopa_bench.harness.distributed.beats import Beat
from lopa_bench.harness.distributed import lookout
lookout.TERM_S = 0.5
signal.signal(signal.SIGTERM, lambda *_: None)
lookout.Lookout(0, 2, 1, dist.HashStore(), Beat(0, {}), 60.0).begin()
print("ready", flush=True)
hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 2**31 - 1)
"""


class Job:
    """The lookouts of some ranks, which take their turns when it is said, and their clock."""

    def __init__(self, size: int, group_size: int = 1, timeout_s: float = 4.0) -> None:
        self.now, self.store = 0.0, dist.HashStore()
        self.beats = [Beat(rank, {}) for rank in range(size)]
        self.lookouts = [
            Lookout(rank, size, group_size, self.store, beat, timeout_s, lambda: self.now)
            for rank, beat in enumerate(self.beats)
        ]

    def after(self, seconds: float, turning: tuple[int, ...] = (0, 1)) -> str | None:
        """What rank 0 says within so many seconds, in which only the threads of some ranks take their turns."""
        for _ in range(int(2 * seconds)):
            self.now += 0.5
            for rank in turning:
                assert self.lookouts[rank]._exchange()
            if said := self.lookouts[0].watch.look([one for one in (0, 1) if one not in self.lookouts[0]._gone]):
                return said
        return None


def test_a_rank_that_hangs_is_named_by_all_with_its_round() -> None:
    job = Job(2)
    job.beats[0].begin("a")
    job.beats[1].begin("b")
    job.beats[1].round_ended(6)
    for index in range(4):
        assert job.after(1) is None
        job.beats[0].round_ended(index)
    assert str(job.after(4)).startswith("rank 1 of 2 gave no sign for 6 s (answer b, round 7, computing)")


def test_a_rank_whose_thread_stands_still_is_named_within_an_answer_and_later_elsewhere() -> None:
    job = Job(2)
    job.beats[1].begin("b")
    assert job.after(2) is None
    job.beats[1].end()
    assert job.after(1) is None
    assert job.after(40, turning=(0,)) is None  # reading may keep a thread from its turn
    assert job.after(1) is None
    job.beats[1].tell(READING)
    assert job.after(1) is None
    said = str(job.after(STILL_S + 70, turning=(0,)))
    assert said.startswith("rank 1 of 2 stood still, as one that is stopped or killed, for 6")
    assert "(reading the weights)" in said


def test_a_rank_that_is_done_is_silent_in_peace() -> None:
    job = Job(2)
    job.beats[1].begin("b")
    assert job.after(1) is None
    job.lookouts[1]._over.set()
    job.lookouts[1]._run()
    said = str(job.after(2000, turning=(0,)))
    assert said.startswith("rank 0 of 2 gave no sign for 9")  # its own, for longer than it may


def test_the_cause_of_a_lost_connection_is_what_another_told() -> None:
    job = Job(2)
    tell_left(job.store, 1, ValueError("a fault"), str(Sign(1, True, "b", 7, "computing")))
    lost = CommunicationError("rank 0, round 3: all_gather failed")
    assert str(job.lookouts[0].cause_of(lost)) == (
        "rank 1 has left (answer b, round 7, computing): ValueError: a fault (here: rank 0, round 3: all_gather failed)"
    )
    heard = CommunicationError("rank 1 has left (answer b, round 7, computing): ValueError: a fault")
    assert job.lookouts[0].cause_of(heard) is heard
    assert job.store.add("lookout/spoken", 0) == 2  # so that no thread says it again


def test_the_cause_of_a_collective_that_took_too_long_is_the_rank_that_computes() -> None:
    job = Job(2, group_size=2)
    for beat in job.beats:
        beat.begin("b")
    job.beats[0].tell("all_gather")
    assert job.after(4.5) is None
    late = CommunicationError("rank 0, round 3: all_gather failed after 4 s: Timed out waiting")
    assert str(job.lookouts[0].cause_of(late)).startswith("rank 1 of 2 gave no sign for 4 s (answer b, round 0, comp")


def test_the_cause_of_a_broken_connection_is_the_rank_whose_thread_takes_no_turn() -> None:
    job = Job(2)
    job.beats[1].begin("b")
    assert job.after(1) is None
    assert job.after(2, turning=(0,)) is None
    lost = CommunicationError("rank 0, round 3: all_gather failed after 0 s: Connection closed by peer")
    assert str(job.lookouts[0].cause_of(lost)) == (
        "rank 1 of 2 stood still, as one that is stopped or killed, for 2 s (answer b, round 0, computing) (here: "
        "rank 0, round 3: all_gather failed after 0 s: Connection closed by peer)"
    )


def world(size: int) -> SimpleNamespace:
    store = dist.HashStore()
    return SimpleNamespace(
        rank=0, size=size, shape=SimpleNamespace(data=1), store=store, beat=Beat(0, {}), timeout_s=60.0
    )


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "lookout"]


def test_nobody_looks_out_where_one_is_alone_or_a_launcher_does_it() -> None:
    for size, environment in ((1, {}), (2, {FOLDER: "somewhere"})):
        with looked_after(world(size), environment):  # type: ignore[arg-type]
            assert threads() == []


def test_the_thread_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one, before = world(2), signal.set_wakeup_fd(-1)
    one.store = SimpleNamespace(clone=lambda store=one.store: store)
    with looked_after(one, {}):  # type: ignore[arg-type]
        assert threads() == ["lookout"]
    assert threads() == []
    assert signal.set_wakeup_fd(before) == -1


def test_a_process_whose_main_thread_hangs_is_ended_with_one_sentence() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if "lopa-bench:" in line]
    assert line.startswith("lopa-bench: rank 0 of 2 gave no sign for")
    assert "(answer gsm8k-0007, round 0, computing)" in line and line.endswith("the same command goes on from there")


def test_a_signal_to_terminate_is_heard_within_a_call_that_hears_none() -> None:
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == TERMINATED


STEP = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
BATCH = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "ENVIRONMENT": "BATCH"}


@pytest.mark.parametrize("environment", [STEP, {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}], ids=["step", "tasks"])
def test_tasks_of_a_bare_srun_are_no_job(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^this is task [01] of 2 that srun started.*torchrun"):
        check_not_one_of_many(environment)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        BATCH,
        {"SLURM_NTASKS": "8"},
        {**BATCH, "SLURM_STEP_NUM_TASKS": "1"},
        {**STEP, "RANK": "0", "WORLD_SIZE": "2"},
    ],
    ids=["no Slurm", "batch script", "salloc", "one task", "torchrun"],
)
def test_one_process_within_slurm_is_a_run(environment: dict[str, str]) -> None:
    check_not_one_of_many(environment)


def test_a_bare_srun_is_told_before_anything_begins(tmp_path: Path) -> None:
    place = {**os.environ, **STEP}
    command = [sys.executable, "-m", "lopa_bench.cli.app", "run", "-t", "mini-maths", "--runs-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=place, timeout=300, check=False)
    assert done.returncode == 2 and done.stderr.startswith("lopa-bench: this is task 1 of 2 that srun started")
    assert not list(tmp_path.iterdir())
