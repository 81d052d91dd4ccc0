"""A table on a terminal of any width: no word is ever cut, and nothing stands in a column too narrow to read.

Wide enough: a grid. Less: the same with narrower gaps, then with titles and long texts wrapped at their spaces. Where
that would break a word, few rows are turned into columns, and many are listed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lopa_bench.results.characters import visible
from lopa_bench.results.tables import Cell, Table, cell_rows, is_numeric

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

GAP = 2
PROSE = 24
"""Texts up to this length are not wrapped; longer ones get at least so much room."""
MOST_TURNED = 3
"""Rows up to which a table may be turned on its side."""


def draw(table: Table, width: int | None = None) -> RenderableType:
    """Return `table` for a rich console of `width` characters, the best in bold; None is as wide as it takes."""
    cells = [[replace(cell, text=visible(cell.text)) for cell in row] for row in cell_rows(table)]
    table = replace(table, title=visible(table.title), notes=list(map(visible, table.notes)))
    natural = [_longest(column.title, *(row[i].text for row in cells)) for i, column in enumerate(table.columns)]
    if width is None or sum(natural) + 3 * len(natural) <= width:
        return _grid(table, cells)
    least = _least_widths(table, cells)
    room = width - GAP * (len(least) - 1)
    if sum(least) <= room:
        return _spaced(_grid(table, cells, _shared_out(least, natural, room)))
    if 0 < len(cells) <= MOST_TURNED and (turned := _turned(table, cells, width)) is not None:
        return turned
    return _listed(table, cells)


def natural_width(table: Table) -> int:
    """Return the characters that a table takes as a grid in which nothing is wrapped, its title and notes left out."""
    cells = cell_rows(table)
    return sum(_longest(one.title, *(row[i].text for row in cells)) + 3 for i, one in enumerate(table.columns))


def has_room(table: Table, width: int) -> bool:
    """Tell whether a table is a grid in `width` characters, with titles and long texts wrapped if need be."""
    least = _least_widths(table, cell_rows(table))
    return sum(least) <= width - GAP * (len(least) - 1)


def _least_widths(table: Table, cells: list[list[Cell]]) -> list[int]:
    return [_least(column.title, [row[i].text for row in cells]) for i, column in enumerate(table.columns)]


def _longest(*texts: str) -> int:
    from rich.cells import cell_len

    return max((cell_len(line) for text in texts for line in text.splitlines()), default=0)


def _least(title: str, texts: list[str]) -> int:
    """Return the room a column must have: its longest word, and short cells whole."""
    words = [word for text in (title, *texts) for word in text.split()]
    return max(_longest(*words), min(_longest(*texts), PROSE))


def _shared_out(least: list[int], natural: list[int], room: int) -> list[int]:
    """Return the columns' widths: the room that is left goes where most is lacking."""
    widths = list(least)
    for _ in range(room - sum(widths)):
        lacking = [want - has for want, has in zip(natural, widths, strict=True)]
        if max(lacking) <= 0:
            break
        widths[lacking.index(max(lacking))] += 1
    return widths


def _text(cell: Cell) -> Text:
    from rich.text import Text

    return Text(cell.text, style="bold" if cell.best else "italic" if cell.quoted else "")


def _grid(table: Table, cells: list[list[Cell]], widths: list[int] | None = None) -> RichTable:
    """Draw rows under titles; with `widths` in exactly those and with narrow gaps."""
    from rich.text import Text

    drawn = _empty(table, tight=widths is not None)
    for index, column in enumerate(table.columns):
        justify = "right" if is_numeric(table, column) else "left"
        width = None if widths is None else widths[index]
        drawn.add_column(Text(column.title), justify=justify, width=width, overflow="fold")  # type: ignore[arg-type]
    for row in cells:
        drawn.add_row(*map(_text, row))
    return drawn


def _empty(table: Table, tight: bool, header: bool = True) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    return RichTable(
        title=table.title or None,
        caption="\n".join(table.notes) or None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        collapse_padding=tight,
        pad_edge=not tight,
        show_edge=not tight,
        show_header=header,
    )


def _turned(table: Table, cells: list[list[Cell]], width: int) -> RenderableType | None:
    """Draw one line per column of the table; None where that is too wide too."""
    from rich.text import Text

    titles = [column.title for column in table.columns]
    columns = [[row[index].text for index in range(len(titles))] for row in cells]
    least = [_longest(*titles), *(_least("", texts) for texts in columns)]
    natural = [least[0], *(_longest(*texts) for texts in columns)]
    room = width - GAP * (len(least) - 1)
    if sum(least) > room:
        return None
    drawn = _empty(Table(table.columns, table.rows), tight=True, header=False)
    for column_width in _shared_out(least, natural, room):
        drawn.add_column(width=column_width, overflow="fold")
    for index, title in enumerate(titles):
        drawn.add_row(Text(title), *(_text(row[index]) for row in cells))
    return _framed(table, [drawn])


def _listed(table: Table, cells: list[list[Cell]]) -> RenderableType:
    """Draw each row as a paragraph: the cells that name it, and below them the others after their titles."""
    from rich.padding import Padding
    from rich.text import Text

    names = 1 if len({row[0].text for row in cells}) == len(cells) else 2
    parts: list[RenderableType] = []
    for row in cells:
        details = Text(" · ").join(
            Text.assemble(f"{column.title} ", _text(cell))
            for column, cell in zip(table.columns[names:], row[names:], strict=True)
            if cell.text
        )
        parts += [Text(" · ".join(cell.text for cell in row[:names]), style="bold"), Padding(details, (0, 0, 0, 4))]
    return _framed(table, parts or [Text(" · ".join(column.title for column in table.columns), style="bold")])


def _framed(table: Table, parts: Sequence[RenderableType]) -> RenderableType:
    """Set the title above and the notes below, as wide as the terminal."""
    from rich.text import Text

    title = [Text(table.title, style="italic")] if table.title else []
    return _spaced(*title, *parts, *(Text(note, style="dim italic") for note in table.notes))


def _spaced(*parts: RenderableType) -> RenderableType:
    """Keep what is printed next apart, as a whole grid's own edge does."""
    from rich.console import Group

    return Group(*parts, "")
