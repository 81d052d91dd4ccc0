"""Round by round: slots filled with their quartiles (Figure 5 of the LoPA paper), and the order of filling as a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lopa_bench.results.fillings.fill_order import heat_map
from lopa_bench.results.reports.figures import Drawing, Skipped, Style, look, panels
from lopa_bench.results.reports.traces import Traced, chosen, left_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROUNDS_NAME, ROUNDS_TITLE = "tokens-per-round", "Tokens per round over the rounds"
ORDER_NAME, ORDER_TITLE = "fill-order", "Order of filling"
CELLS_SEEN = 180
"""Rounds or slots that a panel can show one by one; of more, neighbours are averaged, not dropped."""
FEW = 0.25
"""Rounds that fewer than this share of the answers reach are drawn faintly."""


def tokens_per_round(traced: Sequence[Traced], no_traces: str) -> Drawing | Skipped:
    """Return slots filled by each round, mean and quartiles over answers, small panels of one scale."""
    shown = _shown(traced)
    if not shown:
        return Skipped(ROUNDS_NAME, ROUNDS_TITLE, no_traces)
    caption = (
        "Slots that a round fills: mean over answers (line) and the middle half of them (band, from lower to upper "
        f"quartile). Faint: rounds that less than {FEW:.0%} of the answers reach. {_which(traced, shown)} "
        "After Figure 5 of the LoPA paper, which leaves the lookahead's own token out; here it counts. Rounds are "
        "counted from 0."
    )
    metrics = ("slots_per_round",)
    return Drawing(ROUNDS_NAME, ROUNDS_TITLE, caption, _refs(shown), metrics, lambda style: _draw_rounds(style, shown))


def fill_order(traced: Sequence[Traced], no_traces: str) -> Drawing | Skipped:
    """Return, for the same runs, the share of answers that filled each slot in each round."""
    shown = _shown(traced)
    if not shown:
        return Skipped(ORDER_NAME, ORDER_TITLE, no_traces)
    caption = (
        "Share of answers that filled a slot (across) in a round (down): a thin diagonal is left to right, one slot a "
        "round; a steep block is many slots at once. Darker is more, by the root of the share and up to each panel's "
        "darkest field, both counted from 0. The number is Kendall's tau of position and round, 1 for left to right. "
        f"{_which(traced, shown)}"
    )
    return Drawing(ORDER_NAME, ORDER_TITLE, caption, _refs(shown), ("tau",), lambda style: _draw_order(style, shown))


def _shown(traced: Sequence[Traced]) -> dict[str, list[Traced]]:
    return {task: chosen(traced, task) for task in dict.fromkeys(one.task for one in traced)}


def _which(traced: Sequence[Traced], shown: dict[str, list[Traced]]) -> str:
    """Say which runs are drawn, and which decoders have none among them."""
    missing = {task: left_out(traced, runs, task) for task, runs in shown.items()}
    words = "; ".join(f"{', '.join(names)} ({task})" for task, names in missing.items() if names)
    chosen_by = "Runs are chosen by setting: one of each decoder, LoPA with the fewest and the most branches."
    return f"{chosen_by} Left out for want of room: {words}." if words else chosen_by


def _refs(shown: dict[str, list[Traced]]) -> tuple[str, ...]:
    return tuple(one.entry.ref for of_task in shown.values() for one in of_task)


def _draw_rounds(style: Style, shown: dict[str, list[Traced]]) -> Figure:
    columns = max(map(len, shown.values()))
    figure, axes = panels(style, len(shown), columns, 2.1 * len(shown) + 0.3, sharey="row")
    for row, (task, runs) in enumerate(shown.items()):
        for column in range(columns):
            panel = axes[row][column]
            if column >= len(runs):
                panel.set_axis_off()
                continue
            _rounds_of(panel, runs[column], [one.entry.decoder for one in runs])
        axes[row][0].set_ylabel(f"{task}\nslots per round")
        axes[row][0].set_ylim(bottom=0)
    figure.supxlabel("round", fontsize=style.size)
    return figure


def _rounds_of(axes: Axes, one: Traced, decoders: Sequence[str]) -> None:
    rows = one.analysis.rounds
    dress = look(one.entry.decoder, decoders)
    common = [row for row in rows if row.n >= FEW * rows[0].n]
    rest = rows[max(len(common) - 1, 0) :]
    for part, strength in ((common, 1.0), (rest, 0.35)):
        places = [row.index for row in part]
        low, high = [row.filled_low for row in part], [row.filled_high for row in part]
        axes.fill_between(places, low, high, color=dress.colour, alpha=0.28 * strength, linewidth=0)
        axes.plot(places, [row.filled_mean for row in part], color=dress.colour, alpha=strength, linewidth=1.6)
    _title(axes, one)


def _draw_order(style: Style, shown: dict[str, list[Traced]]) -> Figure:
    columns = max(map(len, shown.values()))
    figure, axes = panels(style, len(shown), columns, 2.2 * len(shown) + 0.3)
    for row, (task, runs) in enumerate(shown.items()):
        for column in range(columns):
            panel = axes[row][column]
            if column >= len(runs):
                panel.set_axis_off()
                continue
            shares = heat_map(runs[column].traces)
            smoothing = "auto" if max(shares.shape) > CELLS_SEEN else "nearest"
            panel.imshow(
                shares**0.5, cmap="Greys", aspect="auto", vmin=0, extent=_extent(shares), interpolation=smoothing
            )
            panel.grid(visible=False)
            panel.yaxis.get_major_locator().set_params(integer=True)
            tau = runs[column].analysis.order.tau
            _title(panel, runs[column], "" if tau is None else f"τ = {tau:.2f}")
        axes[row][0].set_ylabel(f"{task}\nround")
    figure.supxlabel("slot of the answer", fontsize=style.size)
    return figure


def _extent(shares: object) -> tuple[float, float, float, float]:
    rounds, slots = shares.shape  # type: ignore[attr-defined]
    return (-0.5, slots - 0.5, rounds - 0.5, -0.5)  # both are counted from 0, as traces count them


def _title(axes: Axes, one: Traced, more: str = "") -> None:
    """Name a panel by its decoder, with the rest of the setting and what `more` says on lines of their own."""
    name, *options = one.entry.words.split(" ")
    if one.entry.branches and options:
        name, options = f"{name} {options[0]}", options[1:]
    lines = [line for line in (name, *options[:2], more) if line]  # six panels leave no room beside the name
    axes.set_title("\n".join(lines), loc="left", fontsize="small", parse_math=False)
