"""The samples that two runs have in common, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lopa_bench.errors import NotComparable
from lopa_bench.results.schema import Interval, RunRecord, SampleRecord
from lopa_bench.results.statistics import LEVEL, RESAMPLES, mcnemar_exact

if TYPE_CHECKING:
    import numpy

RIGHT = 1.0


@dataclass(frozen=True)
class Side:
    """A run and the samples it holds."""

    record: RunRecord
    samples: Sequence[SampleRecord]


@dataclass(frozen=True)
class Pair:
    """One problem's two answers."""

    before: SampleRecord
    after: SampleRecord

    @property
    def is_scored(self) -> bool:
        """Whether both answers went well and have a score."""
        return all(one.status == "ok" and one.correct is not None for one in (self.before, self.after))

    @property
    def is_identical(self) -> bool:
        """Whether both answers are the same tokens."""
        one, other = self.before, self.after
        return (one.token_ids, one.text) == (other.token_ids, other.text)  # a server gives no ids

    @property
    def change(self) -> float:
        """The score's change; a missing score counts as 0."""
        return (self.after.correct or 0.0) - (self.before.correct or 0.0)


@dataclass(frozen=True)
class Flips:
    """What became of the problems; a problem half right before and after is neither right nor wrong in both."""

    both_right: int
    gained: int
    lost: int
    both_wrong: int

    @property
    def p_value(self) -> float:
        """McNemar's exact two-sided p-value (McNemar 1947; the binomial of the changed problems)."""
        return mcnemar_exact(self.gained, self.lost)


def pairs_of(before: Side, after: Side) -> list[Pair]:
    """Return the answers to the problems that both runs were asked, in the first run's order.

    Raises:
        NotComparable: another task, version, data set or metric; the same problem under another prompt; none in common.
    """
    require_same_task(before.record, after.record)
    by_id = {sample.id: sample for sample in after.samples}
    pairs = [Pair(sample, by_id[sample.id]) for sample in before.samples if sample.id in by_id]
    names = f"{before.record.id} and {after.record.id}"
    if not pairs:
        raise NotComparable(
            f"{names} have no problem in common ({len(before.samples)} and {len(after.samples)} samples)"
        )
    other = [pair.before.id for pair in pairs if pair.before.prompt_hash != pair.after.prompt_hash]
    if other:
        raise NotComparable(
            f"{names} asked {len(other)} of {len(pairs)} common problems with other prompts ({other[0]} is the first); "
            "compare runs of the same task version and prompt settings"
        )
    return pairs


def require_same_task(before: RunRecord, after: RunRecord) -> None:
    """Refuse runs of another task, task version, score or number of problems in the data.

    Raises:
        NotComparable: naming what differs.
    """
    old, new = before.task, after.task
    for what, one, other in (
        ("task", old.name, new.name),
        (f"version of {old.name}", old.version, new.version),
        (f"metric of {old.name}", old.metric, new.metric),
    ):
        if one != other:
            raise NotComparable(f"{before.id} and {after.id} differ in {what}: {one or '-'} vs {other or '-'}")
    if old.num_available and new.num_available and old.num_available != new.num_available:
        raise NotComparable(
            f"{before.id} and {after.id} drew from other data: {old.name} with {old.num_available} problems "
            f"vs {new.num_available}"
        )


def flips(pairs: Sequence[Pair]) -> Flips:
    """Count the scored pairs."""
    scored = [pair for pair in pairs if pair.is_scored]
    unchanged = [pair.after.correct for pair in scored if pair.change == 0]
    return Flips(
        both_right=sum(value == RIGHT for value in unchanged),
        gained=sum(pair.change > 0 for pair in scored),
        lost=sum(pair.change < 0 for pair in scored),
        both_wrong=sum(value == 0 for value in unchanged),
    )


def fewest_flips(alpha: float = 1 - LEVEL) -> int:
    """Return how many problems must flip, all one way, before McNemar's exact test can call it more than chance."""
    count = 1
    while mcnemar_exact(count, 0) >= alpha:
        count += 1
    return count


def ratio_of_ratios(
    before: Sequence[tuple[float, float]],
    after: Sequence[tuple[float, float]],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float | None, Interval | None]:
    """Return how many times a ratio of sums grew, with its paired percentile bootstrap interval.

    Args:
        before: numerator and denominator of each problem.
        after: the same problems in the same order.
        level: of the interval.
        resamples: problems are drawn this often, each with both its answers.
        seed: of the drawing.

    Returns:
        (sum / sum after) / (sum / sum before), None where a sum is 0; the interval is None below two problems too.
    """
    import numpy as np

    table = np.asarray([(*one, *other) for one, other in zip(before, after, strict=True)], dtype=float)
    if not len(table) or not table.sum(axis=0).all():
        return None, None
    value = float(_ratio(table.sum(axis=0)))
    if len(table) < 2:
        return value, None
    random = np.random.default_rng(seed)
    drawn = np.stack([table[random.integers(len(table), size=len(table))].sum(axis=0) for _ in range(resamples)])
    defined = drawn[drawn.all(axis=1)]
    if not len(defined):
        return value, None
    low, high = np.quantile(_ratio(defined.T), [(1 - level) / 2, (1 + level) / 2])
    return value, Interval(low=float(low), high=float(high), level=level, method=f"paired bootstrap, {resamples}")


def _ratio(sums: numpy.ndarray) -> numpy.ndarray:
    """Return the ratio of ratios of [4, ...] sums."""
    return (sums[2] / sums[3]) / (sums[0] / sums[1])
