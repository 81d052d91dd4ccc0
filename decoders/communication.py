"""What branches spread over processes need of each other: two collectives over plain tensors, shared keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

CACHE_PROTOCOLS = ("two-phase", "single-phase")


class Communicator(Protocol):
    """A group of processes that run the same loop; every call is made by all of them, in the same order."""

    @property
    def rank(self) -> int:
        """This process, 0 .. size - 1."""

    @property
    def size(self) -> int:
        """Processes in the group."""

    def all_gather(self, part: Tensor) -> Tensor:
        """Every process's tensor of one shape and dtype [...], stacked by rank: [size, ...]; on the host."""

    def broadcast(self, tensor: Tensor, source: int) -> None:
        """Overwrite a contiguous tensor, of the same shape everywhere, with that of the process `source`."""


@dataclass(frozen=True, slots=True)
class BranchGroup:
    """Processes that share the branches of a round (LoPA, arXiv 2512.16229, section 3.4).

    Attributes:
        communicator: the collectives.
        cache_protocol: `two-phase`: every process keeps the keys of its own branches and the winner's are sent to all.
            `single-phase`: nothing is sent, for under a block-causal rule a finished block's keys do not depend on
            what follows it and all branches write the same.
    """

    communicator: Communicator
    cache_protocol: str = "two-phase"

    def share(self, num_branches: int) -> range:
        """The branches of this process: neighbours, the first processes one more where they do not divide."""
        return share_of(num_branches, self.communicator.rank, self.communicator.size)

    def owner(self, branch: int, num_branches: int) -> int:
        """The process that computes a branch."""
        size = self.communicator.size
        return next(rank for rank in range(size) if branch in share_of(num_branches, rank, size))


def share_of(num_branches: int, rank: int, size: int) -> range:
    """Branches of one process out of `size`."""
    each, more = divmod(num_branches, size)
    start = rank * each + min(rank, more)
    return range(start, start + each + (rank < more))
