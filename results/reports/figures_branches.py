"""LoPA over its number of branches: tokens per round and score (Figure 4 of the paper), and who wins where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lopa_bench.results.fillings.branch_wins import FEWEST
from lopa_bench.results.fillings.fill_order import PARTS
from lopa_bench.results.plots import bars_of
from lopa_bench.results.published_figures import PublishedRow, select
from lopa_bench.results.reports.figures import (
    QUOTED,
    Drawing,
    Skipped,
    Style,
    legend_below,
    line_styles,
    look,
    panels,
    shades,
)
from lopa_bench.results.reports.runs import Entry
from lopa_bench.results.reports.series import LOPA, Series
from lopa_bench.results.reports.traces import Traced, with_branches
from lopa_bench.results.schema import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, TITLE = "branches", "TPF and score against branches"
QUOTED_NAME, QUOTED_TITLE = "branches-quoted", "TPF and score against branches, as published"
WINS_NAME, WINS_TITLE = "branch-wins", "Where lookaheads win"
WINS_METRICS = ("part_won", "part_gain")
FIGURES = (("tpf", "useful tokens per round", 1.0), ("accuracy", "accuracy, %", 100.0))


def branches(series: Sequence[Series], *, with_published: bool) -> Drawing | Skipped:
    """Return TPF and accuracy of every series over k, a column of panels for each task."""
    if not series:
        return Skipped(NAME, TITLE, "no LoPA run stands beside the same setting without lookahead")
    tasks = list(dict.fromkeys(one.task for one in series))
    quoted = {task: rows for task in tasks if (rows := _published(task))} if with_published else {}
    caption = (
        "Useful tokens per round and accuracy over k, the branches of a round with the anchor, with 95 % intervals. "
        "The leftmost point of a line is the setting without lookahead, with the marker of its decoder where that is "
        "another. After Figure 4 of the LoPA paper."
    )
    if quoted:
        caption += " Hollow grey points are read off that figure: another model, so no deviation is given."
    refs = [entry.ref for one in series for entry in (one.base, *(step.entry for step in one.steps))]
    metrics = tuple(name for name, _, _ in FIGURES)
    return Drawing(NAME, TITLE, caption, tuple(refs), metrics, lambda style: _draw(style, series, tasks, quoted))


def branches_quoted(measured_tasks: Sequence[str]) -> Drawing | None:
    """Return the paper's Figure 4 by itself, for tasks that no run of the report is of."""
    tasks = [task for task in dict.fromkeys(row.task for row in select("lopa-figure4")) if task not in measured_tasks]
    rows = {task: _published(task) for task in tasks}
    if not rows:
        return None
    caption = (
        "Quoted, not measured here: D2F models of 7B parameters, read off Figure 4 of the LoPA paper (about 0.1 tokens "
        "and 0.3 points); filled points are printed there. For the shape alone: models and tasks are others."
    )
    return Drawing(QUOTED_NAME, QUOTED_TITLE, caption, (), ("tpf", "accuracy"), lambda style: _draw_quoted(style, rows))


def _published(task: str) -> list[PublishedRow]:
    return [row for row in select("lopa-figure4") if row.task == task and row.row.endswith("branches")]


def _draw(
    style: Style, series: Sequence[Series], tasks: Sequence[str], quoted: dict[str, list[PublishedRow]]
) -> Figure:
    figure, axes = panels(style, 2, len(tasks), 5.4, sharex="col", sharey="row")
    names = list(dict.fromkeys(one.words for one in series))
    # All are LoPA, so all are blue: the other colours are other decoders'.
    colours = [look(LOPA).colour] if len(names) == 1 else shades(len(names))[::-1]
    dress = dict(zip(names, line_styles(), strict=False))
    for column, task in enumerate(tasks):
        for row, (metric, label, scale) in enumerate(FIGURES):
            panel = axes[row][column]
            for one in (one for one in series if one.task == task):
                place = names.index(one.words)
                _line(panel, one, metric, scale, (colours[place], *dress[one.words]), place)
            _quoted_points(panel, quoted.get(task, []), metric)
            if column == 0:
                panel.set_ylabel(label)
        axes[0][column].set_title(task, loc="left", fontweight="bold")
        axes[1][column].set_xlabel("branches k")
        ticks = sorted({entry.branches or 1 for one in series if one.task == task for entry in _entries(one)})
        axes[1][column].set_xticks(ticks)
    legend_below(figure, axes[0], 3)
    return figure


def _entries(series: Series) -> list[Entry]:
    return [series.base, *(step.entry for step in series.steps)]


def _line(axes: Axes, series: Series, metric: str, scale: float, dress: tuple[str, str, str], place: int) -> None:
    """Draw one series; its points are set a little aside so that error bars of several do not cover each other."""
    colour, line, marker = dress
    xs, ys = [], []
    for entry in _entries(series):
        figure = entry.summary.metrics[metric]
        if figure.value is None:
            continue
        x, y = (entry.branches or 1) + 0.14 * place, scale * figure.value
        axes.errorbar(x, y, yerr=bars_of(figure.value, figure.interval, scale), color=colour, elinewidth=0.9, capsize=2)
        xs.append(x)
        ys.append(y)
    axes.plot(
        xs, ys, linestyle=line, marker=marker, color=colour, label=series.words, markeredgecolor="black",
        markeredgewidth=0.5, markersize=6,
    )  # fmt: skip
    base = series.base
    if base.decoder != series.steps[0].entry.decoder and base.summary.metrics[metric].value is not None:
        own = look(base.decoder)
        axes.plot(
            xs[:1], ys[:1], linestyle="none", marker=own.marker, color=own.colour, label=base.words,
            markeredgecolor="black", markeredgewidth=0.5, markersize=7,
        )  # fmt: skip


def _quoted_points(axes: Axes, rows: Sequence[PublishedRow], metric: str) -> None:
    points = [
        (int(row.row.split()[0]), row.value, row.kind)
        for row in rows
        if row.metric == ("score" if metric == "accuracy" else metric)
    ]
    if not points:
        return
    points.sort()
    axes.plot(
        [x for x, _, _ in points], [y for _, y, _ in points], color=QUOTED, linestyle=(0, (1, 2)), marker="o",
        markerfacecolor="white", markersize=4, label="LoPA paper, digitised",
    )  # fmt: skip
    exact = [(x, y) for x, y, kind in points if kind == "quoted"]
    axes.plot(
        [x for x, _ in exact], [y for _, y in exact], "*", color=QUOTED, markersize=9, label="LoPA paper, printed"
    )


def _draw_quoted(style: Style, rows: dict[str, list[PublishedRow]]) -> Figure:
    figure, axes = panels(style, 2, len(rows), 3.9, sharex="col", sharey="row")
    for column, (task, of_task) in enumerate(rows.items()):
        for row, (metric, label, _) in enumerate(FIGURES):
            _quoted_points(axes[row][column], of_task, metric)
            if column == 0:
                axes[row][column].set_ylabel(label.replace("useful ", ""))
        axes[0][column].set_title(f"{task} (quoted)", loc="left", color=QUOTED, fontweight="bold")
        axes[1][column].set_xlabel("branches")
    legend_below(figure, axes[0], 2)
    return figure


def branch_wins(traced: Sequence[Traced], no_traces: str) -> Drawing | Skipped:
    """Return, over the tenths of the answer, how often lookaheads won and what that brought."""
    tasks = [task for task in dict.fromkeys(one.task for one in traced) if with_branches(traced, task)]
    if not tasks:
        return Skipped(WINS_NAME, WINS_TITLE, no_traces or "no traced run has more than one branch")
    shown = {task: with_branches(traced, task) for task in tasks}
    caption = (
        "By tenth of the answer: the share of lookaheads tried there that won (above), and slots that a winner filled "
        "more than the anchor would have (below; 0: nothing won, negative: lost), with 95 % intervals. A tenth in "
        f"which fewer than {FEWEST} were tried, or below won, has no point. Runs: "
        f"{'; '.join(f'{task}: {_words(runs)}' for task, runs in shown.items())}."
    )
    refs = tuple(one.entry.ref for of_task in shown.values() for one in of_task)
    return Drawing(WINS_NAME, WINS_TITLE, caption, refs, WINS_METRICS, lambda style: _draw_wins(style, shown))


def _words(runs: Sequence[Traced]) -> str:
    """Name the setting that runs of several k share, as the series of that setting is named."""
    words = [word for word in runs[0].entry.words.split(" ") if not word.startswith("k=")]
    return f"{' '.join(words)}, k={', '.join(str(one.entry.branches) for one in runs)}"


def _with_bars(
    axes: Axes,
    places: Sequence[float],
    figures: Sequence[tuple[float | None, Interval | None]],
    scale: float,
    dress: Any,
) -> None:
    """Draw a line of figures with their intervals; where a figure is unknown the line is broken."""
    for place, (value, interval) in zip(places, figures, strict=True):
        if value is not None:
            bars = bars_of(value, interval, scale)
            axes.errorbar(place, scale * value, yerr=bars, color=dress["color"], elinewidth=0.9, capsize=2)
    ys = [float("nan") if value is None else scale * value for value, _ in figures]
    axes.plot(places, ys, markersize=5, markeredgecolor="black", markeredgewidth=0.5, **dress)


def _draw_wins(style: Style, shown: dict[str, list[Traced]]) -> Figure:
    figure, axes = panels(style, 2, len(shown), 4.8, sharex=True, sharey="row")
    ks = sorted({one.entry.branches or 1 for runs in shown.values() for one in runs})
    looks = dict(zip(ks, zip(shades(len(ks)), line_styles(), strict=False), strict=True))
    for column, (task, runs) in enumerate(shown.items()):
        for one in runs:
            k = one.entry.branches or 1
            colour, (line, marker) = looks[k]
            wins = one.analysis.wins
            parts = [part for part in (wins.parts if wins else ()) if part.part is not None]
            dress: dict[str, Any] = {"color": colour, "linestyle": line, "marker": marker, "label": f"k={k}"}
            aside = 1.2 * (ks.index(k) - (len(ks) - 1) / 2)  # so that bars of several k do not cover each other
            places = [10 * (part.part or 0) + 5 + aside for part in parts]
            _with_bars(axes[0][column], places, [(p.share_won, p.won_interval) for p in parts], 100.0, dress)
            _with_bars(axes[1][column], places, [(p.gain, p.gain_interval) for p in parts], 1.0, dress)
        axes[1][column].axhline(0, color="black", linewidth=0.8)
        axes[1][column].set_xlabel("place in the answer, %")
        axes[1][column].set_xticks(range(0, 10 * PARTS + 1, 20))
        axes[0][column].set_title(task, loc="left", fontweight="bold")
    axes[0][0].set_ylabel("lookaheads that won, %")
    axes[1][0].set_ylabel("slots gained when won")
    legend_below(figure, axes[0], 6)
    return figure
