"""Which spreads over processes there are, and how those that cannot be are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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
        ({"comm_timeout": 0.0}, "--comm-timeout 0"),
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
    with pytest.raises(ConfigError, match="--devices 4 was given, but this job was started with 2 processes"):
        spread(job)
    with pytest.raises(ConfigError, match="WORLD_SIZE='two'"):
        spread({"RANK": "0", "WORLD_SIZE": "two"}, devices=None)
    with pytest.raises(ConfigError, match="the job has 2 ranks"):
        join(MeshShape(1, 4, 1), "cpu", 3.0, job)


def test_more_processes_than_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    two = environments.Backend("cuda", "nccl", True, ("H200", "H200"))
    monkeypatch.setattr(environments, "backends", lambda: [two])
    with pytest.raises(PrerequisiteError, match="4 processes want a device each, but this machine has 2 of cuda"):
        spread(device="cuda")
    on_two_machines = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    assert spread(on_two_machines, device="cuda").shape.branch == 4
    with pytest.raises(ConfigError, match="--device cuda:1 names one device"):
        spread(device="cuda:1")


def test_processes_without_a_branch_are_told_of() -> None:
    [note] = spread(options={"branches": 3}).notes
    assert "3 branches for 4 processes: 1 of these compute nothing" in note
    assert spread(options={"branches": 4}).notes == ()


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
    place = {HCCL_TIMEOUTS[1]: "77"}
    with pytest.raises(PrerequisiteError, match="hccl needs the package torch_npu"):
        BACKENDS["npu"].prepare(30.0, place)
    assert place == {"HCCL_CONNECT_TIMEOUT": "30", "HCCL_EXEC_TIMEOUT": "77"}
    CommBackend("cpu", "gloo").prepare(1.0, place)
    npu = next(one for one in environments.backends() if one.device == "npu")
    assert not npu.available and all(name in str(npu.why) for name in ("torch_npu", *HCCL_TIMEOUTS))


def test_a_port_where_nobody_listens_is_one_sentence() -> None:
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(CommunicationError) as refused:
        for name, value in place.items():
            patch.setenv(name, value)
        join(MeshShape(1, 2, 1), "cpu", 0.5, place)
    assert "rank 1 of 2 could not join the others at 127.0.0.1:9: nobody listens there" in str(refused.value)
