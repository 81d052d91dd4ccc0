"""Which intervals a table shows: all where there is room, else those of accuracy alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lopa_bench.results.tables import Table

CAN_DO_WITHOUT = ("tpf", "tps_e2e")


def fitting(table: Table, width: int | None = None) -> Table:
    """Return a table as it is where its rows fit in `width` characters, else without the intervals of TPF and speed.

    Accuracy keeps its own: a score of few problems says little without. Where there is no room for a grid anyway, what
    is drawn instead has room for all. `width` is by default that of the terminal; without one, everything fits.
    """
    from lopa_bench.results.terminal import has_room, natural_width

    width = terminal_width() if width is None else width
    if width is None or natural_width(table) <= width:
        return table
    columns = [
        replace(column, interval=column.interval and column.key not in CAN_DO_WITHOUT) for column in table.columns
    ]
    bare = replace(table, columns=columns)
    return bare if has_room(bare, width) else table


def terminal_width() -> int | None:
    """Return the characters of a line of the terminal that stdout is; None where it is none."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else None
