"""Order of filling on traces small enough to be worked out on paper."""

from __future__ import annotations

import pytest

from lopa_bench.results.fillings.fill_order import (
    block_tau,
    fill_order,
    heat_map,
    kendall_tau,
    part_of,
    round_rows,
    share_after_eos,
)
from lopa_bench.results.trace import RoundRecord, TraceRecord, ids_in, useful_length

A, EOS = 7, 2


def trace(*rounds: tuple[int, ...], eos: int | None = None, num_slots: int | None = None, id: str = "a") -> TraceRecord:
    """Each round as the positions it filled, with A, and the EOS at position `eos`."""
    return TraceRecord(
        id=id,
        rounds=tuple(
            RoundRecord(
                index=index,
                positions=positions,
                tokens=tuple(EOS if position == eos else A for position in positions),
                num_slots=num_slots,
            )
            for index, positions in enumerate(rounds)
        ),
    )


LEFT_TO_RIGHT = trace((0,), (1,), (2,), (3,))
BACKWARDS = trace((3,), (2,), (1,), (0,))


def test_tau_of_the_plain_orders() -> None:
    assert kendall_tau(LEFT_TO_RIGHT, 4) == pytest.approx(1.0)
    assert kendall_tau(BACKWARDS, 4) == pytest.approx(-1.0)


def test_tau_counts_slots_of_one_round_as_ties() -> None:
    """Rounds 1, 0, 0, 1 of positions 0 to 3: two pairs in order, two against, two tied: 0."""
    assert kendall_tau(trace((1, 2), (0, 3)), 4) == pytest.approx(0.0)
    # Rounds 0, 0, 1, 1: four pairs in order of 6, two tied in rounds: 4 / sqrt(6 * 4).
    assert kendall_tau(trace((0, 1), (2, 3)), 4) == pytest.approx(4 / 24**0.5)


def test_tau_is_undefined_and_not_0_where_there_is_no_order() -> None:
    assert kendall_tau(trace((0, 1, 2)), 3) is None
    assert kendall_tau(trace((0,)), 1) is None
    assert kendall_tau(trace(), 0) is None
    assert kendall_tau(trace((0,), (1,)), 1) is None  # behind the end does not count


def test_tau_within_blocks_forgets_the_order_of_blocks() -> None:
    """Blocks one after another, each from right to left: over all mostly in order, within each against it."""
    blocks = trace((2,), (1,), (0,), (5,), (4,), (3,))
    assert block_tau(blocks, 6, 3) == pytest.approx(-1.0)
    assert kendall_tau(blocks, 6) == pytest.approx((9 - 6) / 15)
    assert block_tau(blocks, 6, 6) == kendall_tau(blocks, 6)
    assert block_tau(trace((0,), (1,), (3,), (2,)), 4, 2) == pytest.approx(0.0)  # the mean of 1 and -1
    assert block_tau(trace((0, 1), (2,), (3,)), 4, 2) == pytest.approx(1.0)  # a block of one round has none
    assert block_tau(blocks, 6, None) is None and block_tau(trace((0, 1), (2, 3)), 4, 2) is None
    found = fill_order([blocks, LEFT_TO_RIGHT], EOS, 3)
    assert found.block_tau == pytest.approx(0.0) and found.block_interval is not None
    assert fill_order([blocks], EOS).block_tau is None


def test_slots_that_were_revised_are_a_share_of_all_slots() -> None:
    assert fill_order([trace((0, 1), (2,), (0,), (0,)), trace((0,))], EOS).revised == 0.25
    assert fill_order([LEFT_TO_RIGHT], EOS).revised == 0.0
    assert fill_order([], EOS).revised is None


def test_a_slot_filled_anew_counts_by_its_last_round() -> None:
    revised = trace((0, 1), (2,), (0,))
    assert revised.filled_in == {0: 2, 1: 0, 2: 1}
    assert kendall_tau(revised, 3) == pytest.approx(-1 / 3)  # of three pairs one in order, two against


def test_the_useful_part_ends_at_the_first_eos_or_gap() -> None:
    assert useful_length(trace((0, 1, 2, 3), eos=2), EOS) == 2
    assert useful_length(trace((0, 1, 3)), EOS) == 2
    assert useful_length(trace((0, 1)), None) == 2
    assert useful_length(trace(), EOS) == 0


def test_an_eos_filled_before_the_text_before_it() -> None:
    first = trace((3,), (0, 1), (2,), eos=3)
    assert share_after_eos(first, EOS) == 1.0
    assert share_after_eos(trace((0, 3), (1,), (2,), eos=3), EOS) == pytest.approx(2 / 3)
    assert share_after_eos(trace((0, 1, 2), (3,), eos=3), EOS) == 0.0
    assert share_after_eos(trace((0, 1, 2, 3), eos=3), EOS) == 0.0  # in the same round is not before
    assert share_after_eos(trace((0,), eos=0), EOS) == 0.0
    assert share_after_eos(LEFT_TO_RIGHT, EOS) is None
    assert share_after_eos(first, None) is None


def test_a_run_by_hand() -> None:
    found = fill_order([trace((3,), (0, 1, 2), eos=3), trace((0,), (1,), (), (2,), eos=2), LEFT_TO_RIGHT], EOS)
    assert (found.n, found.n_tau, found.n_eos) == (3, 2, 2)  # the first answer's useful slots are of one round
    assert found.tau == pytest.approx(1.0)
    assert (found.eos_first, found.filled_after_eos) == (0.5, 0.5)
    assert found.bursts == {0: 1, 1: 8, 3: 1}
    assert (found.largest_burst, found.mean_burst, found.share_of_single) == (3, 1.1, 0.8)


def test_forced_slots_are_a_share_of_all() -> None:
    one = TraceRecord(
        id="a",
        rounds=(
            RoundRecord(index=0, positions=(0,), tokens=(A,), num_forced=1),
            RoundRecord(index=1, positions=(1, 2, 3), tokens=(A, A, A)),
        ),
    )
    assert fill_order([one], EOS).forced == 0.25


def test_nothing_traced_is_undefined() -> None:
    found = fill_order([], EOS)
    assert (found.tau, found.tau_interval, found.eos_first, found.forced, found.bursts) == (None, None, None, None, {})
    assert (found.largest_burst, found.mean_burst, found.share_of_single) == (None, None, None)
    assert round_rows([]) == []


def test_rounds_are_summed_up_over_answers() -> None:
    rows = round_rows([trace((0, 4), (1, 2, 3), num_slots=5), trace((0,), num_slots=5), trace((), (4,), num_slots=5)])
    assert [(row.index, row.n, row.filled_mean) for row in rows] == [(0, 3, 1.0), (1, 2, 2.0)]
    assert (rows[0].filled_low, rows[0].filled_median, rows[0].filled_high) == (0.5, 1.0, 1.5)
    assert rows[0].place == pytest.approx((0.5 + 0.0) / 2)  # the empty round has no place
    assert rows[1].place == pytest.approx((0.5 + 1.0) / 2)


def test_tenths() -> None:
    assert [part_of(position, 20) for position in (0, 1, 2, 19, 20)] == [0, 0, 1, 9, None]
    assert part_of(0, 0) is None


def test_a_heat_map_adds_late_rounds_to_its_last_row() -> None:
    whole = heat_map([LEFT_TO_RIGHT, trace((0, 1))])
    assert whole.tolist() == [[1.0, 0.5, 0, 0], [0, 0.5, 0, 0], [0, 0, 0.5, 0], [0, 0, 0, 0.5]]
    assert heat_map([LEFT_TO_RIGHT], num_rounds=2).tolist() == [[1, 0, 0, 0], [0, 1, 1, 1]]
    assert heat_map([]).shape == (0, 0)


def test_what_a_trace_does_not_say_is_read_from_what_it_does() -> None:
    assert trace((0,), (5,)).num_slots == 6
    assert trace((0,), (5,), num_slots=8).num_slots == 8
    assert trace().num_slots == 0
    assert (LEFT_TO_RIGHT.spell(A), TraceRecord(id="a", rounds=(), texts={A: " x"}).spell(A)) == ("<7>", " x")
    assert ids_in(trace((0, 1), eos=1).rounds) == {A, EOS}
