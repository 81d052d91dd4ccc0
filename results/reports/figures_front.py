"""Accuracy against tokens per round for every setting, with intervals and the front of those worth having."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.results.frontiers.frontier import Frontier, PlacedSetting
from lopa_bench.results.plots import TradeOff, dress_trade_off, mark_trade_off, place_labels
from lopa_bench.results.reports.figures import Drawing, Skipped, Style, legend_below, look, panels
from lopa_bench.results.reports.runs import Entry, Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, TITLE = "accuracy-tpf", "Accuracy against tokens per round"
MOST_LABELS = 6


def accuracy_tpf(groups: Sequence[Group], fronts: dict[str, Frontier | str]) -> Drawing | Skipped:
    """Return a panel for each task that has a front."""
    shown = [(group, found) for group in groups if not isinstance(found := fronts[group.task], str)]
    if not shown:
        return Skipped(NAME, TITLE, "; ".join(f"{task}: {reason}" for task, reason in fronts.items()))
    caption = (
        "Every setting by useful tokens per round and accuracy, with 95 % intervals; rings, joined by a line, are the "
        "Pareto front of the point estimates, whose settings are named. Where intervals overlap, the front is one of "
        "several that the data allow; its table says in what share of resamples each setting is on it."
    )
    refs = tuple(entry.ref for group, _ in shown for entry in group.main)
    return Drawing(NAME, TITLE, caption, refs, ("accuracy", "tpf"), lambda style: _draw(style, shown))


def _draw(style: Style, shown: Sequence[tuple[Group, Frontier]]) -> Figure:
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    figure, axes = panels(style, rows, columns, 3.9 * rows + 0.4)
    names = list(dict.fromkeys(one.decoder for group, _ in shown for one in group.main))
    for index, panel in enumerate(axes.flat):
        if index >= len(shown):
            panel.set_axis_off()
            continue
        _points(panel, shown[index][1], {one.id: one for one in shown[index][0].main}, names)
        panel.set_title(shown[index][0].task, loc="left", fontweight="bold")
    _legend(figure, axes[0][0], names)
    figure.draw_without_rendering()
    for index, (group, found) in enumerate(shown):
        _label(figure, axes.flat[index], found, {one.id: one for one in group.main})
    return figure


def _points(axes: Axes, found: Frontier, entries: dict[str, Entry], names: Sequence[str]) -> None:
    for one in found.settings:
        dress = look(entries[one.setting.run_id].decoder, names)
        point = TradeOff("", one.speed, one.accuracy, one.speed_interval, one.accuracy_interval)
        mark_trade_off(axes, point, dress.colour, dress.marker, size=7, bars="#9a9a9a")
    front = sorted((one.speed, 100 * one.accuracy) for one in _front(found))
    xs, ys = [x for x, _ in front], [y for _, y in front]
    axes.plot(xs, ys, color="black", linewidth=1.0, linestyle="--", zorder=2)
    axes.plot(xs, ys, "o", color="black", fillstyle="none", markersize=12, zorder=4, label="on the front")
    dress_trade_off(axes, (0.08, 0.1))


def _front(found: Frontier) -> list[PlacedSetting]:
    return [one for one in found.settings if one.on_front]


def _label(figure: Figure, axes: Axes, found: Frontier, entries: dict[str, Entry]) -> None:
    """Name the settings of the front; of many those that most resamples agree on."""
    sure = sorted(_front(found), key=lambda one: one.front_share or 0.0, reverse=True)[:MOST_LABELS]
    labels = [(entries[one.setting.run_id].words, one.speed, 100 * one.accuracy) for one in sure]
    others = [(one.speed, 100 * one.accuracy) for one in found.settings]
    place_labels(figure, axes, labels, others, fontsize="x-small", backing="white")


def _legend(figure: Figure, axes: Axes, names: Sequence[str]) -> None:
    for name in names:
        dress = look(name, names)
        axes.plot(
            [], [], linestyle="none", marker=dress.marker, color=dress.colour, markeredgecolor="black", label=name
        )
    legend_below(figure, [axes], 6)
