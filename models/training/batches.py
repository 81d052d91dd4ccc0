"""Batches of prompt and answer pairs: every step's batch can be made by itself, so a killed run resumes exactly."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor

from lopa_bench.errors import TaskDataError

Pair = tuple[Sequence[int], Sequence[int]]
"""Token ids of a prompt and of its answer, without the EOS that training adds."""

PairSource = Callable[[int], Iterator[Pair]]
"""Gives the pairs of one seed; the same seed gives the same pairs."""

NUM_POOLED_BATCHES = 8
"""Batches cut from one pool sorted by length, so that little of a batch is padding."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences whose answers all start at one column: [padding | prompt | answer, EOS, EOS fill].

    Attributes:
        tokens: [B, T] ids.
        prompt_length: the column at which the answers start.
        lengths: [B] answer tokens with the first EOS, without the fill.
        padding: [B] columns of padding before each prompt; nobody sees them.
        eos: the id the canvas is filled with.
    """

    tokens: Tensor
    prompt_length: int
    lengths: Tensor
    padding: Tensor
    eos: int

    @property
    def answer_length(self) -> int:
        """Columns from the start of the answers to the end of the canvas."""
        return self.tokens.shape[1] - self.prompt_length

    @property
    def answers(self) -> Tensor:
        """[B, A] the answers with their EOS fill."""
        return self.tokens[:, self.prompt_length :]

    @property
    def real(self) -> Tensor:
        """[B, T] bool: False on the padding before a prompt."""
        return torch.arange(self.tokens.shape[1])[None] >= self.padding[:, None]

    @property
    def positions(self) -> Tensor:
        """[B, T] positions that start at 0 with a prompt's first real token."""
        return (torch.arange(self.tokens.shape[1])[None] - self.padding[:, None]).clamp(min=0)

    def with_canvas(self, answer_length: int) -> Batch:
        """Return the batch with its canvas filled with EOS to at least `answer_length` columns."""
        more = max(0, answer_length - self.answer_length)
        tokens = F.pad(self.tokens, (0, more), value=self.eos)
        return Batch(tokens, self.prompt_length, self.lengths, self.padding, self.eos)


def collate(pairs: Sequence[Pair], pad: int, eos: int) -> Batch:
    """Lay pairs out as one batch, an EOS after each answer."""
    prompt_length = max(len(prompt) for prompt, _ in pairs)
    answer_length = max(len(answer) for _, answer in pairs) + 1
    tokens = torch.full((len(pairs), prompt_length + answer_length), eos)
    for row, (prompt, answer) in zip(tokens, pairs, strict=True):
        row[: prompt_length - len(prompt)] = pad
        row[prompt_length - len(prompt) : prompt_length] = torch.tensor(prompt, dtype=torch.long)
        row[prompt_length : prompt_length + len(answer)] = torch.tensor(answer, dtype=torch.long)
    lengths = torch.tensor([len(answer) + 1 for _, answer in pairs])
    padding = torch.tensor([prompt_length - len(prompt) for prompt, _ in pairs])
    return Batch(tokens, prompt_length, lengths, padding, eos)


class BatchStream:
    """The batch of any step, a pure function of (seed, step).

    Nothing about the position in the data has to be stored to resume, and every process of a distributed run makes
    the same global batch and takes its own rows of it.
    """

    def __init__(
        self, source: PairSource, batch_size: int, *, pad: int, eos: int, max_length: int, seed: int = 0
    ) -> None:
        self._source = source
        self._batch_size = batch_size
        self._pad, self._eos, self._max_length, self._seed = pad, eos, max_length, seed
        self._pool_index = -1
        self._pool: list[list[Pair]] = []

    def batch(self, step: int) -> Batch:
        """Return the batch of `step` (from 0), `batch_size` sequences."""
        pool_index, index = divmod(step, NUM_POOLED_BATCHES)
        if pool_index != self._pool_index:
            self._pool, self._pool_index = self._make_pool(pool_index), pool_index
        return collate(self._pool[index], self._pad, self._eos)

    def _make_pool(self, pool_index: int) -> list[list[Pair]]:
        size = self._batch_size
        rng = random.Random(f"{self._seed}/{pool_index}")
        pairs = list(itertools.islice(self._fitting(rng.getrandbits(48)), size * NUM_POOLED_BATCHES))
        if len(pairs) < size * NUM_POOLED_BATCHES:
            raise TaskDataError(
                f"the training data ended after {len(pairs)} of {size * NUM_POOLED_BATCHES} examples, or holds none "
                f"of at most {self._max_length} tokens; give more data or a longer --max-length"
            )
        # The jitter keeps the order from being the same for equal lengths of different kinds of text.
        pairs.sort(key=lambda pair: len(pair[1]) + 4 * rng.random())
        batches = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        rng.shuffle(batches)
        return batches

    def _fitting(self, seed: int) -> Iterator[Pair]:
        num_refused = 0
        for prompt, answer in self._source(seed):
            if len(prompt) + len(answer) + 1 <= self._max_length:
                num_refused = 0
                yield prompt, answer
            elif (num_refused := num_refused + 1) > 100_000:
                return
