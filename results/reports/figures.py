"""What all figures of a report share: sizes, fonts, looks that survive grey, and the files they are written to."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.results.jsonl import sentence_on_os_error
from lopa_bench.results.plots import COLOURS, DECODER_PLACES, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HATCHES = ("", "//", "..", "xx", "\\\\", "--", "++")
_LINES = ("-", "--", ":", "-.")
QUOTED = "#767676"
FORMATS = (".png", ".pdf")


@dataclass(frozen=True)
class Look:
    """Colour, marker and hatch of one decoder: any one of the three tells it from the others."""

    colour: str
    marker: str
    hatch: str


@dataclass(frozen=True)
class Style:
    """How figures are set: "screen" for pages, "paper" for the width of two columns in print, in serif letters."""

    name: str
    width: float
    font: str
    size: float


STYLES = {
    "screen": Style("screen", 8.4, "DejaVu Sans", 10),
    "paper": Style("paper", 6.9, "STIXGeneral", 8.5),
}


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn: its file's name, heading and caption, the runs and metric ids in it, and the drawing."""

    name: str
    title: str
    caption: str
    refs: tuple[str, ...]
    metrics: tuple[str, ...]
    draw: Callable[[Style], Figure]


@dataclass(frozen=True)
class Skipped:
    """A figure that these runs do not have, and why."""

    name: str
    title: str
    reason: str


def look(decoder: str, decoders: Sequence[str] = ()) -> Look:
    """Return how a decoder looks: the built-in ones always the same, others by their place among `decoders`."""
    others = [one for one in decoders if one not in DECODER_PLACES]
    index = DECODER_PLACES.get(decoder, 4 + others.index(decoder) % 2 if decoder in others else 5)
    return Look(COLOURS[index], MARKERS[index], _HATCHES[index])


def shades(count: int) -> list[str]:
    """Return `count` blues from light to dark, for an ordered quantity; the lightest is still seen on white."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["Blues"](0.4 + 0.6 * index / max(count - 1, 1))) for index in range(count)]


def line_styles() -> Iterator[tuple[str, str]]:
    """Yield line style and marker of one series after another, without end."""
    return zip(itertools.cycle(_LINES), itertools.cycle(MARKERS), strict=False)


@contextmanager
def settings(style: Style) -> Iterator[None]:
    """Set fonts and line widths while a figure is drawn or written."""
    from matplotlib import rc_context

    values: dict[str, Any] = {
        "font.family": style.font,
        "font.size": style.size,
        "axes.titlesize": style.size + 0.5,
        "axes.labelsize": style.size,
        "legend.fontsize": style.size - 1,
        "xtick.labelsize": style.size - 1,
        "ytick.labelsize": style.size - 1,
        "mathtext.fontset": "stix" if style.name == "paper" else "dejavusans",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.7,
        "hatch.linewidth": 0.7,
        "pdf.fonttype": 42,  # letters that can be searched and that journals take
        "axes.unicode_minus": False,
    }
    with rc_context(values):
        yield


def panels(style: Style, rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """Return a figure with rows x columns axes, [rows, columns]; `height` in inches at full width."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(style.width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def write(drawing: Drawing, folder: Path, style: Style) -> list[Path]:
    """Draw a figure into `folder`, once in each of FORMATS; the same runs give the same files."""
    paths = [folder / f"{drawing.name}{suffix}" for suffix in FORMATS]
    with settings(style), warnings.catch_warnings():
        # A model's name may be in any script, and a font has not all: a box is drawn then, which will do.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = drawing.draw(style)
        for path in paths:
            with sentence_on_os_error("write", path):
                path.parent.mkdir(parents=True, exist_ok=True)
                figure.savefig(path, dpi=150, metadata={"CreationDate": None} if path.suffix == ".pdf" else {})
    return paths


def legend_below(figure: Figure, panels: Iterable[Axes], columns: int) -> None:
    """Set one legend under all panels, each name once, in the order in which they first stand in `panels`."""
    unique: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            unique.setdefault(label, handle)
    if unique:
        figure.legend(
            list(unique.values()),
            list(unique),
            loc="outside lower center",
            ncols=min(columns, len(unique)),
            frameon=False,
        )


def write_on_bar(axes: Axes, text: str, x: float, y: float) -> None:
    """Write a number to the right of a horizontal bar's end."""
    axes.annotate(
        text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize="small", parse_math=False
    )
