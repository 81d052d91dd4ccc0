"""How processes are arranged: data x branch x tensor, and the groups of one process in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lopa_bench.decoders.communication import CACHE_PROTOCOLS, BranchGroup
from lopa_bench.errors import CommunicationError, ConfigError, PrerequisiteError

if TYPE_CHECKING:
    import torch
    from torch.distributed.device_mesh import DeviceMesh

AXES = ("dp", "bp", "tp")
BACKENDS = {"cuda": "nccl", "npu": "hccl", "cpu": "gloo"}
RENDEZVOUS = "LOPA_BENCH_RENDEZVOUS"


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
        raise ConfigError(
            f"{devices} devices cannot be {data or 1} (data) x {branch or 1} (branch) x {tensor or 1} (tensor)"
        )
    rest = devices // known
    to_branches = decoder == "lopa" and branch is None
    if rest > 1 and not to_branches and data is not None:
        raise ConfigError(f"{devices} devices, but data x branch x tensor parallelism uses {known} of them")
    return MeshShape(
        (data or 1) * (1 if to_branches else rest), (branch or 1) * (rest if to_branches else 1), tensor or 1
    )


def world_of(environment: Mapping[str, str] = os.environ) -> int | None:
    """Ranks of the job that this process was started in, by torchrun or our own launcher; None when it is alone."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    return int(environment["WORLD_SIZE"])


@dataclass(frozen=True, slots=True)
class World:
    """This process's place among all, and what carries their messages."""

    rank: int
    size: int
    backend: str
    device: str
    shape: MeshShape
    mesh: DeviceMesh

    def group(self, axis: str) -> torch.distributed.ProcessGroup:
        """The process group along an axis: "dp", "bp" or "tp"."""
        return self.mesh.get_group(axis)

    def place(self, axis: str) -> int:
        """This process's index along an axis."""
        return self.mesh.get_local_rank(axis)


def join(shape: MeshShape, device_type: str, timeout_s: float, environment: Mapping[str, str] = os.environ) -> World:
    """Join the job's processes; the device is set from the local rank first, as NCCL wants.

    Raises:
        ConfigError: the mesh has another number of ranks than the job.
        PrerequisiteError: more ranks than devices here.
        CommunicationError: the others cannot be reached.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    if size != shape.size:
        raise ConfigError(
            f"the job has {size} ranks, but {shape.data} x {shape.branch} x {shape.tensor} were asked for"
        )
    device = device_type
    if device_type != "cpu":
        local = int(environment.get("LOCAL_RANK", rank))
        if local >= torch.accelerator.device_count():
            raise PrerequisiteError(
                f"rank {rank} wants {device_type}:{local}, but {torch.accelerator.device_count()} are visible here"
            )
        torch.accelerator.set_device_index(local)
        device = f"{device_type}:{local}"
    backend = BACKENDS[device_type]
    method = environment.get(RENDEZVOUS, "env://")
    try:
        dist.init_process_group(
            backend, init_method=method, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s)
        )
        mesh = init_device_mesh(device_type, (shape.data, shape.branch, shape.tensor), mesh_dim_names=AXES)
    except (RuntimeError, ValueError) as problem:
        where = f"{environment.get('MASTER_ADDR')}:{environment.get('MASTER_PORT')}" if method == "env://" else method
        reason = str(problem).partition("\n")[0]
        raise CommunicationError(f"rank {rank} of {size} could not join the others at {where}: {reason}") from problem
    return World(rank, size, backend, device, shape, mesh)


@contextmanager
def joined(shape: MeshShape, device_type: str, timeout_s: float) -> Iterator[World]:
    """`join`, and take leave of the others at the end."""
    import torch.distributed as dist

    world = join(shape, device_type, timeout_s)
    try:
        yield world
    finally:
        dist.destroy_process_group()


def branch_group(world: World, cache_protocol: str) -> BranchGroup | None:
    """What lets a decoder share its branches with the others of the world; None where each computes all of its own.

    Raises:
        ConfigError: no such protocol.
    """
    import torch

    from lopa_bench.harness.collectives import TorchCommunicator

    check_protocol(cache_protocol)
    if world.shape.branch == 1:
        return None
    return BranchGroup(TorchCommunicator(world.group("bp"), torch.device(world.device)), cache_protocol)


def check_protocol(name: str) -> None:
    """Refuse a cache protocol that does not exist."""
    if name not in CACHE_PROTOCOLS:
        raise ConfigError(f"cache protocol {name!r} is not one of {', '.join(CACHE_PROTOCOLS)}")
