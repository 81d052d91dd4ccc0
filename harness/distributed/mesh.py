"""How processes are arranged: data x branch x tensor, and the groups of one process in it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from lopa_bench.decoders.communication import CACHE_PROTOCOLS, BranchGroup
from lopa_bench.errors import CommunicationError, ConfigError
from lopa_bench.harness.distributed.backends import BACKENDS
from lopa_bench.harness.distributed.beats import Beat
from lopa_bench.harness.distributed.lookout import looked_after
from lopa_bench.harness.distributed.meeting import reason_of, tell_left, wait_for, within
from lopa_bench.harness.distributed.place import check_meeting_point

if TYPE_CHECKING:
    import torch
    from torch.distributed.device_mesh import DeviceMesh

    from lopa_bench.harness.distributed.tensor_group import TorchTensorGroup

RENDEZVOUS = "LOPA_BENCH_RENDEZVOUS"
START_S = 120.0
REACH_PAUSE_S = 0.2
REACH_MARGIN_S = 3.0  # torch's own timeout, which says more, comes first
MOST_TIMEOUT_S = 7 * 86_400.0  # the engine counts milliseconds in 32 bits
PATIENCE_S = 3600.0
"""For what takes one process much longer than another: starting, reading weights, judging programs."""


@dataclass(frozen=True, slots=True)
class MeshShape:
    """Ranks along each axis: samples (dp), branches of a round (bp), parts of the network (tp)."""

    data: int = 1
    branch: int = 1
    tensor: int = 1

    @property
    def size(self) -> int:
        """Ranks in all."""
        return self.data * self.branch * self.tensor


ALONE = MeshShape()


def shape_of(
    devices: int, decoder: str, *, data: int | None = None, branch: int | None = None, tensor: int | None = None
) -> MeshShape:
    """Arrange devices; what is not said goes to branches for lopa and to samples for all others.

    Raises:
        ConfigError: the sizes do not multiply to the number of devices, or branches are asked of another decoder.
    """
    for name, value in {"devices": devices, "data": data, "branch": branch, "tensor": tensor}.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name} = {value}: at least 1 is needed")
    if branch is not None and branch > 1 and decoder != "lopa":
        raise ConfigError(f"--branch-parallel {branch} spreads lopa's branches; decoder {decoder} has none")
    known = (data or 1) * (branch or 1) * (tensor or 1)
    if devices % known:
        alone = f"; --devices {known} starts as many processes" if devices == 1 else ""
        raise ConfigError(
            f"{_devices(devices)} cannot be {data or 1} (data) x {branch or 1} (branch) x {tensor or 1} (tensor): the "
            f"product must divide the number of devices{alone}"
        )
    rest = devices // known
    to_branches = decoder == "lopa" and branch is None
    if rest > 1 and not to_branches and data is not None:
        raise ConfigError(
            f"{devices} devices, but data x branch x tensor parallelism uses {known} of them; --devices {known} or "
            "larger sizes use all"
        )
    return MeshShape(
        (data or 1) * (1 if to_branches else rest), (branch or 1) * (rest if to_branches else 1), tensor or 1
    )


def _devices(count: int) -> str:
    return f"{count} device{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class World:
    """This process's place among all, and what carries their messages."""

    rank: int
    size: int
    backend: str
    device: str
    shape: MeshShape
    mesh: DeviceMesh
    store: torch.distributed.Store
    timeout_s: float
    beat: Beat
    _met: dict[str, int] = field(default_factory=dict)

    def group(self, axis: str) -> torch.distributed.ProcessGroup:
        """The process group along an axis: "dp", "bp" or "tp"."""
        return self.mesh.get_group(axis)

    def place(self, axis: str) -> int:
        """This process's index along an axis."""
        return self.mesh.get_local_rank(axis)

    @property
    def observed(self) -> dict[str, int]:
        """Sizes of the groups that were made, whatever was asked for."""
        return {axis: self.group(axis).size() for axis in self.mesh.mesh_dim_names or ()}

    def meet(self, what: str, ranks: Iterable[int] | None = None) -> None:
        """Wait, longer than any collective would, until all of `ranks`, of everyone if not given, have come here.

        Raises:
            CommunicationError: one did not come, or has failed.
        """
        ranks = range(self.size) if ranks is None else ranks
        number = self._met[what] = self._met.get(what, 0) + 1
        self.store.set(f"{what}/{number}/{self.rank}", "1")
        before = self.beat.sign.operation
        try:
            wait_for(
                self.store,
                [f"{what}/{number}/{rank}" for rank in ranks],
                PATIENCE_S,
                lambda: self.beat.tell(f"waiting for all at '{what}'"),
            )
        except (RuntimeError, TimeoutError) as problem:
            raise CommunicationError(f"rank {self.rank}: not all ranks came to '{what}': {problem}") from problem
        self.beat.tell(before)

    @property
    def peers(self) -> list[int]:
        """Ranks that make the same answers as this one: those of its branch and tensor groups."""
        of_one = self.shape.branch * self.shape.tensor
        first = self.rank // of_one * of_one
        return list(range(first, first + of_one))


def join(shape: MeshShape, device_type: str, timeout_s: float, environment: Mapping[str, str] = os.environ) -> World:
    """Join the job's processes; the device is set from the local rank first, as NCCL wants.

    Raises:
        ConfigError: the mesh has another number of ranks than the job, or nothing says where the ranks meet.
        PrerequisiteError: more ranks than devices here.
        CommunicationError: the others cannot be reached.
    """
    import torch.distributed as dist

    from lopa_bench.harness.distributed.groups import device_mesh

    rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    if size != shape.size:
        raise ConfigError(
            f"the job has {size} ranks, but {shape.data} x {shape.branch} x {shape.tensor} were asked for"
        )
    method = environment.get(RENDEZVOUS, "env://")
    if method == "env://":
        check_meeting_point(environment)
    backend = BACKENDS[device_type]
    backend.prepare(timeout_s)
    device = backend.take_device(int(environment.get("LOCAL_RANK", rank)))
    timeout = timedelta(seconds=timeout_s)
    try:
        store = _store(method, rank, size, timeout)
        # Processes do not start at the same moment; only from here on does waiting mean that something is wrong.
        here = [f"here/{other}" for other in range(size)]
        store.set(here[rank], f"{shape.data} x {shape.branch} x {shape.tensor}")
        wait_for(store, here, max(timeout_s, START_S))
        _check_arrangement([bytes(store.get(other)).decode() for other in here])
        dist.init_process_group(backend.name, store=store, rank=rank, world_size=size, timeout=timeout)
        mesh = device_mesh(shape, device_type, timeout)
    except (RuntimeError, ValueError, TimeoutError) as problem:
        where = f"{environment.get('MASTER_ADDR')}:{environment.get('MASTER_PORT')}" if method == "env://" else method
        raise CommunicationError(
            f"rank {rank} of {size} could not join the others at {where}: {reason_of(problem)}"
        ) from problem
    return World(
        rank, size, backend.name, device, shape, mesh, store, timeout_s, Beat(rank, environment, size // shape.data)
    )


def _check_arrangement(told: Sequence[str]) -> None:
    """Groups that some expect and others do not would never be complete."""
    apart = [rank for rank, one in enumerate(told) if one != told[0]]
    if apart:
        raise ConfigError(
            f"rank {apart[0]} was started for {told[apart[0]]} (data x branch x tensor), rank 0 for {told[0]}; start "
            "all with the same command"
        )


def _store(method: str, rank: int, size: int, timeout: timedelta) -> torch.distributed.Store:
    """The table through which processes find each other, under a name of ours."""
    import torch.distributed as dist

    if method == "env://" and rank > 0 and {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        _reach(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout.total_seconds())

    def meet() -> torch.distributed.Store:
        store, _, _ = next(dist.rendezvous(method, rank, size, timeout=timeout))
        return store

    # Whoever holds the port need not be of this job, and may never answer.
    longest = timeout.total_seconds() + REACH_MARGIN_S
    store = within(meet, longest, f"whoever listens there does not answer as rank 0 of this job after {longest:g} s")
    return dist.PrefixStore("lopa-bench", store)


def _reach(host: str, port: int, timeout_s: float) -> None:
    """Wait until rank 0 or its agent listens; torch would fill the screen before it gives up."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
            return
        except OSError as problem:
            if time.monotonic() > deadline:
                raise RuntimeError(f"nobody listens there after {timeout_s:g} s: {problem}") from None
            time.sleep(REACH_PAUSE_S)


@contextmanager
def joined(shape: MeshShape, device_type: str, timeout_s: float) -> Iterator[World]:
    """`join`, and take leave of the others at the end; after an error tell them that this process has left."""
    import torch.distributed as dist

    world = join(shape, device_type, timeout_s)
    try:
        with looked_after(world):
            yield world
    except BaseException as problem:
        tell_left(world.store, world.rank, problem, str(world.beat.sign))
        raise
    dist.destroy_process_group()


def branch_group(world: World, cache_protocol: str) -> BranchGroup | None:
    """What lets a decoder share its branches with the others of the world; None where each computes all of its own.

    Raises:
        ConfigError: no such protocol.
    """
    import torch

    from lopa_bench.harness.distributed.collectives import TorchCommunicator

    check_protocol(cache_protocol)
    if world.shape.branch == 1:
        return None
    communicator = TorchCommunicator(world.group("bp"), torch.device(world.device), world.beat)
    return BranchGroup(communicator, cache_protocol)


def tensor_group(world: World) -> TorchTensorGroup | None:
    """What holds a network together with the others of the world; None where each has it whole."""
    from lopa_bench.harness.distributed.tensor_group import TorchTensorGroup

    return TorchTensorGroup(world.group("tp"), world.device, world.beat) if world.shape.tensor > 1 else None


def check_protocol(name: str) -> None:
    """Refuse a cache protocol that does not exist."""
    if name not in CACHE_PROTOCOLS:
        raise ConfigError(f"cache protocol {name!r} is not one of {', '.join(CACHE_PROTOCOLS)}")


def check_timeout(timeout_s: float) -> None:
    """Refuse a --comm-timeout that nothing can wait for."""
    if not 0 < timeout_s <= MOST_TIMEOUT_S:
        raise ConfigError(
            f"--comm-timeout {timeout_s:g} is no time to wait for another process; give seconds above 0, at most "
            f"{MOST_TIMEOUT_S:.0f}"
        )
