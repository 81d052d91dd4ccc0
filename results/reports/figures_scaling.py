"""Speed-up over devices: settings that were run on several numbers of them, beside what perfect scaling would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lopa_bench.results.reports.figures import Drawing, Skipped, Style, legend_below, line_styles, panels
from lopa_bench.results.reports.runs import Entry, Group
from lopa_bench.results.reports.scaling import Scaling, ScalingPoint, scaling, scaling_table
from lopa_bench.results.reports.tables import ReportTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TITLE = "scaling", "Speed-up over devices"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")

Named = tuple[str, Scaling]


def scalings_of(groups: Sequence[Group]) -> list[Named]:
    """Return every setting that was run on several arrangements of devices, by task and setting."""
    entries = _entries(groups)
    return [(_name(entries[one.points[0].run]), one) for one in scaling([entry.cut for entry in entries.values()])]


def _entries(groups: Sequence[Group]) -> dict[str, Entry]:
    return {one.run.path.name: one for group in groups for one in group.main}


def _name(entry: Entry) -> str:
    """Return task and setting without the words that number devices."""
    words = [word for word in entry.words.split(" ") if not word.startswith(("devices=", "run=", "tensor_parallel="))]
    return f"{entry.record.task.name}, {' '.join(words)}"


def speed_up(groups: Sequence[Group], found: Sequence[Named]) -> Drawing | Skipped:
    """Return speed-up, and what part of the devices' time it makes use of, over the number of devices."""
    if not found:
        return Skipped(NAME, TITLE, "no setting was run on more than one arrangement of devices")
    entries = _entries(groups)
    caption = (
        "Seconds on the fewest devices over seconds on more, for the same problems; the grey line is perfect scaling. "
        "Right: the speed-up's share of that (full lines), and communication's share of the decoding time (dotted)."
    )
    refs = tuple(entries[point.run].ref for _, one in found for point in one.points)
    return Drawing(NAME, TITLE, caption, refs, ("comm_share",), lambda style: _draw(style, found))


def _draw(style: Style, found: Sequence[Named]) -> Figure:
    figure, axes = panels(style, 1, 2, 3.6)
    left, right = axes[0]
    most = max(point.devices for _, one in found for point in one.points)
    left.plot([1, most], [1, most], color="#9a9a9a", linewidth=1.0, label="perfect")
    for index, ((name, one), (_, marker)) in enumerate(zip(found, line_styles(), strict=False)):
        dress: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "marker": marker, "markersize": 6}
        dress |= {"markeredgecolor": "black", "markeredgewidth": 0.5}
        points = sorted(one.points, key=lambda point: point.devices)
        places = [point.devices for point in points]
        left.plot(places, [point.speed_up for point in points], label=name, **dress)
        right.plot(places, [100 * point.efficiency for point in points], **dress)
        right.plot(places, [100 * point.comm_share for point in points], linestyle=":", **dress)
    for panel, title in ((left, "speed-up"), (right, "% of the devices' time")):
        panel.set_xlabel("devices")
        panel.set_ylabel(title)
        panel.set_xticks(sorted({point.devices for _, one in found for point in one.points}))
        panel.set_ylim(bottom=0)
    legend_below(figure, [left], 2)
    return figure


def scaling_tables(groups: Sequence[Group], found: Sequence[Named]) -> list[ReportTable]:
    """Return the points of each setting as a table."""
    entries = _entries(groups)
    tables = []
    for number, (name, one) in enumerate(found, start=1):
        table = scaling_table(one)
        rows = [_row(entries[point.run], row, point) for row, point in zip(table.rows, one.points, strict=True)]
        title = f"{name}: over devices"
        table = replace(table, rows=rows, title=title)
        metrics = {"comm_share": "comm_share"}
        tables.append(ReportTable(f"scaling-{number}", title, table, metrics))
    return tables


def _row(entry: Entry, row: Any, point: ScalingPoint) -> Any:
    return {**row, "run": entry.ref, "run_id": entry.id, "comm_share_n": point.samples}
