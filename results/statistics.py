"""Intervals and tests: how sure a figure is, and whether two runs over the same problems really differ.

All return None where they are undefined, as with fewer than two samples: a missing interval cannot be drawn as a bar of
no width. Resampling is seeded, so the same samples always give the same interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.errors import NotComparable
from lopa_bench.results.schema import Interval

if TYPE_CHECKING:
    import numpy

LEVEL = 0.95
RESAMPLES = 2000
CELLS_AT_ONCE = 2_000_000  # bounds the memory of resampling: about 16 MB


def wilson_interval(successes: int, n: int, level: float = LEVEL) -> Interval | None:
    """Return Wilson's score interval of a proportion (Wilson 1927), sound at 0 and at n successes too."""
    from scipy.stats import binomtest

    if n < 2:
        return None
    bounds = binomtest(successes, n).proportion_ci(confidence_level=level, method="wilson")
    return Interval(low=float(bounds.low), high=float(bounds.high), level=level, method="Wilson")


def bootstrap_ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Return the percentile bootstrap interval of sum(numerators) / sum(denominators) over samples drawn in pairs."""
    import numpy as np

    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} numerators for {len(denominators)} denominators")
    above, below = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    if len(above) < 2 or not below.any():
        return None
    ratios = _resampled_ratios(above, below, resamples, np.random.default_rng(seed))
    if not len(ratios):
        return None
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high), level=level, method=f"bootstrap, {resamples} resamples")


def _resampled_ratios(
    above: numpy.ndarray, below: numpy.ndarray, resamples: int, random: numpy.random.Generator
) -> numpy.ndarray:
    """Return the ratio of each resample [at most resamples], leaving out those whose denominator is 0."""
    import numpy as np

    n = len(above)
    rows = max(1, CELLS_AT_ONCE // n)
    ratios = []
    for start in range(0, resamples, rows):
        drawn = random.integers(n, size=(min(rows, resamples - start), n))
        total = below[drawn].sum(axis=1)
        defined = total != 0
        ratios.append(above[drawn].sum(axis=1)[defined] / total[defined])
    return np.concatenate(ratios)


def bootstrap_mean(
    values: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """Return the percentile bootstrap interval of the mean of `values`."""
    return bootstrap_ratio(values, [1.0] * len(values), level=level, resamples=resamples, seed=seed)


def proportion_interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean score: Wilson's where all are 0 or 1, else by bootstrap."""
    if all(value in (0, 1) for value in values):
        return wilson_interval(round(sum(values)), len(values), level)
    return bootstrap_mean(values, level=level)


def clustered_interval(values: Sequence[float], clusters: Sequence[str], level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean score in 0..1 whose problems come in clusters, such as the subjects of MATH.

    Problems of one cluster are alike, so their errors add up within it: the standard error is the cluster-robust one
    (Miller 2024, arXiv 2411.00640, section 2.2) with the factor clusters / (clusters - 1), and the quantile is that of
    Student's t with clusters - 1 degrees of freedom, as clusters are few. With fewer than two clusters, or where no
    cluster departs from the mean, it is the interval of `proportion_interval`.
    """
    import math

    from scipy.stats import t

    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values for {len(clusters)} clusters")
    names = sorted(set(clusters))
    mean = sum(values) / len(values) if values else 0.0
    excess = dict.fromkeys(names, 0.0)
    for value, cluster in zip(values, clusters, strict=True):
        excess[cluster] += value - mean
    squares = sum(total**2 for total in excess.values())
    if len(names) < 2 or squares < 1e-18:
        return proportion_interval(values, level)
    error = math.sqrt(squares * len(names) / (len(names) - 1)) / len(values)
    reach = float(t.ppf((1 + level) / 2, len(names) - 1)) * error
    method = f"clustered, {len(names)} clusters"
    return Interval(low=max(mean - reach, 0.0), high=min(mean + reach, 1.0), level=level, method=method)


def score_interval(values: Sequence[float], clusters: Sequence[str | None], level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean score: clustered where every problem names its cluster, else Wilson's."""
    named = [cluster for cluster in clusters if cluster is not None]
    if values and len(named) == len(values):
        return clustered_interval(values, named, level)
    return proportion_interval(values, level)


def mcnemar_exact(gained: int, lost: int) -> float:
    """Return the two-sided p-value of McNemar's exact test: were as many problems gained as lost by chance?

    `gained` are wrong before and right after, `lost` the reverse; with neither there is nothing to tell apart: 1.
    """
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost, 0.5).pvalue) if gained + lost else 1.0


def paired_difference(
    before: Sequence[float],
    after: Sequence[float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float | None, Interval | None]:
    """Return mean(after) - mean(before) and its paired bootstrap interval, problems drawn together.

    Both hold one score per problem, in 0..1 and in the same order; NotComparable when their lengths differ. Where all
    scores changed alike, as where none did, every resample is the same; the interval is that of `alike_interval` then.
    """
    if len(before) != len(after):
        raise NotComparable(f"a paired test needs the same problems in both runs, found {len(before)} and {len(after)}")
    if not before:
        return None, None
    changes = [new - old for old, new in zip(before, after, strict=True)]
    if len(set(changes)) == 1:
        return changes[0], alike_interval(changes[0], len(changes), level)
    return sum(changes) / len(changes), bootstrap_mean(changes, level=level, resamples=resamples, seed=seed)


def alike_interval(change: float, n: int, level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean change in -1..1 of which `n` problems showed the same, None below two.

    At the level, no more than 1 - (1 - level)^(1/n) of all problems change otherwise: the exact limit of a share of
    which n draws found none. These may be as bad as a right answer lost, or as good as one gained.
    """
    if n < 2:
        return None
    others = 1 - (1 - level) ** (1 / n)
    low, high = ((1 - others) * change + others * worst for worst in (-1.0, 1.0))
    return Interval(low=low, high=high, level=level, method=f"exact, {n} changed alike")
