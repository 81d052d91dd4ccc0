"""The state of a sample: what counts as a mask, an EOS, an answer."""

from __future__ import annotations

import pytest
from fakes_models import EOS, MASK

from lopa_bench.decoders.base import filled, whole_canvas
from lopa_bench.decoders.canvas import BlockState, Canvas
from lopa_bench.errors import DecodeError


def canvas_of(prompt: list[int], budget: int = 8, stop_at_eos: bool = True, eos_id: int | None = EOS) -> Canvas:
    return Canvas(prompt, max_new_tokens=budget, mask_id=MASK, eos_id=eos_id, stop_at_eos=stop_at_eos)


def test_an_empty_prompt_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(DecodeError, match="empty; give at least one token"):
        canvas_of([])


def test_mask_and_eos_ids_of_the_prompt_count_for_nothing() -> None:
    canvas = canvas_of([MASK, EOS, 3, MASK])
    assert canvas.masks(0, 4) == []
    assert canvas.num_masks(canvas.blocks[0]) == 0
    assert canvas.progress(canvas.blocks[0]) == 1.0
    assert canvas.eos_position is None
    canvas.append_block(3, BlockState.ACTIVE)
    assert canvas.masks(0, 7) == [4, 5, 6]
    assert canvas.active_masks == [4, 5, 6]


@pytest.mark.parametrize(("budget", "sizes"), [(50, [32, 18]), (20, [20]), (64, [32, 32]), (1, [1])])
def test_the_last_block_is_as_short_as_the_budget_asks(budget: int, sizes: list[int]) -> None:
    canvas = canvas_of([1], budget)
    whole_canvas(canvas, 32)
    assert [block.size for block in canvas.blocks[1:]] == sizes
    assert len(canvas) == 1 + budget


def test_the_answer_ends_with_the_first_eos_only_when_decoding_stops_there() -> None:
    for stop, expected in ((True, [5, EOS]), (False, [5, EOS, 6, EOS])):
        canvas = canvas_of([1, 2], 4, stop)
        whole_canvas(canvas, 4)
        canvas.tokens[2:] = [5, EOS, 6, EOS]
        assert canvas.answer == expected
        assert canvas.is_closed is stop


def test_an_eos_behind_a_mask_does_not_close_the_answer() -> None:
    canvas = canvas_of([1, 2], 4)
    whole_canvas(canvas, 4)
    canvas.tokens[2:] = [5, MASK, EOS, MASK]
    assert not canvas.is_closed
    canvas.tokens[3] = 6
    assert canvas.is_closed


def test_a_model_without_eos_never_closes() -> None:
    canvas = canvas_of([1, 2], 2, eos_id=None)
    whole_canvas(canvas, 2)
    canvas.tokens[2:] = [5, EOS]
    assert not canvas.is_closed
    assert canvas.answer == [5, EOS]


def test_the_answer_is_never_longer_than_the_budget() -> None:
    canvas = canvas_of([1, 2], 3)
    canvas.append_block(5, BlockState.ACTIVE)
    assert len(canvas.answer) == 3
    assert canvas.num_room == -2


def test_progress_is_the_filled_share_and_one_for_nothing() -> None:
    canvas = canvas_of([1])
    canvas.append_block(4, BlockState.ACTIVE)
    canvas.tokens[2] = 7
    assert canvas.progress(canvas.blocks[1]) == 0.25
    canvas.append_block(0, BlockState.ACTIVE)
    assert canvas.progress(canvas.blocks[2]) == 1.0


def test_a_proposed_mask_id_fills_nothing() -> None:
    canvas = canvas_of([1, 2])
    assert filled(canvas, [2, 3, 5], [7, MASK, 8]) == ((0, 3), (7, 8))
