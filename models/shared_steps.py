"""Steps of several processes that all give up together when memory does not suffice for one of them.

A process whose memory is exhausted in the middle of a step has not joined the sums that its peers are waiting in. What
a step exchanges is known beforehand, whatever the numbers are; so the process joins what is left of it with zeros, and
at the end of the step all tell each other whether they came through. Nothing of a step that failed is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from lopa_bench.models.exhaustion import SharedOutOfMemory, is_out_of_memory, lack_in_words

if TYPE_CHECKING:
    from lopa_bench.models.tensor_parallel import TensorGroup

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call that all processes of a group make in a step: a sum, or a gather, of a tensor of this shape and dtype."""

    is_sum: bool
    shape: tuple[int, ...]
    dtype: torch.dtype


class SharedSteps:
    """A `TensorGroup` that counts its calls; steps taken through it are given up by all when memory fails one."""

    def __init__(self, group: TensorGroup) -> None:
        self._group = group
        self.rank, self.size = group.rank, group.size
        self._num_done = 0

    def all_reduce(self, tensor: Tensor) -> None:
        """See `TensorGroup`."""
        self._group.all_reduce(tensor)
        self._num_done += 1

    def all_gather(self, part: Tensor) -> Tensor:
        """See `TensorGroup`."""
        gathered = self._group.all_gather(part)
        self._num_done += 1
        return gathered

    def take(
        self, work: Callable[[], ResultT], exchanges: Sequence[Exchange], device: torch.device | str | None
    ) -> ResultT:
        """Do `work`, which makes just these calls through this object; other exceptions than a lack of memory pass.

        Args:
            work: the step.
            exchanges: what it exchanges, in order.
            device: where the tensors are.

        Raises:
            SharedOutOfMemory: memory did not suffice on some process; on all of them.
            MemoryError, RuntimeError: on this one there is not even room for what the others sum up; they go on
                waiting, so that it must end the job.
        """
        self._num_done = 0
        lack = None
        try:
            result = work()
        except (MemoryError, RuntimeError) as problem:
            if not is_out_of_memory(problem):
                raise
            lack = lack_in_words(problem)
        # Only now, outside the handler, are the failed call's tensors gone.
        if lack is not None:
            for one in exchanges[self._num_done :]:
                zeros = torch.zeros(one.shape, dtype=one.dtype, device=device)
                if one.is_sum:
                    self._group.all_reduce(zeros)
                else:
                    self._group.all_gather(zeros)
        failed = torch.tensor([float(lack is not None)], device=device)
        ranks = [rank for rank, state in enumerate(self._group.all_gather(failed).flatten().tolist()) if state]
        if ranks:
            own = "" if lack is None else f": {lack}"
            raise SharedOutOfMemory(f"memory did not suffice on rank {ranks[0]} of the network{own}")
        return result
