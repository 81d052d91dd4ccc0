"""The filling of one answer as a figure: which slot was filled in which round, and the tokens themselves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.results.fillings.replay import MASK_SIGN, NEWLINE_SIGN, Replay, colour_of, ink_on, visible
from lopa_bench.results.plots import check_suffixes, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 16
MOST_TOKENS = 256  # beyond, the tokens would be too small to read and only the staircase is drawn
LONGEST_WORD = 9
WON_MARK = "#D55E00"


def draw_filling(shown: Replay, paths: Sequence[Path]) -> None:
    """Draw an answer's filling to every path; the suffix gives the format: .png, .svg or .pdf."""
    check_suffixes(paths)
    length = drawn_length(shown)
    with_tokens = 0 < length <= MOST_TOKENS
    num_lines = -(-length // COLUMNS) if with_tokens else 0
    heights = (max(2.2, min(0.16 * shown.num_rounds, 6.0)), 0.3 * num_lines)
    figure = new_figure((9.0, sum(heights) + 1.2))
    if with_tokens:
        stairs, tokens = figure.subplots(2, 1, height_ratios=heights)
        _tokens(tokens, shown, length, num_lines)
    else:
        stairs = figure.subplots()
    _stairs(stairs, shown, length)
    facts = shown.facts()
    stairs.set_title(
        f"{facts['sample']}, {facts['decoder']}: {facts['useful tokens']} tokens in {facts['rounds']} rounds",
        fontsize=10,
    )
    with warnings.catch_warnings():
        # A model may write in any script, and a font has not all of them: matplotlib draws a box then, which will do.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        save_figure(figure, paths)


def drawn_length(shown: Replay) -> int:
    """Return how many slots are drawn: to the end of the line in which the last one was filled."""
    filled = [slot.position for slot in shown.slots if slot.round is not None]
    lines = -(-(max(filled) + 1) // COLUMNS) if filled else len(shown.slots)
    return min(COLUMNS * lines, len(shown.slots))


def _stairs(axes: Axes, shown: Replay, length: int) -> None:
    """Mark every slot at the round that filled it, the open slots behind in grey, winning lookaheads by a triangle."""
    from matplotlib.ticker import MaxNLocator

    for index, one in enumerate(shown.trace.rounds):
        if one.num_slots:
            axes.barh(index, min(one.num_slots, length), left=-0.5, height=1.0, color="#efefef", zorder=1)
    filled = [slot for slot in shown.slots if slot.round is not None]
    for kind, marker, size in ((False, "s", 26), (True, "^", 52)):
        chosen = [slot for slot in filled if slot.looked_ahead is kind]
        axes.scatter(
            [slot.position for slot in chosen],
            [slot.round or 0 for slot in chosen],
            c=[colour_of(slot.round or 0, shown.num_rounds) for slot in chosen],
            marker=marker,
            s=size,
            edgecolors=WON_MARK if kind else "black",
            linewidths=1.2 if kind else 0.4,
            zorder=3,
            label="lookahead that won" if kind and chosen else None,
        )
    ends = [slot for slot in filled if slot.is_eos and not slot.behind_end]
    axes.scatter(
        [slot.position for slot in ends],
        [slot.round or 0 for slot in ends],
        marker="x",
        s=60,
        color="black",
        zorder=4,
        label="first EOS" if ends else None,
    )
    axes.set_ylim(max(shown.num_rounds, 1) - 0.3, -0.7)
    axes.set_xlim(-1, length)
    left_out = len(shown.slots) - length
    never = f" (another {left_out} slots were never filled)" if left_out else ""
    axes.set_xlabel(f"position in the answer{never}")
    axes.set_ylabel("round")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", fontsize=8, frameon=False)


def _tokens(axes: Axes, shown: Replay, length: int, num_lines: int) -> None:
    """Write the tokens line by line, on the colours of their rounds, each with its round's number."""
    from matplotlib.patches import Rectangle

    axes.set_xlim(0, COLUMNS)
    axes.set_ylim(num_lines, 0)
    axes.axis("off")
    for slot in shown.slots[:length]:
        row, column = divmod(slot.position, COLUMNS)
        colour = "#ececec" if slot.round is None else colour_of(slot.round, shown.num_rounds)
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.8))
        if slot.looked_ahead:  # a little smaller and above, so that no neighbour covers the frame
            inner = Rectangle((column + 0.03, row + 0.05), 0.94, 0.9, fill=False, edgecolor=WON_MARK, linewidth=1.8)
            axes.add_patch(inner).set_zorder(2)
        style: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False, "color": ink_on(colour)}
        axes.text(column + 0.5, row + 0.5, _word(slot.text), fontsize=6.5, family="monospace", **style)
        if slot.round is not None:
            axes.text(column + 0.88, row + 0.2, str(slot.round), fontsize=4.5, **style)


def _word(text: str) -> str:
    """Return a token's text in one short line; a blank in front, which most tokens have, is left out."""
    line = visible(text).replace(f"{NEWLINE_SIGN}\n", NEWLINE_SIGN)
    line = line.strip() or MASK_SIGN if text != MASK_SIGN else line
    return line if len(line) <= LONGEST_WORD else line[: LONGEST_WORD - 1] + "…"
