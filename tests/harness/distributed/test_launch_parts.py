"""The parts of a job of several processes, each by itself: signs of life, who is to blame, collectives, shards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from lopa_bench.decoders.communication import Exchange
from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed.beats import FOLDER, Beat, Sign, ending_of, last_sign, write_ending
from lopa_bench.harness.distributed.collectives import TorchCommunicator
from lopa_bench.harness.distributed.launch import _cause
from lopa_bench.harness.distributed.traffic import tensor_work, traffic
from lopa_bench.harness.distributed.watch import Watch, is_stopped
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


def test_the_one_that_computes_is_to_blame_and_not_those_that_wait_for_it(tmp_path: Path) -> None:
    watch = Watch(tmp_path, {0: os.getpid(), 1: os.getpid()}, timeout_s=0.01)
    for rank, operation in ((0, "all_gather"), (1, "computing")):
        one = beat(tmp_path, rank)
        one.begin("a")
        one.tell(operation)
    words = watch.most_silent([0, 1])
    assert words is not None and words.startswith("rank 1 of 2 gave no sign") and "computing" in words
    assert watch.most_silent([]) is None


def test_reading_weights_is_no_silence(tmp_path: Path) -> None:
    watch = Watch(tmp_path, {0: os.getpid()}, timeout_s=1.0)
    long_ago = time.monotonic() - 100
    watch._seen[0] = (0, long_ago)
    assert watch.look([0]) is None
    beat(tmp_path, 0).begin("a")
    watch._seen[0], watch._next = (1, long_ago), 0.0
    assert "answer a, round 0" in str(watch.look([0]))


def test_an_error_of_its_own_is_the_cause_of_the_others_loss(tmp_path: Path) -> None:
    watch = Watch(tmp_path, {0: os.getpid(), 1: os.getpid()}, timeout_s=1.0)
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


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[TorchCommunicator]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield TorchCommunicator(dist.group.WORLD, torch.device("cpu"))
    dist.destroy_process_group()


def test_collectives_are_counted_and_timed_by_round(alone: TorchCommunicator) -> None:
    told: list[str] = []
    alone._tell = told.append
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


def test_the_bytes_that_hold_a_network_together_are_stored_with_those_of_the_branches() -> None:
    meter = SimpleNamespace(seconds=0.5, num_bytes=700)
    model = SimpleNamespace(vocabulary=SimpleNamespace(group=SimpleNamespace(meter=meter)))
    assert tensor_work(model) == (0.5, 700) and tensor_work(SimpleNamespace(vocabulary=None)) == (0.0, 0)
    assert traffic([]) == {} and traffic([], 700) == {"network_bytes": 700}
    both = traffic([Exchange(gathered_bytes=3, sent_bytes=4), Exchange(gathered_bytes=5)], 700)
    assert both == {"rounds": 2, "gathered_bytes": 8, "sent_bytes": 4, "network_bytes": 700}


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
    alone.all_gather(torch.ones(1))
    monkeypatch.setattr(dist, "broadcast", broken)
    with pytest.raises(CommunicationError) as failed:
        alone.broadcast(torch.ones(1), 0)
    assert str(failed.value) == "rank 0, round 1: broadcast among 1 ranks failed after 0 s: Connection closed by peer"


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
