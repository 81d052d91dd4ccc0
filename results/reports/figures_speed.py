"""Throughput of all settings as bars, after Figure 1 of the LoPA paper; published speeds in a panel of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.results.comparison.differences import device_words
from lopa_bench.results.plots import bars_of
from lopa_bench.results.published_figures import PublishedRow, select
from lopa_bench.results.reports.figures import QUOTED, Drawing, Skipped, Style, look, panels, write_on_bar
from lopa_bench.results.reports.runs import Entry, Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, TITLE = "throughput", "Throughput"
QUOTED_NAME, QUOTED_TITLE = "throughput-quoted", "Throughput, as published"
METRIC = "tps_e2e"
MOST_BARS = 24
PER_BAR = 0.24
IN_A_ROW = 2
"""Panels that leave room for names and accuracies beside the bars."""


def throughput(groups: Sequence[Group]) -> Drawing | Skipped:
    """Return the bars of every task whose runs were timed on one machine in one way."""
    shown = [(group, bars) for group in groups if group.speed_obstacle is None and (bars := _bars(group))]
    if not shown:
        reasons = [f"{group.task}: {group.speed_obstacle or 'no run was timed'}" for group in groups]
        return Skipped(NAME, TITLE, "; ".join(reasons))
    place = shown[0][1][0].record.environment
    left_out = [f"{group.task} ({group.speed_obstacle})" for group in groups if group.speed_obstacle]
    caption = (
        f"Useful tokens per second of one stream, with 95 % intervals over problems, on {device_words(place)} "
        f"({place.dtype}, {place.num_threads} thread{'s' * (place.num_threads != 1)}). To the right of each bar the "
        "accuracy of the same run, with its interval. After Figure 1 of the LoPA paper."
    )
    if any(len(bars) < len(group.main) for group, bars in shown):
        caption += f" Of more than {MOST_BARS} settings the fastest of each decoder is shown."
    if left_out:
        caption += f" Left out, as their speeds are not comparable: {'; '.join(left_out)}."
    refs = tuple(entry.ref for _, bars in shown for entry in bars)
    return Drawing(NAME, TITLE, caption, refs, (METRIC, "accuracy"), lambda style: _draw(style, shown))


def throughput_quoted() -> Drawing:
    """Return the paper's Figure 1 by itself."""
    caption = (
        "Quoted, not measured here: Figure 1 of the LoPA paper, tokens per second of one stream on its machines. "
        "Models, tasks and devices are others than this report's, so that no deviation can be given. It prints no "
        "accuracies beside them."
    )
    return Drawing(QUOTED_NAME, QUOTED_TITLE, caption, (), (METRIC,), lambda style: _draw_quoted(style, _published()))


def _bars(group: Group) -> list[Entry]:
    """Return the entries to show, the fastest first."""
    timed = [one for one in group.main if one.summary.metrics[METRIC].value]
    ordered = sorted(timed, key=lambda one: one.summary.metrics[METRIC].value or 0.0, reverse=True)
    if len(ordered) <= MOST_BARS:
        return ordered
    fastest: dict[str, Entry] = {}
    for one in ordered:
        fastest.setdefault(one.decoder, one)
    return list(fastest.values())


def _published() -> dict[str, list[PublishedRow]]:
    """Return the paper's Figure 1 by task."""
    found: dict[str, list[PublishedRow]] = {}
    for row in select("lopa-figure1"):
        found.setdefault(row.task, []).append(row)
    return found


def _draw(style: Style, shown: Sequence[tuple[Group, list[Entry]]]) -> Figure:
    columns = min(len(shown), IN_A_ROW)
    rows = -(-len(shown) // columns)
    figure, axes = panels(style, rows, columns, rows * (PER_BAR * max(len(bars) for _, bars in shown) + 0.9))
    for panel, (group, bars) in zip(axes.flat, shown, strict=False):
        _measured(panel, group.task, bars)
    for panel in axes.flat[len(shown) :]:
        panel.set_axis_off()
    return figure


def _draw_quoted(style: Style, rows: dict[str, list[PublishedRow]]) -> Figure:
    figure, axes = panels(style, 1, len(rows), 0.42 * max(map(len, rows.values())) + 0.9, sharey=True)
    for panel, (task, of_task) in zip(axes[0], rows.items(), strict=True):
        _quoted(panel, task, of_task)
    return figure


def _measured(axes: Axes, task: str, entries: Sequence[Entry]) -> None:
    names = [one.decoder for one in entries]
    ends = []
    for place, entry in enumerate(entries):
        figure = entry.summary.metrics[METRIC]
        value, dress = figure.value or 0.0, look(entry.decoder, names)
        axes.barh(place, value, color=dress.colour, hatch=dress.hatch, edgecolor="white", height=0.74)
        axes.barh(place, value, color="none", edgecolor="black", linewidth=0.6, height=0.74)
        axes.errorbar(value, place, xerr=bars_of(value, figure.interval), color="black", elinewidth=0.9, capsize=2)
        end = figure.interval.high if figure.interval else value
        write_on_bar(axes, f"{value:.0f}", end, place)
        ends.append(end)
    _finish(axes, task, [one.words for one in entries], max(ends), room=1.3)
    _accuracies(axes, entries)


def _accuracies(axes: Axes, entries: Sequence[Entry]) -> None:
    """Write each run's accuracy at the right edge, so that no speed stands without."""
    beside = axes.twinx()
    beside.set_ylim(axes.get_ylim())
    beside.set_yticks(range(len(entries)), [accuracy_words(one) for one in entries], fontsize="small")
    beside.tick_params(axis="y", length=0)
    beside.grid(visible=False)
    beside.set_title("accuracy, %", loc="left", x=1.02, fontsize="small")


def accuracy_words(entry: Entry) -> str:
    """Return a run's accuracy in percent with its interval, such as `87.5 [52.9, 97.8]`."""
    figure = entry.summary.metrics["accuracy"]
    if figure.value is None:
        return "n/a"
    bounds = "" if figure.interval is None else f" [{100 * figure.interval.low:.1f}, {100 * figure.interval.high:.1f}]"
    return f"{100 * figure.value:.1f}{bounds}"


def _quoted(axes: Axes, task: str, rows: Sequence[PublishedRow]) -> None:
    for place, row in enumerate(rows):
        axes.barh(place, row.value, color="white", edgecolor=QUOTED, hatch="///", linewidth=1.0, height=0.74)
        write_on_bar(axes, f"{row.value:.0f}", row.value, place)
    names = [row.row.replace(" (", "\n(") for row in rows]
    _finish(axes, f"{task} (quoted)", names, max(row.value for row in rows))
    axes.tick_params(labelcolor=QUOTED)
    axes.title.set_color(QUOTED)


def _finish(axes: Axes, title: str, names: Sequence[str], end: float, room: float = 1.16) -> None:
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, room * end)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("tokens/s")
    axes.set_title(title, loc="left", fontweight="bold")


def _short(name: str, most: int = 44) -> str:
    """Cut a name that would take the bars' room, and keep dollars from being read as formulas."""
    lines = [line if len(line) <= most else line[: most - 1] + "…" for line in name.split("\n")]
    return "\n".join(lines).replace("$", r"\$")
