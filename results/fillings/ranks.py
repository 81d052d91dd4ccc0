"""Which of LoPA's lookaheads win: those that assume the most confident token, or others, and the anchor beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from lopa_bench.results.fillings.lengths import FEWEST
from lopa_bench.results.schema import Interval
from lopa_bench.results.statistics import bootstrap_ratio, wilson_interval
from lopa_bench.results.trace import BranchRecord, RoundRecord, TraceRecord


@dataclass(frozen=True)
class RankRow:
    """The lookaheads of one rank in the rounds with more than one branch, or with `rank` None the anchors.

    Rank 1 is the lookahead to the position of highest confidence. `share` is that of the tried ones that won, its
    `interval` by answers drawn whole, or Wilson's where none or all won; both None for fewer than `FEWEST` tried.
    `margin` is the mean of the winners' scores less the anchor's, None where none won or for the anchor itself.
    """

    rank: int | None
    num_tried: int
    num_won: int
    share: float | None
    interval: Interval | None
    margin: float | None

    @property
    def words(self) -> str:
        """The rank as a number, or `anchor`."""
        return "anchor" if self.rank is None else str(self.rank)


def rank_rows(traces: Sequence[TraceRecord]) -> tuple[RankRow, ...]:
    """Return the anchor's row, then one per rank from the most confident on; none where no round had a choice."""
    contested = [[one for one in trace.rounds if len(one.branches) > 1] for trace in traces]
    ranks = {rank for rounds in contested for one in rounds for rank in _ranked(one)}
    ordered = sorted(ranks, key=lambda rank: rank or 0)
    return tuple(_row(rank, [[one for one in rounds if rank in _ranked(one)] for rounds in contested])
                 for rank in ordered)  # fmt: skip


def _ranked(one: RoundRecord) -> dict[int | None, BranchRecord]:
    """Return a round's branches by rank: lookaheads stand in order of confidence."""
    ahead = [branch for branch in one.branches if branch.position is not None]
    ranked: dict[int | None, BranchRecord] = dict(enumerate(ahead, start=1))
    return ranked if one.anchor is None else ranked | {None: one.anchor}


def _has_won(rank: int | None, one: RoundRecord) -> bool:
    return one.winner is not None and one.branches[one.winner] is _ranked(one)[rank]


def _row(rank: int | None, tried: Sequence[Sequence[RoundRecord]]) -> RankRow:
    """Sum up the rounds that had a branch of this rank, by answer."""
    counts = [len(rounds) for rounds in tried]
    wins = [sum(_has_won(rank, one) for one in rounds) for rounds in tried]
    num_tried, num_won = sum(counts), sum(wins)
    margins = [
        margin
        for rounds in tried
        for one in rounds
        if rank is not None and _has_won(rank, one) and (margin := one.margin_of(_ranked(one)[rank])) is not None
    ]
    is_known = num_tried >= FEWEST
    # Drawing answers anew cannot spread a share of 0 or 1, which is no certainty.
    certain = num_won in (0, num_tried)
    interval = wilson_interval(num_won, num_tried) if certain else bootstrap_ratio(wins, counts)
    return RankRow(
        rank, num_tried, num_won, num_won / num_tried if is_known else None, interval if is_known else None,
        mean(margins) if margins else None,
    )  # fmt: skip
