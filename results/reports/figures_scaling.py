"""Speed-up over devices: settings that were run on several numbers of them, beside what perfect scaling would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lopa_bench.results.plots import COLOURS, MARKERS
from lopa_bench.results.reports.figures import Drawing, Skipped, Style, legend_below, panels
from lopa_bench.results.reports.report_table import ReportTable, by_metric, joined
from lopa_bench.results.reports.runs import Entry, Group
from lopa_bench.results.reports.scaling import Scaling, ScalingPoint, scaling, scaling_table, threads_in_words
from lopa_bench.results.rows import metric_column
from lopa_bench.results.tables import Column, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, TITLE = "scaling", "Speed-up over devices"
MOST_SETTINGS = 4
"""Rows of the figure; the tables hold them all."""
WAYS = ("branches", "samples", "network", "branches and network", "samples and branches", "samples and network")
SHARES = {
    "compute": ("compute_share", "#0072B2", ""),
    "communication": ("comm_share", "#E69F00", "//"),
    "waiting for others": ("wait_share", "#bbbbbb", ".."),
    "done early": ("idle_share", "#ffffff", "xx"),
}
"""Where the devices' time goes: attribute of a point, colour, hatch."""

DEFINED_BY = {
    "devices": "devices", "data": "data", "branch": "branch", "tensor": "tensor", "threads": "threads", "samples": "n",
    "tokens_s": "throughput", "speed_up": "speed_up", "efficiency": "efficiency", "compute_share": "compute_share",
    "wait_share": "rank_wait_share", "idle_share": "idle_share", "same_answers": "same_answers",
}  # fmt: skip
"""The definitions behind the columns of `reports.scaling`."""

SPREADING = ("devices=", "run=", "tensor_parallel=", "branch_parallel=", "data_parallel=", "cache_protocol=")

Named = tuple[str, Scaling]


def scalings_of(groups: Sequence[Group]) -> list[Named]:
    """Return every setting that was run on several arrangements of devices, by task and setting."""
    entries = _entries(groups)
    return [(_name(entries[one.points[0].run]), one) for one in scaling([entry.cut for entry in entries.values()])]


def _entries(groups: Sequence[Group]) -> dict[str, Entry]:
    return {one.run.path.name: one for group in groups for one in group.main}


def _name(entry: Entry) -> str:
    """Return task and setting without the words that number devices."""
    words = [word for word in entry.words.split(" ") if not word.startswith(SPREADING)]
    return f"{entry.record.task.name}, {' '.join(words)}"


def speed_up(groups: Sequence[Group], found: Sequence[Named]) -> Drawing | Skipped:
    """Return speed-up, and what part of the devices' time it makes use of, over the number of devices."""
    if not found:
        return Skipped(NAME, TITLE, "no setting was run on more than one arrangement of devices")
    entries = _entries(groups)
    shown = found[:MOST_SETTINGS]
    caption = (
        "Left: seconds on the fewest devices over seconds on more, for the same problems, by what the devices share; "
        "the grey line is perfect scaling, below 1 more devices are slower. Right: where their time goes."
    )
    if len(found) > len(shown):
        caption += f" The first {len(shown)} of {len(found)} settings; the tables hold them all."
    refs = tuple(entries[point.run].ref for _, one in shown for point in one.points)
    return Drawing(NAME, TITLE, caption + _differing(shown), refs, ("comm_share",), lambda style: _draw(style, shown))


def _differing(shown: Sequence[Named]) -> str:
    apart = [f"{point.label} ({name})" for name, one in shown for point in one.points if point.num_different]
    threads = [f" {name}: {threads_in_words(one)}." for name, one in shown if one.threads_differ]
    unknown = [f"{point.label} ({name})" for name, one in shown for point in one.points if point.comm_share is None]
    words = f" Not the same answers: {', '.join(apart)}." if apart else ""
    words += f" Without bars at the right, since their devices cannot time it: {', '.join(unknown)}." if unknown else ""
    return words + "".join(threads)


def _draw(style: Style, shown: Sequence[Named]) -> Figure:
    figure, axes = panels(style, len(shown), 2, 0.8 + 2.9 * len(shown))
    for (left, right), (name, one) in zip(axes, shown, strict=True):
        _draw_times(left, one)
        _draw_shares(right, one)
        left.set_title(name, loc="left", parse_math=False)
    legend_below(figure, [panel for pair in zip(*axes, strict=True) for panel in pair], 4)
    return figure


def _draw_times(panel: Axes, one: Scaling) -> None:
    """Speed-up over the number of devices, a line for each way of sharing, all from the run on fewest devices."""
    first, *others = one.points
    most = max(point.devices for point in one.points)
    panel.plot([first.devices, most], [1, most / first.devices], color="#9a9a9a", linewidth=1.0, label="perfect")
    panel.axhline(1.0, color="#9a9a9a", linewidth=0.8, linestyle=":")
    for index, way in enumerate([way for way in WAYS if any(point.way == way for point in others)]):
        points = sorted((point for point in others if point.way == way), key=lambda point: point.devices)
        places, times = [first.devices], [1.0]
        for devices in sorted({point.devices for point in points}):
            places.append(devices)
            times.append(fmean(point.speed_up for point in points if point.devices == devices))
        colour, marker = COLOURS[WAYS.index(way) % len(COLOURS)], MARKERS[WAYS.index(way) % len(MARKERS)]
        dress: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 6, "markeredgewidth": 0.5}
        panel.plot(places, times, label=f"share {way}", markeredgecolor="black", zorder=3 + index, **dress)
    panel.set_xlabel("devices")
    panel.set_ylabel("speed-up")
    panel.set_xticks(sorted({point.devices for point in one.points}))
    panel.set_ylim(bottom=0)


def _draw_shares(panel: Axes, one: Scaling) -> None:
    """Where the devices' time goes, a bar for each arrangement; a group that was done early did none of the rest."""
    places = range(len(one.points))
    below = [0.0] * len(one.points)
    for name, (attribute, colour, hatch) in SHARES.items():
        of_all = [1.0 if attribute == "idle_share" else 1.0 - point.idle_share for point in one.points]
        parts = [
            100 * (getattr(point, attribute) or 0.0) * share for point, share in zip(one.points, of_all, strict=True)
        ]
        panel.barh(places, parts, left=below, color=colour, hatch=hatch, edgecolor="black", linewidth=0.5, label=name)
        below = [low + part for low, part in zip(below, parts, strict=True)]
    panel.set_yticks(places, [point.label for point in one.points])
    panel.invert_yaxis()
    panel.set_xlim(0, 100)
    panel.set_xlabel("% of the devices' time")
    panel.grid(visible=False, axis="y")


def scaling_tables(groups: Sequence[Group], found: Sequence[Named]) -> list[ReportTable]:
    """Return the points of each setting as a table."""
    entries = _entries(groups)
    tables = []
    for number, (name, one) in enumerate(found, start=1):
        table = scaling_table(one)
        base = entries[one.points[0].run]
        rows = [_row(entries[point.run], row, point, base) for row, point in zip(table.rows, one.points, strict=True)]
        title = f"{name}: over devices"
        columns = [one for one in table.columns if one.key != "run"]
        columns = [*columns, metric_column("accuracy"), Column("runs", "run, base")]
        table = replace(table, columns=columns, rows=rows, title=title)
        run_keys = dict.fromkeys(("speed_up", "efficiency", "samples", "same_answers", "runs"), "runs")
        tables.append(ReportTable(f"scaling-{number}", title, table, by_metric(columns, DEFINED_BY), run_keys))
    return tables


def _row(entry: Entry, row: Row, point: ScalingPoint, base: Entry) -> Row:
    accuracy = entry.summary.metrics["accuracy"].value
    own: Row = {**row, "run": entry.ref, "run_id": entry.id, "comm_share_n": point.samples, "accuracy": accuracy}
    return {**own, "runs": joined((entry.ref, base.ref)), "base_run_id": base.id}
