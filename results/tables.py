"""One table, five ways out: terminal, JSON, CSV, Markdown and LaTeX, all from the same rows.

A row is a flat mapping of column keys to values. JSON and CSV carry the numbers as they are; the others show them with
the column's scale and digits, an undefined figure (None) as "n/a", a missing one as "—", the best of a column marked.
A column with an interval takes its bounds from the keys `<key>_low` and `<key>_high`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.results.characters import escape_latex, escape_markdown, visible

Value = str | int | float | bool | None
Row = Mapping[str, Value]
Format = Literal["table", "json", "csv", "markdown", "latex"]

MISSING = "—"
UNDEFINED = "n/a"


@dataclass(frozen=True)
class Column:
    """How one column is shown.

    `digits` after the point (None: as it is), `scale` multiplies a number before it is shown (100 for a share in
    percent), `direction` says which value is the best to mark, `signed` shows a plus sign, `interval` adds the bounds.
    `quoted` sets the column apart, in italics, as figures that somebody else measured.
    """

    key: str
    title: str
    digits: int | None = None
    scale: float = 1.0
    direction: Literal["higher", "lower", "neither"] = "neither"
    signed: bool = False
    interval: bool = False
    quoted: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The row keys this column shows."""
        return (self.key, f"{self.key}_low", f"{self.key}_high") if self.interval else (self.key,)


@dataclass(frozen=True)
class Table:
    """Columns, rows, a title and lines set below."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    notes: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Cell:
    """The text of a cell, whether it is marked as the best, and whether it is quoted."""

    text: str
    best: bool = False
    quoted: bool = False


def render(table: Table, format: str = "table", width: int | None = None) -> str:
    """Return `table` as text in one of FORMATS, without colours; `width` is the terminal's, for "table" alone."""
    if format == "table":
        return to_text(table, width)
    if format not in FORMATS:
        raise ConfigError(f"unknown format '{format}'{nearest(format, FORMATS)}; choose from {', '.join(FORMATS)}")
    return _WRITERS[format](table)


def to_text(table: Table, width: int | None = None) -> str:
    """Return the terminal table as plain text; as wide as it needs where no `width` is given."""
    from rich.console import Console

    from lopa_bench.results.terminal import draw

    drawn = draw(table, width)
    console = Console(file=io.StringIO(), width=width or 10_000, no_color=True, highlight=False)
    if width is None:
        console.width = max(console.measure(drawn).maximum, *map(len, ("", table.title, *table.notes)), 1)
    with console.capture() as capture:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def to_json(table: Table) -> str:
    """Return an object with title, rows (all their keys, numbers as they are) and notes."""
    rows = [dict(row) for row in table.rows]
    content = {"title": table.title, "rows": rows, "notes": list(table.notes)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def to_csv(table: Table) -> str:
    """Return a header of keys and a line per row, numbers as they are, None and missing left empty."""
    out = io.StringIO()
    keys = [key for column in table.columns for key in column.keys]
    writer = csv.DictWriter(out, keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return out.getvalue()


def to_markdown(table: Table) -> str:
    """Return a GitHub table with its title above and notes below, the best in bold."""
    lines = [f"**{escape_markdown(table.title)}**", ""] if table.title else []
    lines.append(_markdown_line([escape_markdown(column.title) for column in table.columns]))
    lines.append(_markdown_line(["---:" if is_numeric(table, column) else ":---" for column in table.columns]))
    for cells in cell_rows(table):
        lines.append(_markdown_line(list(map(markdown_cell, cells))))
    for note in table.notes:
        lines += ["", escape_markdown(note)]
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """Return a booktabs tabular, the best in bold, title and notes as comments around it."""
    layout = "".join("r" if is_numeric(table, column) else "l" for column in table.columns)
    lines = [f"% {line}" for line in visible(table.title).splitlines()]
    lines += [rf"\begin{{tabular}}{{{layout}}}", r"\toprule"]
    lines += [_latex_line([escape_latex(column.title) for column in table.columns]), r"\midrule"]
    for cells in cell_rows(table):
        lines.append(_latex_line(list(map(_latex_cell, cells))))
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"% {line}" for note in table.notes for line in visible(note).splitlines()]
    return "\n".join(lines) + "\n"


def show(row: Row, column: Column) -> str:
    """Return the text of one cell."""
    if column.key not in row:
        return MISSING
    text = _number(row[column.key], column)
    low, high = (row.get(key) for key in (f"{column.key}_low", f"{column.key}_high"))
    if column.interval and low is not None and high is not None:
        return f"{text} [{_number(low, column)}, {_number(high, column)}]"
    return text


def cell_rows(table: Table) -> list[list[Cell]]:
    """Return the cells of every row, the best of each column marked."""
    marks = [best_rows(table, column) for column in table.columns]
    return [
        [
            Cell(show(row, column), index in best, column.quoted and column.key in row)
            for column, best in zip(table.columns, marks, strict=True)
        ]
        for index, row in enumerate(table.rows)
    ]


def best_rows(table: Table, column: Column) -> set[int]:
    """Return the rows whose value is the best of the column as shown; none with fewer than two numbers."""
    values = {i: value for i, row in enumerate(table.rows) if _is_number(value := row.get(column.key))}
    if column.direction == "neither" or len(values) < 2:
        return set()
    choose = max if column.direction == "higher" else min
    best = _number(choose(values.values()), column)  # type: ignore[type-var]
    return {i for i, value in values.items() if _number(value, column) == best}


def is_numeric(table: Table, column: Column) -> bool:
    """Tell whether a column's cells are numbers, which are set to the right."""
    values = [row.get(column.key) for row in table.rows]
    return any(map(_is_number, values)) and all(value is None or _is_number(value) for value in values)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Value, column: Column) -> str:
    """Return a value as the column shows it."""
    if value is None:
        return UNDEFINED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    scaled = value * column.scale if column.scale != 1 else value
    sign = "+" if column.signed else ""
    return f"{scaled:{sign}}" if column.digits is None else f"{scaled:{sign}.{column.digits}f}"


def markdown_cell(cell: Cell) -> str:
    """Return a cell as Markdown: the best in bold, what is quoted in italics."""
    mark = "**" if cell.best else "*" if cell.quoted and cell.text else ""
    return f"{mark}{escape_markdown(cell.text)}{mark}"


def _latex_cell(cell: Cell) -> str:
    text = escape_latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.best else rf"\textit{{{text}}}" if cell.quoted else text


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


_WRITERS: dict[str, Callable[[Table], str]] = {
    "table": to_text,
    "json": to_json,
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
}
FORMATS = tuple(_WRITERS)
