"""The processes of one training run: alone, or as torchrun started them."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist

from lopa_bench.errors import PrerequisiteError


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among all; `world` is 1 when training alone."""

    rank: int
    world: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Average over the processes."""
        if self.world > 1:
            dist.all_reduce(values)
            values /= self.world
        return values

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            dist.barrier()

    def close(self) -> None:
        """Leave the process group."""
        if self.world > 1:
            dist.destroy_process_group()


def join_processes(device: str = "auto") -> Processes:
    """Join the group that torchrun's environment variables describe (nccl on GPUs, gloo on CPUs), if any.

    Raises:
        PrerequisiteError: the device is not there.
    """
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        place = torch.device(kind)
    except RuntimeError:
        raise PrerequisiteError(f"device '{device}' is unknown; there are auto, cpu and cuda") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise PrerequisiteError(f"device '{device}' was asked for, but torch sees no CUDA device; try cpu")
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(place)
    if world > 1:
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
    return Processes(rank, world, place)
