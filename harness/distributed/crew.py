"""This process's part in a run that several processes carry out together.

Rank 0 decides what is to be done and tells the others; each group of processes that make answers together takes every
n-th of the missing problems, and its first rank, the group's head, judges and stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist

from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed.beats import WARM_UP
from lopa_bench.harness.distributed.collectives import TorchCommunicator
from lopa_bench.harness.distributed.meeting import check_all_there
from lopa_bench.harness.distributed.mesh import World, branch_group, tensor_group

if TYPE_CHECKING:
    from lopa_bench.decoders.rounds import Round
    from lopa_bench.harness.distributed.spread import Spread
    from lopa_bench.results.places import Environment
    from lopa_bench.tasks.base import Document

ItemT = TypeVar("ItemT")


class Crew:
    """One process among those of a run.

    Raises:
        CommunicationError: the groups that were made are not those that were asked for.
    """

    def __init__(self, world: World, spread: Spread) -> None:
        asked = (spread.shape.data, spread.shape.branch, spread.shape.tensor)
        if tuple(world.observed.values()) != asked:
            raise CommunicationError(f"groups of {world.observed} were made where {asked} were asked for")
        self.world = world
        self.spread = spread
        self.branches = branch_group(world, spread.cache_protocol)
        self.tensors = tensor_group(world)
        everyone = dist.group.WORLD
        assert everyone is not None
        self._all = TorchCommunicator(everyone, torch.device(world.device), world.beat)

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which owns the run's folder and speaks."""
        return self.world.rank == 0

    @property
    def is_head(self) -> bool:
        """Whether this rank judges and stores its group's answers."""
        return self.world.place("bp") == 0 and self.world.place("tp") == 0

    @property
    def number(self) -> int:
        """The group's number among those that share the samples."""
        return self.world.place("dp")

    def describe(self, environment: Environment) -> Environment:
        """The environment with the mode that is really in force."""
        groups = self.world.observed
        words = [self.world.backend, *([self.spread.cache_protocol] if groups["bp"] > 1 else [])]
        return environment.model_copy(
            update={
                "world_size": self.world.size,
                "num_devices": groups["bp"] * groups["tp"],
                "groups": groups,
                "communication": ", ".join(words),
            }
        )

    def announce(self, folder: Path | None, indices: Sequence[int]) -> None:
        """Rank 0: tell the others where the run is stored and which problems are missing."""
        name = b"" if folder is None else str(folder.resolve()).encode()
        self.world.meet("plan")
        self._send(torch.tensor([len(name), len(indices)]))
        if indices:
            self._send(torch.tensor([*name, *indices]))

    def hear(self) -> tuple[Path, list[int]]:
        """All others: hear it."""
        self.world.meet("plan")
        length, num = self._send(torch.zeros(2, dtype=torch.long)).tolist()
        if not num:
            return Path(), []
        content = self._send(torch.zeros(length + num, dtype=torch.long)).tolist()
        return Path(bytes(content[:length]).decode()), content[length:]

    def _send(self, tensor: torch.Tensor) -> torch.Tensor:
        held = tensor.to(self.world.device)
        self._all.broadcast(held, 0)
        return held.cpu()

    def share(self, items: Sequence[ItemT]) -> list[ItemT]:
        """What this group does of a list that all know."""
        return list(items[self.number :: self.spread.shape.data])

    def told(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The same problems, each begun by all of the group together when it is asked for.

        No rank waits in a collective while the group's head still judges, which may take longer than --comm-timeout.
        """
        for document in documents:
            if len(self.world.peers) > 1:
                self.world.meet("answer", self.world.peers)
            self.world.beat.begin(document.id)
            yield document
            self.world.beat.end()
        self.world.beat.end()

    def round_ended(self, one: Round) -> None:
        """Give a sign of life."""
        self.world.beat.round_ended(one.index)

    def warms_up(self, is_compiled: bool) -> None:
        """Answers begin that do not count; where the network is compiled in them, a round may take minutes."""
        self.world.beat.begin(WARM_UP, may_be_long=is_compiled)

    def begins(self, work: str) -> None:
        """No answer is in progress; what follows may take long."""
        self.world.beat.end(work)

    def waits(self) -> None:
        """Nothing is left to do here but to wait for the answers of other groups."""
        self.world.beat.end("waiting for the answers of others")

    def equip(self, decoder: Any) -> None:
        """Let a decoder share its branches."""
        if self.branches is not None:
            decoder.group = self.branches

    def tell_done(self) -> None:
        """A head: all of its answers are in its shard."""
        self.world.store.set(f"shard/{self.number}", "1")

    def all_done(self) -> bool:
        """Whether all other heads are done.

        Raises:
            CommunicationError: one of the processes has failed.
        """
        check_all_there(self.world.store)
        others = range(1, self.spread.shape.data)
        return all(self.world.store.check([f"shard/{number}"]) for number in others)
