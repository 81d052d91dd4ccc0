"""Two runs set side by side: what changed, whether the change is more than chance, and what it may be due to.

Only problems that both runs were asked are looked at. A pair that differs in more than one semantic setting is
*confounded*: its figures are given, the differences between them only when forced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lopa_bench.results.comparison.differences import (
    Difference,
    differences,
    scope_warning,
    semantic,
    speed_obstacle,
)
from lopa_bench.results.comparison.load import hindrance_words
from lopa_bench.results.comparison.noise import NoiseCell
from lopa_bench.results.comparison.paired import Flips, Pair, Side, fewest_flips, flips, pairs_of, ratio_of_ratios
from lopa_bench.results.metrics import METRICS, timed, total_s, useful, works
from lopa_bench.results.schema import FINISHED, Interval, SampleRecord
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
    """A pair of runs; `pairs` are the common problems, `changes` the figures, accuracy first."""

    before: Side
    after: Side
    pairs: tuple[Pair, ...]
    differences: tuple[Difference, ...]
    flips: Flips
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    is_withheld: bool = False

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
    def verdict(self) -> str:
        """What the flips say of accuracy, in a few words."""
        if self.is_withheld:
            return "confounded"
        if not self.num_scored:
            return "not scored"
        if self.flips.p_value >= 1 - LEVEL:
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
    changes = [_accuracy(pairs), *_work(pairs), _speed(before, after, pairs, noise)]
    if withheld:
        changes = [replace(one, change=None, interval=None, remark="confounded") for one in changes]
    flipped = flips(pairs)
    warnings = [*_itself(before, after), *_confounding(found, force), *_coverage(before, after, pairs), *_small(pairs)]
    if (scopes := scope_warning(before.record, after.record)) is not None:
        warnings.append(scopes)
    warnings += _numeric(found, noise) + _unsteady(noise) + _same_answers(before, after, pairs, found)
    return Comparison(before, after, tuple(pairs), tuple(found), flipped, tuple(changes), tuple(warnings), withheld)


def _accuracy(pairs: Sequence[Pair]) -> Change:
    scored = [pair for pair in pairs if pair.is_scored]
    old, new = ([getattr(pair, side).correct for pair in scored] for side in ("before", "after"))
    change, interval = paired_difference(old, new)
    metric = METRICS["accuracy"]
    before, after = (sum(values) / len(values) if values else None for values in (old, new))
    return Change("accuracy", metric.title, before, after, change, interval)


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
    bands = [band for cell in noise if (band := cell.speed_band(after.record)) is not None]
    if not bands:
        words = "noise of this cell not measured; see `lopa-bench noise`"
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


def _itself(before: Side, after: Side) -> list[str]:
    """Say that a run was set beside itself, which tells nothing."""
    one, other = before.record, after.record
    return [f"{one.id} is compared with itself"] if (one.id, one.created) == (other.id, other.created) else []


def _confounding(found: list[Difference], force: bool) -> list[str]:
    names = [str(one) for one in semantic(found)]
    if len(names) < 2:
        return []
    ending = "the differences shown cannot be laid to one of them" if force else "--force shows the differences"
    return [f"confounded: {len(names)} settings differ ({'; '.join(names)}); {ending}"]


def _coverage(before: Side, after: Side, pairs: Sequence[Pair]) -> list[str]:
    """Say how many problems were left out, and why."""
    lines = [
        f"{one.record.id} is not finished ({one.record.status}): only what it holds so far is compared"
        for one in (before, after)
        if one.record.status not in FINISHED
    ]
    counts = len(before.samples), len(after.samples)
    if set(counts) != {len(pairs)}:
        lines.append(f"only the {len(pairs)} common problems of {counts[0]} and {counts[1]} are compared")
    failed = sum("error" in (pair.before.status, pair.after.status) for pair in pairs)
    if failed:
        lines.append(f"{failed} of {len(pairs)} problems ended in an error in one of the runs and are left out")
    unscored = sum(not pair.is_scored for pair in pairs) - failed
    if unscored > 0:
        lines.append(f"{unscored} of {len(pairs)} problems have no score in one of the runs: accuracy leaves them out")
    return lines


def _small(pairs: Sequence[Pair]) -> list[str]:
    """Say what McNemar's test can see at all."""
    n, needed = sum(pair.is_scored for pair in pairs), fewest_flips()
    if not n:
        return []
    if n < needed:
        return [f"n = {n}: too few problems for any difference in accuracy to be told from chance (it takes {needed})"]
    return [f"n = {n}: no difference in accuracy below {100 * needed / n:.1f} points can be told from chance here"]


def _numeric(found: list[Difference], noise: Sequence[NoiseCell]) -> list[str]:
    """Say that the device or number format alone can move answers, and by how much where that was measured."""
    names = {"device", "dtype", "threads", "batch_size", "world_size", "torch", "transformers", "tokenizers"}
    moved = [str(one) for one in found if one.name in names]
    if not moved:
        return []
    spreads = [cell.accuracy_spread for cell in noise if cell.accuracy_spread is not None]
    known = f"the noise floor has accuracy within {max(spreads):.1%}" if spreads else "`lopa-bench noise` measures that"
    return [f"answers may differ by these alone: {'; '.join(moved)} ({known})"]


def _unsteady(noise: Sequence[NoiseCell]) -> list[str]:
    """Say that equal runs of a cell gave unequal answers when its noise was measured, and how far accuracy moved."""
    lines = []
    for cell in noise:
        changed = sum(one.identical < one.samples for one in cell.repeats)
        if changed:
            spread = f", accuracy within {cell.accuracy_spread:.1%}" if cell.accuracy_spread is not None else ""
            lines.append(f"equal runs are not equal here: {changed} of {len(cell.repeats)} repeats differ{spread}")
    return lines


def _same_answers(before: Side, after: Side, pairs: Sequence[Pair], found: list[Difference]) -> list[str]:
    """Warn when a setting that should matter changed no token: is it one run under two names, or a dead option?"""
    if not semantic(found) or not all(pair.is_identical for pair in pairs):
        return []
    return [
        f"all {len(pairs)} answers of {before.record.id} and {after.record.id} are the same tokens though settings "
        "differ: was the right run compared?"
    ]
