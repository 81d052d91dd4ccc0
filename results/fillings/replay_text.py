"""The filling of one answer in a terminal: the text coloured by round, a legend, and a line per round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lopa_bench.results.fillings.replay import MASK_SIGN, NEWLINE_SIGN, Replay, colour_of, ink_on, runs_of, visible
from lopa_bench.results.tables import Column, Row, Table
from lopa_bench.results.trace import RoundRecord

if TYPE_CHECKING:
    from rich.text import Text

LEGEND_STEPS = 12
# For terminals of 16 colours, which have no scale: neighbouring rounds differ, and the colours come again.
FEW_COLOURS = (
    "white on blue", "white on magenta", "black on cyan", "black on green", "black on yellow", "white on red"
)  # fmt: skip
LONGEST_PIECE = 24
MOST_PIECES = 4


def style_of(index: int, num_rounds: int, *, few_colours: bool = False) -> str:
    """Return the style of what a round filled: from dark to light, or in a terminal of 16 colours in turn."""
    if few_colours:
        return FEW_COLOURS[index % len(FEW_COLOURS)]
    colour = colour_of(index, num_rounds)
    return f"{ink_on(colour)} on {colour}"


def coloured_answer(shown: Replay, *, few_colours: bool = False) -> Text:
    """Return the answer, each slot on the colour of its round; lookaheads that won are underlined, slots never filled
    are dots, and what stands behind the EOS is dimmed.
    """
    from rich.text import Text

    text = Text()
    for slot in shown.slots:
        if slot.round is None:
            text.append(MASK_SIGN, style="dim")
            continue
        style = style_of(slot.round, shown.num_rounds, few_colours=few_colours)
        style += " bold underline" if slot.looked_ahead else ""
        style += " dim" if slot.behind_end else ""
        text.append(visible(slot.text), style=style)
    return text


def legend(shown: Replay, *, few_colours: bool = False) -> Text:
    """Return the colours of the rounds, of some of them where there are many or where colours come in turn."""
    from rich.text import Text

    step = 1 if few_colours else max(1, -(-shown.num_rounds // LEGEND_STEPS))
    last = min(shown.num_rounds, len(FEW_COLOURS)) if few_colours else shown.num_rounds
    text = Text("round ")
    for index in range(0, last, step):
        text.append(f" {index} ", style=style_of(index, shown.num_rounds, few_colours=few_colours))
    if last < shown.num_rounds:
        text.append(" and again in turn")
    if any(slot.looked_ahead for slot in shown.slots):
        text.append("  ")
        text.append("underlined", style="bold underline")
        text.append(": a lookahead that won")
    if any(slot.round is None for slot in shown.slots):
        text.append(f"  {MASK_SIGN}: never filled", style="dim")
    return text


def rounds_table(shown: Replay) -> Table:
    """Return a row per round: what it filled and, for LoPA, which branch won, by how much and what that brought."""
    has_branches = any(one.branches for one in shown.trace.rounds)
    rows: list[Row] = []
    for one in shown.trace.rounds:
        row: Row = {
            "round": one.index,
            "filled": len(one.positions),
            "forced": one.num_forced,
            "open": one.num_slots,
            "branches": len(one.branches),
            "won": _winner(one, shown),
            **_scores(one),
            "gain": one.gain,
            "text": " | ".join(_pieces(one, shown)),
        }
        rows.append(row)
    columns = [Column("round", "round"), Column("filled", "filled"), Column("forced", "forced"), Column("open", "open")]
    if has_branches:
        columns += [Column("branches", "branches"), Column("won", "won"), Column("score", "score", digits=3)]
        columns += [Column("margin", "margin", digits=3, signed=True), Column("gain", "gain", signed=True)]
    columns.append(Column("text", "position:text"))
    return Table(columns, rows)


def _winner(one: RoundRecord, shown: Replay) -> str:
    if one.winner is None or len(one.branches) < 2:
        return "-"
    branch = one.branches[one.winner]
    if branch.position is None or branch.token is None:
        return "anchor"
    return f"{branch.position} {_short(shown.trace.spell(branch.token))}"


def _scores(one: RoundRecord) -> dict[str, float | None]:
    """Return the winner's score and by how much it beat the anchor's; there is no margin without another branch."""
    winner = one.branches[one.winner] if one.branches and one.winner is not None else None
    margin = None if winner is None or len(one.branches) < 2 else one.margin_of(winner)
    return {"score": None if winner is None else winner.score, "margin": margin}


def _pieces(one: RoundRecord, shown: Replay) -> Iterator[str]:
    pieces = runs_of(one, shown.trace)
    for first, text in pieces[:MOST_PIECES]:
        yield f"{first}:{_short(text)}"
    if len(pieces) > MOST_PIECES:
        yield f"{len(pieces) - MOST_PIECES} more"


def _short(text: str) -> str:
    """Return a text in one line, cut where it is long."""
    line = visible(text).replace(f"{NEWLINE_SIGN}\n", NEWLINE_SIGN)
    return line if len(line) <= LONGEST_PIECE else line[: LONGEST_PIECE - 1] + "…"
