"""The parts of a job of several processes, each by itself: signs of life, who is to blame, collectives, shards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lopa_bench.errors import CommunicationError, ConfigError
from lopa_bench.harness.distributed.beats import (
    COMPUTING,
    FOLDER,
    JUDGING,
    READING,
    WARM_UP,
    Beat,
    Sign,
    ending_of,
    group_size_of,
    last_sign,
    write_ending,
)
from lopa_bench.harness.distributed.collectives import TorchCommunicator
from lopa_bench.harness.distributed.launch import _cause
from lopa_bench.harness.distributed.watch import (
    QUIET,
    QUIET_S,
    Look,
    Watch,
    is_stopped,
    mebibytes_moved,
    quiet_seconds,
    watch_of_processes,
)
from lopa_bench.harness.runner import _signs_of
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.shards import ShardReader, ShardWriter, shard_folders, take_over
from lopa_bench.results.trace import RoundRecord


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]) as process:
        yield process
        process.kill()


def beat(folder: Path, rank: int) -> Beat:
    return Beat(rank, {FOLDER: str(folder)})


def test_a_sign_says_where_a_process_is(tmp_path: Path) -> None:
    assert str(last_sign(tmp_path, 0)) == "starting"
    one = beat(tmp_path, 0)
    one.begin("gsm8k-0007")
    one.round_ended(2)
    one.tell("all_gather")
    assert str(last_sign(tmp_path, 0)) == "answer gsm8k-0007, round 3, all_gather"
    assert last_sign(tmp_path, 0).is_busy and last_sign(tmp_path, 0).is_waiting
    one.end()
    assert last_sign(tmp_path, 0) == Sign(4, operation="between answers")
    Beat(1, {}).begin("nobody looks")
    assert last_sign(tmp_path, 1) == Sign()


def test_a_stopped_process_is_seen_and_its_end_is_left_to_be_read(sleeper: subprocess.Popen[bytes]) -> None:
    assert not is_stopped(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while not is_stopped(sleeper.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_stopped(sleeper.pid)
    sleeper.kill()
    assert sleeper.wait(30) == -signal.SIGKILL
    assert not is_stopped(sleeper.pid)


class Ranks:
    """Some ranks as a watch sees them, and its clock."""

    def __init__(self, size: int, timeout_s: float = 4.0, quiet_s: float = 60.0, group_size: int = 0) -> None:
        self.now = 0.0
        self.looks = dict.fromkeys(range(size), Look(Sign()))
        self.watch = Watch(
            lambda rank: self.looks[rank],
            size,
            timeout_s,
            quiet_s,
            group_size=lambda: group_size or size,
            clock=lambda: self.now,
        )

    def sign(self, rank: int, operation: str, sample: str = "a", *, busy: bool = True, **more: Any) -> None:
        count = self.looks[rank].sign.count + 1
        self.looks[rank] = Look(Sign(count, busy, sample, 3 if sample else -1, operation), **more)

    def after(self, seconds: float) -> str | None:
        """What is said when so much time has passed, looked at every half second."""
        for _ in range(int(2 * seconds)):
            self.now += 0.5
            if said := self.watch.look(self.looks):
                return said
        return None


def test_the_one_that_computes_is_to_blame_and_not_those_that_wait_for_it() -> None:
    ranks = Ranks(2)
    ranks.sign(0, "all_gather")
    assert ranks.after(1) is None
    ranks.sign(1, COMPUTING)  # the last to give a sign, and yet the one that hangs
    words = str(ranks.after(10))
    assert words == (
        "rank 1 of 2 gave no sign for 4 s (answer a, round 3, computing); a longer wait is allowed by --comm-timeout"
    )
    assert ranks.watch.most_silent([]) is None
    ranks.sign(0, COMPUTING)
    assert ranks.watch.most_silent([0]) is None  # heard of just now


def test_of_those_that_wait_the_one_that_is_behind_is_to_blame() -> None:
    ranks = Ranks(3)
    for rank, collectives in ((0, 8), (1, 7), (2, 8)):
        sign = Sign(1, True, "a", 3, "all_reduce", collectives)
        ranks.looks[rank] = Look(sign)
    assert str(ranks.after(10)).startswith("rank 1 of 3 gave no sign")


def test_a_group_that_computes_is_not_blamed_for_the_silence_of_another() -> None:
    ranks = Ranks(4, group_size=2)
    for rank, operation in ((0, "all_reduce"), (1, COMPUTING), (2, COMPUTING), (3, "all_reduce")):
        ranks.sign(rank, operation)
    assert ranks.after(1.5) is None
    ranks.sign(2, COMPUTING)
    ranks.sign(3, "all_reduce")
    assert str(ranks.after(10)).startswith("rank 1 of 4")


def test_reading_weights_and_judging_may_take_longer_but_not_for_ever() -> None:
    ranks = Ranks(2)
    ranks.sign(0, READING, "", busy=False)
    ranks.sign(1, JUDGING, "", busy=False)
    assert ranks.after(50) is None
    ranks.sign(0, READING, "", busy=False, progress=1)
    assert ranks.after(9) is None
    assert ranks.after(3) == "rank 1 of 2 gave no sign for 60 s (judging); a longer wait is allowed by " + QUIET


def test_a_rank_that_reads_its_weights_gives_signs() -> None:
    ranks = Ranks(1, quiet_s=10.0)
    for progress in range(20):
        ranks.looks[0] = Look(Sign(1, operation=READING), progress=progress)
        assert ranks.after(5) is None
    assert "reading the weights" in str(ranks.after(20))
    ranks.sign(0, JUDGING, "", busy=False)
    for progress in range(20, 30):  # who judges shows a bar, which proves nothing
        ranks.looks[0] = replace(ranks.looks[0], progress=progress)
        if said := ranks.after(5):
            break
    assert "judging" in str(said)


def test_a_warm_up_is_watched_as_an_answer_is_but_not_where_the_network_is_compiled(tmp_path: Path) -> None:
    one = beat(tmp_path, 0)
    one.begin(WARM_UP)
    assert last_sign(tmp_path, 0).is_busy and str(last_sign(tmp_path, 0)) == "warm-up, round 0, computing"
    one.begin(WARM_UP, may_be_long=True)
    one.round_ended(0)
    assert not last_sign(tmp_path, 0).is_busy and str(last_sign(tmp_path, 0)) == "warm-up, round 1, computing"
    one.begin("a")
    assert last_sign(tmp_path, 0).is_busy


def test_a_stopped_rank_is_found_in_any_phase_and_one_that_goes_on_is_forgiven() -> None:
    ranks = Ranks(2)
    ranks.sign(1, READING, "", busy=False, is_stopped=True)
    assert ranks.after(4) is None
    ranks.sign(1, READING, "", busy=False)
    assert ranks.after(20) is None
    ranks.sign(1, READING, "", busy=False, is_stopped=True)
    words = str(ranks.after(10))
    assert words.startswith("rank 1 of 2 was stopped for 6 s (reading the weights)") and "--comm-timeout" in words


def test_time_in_which_nobody_looked_is_nobodys_silence() -> None:
    ranks = Ranks(1)
    ranks.sign(0, COMPUTING)
    assert ranks.after(2) is None
    ranks.now += 3600.0  # everything was suspended
    assert ranks.after(1) is None
    assert str(ranks.after(10)).startswith("rank 0 of 1 gave no sign")


def test_the_bound_on_quiet_work_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quiet_seconds({}) == QUIET_S and quiet_seconds({QUIET: "5"}) == 5.0
    for value in ("soon", "0", "nan"):
        with pytest.raises(ConfigError, match=f"{QUIET}='{value}'"):
            quiet_seconds({QUIET: value})


def test_what_a_process_reads_is_seen(tmp_path: Path) -> None:
    own = f"/proc/{os.getpid()}/io"
    if not Path(own).exists():
        pytest.skip("the system does not tell")
    before = mebibytes_moved(own)
    (tmp_path / "weights").write_bytes(bytes(3 << 20))
    (tmp_path / "weights").read_bytes()
    assert mebibytes_moved(own) >= before + 6
    assert mebibytes_moved(str(tmp_path / "none")) == 0


def test_answers_that_are_judged_again_while_others_wait_are_signs() -> None:
    told: list[str] = []
    _signs_of(SimpleNamespace(begins=told.append))(1, 2)  # type: ignore[arg-type]
    assert told == [JUDGING]
    _signs_of(None)(1, 2)  # nobody waits


def test_who_answers_together_is_told_by_the_ranks(tmp_path: Path) -> None:
    assert group_size_of(tmp_path, 4) == 4
    Beat(2, {FOLDER: str(tmp_path)}, group_size=2)
    assert group_size_of(tmp_path, 4) == 2


def test_an_error_of_its_own_is_the_cause_of_the_others_loss(tmp_path: Path) -> None:
    watch = watch_of_processes(tmp_path, {0: os.getpid(), 1: os.getpid()}, timeout_s=60.0)
    for rank, kind, sentence, code in ((0, "CommunicationError", "lost", 1), (1, "ValueError", "ValueError: x", 1)):
        write_ending(kind, sentence, code, {FOLDER: str(tmp_path), "RANK": str(rank)})
    beat(tmp_path, 1).begin("a")
    cause = _cause({0: 1, 1: 1}, tmp_path, watch)
    assert isinstance(cause, CommunicationError)
    assert str(cause).startswith("rank 1 of 2 failed (answer a, round 0, computing): ValueError: x; what was finished")
    assert "rank 0 of 2 was ended by SIGKILL" in str(_cause({0: -9, 1: 1}, tmp_path, watch))
    write_ending("ConfigError", "no such model", 2, {FOLDER: str(tmp_path), "RANK": "1"})
    mistake = _cause({0: 1, 1: 2}, tmp_path, watch)
    assert (str(mistake), mistake.exit_code) == ("no such model", 2)
    write_ending("Stopped", "stopped: nothing was generated yet", 130, {FOLDER: str(tmp_path), "RANK": "1"})
    stopped = _cause({0: 1, 1: 130}, tmp_path, watch)
    assert "rank 1 of 2 was ended by SIGINT (answer a, round 0, computing); what was finished" in str(stopped)
    assert stopped.exit_code == 1
    assert ending_of(tmp_path, 5) is None


def test_a_rank_that_its_library_aborted_is_to_blame_only_where_nobody_else_is(tmp_path: Path) -> None:
    ranks = Ranks(2)
    ranks.sign(0, "all_gather")
    ranks.sign(1, COMPUTING)
    assert ranks.after(4) is None
    hung = _cause({0: -signal.SIGABRT, 1: None}, tmp_path, ranks.watch)
    assert str(hung).startswith("rank 1 of 2 gave no sign for 4 s (answer a, round 3, computing)")
    ranks.sign(1, COMPUTING)
    assert "rank 0 of 2 was ended by SIGABRT" in str(_cause({0: -signal.SIGABRT, 1: None}, tmp_path, ranks.watch))
    killed = _cause({0: -signal.SIGABRT, 1: -signal.SIGKILL}, tmp_path, ranks.watch)
    assert "rank 1 of 2 was ended by SIGKILL" in str(killed)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[TorchCommunicator]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield TorchCommunicator(dist.group.WORLD, torch.device("cpu"), beat(tmp_path, 0))
    dist.destroy_process_group()


def test_collectives_are_counted_and_timed_by_round(
    alone: TorchCommunicator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    monkeypatch.setattr(alone._beat, "tell", told.append)
    alone.start()
    for _ in range(2):
        rows = alone.all_gather(torch.ones(3, 5))
        assert rows.shape == (1, 3, 5) and rows.eq(1).all()
    alone.broadcast(torch.ones(7), 0)
    first, second = alone.finish()
    assert first.gathered_bytes == second.gathered_bytes == 4 * (15 + 1)
    assert (first.sent_bytes, second.sent_bytes) == (0, 28)
    assert first.comm_s > 0 and first.wait_s == 0
    assert told[:4] == ["all_gather", "computing"] * 2 and "broadcast" in told
    monkeypatch.undo()
    alone._beat.tell(COMPUTING)
    assert last_sign(tmp_path, 0).collectives == 4  # the last settles the one before it


def test_waiting_is_what_a_gather_took_longer_than_on_the_last_to_come(alone: TorchCommunicator) -> None:
    alone.start()
    alone.all_gather(torch.ones(1))
    alone._settle(torch.tensor([0.75]))
    alone._exchanges[0].comm_s = alone._exchanges[0].wait_s = 0.0
    alone._settle(torch.tensor([0.75, 0.25]))
    assert (alone._exchanges[0].comm_s, alone._exchanges[0].wait_s) == (0.25, 0.5)


def test_a_collective_off_the_main_thread_is_refused(alone: TorchCommunicator) -> None:
    caught: list[Exception] = []

    def work() -> None:
        try:
            alone.all_gather(torch.ones(1))
        except CommunicationError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "all_gather was called off the main thread" in str(caught[0])


def test_a_failed_collective_names_rank_round_and_operation(
    alone: TorchCommunicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("Connection closed by peer\nand much more")

    alone.start()
    alone._beat.begin("a")
    monkeypatch.setattr(dist, "broadcast", broken)
    for index in range(2):
        alone.all_gather(torch.ones(1))
        with pytest.raises(CommunicationError) as failed:
            alone.broadcast(torch.ones(1), 0)
        why = "broadcast among 1 ranks failed after 0 s: Connection closed by peer"
        assert str(failed.value) == f"rank 0, round {index}: {why}"
        alone._beat.round_ended(index)
    alone._beat.end()
    with pytest.raises(CommunicationError, match=r"^rank 0: broadcast among 1 ranks failed"):
        alone.broadcast(torch.ones(1), 0)


def test_shards_are_read_as_they_grow_and_taken_over_after_a_kill(tmp_path: Path) -> None:
    reader, one = ShardReader(tmp_path), ShardWriter(tmp_path, 1)
    assert reader.new() == []
    one.append(SampleRecord(id="a"))
    one.append_trace("a", [RoundRecord(index=0)])
    assert [sample.id for sample in reader.new()] == ["a"] and reader.new() == []
    one.append(SampleRecord(id="b"))
    with (one.path / "samples.jsonl").open("ab") as file:
        file.write(b'{"id": "half')
    assert [sample.id for sample in reader.new()] == ["b"]
    one.close()
    samples, traces = tmp_path / "samples.jsonl", tmp_path / "traces.jsonl.gz"
    assert take_over(tmp_path, samples, traces) and not take_over(tmp_path, samples, traces)
    assert samples.read_text().count('"id":') == 2 and traces.stat().st_size and not shard_folders(tmp_path)
