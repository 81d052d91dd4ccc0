"""LoPA's branches spread over processes: each computes its share, and all come to the same decision.

Every process holds the same canvases. After its forward a process has a token, a confidence and a probability for each
open slot of its own branches; these few numbers, never logits, are gathered once a round. Scores, winner, filling and
the next branches then follow on every process alike, without a second exchange: a gather of all branches' rows costs
about a kilobyte a branch, which is less time than the scores first and the winner's rows after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import torch
from torch import Tensor

from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.communication import BranchGroup, share_of
from lopa_bench.decoders.confidence import NAN, Scores
from lopa_bench.decoders.executors import PackedExecutor, Scorer, SequentialExecutor, open_slots, union
from lopa_bench.decoders.pipeline import Window
from lopa_bench.errors import CommunicationError, ConfigError, DecodeError, NaNLogits, ProcessFailed
from lopa_bench.models.cache import KVCache
from lopa_bench.models.exhaustion import SharedOutOfMemory, is_out_of_memory, lack_in_words
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.visibility import Visibility

FINE, NAN_LOGITS, NO_MEMORY, FAILED = range(4)
MOST_BYTES = 64 << 10
"""Of a branch's part of a round's exchange: a guard that nothing as large as logits ever travels."""


class BranchParallelExecutor:
    """An executor's work shared by a group of processes; the result is the same on all of them.

    Each takes its branches through the network in one call, or, unless `packed`, one by one. `num_calls` counts as one
    process would: the packed calls of a round as one, for they are one call there, the others one by one.

    `make_cache` is called here, so that memory which does not suffice on one process is told to the others like any
    other failure: in the first exchange.
    """

    def __init__(
        self,
        model: LanguageModel,
        make_cache: Callable[[], KVCache | None],
        scorer: Scorer,
        group: BranchGroup,
        confidence_dtype: torch.dtype,
        packed: bool = True,
    ) -> None:
        self.model, self.group = model, group
        self.confidence_dtype = confidence_dtype
        self.num_calls = 0
        self._num_branches = 0
        self._num_commit = 0
        self._failure: Exception | None = None
        self.cache: KVCache | None = None
        try:
            self.cache = make_cache()
        except (MemoryError, RuntimeError) as problem:
            self._failure = problem
        self.packed = packed
        self._own = (PackedExecutor if packed else SequentialExecutor)(model, self.cache, scorer)

    def verify(
        self, canvases: Sequence[Canvas], window: Window, visibility: Visibility, seeds: Sequence[int] | None = None
    ) -> list[Scores]:
        """Candidates of every branch on every process.

        Raises:
            DecodeError, SharedOutOfMemory: some process could not compute its share; raised on all of them, in the
                same round.
            ProcessFailed: memory did not suffice where those that hold the network with this process do not see it.
        """
        single_phase = self.group.cache_protocol == "single-phase"
        if single_phase and self.cache is not None and visibility.kind == "full":
            raise ConfigError(
                "single-phase commits need block-causal visibility: under full attention every branch writes other "
                "keys; set full_attention to false or take the two-phase protocol"
            )
        self._num_branches, self._num_commit = len(canvases), window.num_commit
        mine = list(self.group.share(len(canvases)))
        # A process without a branch still needs the keys that all are about to commit: the anchor's are as good as any.
        computed = mine or ([len(canvases) - 1] if single_phase and window.num_commit else [])
        slots = union(open_slots(canvases, window))
        own: list[Scores] = []
        failure = self._failure
        try:
            if computed and failure is None:
                own_seeds = None if seeds is None else [seeds[index] for index in computed]
                own = self._own.verify([canvases[index] for index in computed], window, visibility, own_seeds)
        except (DecodeError, MemoryError, RuntimeError) as problem:
            failure = problem  # told to the others first: they would wait for ever
        self.num_calls += 1 if self.packed else len(canvases)
        self._check_known(failure)
        gathered = self._exchange(own[: len(mine)], failure, slots, _fingerprint(canvases))
        if failure is not None and is_out_of_memory(failure):
            raise SharedOutOfMemory(lack_in_words(failure)) from failure
        if failure is not None:
            raise failure
        _raise_for_others(gathered[:, 0, 0, -1].tolist())
        _check_equal(gathered[:, 0, 1, -1].tolist())
        return self._unpacked(gathered, slots, window.first)

    def _check_known(self, failure: Exception | None) -> None:
        """End the job over what the other holders of this process's network do not know of: they wait for it."""
        if failure is None or self.model.vocabulary is None or not is_out_of_memory(failure):
            return
        if not isinstance(failure, SharedOutOfMemory):
            raise ProcessFailed(f"memory did not suffice between two forwards: {lack_in_words(failure)}") from failure

    def _exchange(
        self, own: Sequence[Scores], failure: Exception | None, slots: Sequence[int], fingerprint: int
    ) -> Tensor:
        """Gather [processes, most branches of one, 3, slots + 1]; the last column holds states and fingerprints."""
        communicator = self.group.communicator
        most = -(-self._num_branches // communicator.size)
        carrier = torch.float64 if self.model.dtype == torch.float64 else torch.float32
        part = torch.full((most, 3, len(slots) + 1), NAN, dtype=carrier)
        part[:, :, -1] = torch.tensor([_state(failure), fingerprint, 0], dtype=carrier)
        for row, scores in enumerate(own):
            part[row, :, :-1] = _packed(scores, slots, carrier)
        if part[0].numel() * part.element_size() > MOST_BYTES:
            raise DecodeError(
                f"{len(slots)} open slots make a branch's part of an exchange larger than {MOST_BYTES >> 10} KiB; "
                "lower max_new_tokens or run on one process"
            )
        return communicator.all_gather(part)

    def _unpacked(self, gathered: Tensor, slots: Sequence[int], first: int) -> list[Scores]:
        index = torch.tensor(slots, dtype=torch.long) - first
        length = int(index[-1]) + 1 if len(slots) else 0
        found = []
        for branch in range(self._num_branches):
            owner = self.group.owner(branch, self._num_branches)
            row = branch - share_of(self._num_branches, owner, self.group.communicator.size).start
            confidence, probability, token = (_spread(line[:-1], index, length) for line in gathered[owner, row])
            # Back in the dtypes that the scores had: rounding decides ties.
            confidence, probability = confidence.to(self.confidence_dtype), probability.to(self.model.dtype)
            found.append(Scores(first, confidence, probability, token.nan_to_num(0).to(torch.long)))
        return found

    def commit(self, winner: int) -> None:
        """Make the winner's finished positions part of every process's prefix.

        Raises:
            ProcessFailed: this process failed where it can no longer tell the others, who wait for it.
        """
        if self.cache is None or not self._num_commit:
            return
        try:
            self._commit(self.cache, winner)
        except (MemoryError, RuntimeError) as problem:
            kind = "memory did not suffice" if is_out_of_memory(problem) else "it failed"
            raise ProcessFailed(f"{kind} between a round's decision and its commit: {problem}") from problem

    def _commit(self, cache: KVCache, winner: int) -> None:
        mine = self.group.share(self._num_branches)
        if self.group.cache_protocol == "single-phase":
            self._own.commit(winner - mine.start if winner in mine else 0)
            return
        owner = self.group.owner(winner, self._num_branches)
        if self.group.communicator.rank == owner:
            self._own.commit(winner - mine.start)
        else:
            cache.skip(self._num_commit)
        span = cache.pack(self._num_commit)
        self.group.communicator.broadcast(span, owner)
        if self.group.communicator.rank != owner:
            cache.unpack(span, self._num_commit)


def _packed(scores: Scores, slots: Sequence[int], carrier: torch.dtype) -> Tensor:
    """[3, slots]: confidence, probability and token of some absolute positions, NaN beyond the branch's own end."""
    out = torch.full((3, len(slots)), NAN, dtype=carrier)
    held = [row for row, slot in enumerate(slots) if slot - scores.first < len(scores.token)]
    of_slots = scores.at([slots[row] for row in held])
    for line, values in enumerate((of_slots.confidence, of_slots.probability, of_slots.token)):
        out[line, held] = values.to(carrier)
    return out


def _spread(values: Tensor, index: Tensor, length: int) -> Tensor:
    """Values at their offsets from the first position, NaN between them."""
    whole = torch.full((length,), NAN, dtype=values.dtype)
    whole[index] = values
    return whole


def _state(failure: Exception | None) -> int:
    if failure is None:
        return FINE
    if isinstance(failure, NaNLogits):
        return NAN_LOGITS
    return NO_MEMORY if is_out_of_memory(failure) else FAILED


def _fingerprint(canvases: Sequence[Canvas]) -> int:
    """24 bits of what all processes must hold alike; every float can carry them."""
    return crc32(repr([canvas.tokens for canvas in canvases]).encode()) & 0xFFFFFF


def _check_equal(fingerprints: Sequence[float]) -> None:
    """Processes that went apart would go on with answers that are nobody's."""
    apart = [rank for rank, one in enumerate(fingerprints) if one != fingerprints[0]]
    if apart:
        raise CommunicationError(f"rank {apart[0]} holds other branches than rank 0: the processes went apart")


def _raise_for_others(states: Sequence[float]) -> None:
    """Leave the sample on this process too when another one failed."""
    for rank, state in enumerate(states):
        if state == NAN_LOGITS:
            raise NaNLogits(f"the model returned NaN logits on rank {rank}; the answer cannot be used")
        if state == NO_MEMORY:
            raise SharedOutOfMemory(f"memory did not suffice on rank {rank}")
        if state != FINE:
            raise DecodeError(f"rank {rank} could not compute its branches of this round; its own message says why")
