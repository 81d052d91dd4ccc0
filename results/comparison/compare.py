"""Two runs set side by side: what changed, whether the change is more than chance, and what it may be due to.

Only problems that both runs were asked are looked at. A pair that differs in more than one semantic setting is
*confounded*: its figures are given, the differences between them only when forced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lopa_bench.results.comparison.bounds import ROUNDING
from lopa_bench.results.comparison.chance import equal_runs_differ_by, numeric
from lopa_bench.results.comparison.compare_warnings import warnings_of
from lopa_bench.results.comparison.differences import Difference, differences, semantic, speed_obstacle
from lopa_bench.results.comparison.load import hindrance_words
from lopa_bench.results.comparison.noise import NoiseCell
from lopa_bench.results.comparison.paired import Flips, Pair, Side, flips, pairs_of, ratio_of_ratios
from lopa_bench.results.metrics import METRICS, timed, total_s, useful, works
from lopa_bench.results.schema import Interval, SampleRecord
from lopa_bench.results.statistics import LEVEL, paired_difference

NOISE_LEVEL = 0.99

Quantity = Callable[[SampleRecord], float]


@dataclass(frozen=True)
class Change:
    """One figure of both runs over their common problems.

    `change` is a difference for the accuracy, else the second's share of the first; None where it is undefined or
    withheld, as `remark` says.
    """

    figure: str
    title: str
    before: float | None
    after: float | None
    change: float | None
    interval: Interval | None = None
    remark: str = ""

    @property
    def is_ratio(self) -> bool:
        """Whether `change` is a ratio rather than a difference."""
        return self.figure != "accuracy"


@dataclass(frozen=True)
class Comparison:
    """A pair of runs; `pairs` are the common problems, `changes` the figures, accuracy first.

    `accuracy_noise` is the share by which the accuracies of equal runs differ at most, where that was measured.
    """

    before: Side
    after: Side
    pairs: tuple[Pair, ...]
    differences: tuple[Difference, ...]
    flips: Flips
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    is_withheld: bool = False
    accuracy_noise: float | None = None

    @property
    def semantic(self) -> list[Difference]:
        """The settings meant to change answers that differ."""
        return semantic(list(self.differences))

    @property
    def is_confounded(self) -> bool:
        """Whether more than one of them does."""
        return len(self.semantic) > 1

    @property
    def flipped(self) -> list[Pair]:
        """The problems whose score changed."""
        return [pair for pair in self.pairs if pair.is_scored and pair.change]

    @property
    def num_scored(self) -> int:
        """Common problems scored in both runs."""
        return sum(pair.is_scored for pair in self.pairs)

    @property
    def num_identical(self) -> int:
        """Common problems answered with the same tokens."""
        return sum(pair.is_identical for pair in self.pairs)

    @property
    def is_within_noise(self) -> bool:
        """Whether equal runs differ in accuracy by as much."""
        drop = abs(sum(pair.change for pair in self.flipped)) / max(self.num_scored, 1)
        return self.accuracy_noise is not None and drop <= self.accuracy_noise + ROUNDING

    @property
    def verdict(self) -> str:
        """What the flips say of accuracy, in a few words."""
        if self.is_withheld:
            return "confounded"
        if not self.num_scored:
            return "not scored"
        if self.flips.p_value >= 1 - LEVEL or self.is_within_noise:
            same = self.num_identical == len(self.pairs) and not self.flipped
            return "same answers" if same else "not distinguishable"
        return "better" if self.flips.gained > self.flips.lost else "worse"


def compare(before: Side, after: Side, *, noise: Sequence[NoiseCell] = (), force: bool = False) -> Comparison:
    """Compare a run with an earlier one.

    Args:
        before: the baseline.
        after: the run that is judged.
        noise: the noise floors of the two cells, as far as they were measured.
        force: give the differences of a confounded pair too.

    Raises:
        NotComparable: another task, version or prompt, or no problem in common.
    """
    pairs = pairs_of(before, after)
    found = differences(before.record, after.record)
    confounded = len(semantic(found)) > 1
    withheld = confounded and not force
    num_scored = sum(pair.is_scored for pair in pairs)
    accuracy_noise = equal_runs_differ_by(noise, num_scored, with_variants=bool(numeric(found)))
    changes = [_accuracy(pairs, accuracy_noise), *_work(pairs), _speed(before, after, pairs, noise)]
    if withheld:
        changes = [replace(one, change=None, interval=None, remark="confounded") for one in changes]
    flipped = flips(pairs)
    warnings = warnings_of(before, after, pairs, found, noise, force=force)
    return Comparison(
        before, after, tuple(pairs), tuple(found), flipped, tuple(changes), tuple(warnings), withheld, accuracy_noise
    )


def _accuracy(pairs: Sequence[Pair], noise: float | None) -> Change:
    scored = [pair for pair in pairs if pair.is_scored]
    old, new = ([getattr(pair, side).correct for pair in scored] for side in ("before", "after"))
    change, interval = paired_difference(old, new)
    metric = METRICS["accuracy"]
    before, after = (sum(values) / len(values) if values else None for values in (old, new))
    remark = ""
    if change and noise is not None:
        words = "within" if abs(change) <= noise + ROUNDING else "beyond"
        remark = f"{words} this machine's noise ({100 * noise:.1f} pt between equal runs)"
    return Change("accuracy", metric.title, before, after, change, interval, remark)


def _work(pairs: Sequence[Pair]) -> list[Change]:
    """TPF, and the totals of work, over problems that went well in both runs."""
    well = [pair for pair in pairs if pair.before.status == pair.after.status == "ok"]
    quantities: dict[str, tuple[str, Quantity]] = {
        "rounds": ("rounds", lambda one: one.work.rounds),
        "model_calls": ("model calls", lambda one: one.work.model_calls),
        "branch_forwards": ("branch forwards", lambda one: one.work.branch_forwards),
        "positions": ("positions", lambda one: one.work.positions),
    }
    found = [_rate(METRICS["tpf"].id, METRICS["tpf"].title, well, useful, lambda one: one.work.rounds)]
    for figure, (title, quantity) in quantities.items():
        found.append(_total(figure, title, well, quantity))
    return found


def _rate(figure: str, title: str, pairs: Sequence[Pair], above: Quantity, below: Quantity) -> Change:
    """Return the change of a ratio of sums, with its paired interval."""
    old = [(above(pair.before), below(pair.before)) for pair in pairs]
    new = [(above(pair.after), below(pair.after)) for pair in pairs]
    before, after = (_quotient(side) for side in (old, new))
    change, interval = ratio_of_ratios(old, new)
    return Change(figure, title, before, after, change, interval)


def _quotient(values: Sequence[tuple[float, float]]) -> float | None:
    below = sum(value for _, value in values)
    return sum(value for value, _ in values) / below if below else None


def _total(figure: str, title: str, pairs: Sequence[Pair], quantity: Quantity) -> Change:
    """Return the change of a sum; its interval is that of the ratio, problems drawn in pairs."""
    old, new = ([(quantity(getattr(pair, side)), 1.0) for pair in pairs] for side in ("before", "after"))
    change, interval = ratio_of_ratios(old, new)
    known = [any(works(getattr(pair, side)) for pair in pairs) for side in ("before", "after")]
    before, after = (
        sum(value for value, _ in side) if is_known else None for side, is_known in zip((old, new), known, strict=True)
    )
    return Change(figure, title, before, after, change, interval)


def _speed(before: Side, after: Side, pairs: Sequence[Pair], noise: Sequence[NoiseCell]) -> Change:
    """Return the change of tokens per second, or why there is none."""
    on_clock = [pair for pair in pairs if len(timed([pair.before, pair.after])) == 2]
    change = _rate("tps_e2e", METRICS["tps_e2e"].title, on_clock, useful, total_s)
    obstacle = speed_obstacle(before.record, after.record)
    if obstacle is not None:
        return replace(change, change=None, interval=None, remark=obstacle)
    if change.change is None:
        return replace(change, remark="no common problem was timed in both")
    measured = [cell for cell in noise if cell.samples == len(on_clock)]
    bands = [band for cell in measured if (band := cell.speed_band(after.record)) is not None]
    if not bands:
        what = "these problems" if len(measured) < len(noise) else "this cell"
        words = f"noise of {what} not measured; see `lopa-bench noise`"
        return replace(change, remark=words + _unlike_loads(on_clock))
    limit = max(band.factor(NOISE_LEVEL) for band in bands)
    within = 1 / limit <= change.change <= limit
    words = "within" if within else "beyond"
    words = f"{words} this machine's noise ({limit:.2f}x between equal runs, {NOISE_LEVEL:.0%})"
    return replace(change, remark=words + _unlike_loads(on_clock))


def _unlike_loads(pairs: Sequence[Pair]) -> str:
    """Say that other work hindered one of the runs more than the other, "" where it did not."""
    words = hindrance_words([pair.before for pair in pairs], [pair.after for pair in pairs])
    return f"; {words}" if words else ""
