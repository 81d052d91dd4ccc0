"""Many settings of one task set side by side: fronts, AUP, and the setting to take, all over the same problems.

Intervals come from resampling the problems, the same draw for every setting, so that a problem which is hard for all
does not look like a difference between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lopa_bench.errors import ConfigError, ResultsError, nearest
from lopa_bench.results.frontiers.aup import AUP, Yardstick, aup
from lopa_bench.results.frontiers.pareto import fastest_within, halves, on_front
from lopa_bench.results.frontiers.points import Setting, common_problems, make_setting, setting_words
from lopa_bench.results.metrics import METRICS, Metric
from lopa_bench.results.schema import Interval
from lopa_bench.results.statistics import LEVEL, RESAMPLES, bootstrap_ratio, score_interval

if TYPE_CHECKING:
    import numpy

    from lopa_bench.results.store import StoredRun

SPEEDS = tuple(
    metric.id
    for metric in METRICS.values()
    if metric.direction == "higher" and metric.numerator and metric.denominator and metric.id != "accuracy"
)


@dataclass(frozen=True)
class PlacedSetting:
    """A setting among the others: `on_front`, and in what share of the resamples it is."""

    setting: Setting
    speed: float
    accuracy: float
    speed_interval: Interval | None
    accuracy_interval: Interval | None
    on_front: bool
    front_share: float | None


@dataclass(frozen=True)
class Curve:
    """The AUP of one decoder's settings."""

    decoder: str
    aup: AUP
    interval: Interval | None
    num_settings: int


@dataclass(frozen=True)
class Choice:
    """The setting chosen on one half of the problems, and what it does on the other."""

    setting: Setting
    reference: Setting
    num_choose: int
    num_report: int
    chosen_point: tuple[float, float]
    reported_point: tuple[float, float]
    reported_reference: tuple[float, float]
    speed_interval: Interval | None
    accuracy_interval: Interval | None


@dataclass(frozen=True)
class Frontier:
    """All of it; `choice` is None where no setting keeps within the budget or a half has no problems."""

    metric: Metric
    yardstick: Yardstick
    ids: tuple[str, ...]
    num_left_out: int
    settings: tuple[PlacedSetting, ...]
    curves: tuple[Curve, ...]
    choice: Choice | None


def frontier(
    runs: Sequence[StoredRun],
    *,
    speed: str = "tpf",
    within: float = 1.0,
    against: str | None = None,
    yardstick: Yardstick | None = None,
    resamples: int = RESAMPLES,
) -> Frontier:
    """Set `runs` side by side.

    Args:
        runs: of one task, one that is given twice counting once; only the problems that all of them answered take part.
        speed: id of the metric on the speed axis, one of SPEEDS.
        within: accuracy that the chosen setting may lose, in percentage points.
        against: id of the run that it may lose them against; by default the most accurate on the choosing half.
        yardstick: AUP's y_max; by default the most accurate of the runs.
        resamples: draws of the problems for intervals.

    Raises:
        ConfigError: an unknown speed or reference.
        NotComparable: other tasks, scores, data or prompts, or no problem that all runs answered; for speeds in seconds
            also other devices, libraries, threads and the like.
    """
    if speed not in SPEEDS:
        raise ConfigError(f"speed '{speed}' not found{nearest(speed, SPEEDS)}; choose from {', '.join(SPEEDS)}")
    metric = METRICS[speed]
    runs = list({run.path.resolve(): run for run in runs}.values())
    ids, num_left_out = common_problems(runs, metric)
    settings = [make_setting(run, metric, ids, words) for run, words in zip(runs, setting_words(runs), strict=True)]
    points = [setting.point(range(len(ids))) for setting in settings]
    for setting, point in zip(settings, points, strict=True):
        if point is None:
            raise ResultsError(f"run {setting.run_id} has no {metric.title}: sum of its denominators is 0")
    known = [point for point in points if point is not None]
    yardstick = yardstick or _best(settings, known)
    drawn = _resample(settings, len(ids), resamples)
    return Frontier(
        metric,
        yardstick,
        ids,
        num_left_out,
        tuple(_place(settings, known, drawn)),
        tuple(_curves(settings, known, drawn, yardstick, resamples)),
        _choose(settings, ids, within, against),
    )


def _best(settings: Sequence[Setting], points: Sequence[tuple[float, float]]) -> Yardstick:
    index = max(range(len(points)), key=lambda row: points[row][1])
    if not points[index][1]:
        raise ResultsError("no run has a right answer, so that there is no y_max; give one with --y-max")
    return Yardstick(100 * points[index][1], f"best of these runs, {settings[index].words}")


def _resample(settings: Sequence[Setting], num_problems: int, resamples: int) -> numpy.ndarray:
    """Return speeds and accuracies over resampled problems, [resamples, settings, 2]; nothing below two problems.

    An undefined speed is minus infinity.
    """
    import numpy as np

    if num_problems < 2:
        return np.empty((0, len(settings), 2))
    random = np.random.default_rng(0)
    times = random.multinomial(num_problems, [1 / num_problems] * num_problems, size=resamples).astype(float)
    above, below, scores = (
        times @ np.array([getattr(setting, name) for setting in settings], dtype=float).T
        for name in ("above", "below", "scores")
    )
    speeds = np.divide(above, below, out=np.full_like(above, -np.inf), where=below != 0)
    return np.stack([speeds, scores / num_problems], axis=-1)


def _place(
    settings: Sequence[Setting], points: Sequence[tuple[float, float]], drawn: numpy.ndarray
) -> list[PlacedSetting]:
    fronts = [on_front([(float(x), float(y)) for x, y in rows]) for rows in drawn]
    placed = []
    for index, (setting, (speed, accuracy), front) in enumerate(zip(settings, points, on_front(points), strict=True)):
        share = sum(one[index] for one in fronts) / len(fronts) if fronts else None
        placed.append(
            PlacedSetting(
                setting,
                speed,
                accuracy,
                bootstrap_ratio(setting.above, setting.below),
                score_interval(setting.scores, setting.clusters),
                front,
                share,
            )
        )
    return placed


def _curves(
    settings: Sequence[Setting],
    points: Sequence[tuple[float, float]],
    drawn: numpy.ndarray,
    yardstick: Yardstick,
    resamples: int,
) -> list[Curve]:
    import numpy as np

    curves = []
    for decoder in dict.fromkeys(setting.decoder for setting in settings):
        rows = [index for index, setting in enumerate(settings) if setting.decoder == decoder]
        figure = aup(_percent([points[row] for row in rows]), yardstick.percent)
        if figure is None:
            continue
        again = [aup(_percent(one[rows].tolist()), yardstick.percent) for one in drawn if (one[rows, 0] > 0).all()]
        values = [one.value for one in again if one is not None]
        interval = None
        if values:
            low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            method = f"bootstrap, {resamples} resamples of the problems"
            interval = Interval(low=float(low), high=float(high), level=LEVEL, method=method)
        curves.append(Curve(decoder, figure, interval, len(rows)))
    return curves


def _percent(points: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    return [(speed, 100 * accuracy) for speed, accuracy in points if speed > 0]


def _choose(settings: Sequence[Setting], ids: Sequence[str], within: float, against: str | None) -> Choice | None:
    """Choose on one half of the problems by accuracy and speed, and report on the other."""
    split = halves(ids)
    choosing = [setting.point(split["choose"]) for setting in settings]
    known = [point for point in choosing if point is not None]
    if len(known) < len(settings) or not split["report"]:
        return None
    reference = _reference(settings, known, against)
    index = fastest_within(known, known[reference][1] - within / 100)
    if index is None:
        return None
    chosen = settings[index]
    reported, compared = chosen.point(split["report"]), settings[reference].point(split["report"])
    if reported is None or compared is None:
        return None
    rows = split["report"]
    return Choice(
        chosen,
        settings[reference],
        len(split["choose"]),
        len(rows),
        known[index],
        reported,
        compared,
        bootstrap_ratio([chosen.above[row] for row in rows], [chosen.below[row] for row in rows]),
        score_interval([chosen.scores[row] for row in rows], [chosen.clusters[row] for row in rows]),
    )


def _reference(settings: Sequence[Setting], points: Sequence[tuple[float, float]], against: str | None) -> int:
    ids = [setting.run_id for setting in settings]
    if against is None:
        return max(range(len(points)), key=lambda row: points[row][1])
    if against not in ids:
        raise ConfigError(f"run '{against}' is not among those compared{nearest(against, ids)}")
    return ids.index(against)
