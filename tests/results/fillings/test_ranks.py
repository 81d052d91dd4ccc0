"""Who wins by rank, on rounds counted by hand."""

from __future__ import annotations

import pytest

from lopa_bench.results.fillings.ranks import RankRow, rank_rows
from lopa_bench.results.statistics import wilson_interval
from lopa_bench.results.trace import BranchRecord, RoundRecord, TraceRecord

ANCHOR = BranchRecord(creation=1.0, score=-1.0)


def trace(id: str, *rounds: tuple[int, int]) -> TraceRecord:
    """Rounds as (number of lookaheads, place of the winner); a lookahead's score is a tenth per place above -1."""
    made = []
    for index, (lookaheads, winner) in enumerate(rounds):
        ahead = [
            BranchRecord(position=index + place, token=7, creation=0.5 - place / 10, score=-0.9 + place / 10)
            for place in range(lookaheads)
        ]
        made.append(RoundRecord(index=index, positions=(index,), tokens=(7,), branches=(*ahead, ANCHOR), winner=winner))
    return TraceRecord(id=id, rounds=tuple(made))


def by_rank(*traces: TraceRecord) -> dict[int | None, RankRow]:
    return {row.rank: row for row in rank_rows(traces)}


# Six rounds with a choice, one without. Of the three lookaheads the first wins twice, the second once and the third,
# which four rounds have, never; the anchor wins three.
ONE = trace("a", (3, 0), (3, 3), (2, 1), (0, 0))
OTHER = trace("b", (3, 0), (3, 3), (2, 2))


def test_tried_and_won_by_rank() -> None:
    found = by_rank(ONE, OTHER)
    assert list(found) == [None, 1, 2, 3] and [row.words for row in found.values()] == ["anchor", "1", "2", "3"]
    assert {rank: (row.num_tried, row.num_won) for rank, row in found.items()} == {
        None: (6, 3), 1: (6, 2), 2: (6, 1), 3: (4, 0),
    }  # fmt: skip
    assert (found[None].share, found[1].share, found[2].share) == (0.5, pytest.approx(1 / 3), pytest.approx(1 / 6))
    assert (found[3].share, found[3].interval) == (None, None)  # four are too few
    assert (found[1].margin, found[2].margin) == (pytest.approx(0.1), pytest.approx(0.2))
    assert (found[None].margin, found[3].margin) == (None, None)


def test_intervals_spread_over_answers_and_never_claim_certainty() -> None:
    """The second lookahead wins one of three rounds in one answer, none in the other: at most one third."""
    found = by_rank(ONE, OTHER)
    assert found[2].interval is not None and found[1].interval is not None
    assert (found[2].interval.low, found[2].interval.high) == (0.0, pytest.approx(1 / 3))
    never = by_rank(trace("a", *[(1, 1)] * 3), trace("b", *[(1, 1)] * 3))
    assert never[1].share == 0.0 and never[1].interval == wilson_interval(0, 6)
    assert never[1].interval is not None and never[1].interval.high > 0.3


def test_no_round_with_a_choice_has_no_ranks() -> None:
    assert rank_rows([trace("a", (0, 0))]) == () and rank_rows([]) == ()


def test_scores_that_are_not_known_make_no_margin() -> None:
    unscored = BranchRecord(position=3, token=7)
    rounds = (RoundRecord(index=0, positions=(0,), tokens=(7,), branches=(unscored, ANCHOR), winner=0),)
    assert by_rank(TraceRecord(id="a", rounds=rounds))[1].margin is None
