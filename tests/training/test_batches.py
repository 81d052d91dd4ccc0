"""Batches are a function of the step alone, and their layout is what decoding will meet."""

from __future__ import annotations

import itertools

import pytest
import torch

from lopa_bench.errors import TaskDataError
from lopa_bench.models.training.batches import BatchStream, collate

PAD, EOS = 0, 2


def pairs(seed: int):
    for length in itertools.islice(itertools.cycle((3, 5, 8)), 2000):
        yield [10 + seed % 3] * length, [13] * (length + 1)


def test_layout_starts_every_answer_at_one_column() -> None:
    batch = collate([([5, 6], [7, 8, 9]), ([5, 6, 7, 8], [9])], PAD, EOS)
    assert batch.tokens.tolist() == [[0, 0, 5, 6, 7, 8, 9, 2], [5, 6, 7, 8, 9, 2, 2, 2]]
    assert batch.prompt_length == 4
    assert batch.lengths.tolist() == [4, 2]
    assert batch.positions[0].tolist() == [0, 0, 0, 1, 2, 3, 4, 5]
    assert batch.real[0].tolist() == [False, False, True, True, True, True, True, True]


def test_canvas_grows_with_eos_and_never_shrinks() -> None:
    batch = collate([([5], [7, 8])], PAD, EOS)
    assert batch.with_canvas(6).tokens.tolist() == [[5, 7, 8, 2, 2, 2, 2]]
    assert batch.with_canvas(1).tokens.shape == batch.tokens.shape


def test_batch_of_a_step_does_not_depend_on_what_came_before() -> None:
    def make() -> BatchStream:
        return BatchStream(pairs, 4, pad=PAD, eos=EOS, max_length=64, seed=1)

    in_order = make()
    walked = [in_order.batch(step).tokens for step in range(20)]
    assert torch.equal(make().batch(17).tokens, walked[17])
    assert not all(walked[0].shape == tokens.shape and torch.equal(walked[0], tokens) for tokens in walked[1:])


def test_long_pairs_are_left_out_and_nothing_fitting_is_an_error() -> None:
    stream = BatchStream(pairs, 4, pad=PAD, eos=EOS, max_length=8, seed=0)
    assert max(stream.batch(step).tokens.shape[1] for step in range(8)) == 8
    with pytest.raises(TaskDataError, match="max-length"):
        BatchStream(pairs, 4, pad=PAD, eos=EOS, max_length=3, seed=0).batch(0)
