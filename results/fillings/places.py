"""How fast each part of an answer was filled: TPF by tenth of the answer, from its trace.

A round often fills slots of several tenths. Its cost is shared out evenly over the useful slots that it filled, so that
the rounds of all tenths add up to the rounds that filled any useful slot; those that filled none belong to no place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lopa_bench.results.fillings.fill_order import PARTS, part_of
from lopa_bench.results.fillings.lengths import FEWEST
from lopa_bench.results.schema import Interval
from lopa_bench.results.statistics import bootstrap_ratio
from lopa_bench.results.trace import TraceRecord, useful_length


@dataclass(frozen=True)
class PlaceRow:
    """One tenth of the useful answers, `part` 0 to 9, and how fast it was filled.

    `n` answers have `num_slots` useful slots in it, which took `num_rounds` rounds, parts of rounds counted as parts.
    `tpf` is the quotient of the two and `interval` its spread over answers; None for fewer than `FEWEST` answers.
    """

    part: int
    n: int
    num_slots: int
    num_rounds: float
    tpf: float | None
    interval: Interval | None

    @property
    def words(self) -> str:
        """The tenth in words, as `10%-20%`."""
        return f"{self.part / PARTS:.0%}-{(self.part + 1) / PARTS:.0%}"


def place_rows(traces: Sequence[TraceRecord], eos_id: int | None) -> tuple[PlaceRow, ...]:
    """Return a row per tenth of the answer; a slot that was filled anew counts by its last round."""
    shared = [_shared_out(trace, useful_length(trace, eos_id)) for trace in traces]
    return tuple(_row(part, [one[part] for one in shared if part in one]) for part in range(PARTS))


def _shared_out(trace: TraceRecord, length: int) -> dict[int, tuple[int, float]]:
    """Return slots and rounds of each tenth of one answer that has any."""
    rounds = {position: index for position, index in trace.filled_in.items() if position < length}
    sizes = Counter(rounds.values())
    slots: Counter[int] = Counter()
    spent: dict[int, float] = {}
    for position, index in rounds.items():
        part = part_of(position, length) or 0
        slots[part] += 1
        spent[part] = spent.get(part, 0.0) + 1 / sizes[index]
    return {part: (slots[part], spent[part]) for part in slots}


def _row(part: int, held: Sequence[tuple[int, float]]) -> PlaceRow:
    slots, rounds = [count for count, _ in held], [spent for _, spent in held]
    if len(held) < FEWEST:
        return PlaceRow(part, len(held), sum(slots), sum(rounds), None, None)
    interval = bootstrap_ratio(slots, rounds)
    return PlaceRow(part, len(held), sum(slots), sum(rounds), sum(slots) / sum(rounds), interval)
