"""Summaries as rows of the shared tables: one column per figure, its title, scale and digits decided once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lopa_bench.errors import ResultsError, nearest
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.schema import Interval, MetricValue, Summary
from lopa_bench.results.tables import Column, Row, Table, Value

DIGITS = {"tokens/s": 1, "share": 1, "s/answer": 3, "s/round": 4}
DIGITS_OTHERWISE = 2


def metric_column(metric_id: str, title: str | None = None, *, interval: bool = False) -> Column:
    """Return the column of a figure, shares in percent; its key in a row is the metric's id."""
    if metric_id not in METRICS:
        raise ResultsError(f"metric '{metric_id}' not found{nearest(metric_id, METRICS)}; docs/metrics.md lists them")
    metric = METRICS[metric_id]
    percent = metric.unit == "share"
    return Column(
        key=metric_id,
        title=title or metric.title + (" %" if percent else f" {metric.unit}" if metric.unit.startswith("s/") else ""),
        digits=DIGITS.get(metric.unit, DIGITS_OTHERWISE),
        scale=100.0 if percent else 1.0,
        direction=metric.direction,
        interval=interval,
    )


def short_runs(ids: Iterable[str]) -> dict[str, str]:
    """Return every run's number, as commands take it, or its whole name where it has none or shares it."""
    whole = list(dict.fromkeys(ids))
    numbers = {name: name.partition("-")[0] for name in whole}
    counts = Counter(numbers.values())
    return {name: number if number.isdigit() and counts[number] == 1 else name for name, number in numbers.items()}


def score_column(name: str, *, interval: bool = False) -> Column:
    """Return the column of one filter's score, in percent; its key in a row is `score:<name>`."""
    return Column(f"score:{name}", f"{name} %", DIGITS["share"], 100.0, "higher", interval=interval)


def summary_row(summary: Summary, **labels: Value) -> dict[str, Value]:
    """Return `labels`, then n and errors, then every figure and score of `summary` with its bounds, as one flat row."""
    row: dict[str, Value] = {**labels, "run": summary.run_id, "n": summary.n, "num_errors": summary.num_errors}
    for key, figure in summary.metrics.items():
        row.update(_values(key, figure))
    for name, figure in summary.scores.items():
        row.update(_values(f"score:{name}", figure))
    return row


def figures_table(summary: Summary, title: str = "") -> Table:
    """Return a row per figure and score: value, interval and n as stored, with the definition it was made by."""
    rows: list[Row] = []
    for key, figure in summary.metrics.items():
        metric = METRICS.get(key)  # a stored figure may be of a definition that is no more
        definition = {"better": metric.direction, "formula": metric.formula} if metric else {}
        rows.append(_figure_row(key, figure) | definition)
    rows += [_figure_row(f"score:{name}", figure) | {"better": "higher"} for name, figure in summary.scores.items()]
    columns = [
        Column("id", "figure"),
        Column("value", "value", digits=4, interval=True),
        Column("unit", "unit"),
        Column("n", "n"),
        Column("version", "version"),
        Column("better", "better"),
        Column("method", "interval by"),
        Column("formula", "formula"),
    ]
    return Table(columns, rows, title)


def _figure_row(key: str, figure: MetricValue) -> dict[str, Value]:
    """Return a figure as a row of `figures_table`."""
    row: dict[str, Value] = {"id": key, "value": figure.value, "unit": figure.unit, "n": figure.n}
    row |= {"version": figure.version, "method": figure.interval.method if figure.interval else "-"}
    return row | with_bounds("value", figure.value, figure.interval)


def _values(key: str, figure: MetricValue) -> dict[str, Value]:
    """Return a figure's value, the number of samples it rests on and, where it has an interval, its bounds."""
    return {**with_bounds(key, figure.value, figure.interval), f"{key}_n": figure.n}


def with_bounds(key: str, value: float | None, interval: Interval | None) -> dict[str, Value]:
    """Return a figure and, where it has an interval, its bounds as keys of a row."""
    if interval is None:
        return {key: value}
    return {key: value, f"{key}_low": interval.low, f"{key}_high": interval.high}
