"""What `lopa_bench.results.frontiers.frontier` found, as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from lopa_bench.results.frontiers.frontier import Choice, Frontier
from lopa_bench.results.rows import metric_column, short_runs, with_bounds
from lopa_bench.results.schema import Interval
from lopa_bench.results.tables import Column, Row, Table, Value


def settings_table(found: Frontier, *, short: bool = False) -> Table:
    """Return one row per setting, the fastest last; with `short` runs are numbers where those tell them apart."""
    rows: list[Row] = []
    runs = short_runs(one.setting.run_id for one in found.settings)
    for one in sorted(found.settings, key=lambda placed: placed.speed):
        row: dict[str, Value] = {
            "setting": one.setting.words,
            "run": runs[one.setting.run_id] if short else one.setting.run_id,
            "n": len(found.ids),
        }
        row |= with_bounds("accuracy", one.accuracy, one.accuracy_interval)
        row |= with_bounds(found.metric.id, one.speed, one.speed_interval)
        row |= {"front": "yes" if one.on_front else "-", "front_share": one.front_share}
        rows.append(row)
    columns = [
        Column("setting", "setting"),
        Column("n", "n"),
        metric_column("accuracy", interval=True),
        metric_column(found.metric.id, interval=True),
        Column("front", "on the front"),
        Column("front_share", "in resamples %", digits=0, scale=100.0),
        Column("run", "run"),
    ]
    every = {1: "the run", 2: "both runs"}.get(len(found.settings), f"all {len(found.settings)} runs")
    notes = [f"over the {len(found.ids)} problems that {every} answered"]
    if found.num_left_out:
        notes.append(f"{found.num_left_out} problems that some run did not answer are left out")
    return Table(columns, rows, "settings", notes)


def aup_table(found: Frontier) -> Table:
    """Return one row per decoder: the AUP of its settings."""
    rows: list[Row] = []
    notes = [
        f"y_max is {found.yardstick.percent:.2f} %: {found.yardstick.name}; rho is {found.metric.id} "
        f"version {found.metric.version}"
    ]
    for curve in found.curves:
        labels: dict[str, Value] = {"decoder": curve.decoder, "settings": curve.num_settings, "n": len(found.ids)}
        rows.append(labels | with_bounds("aup", curve.aup.value, curve.interval))
        if curve.aup.dropped:
            points = ", ".join(f"{percent:.1f} % at {rho:.2f}" for rho, percent in curve.aup.dropped)
            notes.append(f"{curve.decoder}: more than 5 points below its first setting, left out: {points}")
    columns = [
        Column("decoder", "decoder"),
        Column("settings", "settings"),
        Column("n", "n"),
        Column("aup", "AUP", digits=1, direction="higher", interval=True),
    ]
    return Table(columns, rows, "accuracy under parallelism", notes)


def choice_lines(found: Frontier, within: float) -> Iterator[str]:
    """Yield the chosen setting in sentences."""
    choice = found.choice
    if choice is None:
        yield f"no setting can be chosen: the {len(found.ids)} problems leave a half without figures"
        return
    points = "point" if within == 1 else "points"
    yield (
        f"fastest within {within:g} {points} of {choice.reference.words}: {choice.setting.words} (run "
        f"{choice.setting.run_id}), chosen on {choice.num_choose} problems"
    )
    speed, accuracy = choice.reported_point
    lost = 100 * (choice.reported_reference[1] - accuracy)
    side = "above" if lost < 0 else "below"
    digits = metric_column(found.metric.id).digits
    yield (
        f"on the other half (n = {choice.num_report}): accuracy {100 * accuracy:.1f} %"
        f"{_bounds(choice.accuracy_interval, 100, 1)}, {abs(lost):.1f} points {side} it; {found.metric.title} "
        f"{speed:.{digits}f}{_bounds(choice.speed_interval, 1, digits or 0)} against "
        f"{choice.reported_reference[0]:.{digits}f}"
    )


def document(found: Frontier) -> dict[str, object]:
    """Return everything as JSON values."""
    return {
        "speed": {"id": found.metric.id, "version": found.metric.version, "unit": found.metric.unit},
        "y_max": {"percent": found.yardstick.percent, "name": found.yardstick.name},
        "n": len(found.ids),
        "left_out": found.num_left_out,
        "settings": [dict(row) for row in settings_table(found).rows],
        "aup": [
            {
                "decoder": curve.decoder,
                "value": curve.aup.value,
                "interval": None if curve.interval is None else curve.interval.model_dump(),
                "points": curve.aup.used,
                "dropped": curve.aup.dropped,
            }
            for curve in found.curves
        ],
        "choice": None if found.choice is None else _choice(found.choice),
    }


def _choice(choice: Choice) -> dict[str, object]:
    return {
        "run": choice.setting.run_id,
        "setting": choice.setting.words,
        "reference": choice.reference.run_id,
        "n_choose": choice.num_choose,
        "n_report": choice.num_report,
        "chosen_at": choice.chosen_point,
        "reported": choice.reported_point,
        "reported_reference": choice.reported_reference,
    }


def _bounds(interval: Interval | None, scale: float, digits: int) -> str:
    if interval is None:
        return ""
    return f" [{scale * interval.low:.{digits}f}, {scale * interval.high:.{digits}f}]"
