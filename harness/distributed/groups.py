"""The process groups along the axes of a mesh, each made with the timeout that was asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch import Tensor, arange
from torch.distributed.device_mesh import DeviceMesh

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from lopa_bench.harness.distributed.mesh import MeshShape

AXES = ("dp", "bp", "tp")


def device_mesh(shape: MeshShape, device_type: str, timeout: timedelta) -> DeviceMesh:
    """Arrange the ranks of the default group as data x branch x tensor; all of them call this.

    `init_device_mesh` would make its groups with each backend's own timeout, half an hour for gloo and HCCL, which can
    be changed afterwards for gloo and NCCL alone.
    """
    ranks = arange(shape.size).view(shape.data, shape.branch, shape.tensor)
    groups = [_along(ranks, axis, timeout) for axis in range(len(AXES))]
    return DeviceMesh.from_group(groups, device_type, mesh=ranks, mesh_dim_names=AXES)


def _along(ranks: Tensor, axis: int, timeout: timedelta) -> ProcessGroup:
    """This rank's group along one axis; where that holds every rank, the default group."""
    lines = ranks.movedim(axis, -1).reshape(-1, ranks.shape[axis]).tolist()
    everyone = dist.group.WORLD
    if len(lines) == 1 and everyone is not None:
        return everyone
    group, _ = dist.new_subgroups_by_enumeration(lines, timeout=timeout, group_desc=f"mesh_{AXES[axis]}")
    assert group is not None  # every rank is on a line
    return group
