"""What LoPA's branches were worth, read from traces: who won, whether it paid at once, and in which part of the answer.

A branch is filled with the very logits that it was scored by. What winning brings is therefore known in the round of
the win: the slots that the winner filled, its lookahead included, against those that the anchor would have filled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean

from lopa_bench.results.fillings.fill_order import PARTS, part_of
from lopa_bench.results.fillings.lengths import FEWEST
from lopa_bench.results.schema import Interval
from lopa_bench.results.statistics import LEVEL, bootstrap_ratio, wilson_interval
from lopa_bench.results.trace import BranchRecord, RoundRecord, TraceRecord, useful_length


@dataclass(frozen=True)
class PartRow:
    """One part of the answer: lookaheads that were tried there, those that won, and what they brought.

    `part` is 0 to 9 for tenths of the useful answer, None for what stands behind its end. `gain` is the mean of those
    that won, None where fewer than `FEWEST` did. The bounds of both are 95 % intervals: of the share the wider of
    Wilson's and that by answers drawn whole, of the gain by answers drawn whole.
    """

    part: int | None
    num_tried: int
    num_won: int
    gain: float | None
    won_low: float | None = None
    won_high: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None

    @property
    def share_won(self) -> float | None:
        """Share of the lookaheads tried there that won; None where fewer than `FEWEST` were tried."""
        return self.num_won / self.num_tried if self.num_tried >= FEWEST else None

    @property
    def won_interval(self) -> Interval | None:
        """The share's interval."""
        return _interval(self.won_low, self.won_high, "wider of Wilson and bootstrap of the answers")

    @property
    def gain_interval(self) -> Interval | None:
        """The gain's interval."""
        return _interval(self.gain_low, self.gain_high, "bootstrap of the answers")


def _interval(low: float | None, high: float | None, method: str) -> Interval | None:
    return None if low is None or high is None else Interval(low=low, high=high, level=LEVEL, method=method)


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
    tallies = [_tally(trace, useful_length(trace, eos_id)) for trace in traces]
    for part in (*range(PARTS), None):
        yield _part_row(part, [tally.get(part, _Tally()) for tally in tallies])


@dataclass
class _Tally:
    """What became of the lookaheads to one part of one answer."""

    tried: int = 0
    won: int = 0
    gains: list[int] = field(default_factory=list)


def _tally(trace: TraceRecord, length: int) -> dict[int | None, _Tally]:
    """Count one answer's lookaheads by the part of the answer that they looked ahead to."""
    found: dict[int | None, _Tally] = defaultdict(_Tally)
    for one in trace.rounds:
        for index, branch in enumerate(one.branches if len(one.branches) > 1 else ()):
            if branch.position is None:
                continue
            tally = found[part_of(branch.position, length)]
            tally.tried += 1
            if one.winner == index:
                tally.won += 1
                tally.gains += [] if one.gain is None else [one.gain]
    return found


def _part_row(part: int | None, tallies: Sequence[_Tally]) -> PartRow:
    """Sum up one part of all answers."""
    tried, won = [one.tried for one in tallies], [one.won for one in tallies]
    gains = [gain for one in tallies for gain in one.gains]
    row = PartRow(part, sum(tried), sum(won), _mean(gains) if len(gains) >= FEWEST else None)
    # Answers drawn whole spread nothing where all or none won, or where one answer alone had such lookaheads.
    of_share = [bootstrap_ratio(won, tried), wilson_interval(row.num_won, row.num_tried)]
    spread = [one for one in of_share if one is not None and row.share_won is not None]
    of_gain = bootstrap_ratio([sum(one.gains) for one in tallies], [len(one.gains) for one in tallies])
    if sum(bool(one.gains) for one in tallies) < 2 or row.gain is None:
        of_gain = None
    return replace(
        row,
        won_low=min((one.low for one in spread), default=None),
        won_high=max((one.high for one in spread), default=None),
        gain_low=of_gain.low if of_gain else None,
        gain_high=of_gain.high if of_gain else None,
    )


def extremes(parts: Sequence[PartRow]) -> tuple[PartRow, PartRow] | None:
    """Return the tenths of the answer in which lookaheads win most and least often; None where chance would do that.

    It takes both a share that differs between tenths at all, by a chi-squared test of all of them, and intervals of the
    two that do not meet: the ends of ten shares differ by chance too.
    """
    from scipy.stats import chi2_contingency

    known = [one for one in parts if one.part is not None and one.share_won is not None]
    counts = [[one.num_won, one.num_tried - one.num_won] for one in known]
    if len(known) < 2 or not all(map(sum, zip(*counts, strict=True))):
        return None
    most, least = (choose(known, key=lambda one: one.share_won or 0.0) for choose in (max, min))
    is_apart = most.won_low is not None and least.won_high is not None and most.won_low > least.won_high
    return (most, least) if is_apart and chi2_contingency(counts).pvalue < 1 - LEVEL else None
