"""What branches spread over processes need of each other: two collectives over plain tensors, shared keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

CACHE_PROTOCOLS = ("two-phase", "single-phase")


@dataclass(slots=True)
class Exchange:
    """What the collectives of one round took on this process.

    Attributes:
        comm_s: seconds of communication.
        wait_s: seconds in which a slower process was waited for.
        gathered_bytes: of the rows that the decision needs, over all processes.
        sent_bytes: of the winner's keys.
    """

    comm_s: float = 0.0
    wait_s: float = 0.0
    gathered_bytes: int = 0
    sent_bytes: int = 0


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

    def start(self) -> None:
        """Begin to measure an answer, on every process; a round ends with the gather that begins the next one."""

    def finish(self) -> Sequence[Exchange]:
        """End an answer, on every process, and return what its rounds' collectives took."""


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
