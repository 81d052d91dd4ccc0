"""TPF by tenth of the answer, on fillings worked out on paper."""

from __future__ import annotations

import pytest

from lopa_bench.results.fillings.places import place_rows
from lopa_bench.results.trace import RoundRecord, TraceRecord

A, EOS = 7, 2


def trace(*rounds: tuple[int, ...], eos: int | None = None, id: str = "a") -> TraceRecord:
    """Each round as the positions it filled, with A, and the EOS at position `eos`."""
    return TraceRecord(
        id=id,
        rounds=tuple(
            RoundRecord(index=index, positions=of, tokens=tuple(EOS if place == eos else A for place in of))
            for index, of in enumerate(rounds)
        ),
    )


# Twenty useful slots, two in each tenth. The first tenth takes two rounds; the next three share one of six slots; all
# the rest and the EOS are filled at once. A round that fills nothing useful belongs to no place.
ANSWER = ((0,), (1,), (2, 3, 4, 5, 6, 7), tuple(range(8, 21)), (21, 22))


def test_a_round_is_shared_out_over_the_slots_that_it_filled() -> None:
    rows = place_rows([trace(*ANSWER, eos=20, id=str(index)) for index in range(5)], EOS)
    assert [row.words for row in rows][:2] == ["0%-10%", "10%-20%"] and len(rows) == 10
    assert [row.tpf for row in rows] == [pytest.approx(value) for value in (1.0, *[6.0] * 3, *[12.0] * 6)]
    assert {(row.n, row.num_slots) for row in rows} == {(5, 10)}
    assert sum(row.num_rounds for row in rows) == pytest.approx(5 * 4)


def test_answers_count_by_their_slots_and_fewer_than_five_tell_nothing() -> None:
    slow = [trace(*((place,) for place in range(20)), id=str(index)) for index in range(3)]
    fast = [trace(tuple(range(20)), id=f"fast{index}") for index in range(2)]
    rows = place_rows([*slow, *fast], EOS)
    assert rows[0].tpf == pytest.approx(10 / (3 * 2 + 2 * 0.1))
    assert rows[0].interval is not None and rows[0].interval.low < 10 / 6.2 < rows[0].interval.high
    few = place_rows([*slow, *fast[:1]], EOS)
    assert {(row.n, row.tpf, row.interval) for row in few} == {(4, None, None)}


def test_short_answers_have_no_slot_in_some_tenths() -> None:
    rows = place_rows([trace((0,), (1,), id=str(index)) for index in range(5)], EOS)
    assert {row.part: row.tpf for row in rows if row.n} == {0: 1.0, 5: 1.0}
    assert all(row.tpf is None for row in rows if not row.n)


def test_a_slot_filled_anew_counts_by_its_last_round() -> None:
    rows = place_rows([trace((0, 1), (0,), id=str(index)) for index in range(5)], EOS)
    assert (rows[0].tpf, rows[5].tpf) == (1.0, 1.0)
