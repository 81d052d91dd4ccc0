"""What the processes of an answer told each other, by round: bytes, communication, waiting, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from lopa_bench.decoders.communication import Exchange
from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed import call_times
from lopa_bench.harness.distributed.beats import FOLDER, Beat, Sign, last_sign
from lopa_bench.harness.distributed.call_times import CallMeter, HostMoments, RoundTimes, moments_of
from lopa_bench.harness.distributed.tensor_group import TorchTensorGroup
from lopa_bench.harness.distributed.traffic import Traffic
from lopa_bench.results.trace import RoundRecord

TIMES = [RoundTimes(1.0, 0.5), RoundTimes(2.0, 0.0)]


class Branches:
    """A branch group's communicator whose rounds took what is given."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self.exchanges, self.is_started = exchanges, False

    def start(self) -> None:
        self.is_started = True

    def finish(self) -> Sequence[Exchange]:
        return self.exchanges


class Network:
    """A tensor group whose rounds took what is given."""

    def __init__(self, times: list[RoundTimes] | None) -> None:
        self.times, self.meter = times, CallMeter(HostMoments())

    def start(self) -> CallMeter:
        self.meter.add(0.0, 1.0, 700)
        return self.meter

    def finish(self, meter: CallMeter) -> list[RoundTimes] | None:
        assert meter is self.meter
        return self.times


def traffic(exchanges: Sequence[Exchange] = (), network: Network | None = None) -> Traffic:
    """The traffic of an answer, started and finished."""
    vocabulary = None if network is None else SimpleNamespace(group=network)
    group = SimpleNamespace(communicator=Branches(exchanges)) if exchanges else None
    one = Traffic(SimpleNamespace(group=group, model=SimpleNamespace(vocabulary=vocabulary)))
    one.start()
    one.finish()
    return one


def of_rounds(rounds: Sequence[RoundRecord]) -> list[tuple[Any, ...]]:
    return [(one.comm_s, one.wait_s, one.gathered_bytes, one.sent_bytes) for one in rounds]


ROUNDS = [RoundRecord(index=0), RoundRecord(index=1)]
EXCHANGES = [Exchange(0.25, 0.125, 3, 4), Exchange(0.5, 0.25, 5, 0)]


def test_one_process_tells_nobody_anything() -> None:
    one = traffic()
    assert (one.is_shared, one.seconds(), one.totals()) == (False, (0.0, 0.0), {})
    assert of_rounds(one.told(ROUNDS)) == [(None, None, None, None)] * 2


def test_rounds_and_sample_tell_of_branches_and_network_together() -> None:
    one = traffic(EXCHANGES, Network(TIMES))
    assert one.is_shared and one.seconds() == (3.75, 0.875)
    assert one.totals() == {"rounds": 2, "gathered_bytes": 8, "sent_bytes": 4, "network_bytes": 700}
    assert of_rounds(one.told(ROUNDS)) == [(1.25, 0.625, 3, 4), (2.5, 0.25, 5, 0)]


def test_the_network_alone_has_seconds_and_no_bytes_of_branches() -> None:
    one = traffic(network=Network(TIMES))
    assert one.totals() == {"network_bytes": 700}
    assert of_rounds(one.told(ROUNDS)) == [(1.0, 0.5, None, None), (2.0, 0.0, None, None)]


def test_the_round_in_which_an_answer_failed_is_in_no_trace_but_its_seconds_are_the_answers() -> None:
    one = traffic(EXCHANGES, Network(TIMES))
    assert of_rounds(one.told(ROUNDS[:1])) == [(1.25, 0.625, 3, 4)] and one.seconds() == (3.75, 0.875)


def test_seconds_that_a_device_cannot_tell_are_unknown_and_not_nothing() -> None:
    one = traffic(EXCHANGES, Network(None))
    assert one.seconds() == (None, None) and one.totals()["network_bytes"] == 700
    assert of_rounds(one.told(ROUNDS)) == [(None, None, 3, 4), (None, None, 5, 0)]


def test_answers_made_beside_each_other_have_a_share_of_the_seconds_and_no_rounds_of_their_own() -> None:
    one = traffic(network=Network(TIMES))
    assert one.seconds(0.25) == (0.75, 0.125) and one.totals(has_own_calls=False) == {}
    assert of_rounds(one.told(ROUNDS, has_own_calls=False)) == [(None, None, None, None)] * 2


def test_whoever_comes_last_to_a_call_waits_for_nobody() -> None:
    meter = CallMeter(HostMoments())
    for _ in range(2):
        meter.add(0.0, 0.0, 1)
    meter.round_ended()
    meter.round_ended()  # a round without a call
    meter.add(0.0, 0.0, 1)
    durations = [[1.0, 5.0, 3.0], [4.0, 2.0, 2.5]]
    assert meter.by_round(durations, 0) == [RoundTimes(3.0, 3.0), RoundTimes(), RoundTimes(2.5, 0.5)]
    assert meter.by_round(durations, 1) == [RoundTimes(3.0, 3.0), RoundTimes(), RoundTimes(2.5, 0.0)]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[TorchTensorGroup]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    assert dist.group.WORLD is not None
    yield TorchTensorGroup(dist.group.WORLD, "cpu", Beat(0, {FOLDER: str(tmp_path)}))
    dist.destroy_process_group()


def test_every_answer_in_the_making_hears_of_a_call(alone: TorchTensorGroup) -> None:
    first = alone.start()
    alone.all_reduce(torch.ones(3))
    first.round_ended()
    second = alone.start()
    assert alone.all_gather(torch.ones(2, 5)).shape == (1, 2, 5)
    assert (first.num_calls, first.num_bytes, second.num_calls, second.num_bytes) == (2, 52, 1, 40)
    times = alone.finish(first)
    alone.all_reduce(torch.ones(3))
    assert (first.num_calls, second.num_calls) == (2, 2)
    assert times is not None and [one.comm_s > 0 for one in times] == [True, True]
    assert all(one.wait_s == 0 for one in times)
    assert alone.finish(alone.start()) == [RoundTimes()]


def test_a_call_of_the_network_is_a_sign_of_life_under_its_own_name(
    alone: TorchTensorGroup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Sign] = []

    def during(*_: object, **__: object) -> None:
        seen.append(last_sign(tmp_path, 0))

    monkeypatch.setattr(dist, "all_reduce", during)
    alone._beat.begin("a")
    for _ in range(2):
        alone.all_reduce(torch.ones(1))
        seen.append(last_sign(tmp_path, 0))
    assert [str(one) for one in seen] == [
        "answer a, round 0, all_reduce of the network",
        "answer a, round 0, computing",
    ] * 2
    assert [one.is_waiting for one in seen] == [True, False] * 2
    assert [one.collectives for one in seen] == [1, 1, 2, 2]


def test_a_failed_call_of_the_network_names_rank_round_and_operation(
    alone: TorchTensorGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("Connection closed by peer\nand much more")

    alone._beat.begin("a")
    alone.all_gather(torch.ones(1))
    alone._beat.round_ended(0)
    monkeypatch.setattr(dist, "all_reduce", broken)
    with pytest.raises(CommunicationError) as failed:
        alone.all_reduce(torch.ones(1))
    call = "all_reduce of the network, number 2, among 1 ranks"
    assert str(failed.value) == f"rank 0, round 1: {call} failed after 0 s: Connection closed by peer"


def test_processes_that_made_different_calls_went_apart(
    alone: TorchTensorGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_two(part: Tensor) -> Tensor:
        return torch.stack((part, part + 3))

    monkeypatch.setattr(alone, "_gather", of_two)
    meter = alone.start()
    alone.all_reduce(torch.ones(1))
    with pytest.raises(CommunicationError, match="rank 1 of the network made 4 calls for this answer, rank 0 1: the"):
        alone.finish(meter)


class Device:
    """A queue of work: events are told apart by what was queued before them, once the device has come to them."""

    def __init__(self) -> None:
        self.queued_s = 0.0
        self.done_s = 0.0

    def event(self, enable_timing: bool) -> Any:
        assert enable_timing
        device = self

        class Event:
            def record(self) -> None:
                self.at = device.queued_s

            def synchronize(self) -> None:
                device.done_s = max(device.done_s, self.at)

            def elapsed_time(self, end: Any) -> float:
                assert device.done_s >= end.at, "asked before the device came there"
                return 1000 * (end.at - self.at)

        return Event()


def test_a_device_that_only_queues_is_timed_by_its_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(Event=device.event))
    meter = CallMeter(moments_of("cuda:1"))
    for seconds in (0.5, 2.0):
        device.queued_s += 1.0  # computing
        begin = meter._moments.now()  # type: ignore[union-attr]
        device.queued_s += seconds
        meter.add(begin, meter._moments.now(), 4)  # type: ignore[union-attr]
    assert meter.durations() == pytest.approx([0.5, 2.0])


def test_a_device_without_events_leaves_the_seconds_unknown(
    alone: TorchTensorGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace())
    assert call_times.moments_of("xpu") is None
    alone._moments = None
    meter = alone.start()
    alone.all_reduce(torch.ones(1))
    assert meter.num_calls == 1 and alone.finish(meter) is None
