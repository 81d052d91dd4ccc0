"""What branches were worth, on rounds worked out by hand."""

from __future__ import annotations

import pytest

from lopa_bench.results.fillings.branch_wins import FEWEST, PartRow, branch_wins, extremes
from lopa_bench.results.trace import BranchRecord, RoundRecord, TraceRecord

A, EOS = 7, 2
ANCHOR = BranchRecord(creation=1.0, score=-1.0, num_masks=4, num_filled=2)


def ahead(position: int, score: float, num_filled: int | None) -> BranchRecord:
    return BranchRecord(position=position, token=A, creation=-0.5, score=score, num_masks=3, num_filled=num_filled)


def round_of(
    index: int, positions: tuple[int, ...], branches: tuple[BranchRecord, ...], winner: int, eos: int | None = None
) -> RoundRecord:
    tokens = tuple(EOS if position == eos else A for position in positions)
    return RoundRecord(index=index, positions=positions, tokens=tokens, branches=branches, winner=winner)


# Twenty useful slots and the EOS. Round 1: the second lookahead wins and fills five, where the anchor would have filled
# two and the first lookahead six. Round 2: the anchor wins. Round 3: a lookahead wins and fills one slot less.
TRACE = TraceRecord(
    id="a",
    rounds=(
        round_of(0, (0, 1), (BranchRecord(creation=1.0, score=-1.0, num_filled=2),), 0),
        round_of(1, (3, 2, 4, 5, 6), (ahead(10, -0.9, 6), ahead(3, -0.5, 5), ANCHOR), 1),
        round_of(2, (7, 8), (ahead(30, -2.0, 3), ahead(10, -3.0, 3), ANCHOR), 2),
        round_of(3, (19,), (ahead(19, -0.1, 1), ANCHOR), 0),
        round_of(4, (*range(9, 19), 20), (BranchRecord(creation=1.0, score=1.0, num_filled=11),), 0, eos=20),
    ),
)


def test_wins_and_what_they_brought_by_hand() -> None:
    found = branch_wins([TRACE], EOS)
    assert found is not None
    assert (found.n, found.num_rounds, found.num_contested, found.num_branches) == (1, 5, 3, 8)
    assert (found.num_lookahead_won, found.share_lookahead_won) == (2, pytest.approx(2 / 3))
    assert found.won_by_rank == {-1: 1, 0: 1, 1: 1}
    assert found.score_margin == pytest.approx((0.5 + 0.9) / 2)
    assert found.gain == pytest.approx((3 + 0 - 1) / 3)
    assert found.gain_when_won == pytest.approx((3 - 1) / 2)
    assert (found.realised, found.even, found.lost) == (0.5, 0.0, 0.5)
    assert found.best_gain == pytest.approx((4 + 1 + 0) / 3)


def test_the_score_s_worth_is_a_rank_correlation() -> None:
    """Margins 0.1, 0.5, -1, -2, 0.9 and gains 4, 3, 1, 1, -1: ranks 3 4 2 1 5 and 5 4 2.5 2.5 1."""
    found = branch_wins([TRACE], EOS)
    assert found is not None
    margins, gains = [3, 4, 2, 1, 5], [5, 4, 2.5, 2.5, 1]
    covariance = sum((m - 3) * (g - 3) for m, g in zip(margins, gains, strict=True))
    expected = covariance / (sum((m - 3) ** 2 for m in margins) * sum((g - 3) ** 2 for g in gains)) ** 0.5
    assert found.score_tells == pytest.approx(expected)


def test_tenths_of_the_answer() -> None:
    """The answer has 20 useful slots: positions 10, 3, 30, 10, 19 stand in tenths 5, 1, behind the end, 5 and 9."""
    found = branch_wins([TRACE] * FEWEST, EOS)
    assert found is not None
    rows = {row.part: (row.num_tried, row.num_won, row.gain) for row in found.parts if row.num_tried}
    assert rows == {1: (5, 5, 3), 5: (10, 0, None), 9: (5, 5, -1), None: (5, 0, None)}
    assert [row.part for row in found.parts] == [*range(10), None]
    shares = {row.part: row.share_won for row in found.parts}
    assert (shares[1], shares[5], shares[0]) == (1.0, 0.0, None)


def test_a_few_lookaheads_give_no_share_and_a_few_wins_no_gain() -> None:
    few, enough = (branch_wins([TRACE] * count, EOS) for count in (FEWEST - 1, FEWEST))
    assert few is not None and enough is not None
    one, other = few.parts[1], enough.parts[1]
    assert (one.num_tried, one.num_won) == (4, 4)
    assert (one.share_won, one.won_interval, one.gain, one.gain_interval) == (None, None, None, None)
    assert other.won_interval is not None and other.won_interval.high == 1.0
    assert other.won_interval.low == pytest.approx(5 / (5 + 1.959964**2), abs=1e-6)  # Wilson's of 5 of 5
    assert other.gain_interval is not None and (other.gain_interval.low, other.gain_interval.high) == (3, 3)


def test_a_share_that_one_answer_alone_gave_is_no_certainty() -> None:
    """Drawing answers anew leaves a share of one answer as it is; the interval is that of its lookaheads."""
    rounds = [round_of(index, (index,), (ahead(0, -0.1, 1), ANCHOR), index % 2) for index in range(10)]
    last = round_of(10, tuple(range(10, 21)), (ANCHOR,), 0, eos=20)
    one = TraceRecord(id="a", rounds=(*rounds, last))
    other = TraceRecord(id="b", rounds=(round_of(0, (*range(20), 20), (ANCHOR,), 0, eos=20),))
    found = branch_wins([one, other, other], EOS)
    assert found is not None and found.parts[0].share_won == 0.5 and found.parts[0].won_interval is not None
    assert found.parts[0].won_interval.low < 0.3 and found.parts[0].won_interval.high > 0.7
    assert found.parts[0].gain is not None and found.parts[0].gain_interval is None


def test_extremes_are_named_where_they_are_more_than_chance() -> None:
    low = PartRow(0, 50, 2, None, 0.01, 0.14)
    high = PartRow(3, 50, 25, None, 0.36, 0.64)
    plain = [PartRow(part, 50, 12, None, 0.14, 0.38) for part in (1, 2)]
    assert extremes([low, *plain, high]) == (high, low)
    assert extremes(plain) is None
    assert extremes([PartRow(0, 14, 1, None, 0.01, 0.31), PartRow(2, 14, 4, None, 0.12, 0.55)]) is None
    assert extremes([low, PartRow(None, 50, 25, None, 0.36, 0.64)]) is None  # behind the end is no part of the answer
    assert extremes([PartRow(0, 4, 0, None), PartRow(1, 4, 4, None)]) is None
    assert extremes([PartRow(0, 50, 0, None, 0.0, 0.1), PartRow(1, 50, 0, None, 0.0, 0.1)]) is None


def test_a_decoder_without_branches_has_no_wins() -> None:
    plain = TraceRecord(id="a", rounds=(RoundRecord(index=0, positions=(0,), tokens=(A,)),))
    assert branch_wins([plain], EOS) is None
    assert branch_wins([], EOS) is None


def test_one_branch_is_never_contested() -> None:
    found = branch_wins([TraceRecord(id="a", rounds=TRACE.rounds[:1])], EOS)
    assert found is not None
    assert (found.num_contested, found.share_lookahead_won, found.branches_per_round) == (0, None, None)
    assert (found.gain, found.realised, found.score_tells, found.lookahead_interval) == (None, None, None, None)


def test_old_traces_tell_who_won_and_not_what_it_brought() -> None:
    branches = (ahead(10, -0.9, None), BranchRecord(creation=1.0, score=-1.0))
    found = branch_wins([TraceRecord(id="a", rounds=(round_of(0, (10, 0), branches, 0),))], EOS)
    assert found is not None
    assert (found.num_lookahead_won, found.gain, found.realised, found.best_gain) == (1, None, None, None)
