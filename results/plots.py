"""Plots that can be read in grey and by the colour-blind, drawn without a display."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ResultsError
from lopa_bench.results.jsonl import replace_file, sentence_on_os_error
from lopa_bench.results.schema import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

# Okabe and Ito's palette without its yellow, which vanishes on white; markers tell the points apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# The place of each built-in decoder in both, the same in every figure.
DECODER_PLACES = {"ar": 6, "vanilla": 3, "fast-dllm": 2, "d2f": 1, "lopa": 0}
SUFFIXES = (".png", ".svg", ".pdf")
SIDES = ((1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
LABEL_GAP = 7  # points between a marker and its label
MARKER_RADIUS = 5  # points


@dataclass(frozen=True)
class TradeOff:
    """One point of the plot: accuracy is a share in 0..1; points without either figure are left out."""

    label: str
    tpf: float | None
    accuracy: float | None
    tpf_interval: Interval | None = None
    accuracy_interval: Interval | None = None


def plot_accuracy_tpf(rows: Sequence[TradeOff], path: Path | str, *, title: str = "", also: Sequence[str] = ()) -> None:
    """Draw accuracy against tokens per round, with intervals and the points' names beside them, to `path`.

    The suffix gives the format: .png, .svg or .pdf; `also` names further suffixes to write beside it.
    """
    paths = [Path(path), *(Path(path).with_suffix(suffix) for suffix in also)]
    check_suffixes(paths)
    points = [row for row in rows if row.tpf is not None and row.accuracy is not None]
    if not points:
        raise ResultsError("nothing to plot: no row has both an accuracy and a TPF")
    figure = new_figure((6.4, 4.2))
    axes = figure.add_subplot()
    places = [
        mark_trade_off(axes, point, COLOURS[index], MARKERS[index])
        for point, index in zip(points, _looks([point.label for point in points]), strict=True)
    ]
    dress_trade_off(axes, (0.14, 0.12))
    axes.set_title(title)
    axes.grid(color="#dddddd", linewidth=0.8, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    place_labels(figure, axes, [(one.label, *place) for one, place in zip(points, places, strict=True)], places)
    save_figure(figure, paths)


def _looks(labels: Sequence[str]) -> Iterator[int]:
    """Yield the place of each label in COLOURS and MARKERS: a decoder's own, else those that are free, in turn."""
    taken = {DECODER_PLACES[label] for label in labels if label in DECODER_PLACES}
    free = itertools.cycle([index for index in range(len(COLOURS)) if index not in taken])
    for label in labels:
        yield DECODER_PLACES[label] if label in DECODER_PLACES else next(free)


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure of `size` inches that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_suffixes(paths: Sequence[Path]) -> None:
    """Refuse a path whose suffix names no format that can be drawn."""
    for target in paths:
        if target.suffix not in SUFFIXES:
            raise ResultsError(f"cannot draw to '{target}': the name must end in {', '.join(SUFFIXES)}")


def save_figure(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure to every path, whole or not at all, the same bytes whenever the same is drawn."""
    from matplotlib import rc_context

    for target in paths:
        drawn = io.BytesIO()
        with rc_context({"svg.hashsalt": "lopa-bench"}):  # or else the ids in an SVG differ from run to run
            figure.savefig(drawn, format=target.suffix[1:], dpi=160, metadata=_no_date(target))
        with sentence_on_os_error("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, drawn.getvalue())


def bars_of(value: float, interval: Interval | None, scale: float = 1.0) -> list[list[float]]:
    """Return the lengths of an error bar below and above, [[low], [high]]; none without an interval."""
    if interval is None:
        return [[float("nan")], [float("nan")]]
    return [[max(0.0, scale * (value - interval.low))], [max(0.0, scale * (interval.high - value))]]


def mark_trade_off(
    axes: Axes, point: TradeOff, colour: str, marker: str, *, size: float = 8.0, bars: str | None = None
) -> tuple[float, float]:
    """Draw a point that has both figures, with its error bars, and return where: tokens per round and percent.

    `bars` is the colour of thin error bars without caps, for plots of many points; else they have the marker's.
    """
    assert point.tpf is not None and point.accuracy is not None
    x, y = point.tpf, 100 * point.accuracy
    axes.errorbar(
        [x],
        [y],
        xerr=bars_of(x, point.tpf_interval),
        yerr=bars_of(point.accuracy, point.accuracy_interval, 100),
        fmt=marker,
        color=colour,
        markersize=size,
        markeredgecolor="black",
        markeredgewidth=0.6,
        ecolor=bars or colour,
        elinewidth=0.7 if bars else 1.2,
        capsize=0 if bars else 3,
        zorder=3,
    )
    return x, y


def dress_trade_off(axes: Axes, margins: tuple[float, float]) -> None:
    """Name the axes of tokens per round and accuracy, and keep them within what can be."""
    axes.set_xlabel("useful tokens per round (TPF)")
    axes.set_ylabel("accuracy, %")
    axes.margins(*margins)
    left, right = axes.get_xlim()
    axes.set_xlim(max(0.0, left), right)
    low, high = axes.get_ylim()
    axes.set_ylim(max(-2.0, low), min(103.0, high))


def place_labels(
    figure: Figure,
    axes: Axes,
    labels: Sequence[tuple[str, float, float]],
    markers: Sequence[tuple[float, float]],
    fontsize: str | float = "medium",
    backing: str | None = None,
) -> None:
    """Write names beside their points, each on the side where it covers the fewest markers and other names.

    `labels` are (text, x, y), `markers` (x, y) of all points, both in plot units; the figure's layout must be settled.
    `backing` is a colour laid thinly under each name, so that lines behind it do not disturb.
    """
    figure.draw_without_rendering()
    radius = MARKER_RADIUS * figure.dpi / 72
    pixels = [axes.transData.transform(point) for point in markers]
    taken: list[Any] = []

    def clashes(box: Any) -> int:
        outside = not all(axes.bbox.contains(x, y) for x, y in box.corners())
        return 3 * outside + 2 * sum(map(box.overlaps, taken)) + sum(_near(box, pixel, radius) for pixel in pixels)

    for text, x, y in labels:
        choices = [_label(axes, text, x, y, dx, dy, fontsize) for dx, dy in SIDES]
        boxes = [choice.get_window_extent() for choice in choices]
        counts = [clashes(box) for box in boxes]
        best = counts.index(min(counts))
        taken.append(boxes[best])
        if backing is not None:
            choices[best].set_bbox({"facecolor": backing, "alpha": 0.75, "edgecolor": "none", "pad": 0.8})
        for index, choice in enumerate(choices):
            if index != best:
                choice.remove()


def _label(axes: Axes, text: str, x: float, y: float, dx: int, dy: int, fontsize: str | float) -> Annotation:
    """Write a point's name to one of its eight sides."""
    return axes.annotate(
        text,
        (x, y),
        xytext=(LABEL_GAP * dx, LABEL_GAP * dy),
        textcoords="offset points",
        ha={1: "left", -1: "right", 0: "center"}[dx],
        va={1: "bottom", -1: "top", 0: "center"}[dy],
        fontsize=fontsize,
        parse_math=False,
    )


def _near(box: Any, point: Any, radius: float) -> bool:
    """Tell whether a marker at `point`, in pixels, touches the box."""
    x, y = point
    return bool(box.x0 - radius < x < box.x1 + radius and box.y0 - radius < y < box.y1 + radius)


def _no_date(path: Path) -> dict[str, None]:
    """Return metadata without the time of drawing, so that the same figures give the same file."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
