"""In what order an answer was filled, read from its trace: order against left-to-right, bursts, and when the EOS came.

Positions and rounds are counted from 0. Figures about order look at the useful part of an answer, the slots before its
first EOS; a position that was filled anew counts by its last round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean
from typing import TYPE_CHECKING

from lopa_bench.results.schema import Interval
from lopa_bench.results.statistics import bootstrap_mean
from lopa_bench.results.trace import TraceRecord, useful_length

if TYPE_CHECKING:
    import numpy

PARTS = 10


@dataclass(frozen=True)
class FillOrder:
    """How the answers of a run were filled.

    Attributes:
        n: answers with a trace.
        tau: mean over answers of Kendall's tau-b between position and round, 1 for left to right; None where no answer
            has two slots filled in different rounds.
        tau_interval: by bootstrap over the `n_tau` answers that have one.
        block_tau: the same within each of the decoder's blocks, mean over an answer's blocks, then over answers; None
            for a decoder without blocks.
        block_interval: by bootstrap over the answers that have one.
        n_eos: answers with an EOS.
        eos_first: share of those whose EOS was filled in an earlier round than some slot before it.
        filled_after_eos: mean share of their useful slots that were filled in a later round than the EOS.
        bursts: rounds by the number of slots that they filled, 0 included.
        forced: share of all filled slots that nothing but the need for progress filled.
        revised: share of the slots that were filled more than once.
    """

    n: int
    tau: float | None
    tau_interval: Interval | None
    n_tau: int
    block_tau: float | None
    block_interval: Interval | None
    n_eos: int
    eos_first: float | None
    filled_after_eos: float | None
    bursts: dict[int, int]
    forced: float | None
    revised: float | None

    @property
    def largest_burst(self) -> int | None:
        """Most slots that one round filled."""
        return max(self.bursts, default=None)

    @property
    def mean_burst(self) -> float | None:
        """Slots filled per round."""
        rounds = sum(self.bursts.values())
        return sum(size * count for size, count in self.bursts.items()) / rounds if rounds else None

    @property
    def share_of_single(self) -> float | None:
        """Share of the rounds that filled exactly one slot."""
        rounds = sum(self.bursts.values())
        return self.bursts.get(1, 0) / rounds if rounds else None


@dataclass(frozen=True)
class RoundRow:
    """All answers' rounds of one index: how many there are, what they filled, and where.

    `filled_mean` and its quartiles are slots per round. `place` is the mean place of those slots as a share of the
    answer, 0 at its first slot and 1 at its last open one.
    """

    index: int
    n: int
    filled_mean: float
    filled_low: float
    filled_median: float
    filled_high: float
    place: float | None


def fill_order(traces: Sequence[TraceRecord], eos_id: int | None, block_size: int | None = None) -> FillOrder:
    """Return how the answers of `traces` were filled; `eos_id` is the model's EOS, `block_size` the decoder's."""
    taus = [tau for trace in traces if (tau := kendall_tau(trace, useful_length(trace, eos_id))) is not None]
    local = [tau for trace in traces if (tau := block_tau(trace, useful_length(trace, eos_id), block_size)) is not None]
    late = [share for trace in traces if (share := share_after_eos(trace, eos_id)) is not None]
    bursts = Counter(len(one.positions) for trace in traces for one in trace.rounds)
    num_filled = sum(size * count for size, count in bursts.items())
    fillings = [Counter(position for one in trace.rounds for position in one.positions) for trace in traces]
    num_slots = sum(map(len, fillings))
    num_forced = sum(one.num_forced for trace in traces for one in trace.rounds)
    return FillOrder(
        n=len(traces),
        tau=mean(taus) if taus else None,
        tau_interval=bootstrap_mean(taus),
        n_tau=len(taus),
        block_tau=mean(local) if local else None,
        block_interval=bootstrap_mean(local),
        n_eos=len(late),
        eos_first=mean(share > 0 for share in late) if late else None,
        filled_after_eos=mean(late) if late else None,
        bursts=dict(sorted(bursts.items())),
        forced=num_forced / num_filled if num_filled else None,
        revised=sum(count > 1 for one in fillings for count in one.values()) / num_slots if num_slots else None,
    )


def kendall_tau(trace: TraceRecord, length: int) -> float | None:
    """Return Kendall's tau-b of position against round over the first `length` slots; None where it is undefined.

    Slots filled in one round are ties. It is undefined for fewer than two slots and for those of a single round.
    """
    return _tau({position: index for position, index in trace.filled_in.items() if position < length})


def block_tau(trace: TraceRecord, length: int, block_size: int | None) -> float | None:
    """Return the mean of Kendall's tau-b within each block of the first `length` slots, over blocks that have one.

    Blocks begin at the answer's first slot. None without blocks and where each was filled in a single round.
    """
    if block_size is None:
        return None
    blocks: dict[int, dict[int, int]] = {}
    for position, index in trace.filled_in.items():
        if position < length:
            blocks.setdefault(position // block_size, {})[position] = index
    taus = [tau for rounds in blocks.values() if (tau := _tau(rounds)) is not None]
    return mean(taus) if taus else None


def _tau(rounds: Mapping[int, int]) -> float | None:
    """Return Kendall's tau-b of positions and their rounds; None where all are of one round."""
    from scipy.stats import kendalltau

    if len(set(rounds.values())) < 2:
        return None
    positions = sorted(rounds)
    return float(kendalltau(positions, [rounds[position] for position in positions]).statistic)


def share_after_eos(trace: TraceRecord, eos_id: int | None) -> float | None:
    """Return the share of the useful slots that were filled in a later round than the EOS behind them.

    None without an EOS; 0 for an answer that is nothing but an EOS.
    """
    length = useful_length(trace, eos_id)
    rounds, tokens = trace.filled_in, trace.tokens
    if eos_id is None or tokens.get(length) != eos_id:
        return None
    return mean(rounds[position] > rounds[length] for position in range(length)) if length else 0.0


def round_rows(traces: Iterable[TraceRecord]) -> list[RoundRow]:
    """Return a row for each round index that any answer reached."""
    import numpy as np

    found = sorted(
        ((one.index, len(one.positions), _place(one.positions, trace)) for trace in traces for one in trace.rounds),
        key=lambda row: row[0],
    )
    rows = []
    for index, group in groupby(found, key=lambda row: row[0]):
        of_index = list(group)
        filled = [count for _, count, _ in of_index]
        places = [place for _, _, place in of_index if place is not None]
        low, median, high = (float(value) for value in np.quantile(filled, [0.25, 0.5, 0.75]))
        rows.append(RoundRow(index, len(filled), mean(filled), low, median, high, mean(places) if places else None))
    return rows


def _place(positions: Sequence[int], trace: TraceRecord) -> float | None:
    """Return the mean place of some slots in the answer, as a share of it."""
    if not positions:
        return None
    return mean(positions) / max(trace.num_slots - 1, 1)


def part_of(position: int, length: int) -> int | None:
    """Return the tenth, 0 to 9, of the answer that a position stands in; None behind its end."""
    return position * PARTS // length if position < length else None


def heat_map(traces: Sequence[TraceRecord], num_rounds: int | None = None) -> numpy.ndarray:
    """Return the share of answers that filled each slot in each round, [rounds, positions], for a plot.

    A slot's shares are over all answers, so that slots which many answers do not have stay faint. Rounds beyond
    `num_rounds` are added to the last.
    """
    import numpy as np

    rounds = num_rounds or max((len(trace.rounds) for trace in traces), default=0)
    counts = np.zeros((rounds, max((trace.num_slots for trace in traces), default=0)))
    for trace in traces:
        for position, index in trace.filled_in.items():
            counts[min(index, rounds - 1), position] += 1
    return counts / max(len(traces), 1)
