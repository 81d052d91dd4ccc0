"""Which spreads over processes there are, and how those that cannot be are refused."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from lopa_bench.cli.views import plan_lines
from lopa_bench.errors import CommunicationError, ConfigError, LopaBenchError, PrerequisiteError
from lopa_bench.harness import environment as environments
from lopa_bench.harness.distributed.backends import BACKENDS, HCCL_TIMEOUTS, CommBackend
from lopa_bench.harness.distributed.mesh import MeshShape, join
from lopa_bench.harness.distributed.spread import Spread, is_head, settle
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec, resolve

Start = Callable[..., RunSpec]


def spread(environment: dict[str, str] | None = None, device: str = "cpu", **asked: Any) -> Spread:
    asked = {"task": "mini-maths", "decoder": "lopa", "devices": 4, **asked}
    return settle(resolve(RunSpec(**asked), environment={}), device, environment or {})


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ({}, (1, 4, 1)),
        ({"devices": None}, (1, 1, 1)),
        ({"decoder": "d2f"}, (4, 1, 1)),
        ({"tensor_parallel": 2}, (1, 2, 2)),
        ({"decoder": "vanilla", "tensor_parallel": 2}, (2, 1, 2)),
        ({"branch_parallel": 2}, (2, 2, 1)),
        ({"data_parallel": 2}, (2, 2, 1)),
        ({"devices": 8, "data_parallel": 2, "branch_parallel": 2, "tensor_parallel": 2}, (2, 2, 2)),
    ],
    ids=str,
)
def test_devices_that_nobody_placed_go_to_branches_for_lopa_and_to_samples_otherwise(
    asked: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    assert spread(**asked).shape == MeshShape(*shape)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"devices": 0}, "--devices 0"),
        ({"devices": 2, "data_parallel": -1}, "--data-parallel -1"),
        ({"devices": 3, "branch_parallel": 2}, "3 devices cannot be 1 (data) x 2 (branch) x 1 (tensor)"),
        ({"decoder": "d2f", "branch_parallel": 2}, "decoder d2f has none"),
        ({"decoder": "d2f", "data_parallel": 2}, "uses 2 of them"),
        ({"cache_protocol": "one"}, "'one' is not one of two-phase, single-phase"),
        ({"cache_protocol": "single-phase", "options": {"full_attention": True}}, "block-causal"),
        ({"devices": None, "tensor_parallel": 2}, "1 device cannot be 1 (data) x 1 (branch) x 2 (tensor)"),
        ({"devices": None, "tensor_parallel": 2}, "--devices 2 starts as many processes"),
        ({"comm_timeout": 0.0}, "--comm-timeout 0"),
        ({"comm_timeout": 1e30}, "--comm-timeout 1e+30"),
        ({"comm_timeout": float("nan")}, "--comm-timeout nan"),
        ({"comm_timeout": float("inf")}, "--comm-timeout inf"),
        ({"device": "cpu", "decoder": "server", "base_url": "http://localhost:1/v1"}, "a server spreads its own work"),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_sentence(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        spread(**asked)
    assert words in str(refused.value)


def test_one_phase_is_for_block_causal_runs_and_for_runs_without_keys() -> None:
    assert spread(cache_protocol="single-phase", options={"full_attention": False}).cache_protocol == "single-phase"
    assert spread(cache_protocol="single-phase", options={"base": "vanilla"}).shape.branch == 4


def test_the_environment_of_a_job_says_how_many_there_are() -> None:
    job = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    assert spread(job, devices=None).shape == MeshShape(1, 2, 1)
    with pytest.raises(ConfigError, match=r"--devices 4 was given, but the environment .* started with 2; leave"):
        spread(job)
    with pytest.raises(ConfigError, match="the job has 2 ranks"):
        join(MeshShape(1, 4, 1), "cpu", 3.0, job)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE='two' in the environment is no number"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 in the environment is not within"),
        ({"RANK": "first"}, "RANK='first' in the environment is no number"),
        ({"RANK": "5"}, "RANK=5 in the environment is not within 0 to 1"),
        ({"RANK": "-1"}, "RANK=-1 in the environment is not within 0 to 1"),
        ({"LOCAL_RANK": ""}, "LOCAL_RANK='' in the environment is no number"),
        ({"LOCAL_WORLD_SIZE": "3"}, "LOCAL_WORLD_SIZE=3 in the environment is not within 1 to 2"),
    ],
    ids=str,
)
def test_left_over_variables_that_tell_of_no_job_are_refused(variables: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        spread({"RANK": "0", "WORLD_SIZE": "2", **variables}, devices=None)
    assert words in str(refused.value) and "unset RANK and WORLD_SIZE to run alone" in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "MASTER_ADDR and MASTER_PORT, where they meet, is not set"),
        ({"MASTER_ADDR": "localhost"}, "but MASTER_PORT, where"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "abc"}, "MASTER_PORT='abc' in the environment is no number"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "70000"}, "MASTER_PORT=70000 in the environment is not within"),
    ],
    ids=str,
)
def test_a_job_without_a_place_to_meet_is_refused_at_once(variables: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        join(MeshShape(1, 2, 1), "cpu", 0.5, {"RANK": "1", "WORLD_SIZE": "2", **variables})
    assert words in str(refused.value)


def test_more_processes_than_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    two = environments.Backend("cuda", "nccl", True, ("H200", "H200"))
    monkeypatch.setattr(environments, "backends", lambda: [two])
    with pytest.raises(PrerequisiteError, match="4 processes want a device each, but this machine has 2 of cuda"):
        spread(device="cuda")
    on_two_machines = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    assert spread(on_two_machines, device="cuda").shape.branch == 4
    with pytest.raises(ConfigError, match="--device cuda:1 names one device"):
        spread(device="cuda:1")


def test_processes_without_a_branch_or_a_processor_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    [note] = spread(options={"branches": 3}).notes
    assert "3 branches for 4 processes: 1 of these compute nothing" in note
    assert spread(options={"branches": 4}).notes == ()
    [note] = spread(options={"branches": 8}, devices=8).notes
    assert "8 processes share 4 processors here" in note
    [note] = spread(options={"branches": 4}, threads=2).notes
    assert "4 processes of 2 threads each share 4 processors here" in note
    on_two_machines = {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    assert spread(on_two_machines, options={"branches": 8}, devices=8).notes == ()


def test_the_plan_shows_how_processes_are_arranged_and_what_each_of_them_holds(start: Start) -> None:
    alone = run(start(decoder="lopa", options={"branches": 8}, dry_run=True)).plan
    shared = run(start(decoder="lopa", options={"branches": 8}, devices=6, data_parallel=2, dry_run=True)).plan
    assert shared.document()["processes"] == {"data": 2, "branch": 3, "tensor": 1}
    assert shared.memory.logits * 8 == alone.memory.logits * 3  # the most branches of one process
    lines = "\n".join(plan_lines(shared))
    assert "processes: 6, 2 (data) x 3 (branch) x 1 (tensor)" in lines and " in each on cpu" in lines
    assert "processes:" not in "\n".join(plan_lines(alone))


def test_heads_judge_and_store() -> None:
    shape = MeshShape(2, 2, 1)
    heads = [is_head(shape, {"RANK": str(rank), "WORLD_SIZE": "4"}) for rank in range(4)]
    assert heads == [True, False, True, False] and is_head(MeshShape(), {})


def test_a_spread_run_without_processes_is_refused(start: Start) -> None:
    with pytest.raises(ConfigError, match="2 devices need a process each"):
        run(start(devices=2))
    assert run(start(devices=2, dry_run=True)).run is None


def test_backends_are_known_by_the_device() -> None:
    assert {device: one.name for device, one in BACKENDS.items()} == {"cuda": "nccl", "npu": "hccl", "cpu": "gloo"}
    assert BACKENDS["cpu"].take_device(7) == "cpu"
    with pytest.raises(LopaBenchError, match="wants cuda:5, but"):
        BACKENDS["cuda"].take_device(5)


def test_hccl_gets_its_own_timeouts_and_says_what_it_lacks() -> None:
    place = {"HCCL_EXEC_TIMEOUT": "77"}
    with pytest.raises(PrerequisiteError, match="hccl needs the package torch_npu"):
        BACKENDS["npu"].prepare(300.0, place)
    assert place == {"HCCL_CONNECT_TIMEOUT": "300", "HCCL_EXEC_TIMEOUT": "77"}
    CommBackend("cpu", "gloo").prepare(1.0, place)


def test_hccls_timeouts_are_told_with_their_values_and_where_these_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCCL_EXEC_TIMEOUT", "77")
    monkeypatch.delenv("HCCL_CONNECT_TIMEOUT", raising=False)
    npu = next(one for one in environments.backends() if one.device == "npu")
    assert not npu.available and "torch_npu is not installed" in str(npu.why)
    words = "HCCL_CONNECT_TIMEOUT=120 (for --comm-timeout 120), HCCL_EXEC_TIMEOUT=77 (from the environment)"
    assert str(npu.why).endswith(words) and "HCCL_CONNECT_TIMEOUT" not in os.environ


@pytest.mark.parametrize(
    ("timeout_s", "connect", "execute"), [(3.0, "120", "68"), (120.0, "120", "136"), (1e5, "7200", "17340")]
)
def test_hccl_gets_no_timeout_that_it_forbids(timeout_s: float, connect: str, execute: str) -> None:
    place: dict[str, str] = {}
    with pytest.raises(PrerequisiteError):
        BACKENDS["npu"].prepare(timeout_s, place)
    assert place == dict(zip(HCCL_TIMEOUTS, (connect, execute), strict=True))


def test_a_port_where_nobody_listens_is_one_sentence() -> None:
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(CommunicationError) as refused:
        for name, value in place.items():
            patch.setenv(name, value)
        join(MeshShape(1, 2, 1), "cpu", 0.5, place)
    assert "rank 1 of 2 could not join the others at 127.0.0.1:9: nobody listens there" in str(refused.value)


def test_a_port_of_another_program_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopa_bench.harness.distributed.mesh.REACH_MARGIN_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = str(stranger.getsockname()[1])
        place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in place.items():
            monkeypatch.setenv(name, value)
        begin = time.monotonic()
        with pytest.raises(CommunicationError, match=f"rank 1 of 2 could not join the others at 127.0.0.1:{port}: "):
            join(MeshShape(1, 2, 1), "cpu", 0.5, place)
        assert time.monotonic() - begin < 30
