"""The groups of a mesh on any backend: their ranks, their timeout, and the device that is set before they are made."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed import mesh
from lopa_bench.harness.distributed.backends import BACKENDS, CommBackend
from lopa_bench.harness.distributed.crew import Crew
from lopa_bench.harness.distributed.groups import device_mesh
from lopa_bench.harness.distributed.mesh import MeshShape, World, join
from lopa_bench.harness.distributed.spread import Spread

SHAPE = MeshShape(2, 2, 2)
TIMEOUT = timedelta(seconds=7)


@pytest.fixture
def third_of_eight() -> Iterator[None]:
    """This process as rank 3 of a job of 8 whose collectives reach nobody, as on a backend that torch does not know."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=8)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("third_of_eight")
def test_groups_are_made_with_the_timeout_that_was_asked_on_backends_that_torch_cannot_change_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[list[int], Any]] = []
    new_group = dist.distributed_c10d.new_group

    def noted(**options: Any) -> Any:
        made.append((options["ranks"], options["timeout"]))
        return new_group(**options)

    monkeypatch.setattr(dist.distributed_c10d, "new_group", noted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = device_mesh(SHAPE, "cpu", TIMEOUT)
    ranks = {name: dist.get_process_group_ranks(found.get_group(name)) for name in ("dp", "bp", "tp")}
    assert ranks == {"dp": [3, 7], "bp": [1, 3], "tp": [2, 3]}
    assert [found.get_local_rank(name) for name in ("dp", "bp", "tp")] == [0, 1, 1]
    assert len(made) == 12 and {timeout for _, timeout in made} == {TIMEOUT}


@pytest.mark.usefixtures("third_of_eight")
def test_an_axis_with_all_ranks_is_the_default_group() -> None:
    found = device_mesh(MeshShape(1, 8, 1), "cpu", TIMEOUT)
    assert found.get_group("bp") is dist.group.WORLD
    assert [found.get_group(name).size() for name in ("dp", "tp")] == [1, 1]


@pytest.mark.parametrize("kind", ["cuda", "npu"])
def test_the_device_of_a_process_is_set_before_its_group_is_made(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, Any]] = []
    initialise = dist.init_process_group

    def noted(backend: str, **options: Any) -> None:
        done.append(("group", backend))
        initialise("fake", **options)

    monkeypatch.setitem(BACKENDS, kind, CommBackend(kind, BACKENDS[kind].name))  # without torch_npu
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: done.append(("device", index)))
    monkeypatch.setattr(dist, "init_process_group", noted)
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "1", mesh.RENDEZVOUS: (tmp_path / "meeting").as_uri()}
    world = join(MeshShape(), kind, 5.0, place)
    dist.destroy_process_group()
    assert done == [("device", 1), ("group", BACKENDS[kind].name)] and world.device == f"{kind}:1"


@pytest.mark.usefixtures("third_of_eight")
def test_groups_other_than_those_that_were_asked_for_are_an_error() -> None:
    made = device_mesh(MeshShape(2, 4, 1), "cpu", TIMEOUT)
    store: Any = None
    beat: Any = None
    world = World(3, 8, "fake", "cpu", SHAPE, made, store, 7.0, beat)
    with pytest.raises(CommunicationError) as refused:
        Crew(world, Spread(SHAPE, "two-phase", 7.0))
    words = "groups of {'dp': 2, 'bp': 4, 'tp': 1} were made where (2, 2, 2) were asked for"
    assert str(refused.value) == words
