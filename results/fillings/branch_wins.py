"""What LoPA's branches were worth, read from traces: who won, whether it paid at once, and in which part of the answer.

A branch is filled with the very logits that it was scored by. What winning brings is therefore known in the round of
the win: the slots that the winner filled, its lookahead included, against those that the anchor would have filled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from lopa_bench.results.fillings.fill_order import PARTS, part_of
from lopa_bench.results.schema import Interval
from lopa_bench.results.statistics import bootstrap_ratio
from lopa_bench.results.trace import BranchRecord, RoundRecord, TraceRecord, useful_length


@dataclass(frozen=True)
class PartRow:
    """One part of the answer: lookaheads that were tried there, those that won, and what they brought.

    `part` is 0 to 9 for tenths of the useful answer, None for what stands behind its end.
    """

    part: int | None
    num_tried: int
    num_won: int
    gain: float | None

    @property
    def share_won(self) -> float | None:
        """Share of the lookaheads tried there that won."""
        return self.num_won / self.num_tried if self.num_tried else None


@dataclass(frozen=True)
class BranchWins:
    """What the branches of a run came to.

    Attributes:
        n: answers with a trace.
        num_rounds: all rounds.
        num_contested: rounds with more than one branch.
        num_branches: branches of contested rounds, anchors included.
        num_lookahead_won: contested rounds that a lookahead won.
        lookahead_interval: of their share, answers drawn whole.
        won_by_rank: wins by the winner's rank among the lookaheads, 0 the most confident; -1 for the anchor.
        score_margin: mean of the winner's score less the anchor's, where a lookahead won.
        gain: mean of the slots filled more than the anchor would have filled, over contested rounds; 0 where the anchor
            won. None, as all that follows, for traces of schema version 1.
        gain_when_won: the same where a lookahead won.
        realised: share of lookahead wins with a gain above 0; `even` and `lost` the shares at and below 0.
        best_gain: mean over contested rounds of what the branch that would have filled most would have gained.
        score_tells: Spearman correlation, over lookaheads of contested rounds, of the score's margin over the anchor
            and the gain; None where either never varies.
        parts: the same by tenths of the answer.
    """

    n: int
    num_rounds: int
    num_contested: int
    num_branches: int
    num_lookahead_won: int
    lookahead_interval: Interval | None
    won_by_rank: dict[int, int]
    score_margin: float | None
    gain: float | None
    gain_when_won: float | None
    realised: float | None
    even: float | None
    lost: float | None
    best_gain: float | None
    score_tells: float | None
    parts: tuple[PartRow, ...]

    @property
    def share_lookahead_won(self) -> float | None:
        """Share of the contested rounds that a lookahead won."""
        return self.num_lookahead_won / self.num_contested if self.num_contested else None

    @property
    def branches_per_round(self) -> float | None:
        """Branches of a contested round, the anchor included."""
        return self.num_branches / self.num_contested if self.num_contested else None


def branch_wins(traces: Sequence[TraceRecord], eos_id: int | None) -> BranchWins | None:
    """Return what branches were worth; None for traces of a decoder that has none."""
    contested = [[one for one in trace.rounds if len(one.branches) > 1] for trace in traces]
    rounds = [one for of_trace in contested for one in of_trace]
    if not any(one.branches for trace in traces for one in trace.rounds):
        return None
    won = [one for one in rounds if one.lookahead_won]
    gains = [one.gain for one in rounds if one.gain is not None]
    gains_won = [one.gain for one in won if one.gain is not None]
    return BranchWins(
        n=len(traces),
        num_rounds=sum(len(trace.rounds) for trace in traces),
        num_contested=len(rounds),
        num_branches=sum(len(one.branches) for one in rounds),
        num_lookahead_won=len(won),
        lookahead_interval=bootstrap_ratio(
            [sum(one.lookahead_won for one in of_trace) for of_trace in contested], [len(one) for one in contested]
        ),
        won_by_rank=dict(sorted(Counter(map(_rank, rounds)).items())),
        score_margin=_mean([margin for one in won if (margin := one.margin_of(_winner(one))) is not None]),
        gain=_mean(gains),
        gain_when_won=_mean(gains_won),
        realised=_mean([value > 0 for value in gains_won]),
        even=_mean([value == 0 for value in gains_won]),
        lost=_mean([value < 0 for value in gains_won]),
        best_gain=_mean([best for one in rounds if (best := _best_gain(one)) is not None]),
        score_tells=_correlation(rounds),
        parts=tuple(_parts(traces, eos_id)),
    )


def _winner(one: RoundRecord) -> BranchRecord:
    return one.branches[one.winner or 0]


def _rank(one: RoundRecord) -> int:
    """Return the winner's place among the lookaheads, which stand in order of confidence; -1 for the anchor."""
    return (one.winner or 0) if one.lookahead_won else -1


def _best_gain(one: RoundRecord) -> int | None:
    return max((gain for branch in one.branches if (gain := one.gain_of(branch)) is not None), default=None)


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None


def _correlation(rounds: Sequence[RoundRecord]) -> float | None:
    """Return Spearman's correlation of score margin and gain over all lookaheads."""
    from scipy.stats import spearmanr

    pairs = [
        (margin, gain)
        for one in rounds
        for branch in one.branches
        if branch is not one.anchor
        and (margin := one.margin_of(branch)) is not None
        and (gain := one.gain_of(branch)) is not None
    ]
    margins, gains = [margin for margin, _ in pairs], [gain for _, gain in pairs]
    if len(set(margins)) < 2 or len(set(gains)) < 2:
        return None
    return float(spearmanr(margins, gains).statistic)


def _parts(traces: Sequence[TraceRecord], eos_id: int | None) -> Iterator[PartRow]:
    tried: Counter[int | None] = Counter()
    won: Counter[int | None] = Counter()
    gains: dict[int | None, list[int]] = {}
    for trace in traces:
        length = useful_length(trace, eos_id)
        for one in trace.rounds:
            if len(one.branches) < 2:
                continue
            places = {
                index: part_of(b.position, length) for index, b in enumerate(one.branches) if b.position is not None
            }
            tried.update(places.values())
            if one.winner in places:
                part = places[one.winner]
                won[part] += 1
                if one.gain is not None:
                    gains.setdefault(part, []).append(one.gain)
    for part in (*range(PARTS), None):
        yield PartRow(part, tried[part], won[part], _mean(gains.get(part, [])))
