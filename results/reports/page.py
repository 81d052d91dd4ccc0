"""A report as pages: HTML that needs nothing else, Markdown, and LaTeX around the tables and figures."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.results.characters import escape_latex, escape_markdown, visible
from lopa_bench.results.definitions import DEFINITIONS
from lopa_bench.results.reports.figures import Style
from lopa_bench.results.reports.report_table import ALL_ROWS, ReportTable, joined
from lopa_bench.results.reports.sources import run_words
from lopa_bench.results.tables import (
    Cell,
    Column,
    Row,
    Table,
    cell_rows,
    is_numeric,
    markdown_cell,
)

if TYPE_CHECKING:
    from markupsafe import Markup

    from lopa_bench.results.reports.report import Report

MOST_REFS = 6
"""Sources named behind a sentence or caption; the others are counted, and all stand in the index."""
FIRST, LAST = ("overview",), ("published", "set-aside")


@dataclass(frozen=True)
class PageCell:
    """A cell to be set: `link` is where its source stands, `tip` that source in words, `anchor` the cell's own name.

    A cell that lists several runs has a part for each.
    """

    text: str
    best: bool = False
    number: bool = False
    quoted: bool = False
    link: str = ""
    tip: str = ""
    anchor: str = ""
    parts: tuple[PageCell, ...] = ()


@dataclass(frozen=True)
class PageTable:
    """A table to be set."""

    name: str
    heading: str
    head: Sequence[PageCell]
    rows: Sequence[Sequence[PageCell]]
    notes: Sequence[str]


def html_page(report: Report, figures: Path, style: Style) -> str:
    """Return the report as one page; `figures` is where its PNG files lie, which become part of it."""
    pictures = {one.name: _inlined(figures / f"{one.name}.png") for one in report.figures}
    return _fill("report.html.j2", report, escapes=True, pictures=pictures, width=round(96 * style.width))


def markdown_page(report: Report) -> str:
    """Return the report in Markdown, its figures as files beside it."""
    return _fill("report.md.j2", report, escapes=False)


def latex_page(report: Report) -> str:
    """Return a document that takes in the tables and figures beside it."""
    return _fill("report.tex.j2", report, escapes=False)


def _fill(name: str, report: Report, *, escapes: bool, **more: Any) -> str:
    from jinja2 import Environment, StrictUndefined

    source = resources.files("lopa_bench.results").joinpath(f"templates/{name}").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=escapes, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"latex": _latex, "markdown": escape_markdown, "cell": markdown_cell, "marked": _marked}
    tips = _tips(report)
    tables = [page_table(one, tips) for one in report.all_tables]
    page = environment.from_string(source).render(
        report=report,
        first=[one for one in tables if one.name in FIRST],
        middle=[one for one in tables if one.name not in (*FIRST, *LAST, "runs", "definitions")],
        last=[one for one in tables if one.name in (*LAST, "runs", "definitions")],
        sources=lambda one: sources(one.refs, one.metrics, tips),
        **more,
    )
    return visible(page)


def _latex(text: str) -> str:
    """Return text as LaTeX, `code` in typewriter letters."""
    return re.sub("`([^`]+)`", r"\\texttt{\1}", escape_latex(text))


def _marked(text: str) -> Markup:
    """Return text as HTML, `code` marked as such."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _inlined(picture: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode("ascii")


def _tips(report: Report) -> dict[str, str]:
    """Say of each run, by its short name, which it is and what made it."""
    return {str(row["run"]): f"run {run_words(row)}" for row in report.runs.table.rows}


def sources(refs: Sequence[str], metrics: Sequence[str], tips: dict[str, str]) -> tuple[list[PageCell], int]:
    """Return links to the runs and definitions that something rests on, and how many runs are not named."""
    unique = list(dict.fromkeys(refs))
    links = [_run_link(ref, tips) for ref in unique[:MOST_REFS]]
    links += [PageCell(name, link=f"def-{name}", tip=DEFINITIONS[name].formula) for name in dict.fromkeys(metrics)]
    return links, max(len(unique) - MOST_REFS, 0)


def _run_link(ref: str, tips: dict[str, str]) -> PageCell:
    return PageCell(ref, link=f"run-{ref}", tip=tips.get(ref, ""))


def page_table(one: ReportTable, tips: dict[str, str]) -> PageTable:
    """Return a table with a link behind every number that is measured: to its run, or to where its runs are listed."""
    table = one.table
    head = [_head(one, column, table) for column in table.columns]
    rows = [
        [_cell(one, index, column, cell, tips) for column, cell in zip(table.columns, cells, strict=True)]
        for index, cells in enumerate(cell_rows(table))
    ]
    return PageTable(one.name, one.heading, head, rows, table.notes)


def _head(one: ReportTable, column: Column, table: Table) -> PageCell:
    metric = one.metrics.get(column.key)
    number = is_numeric(table, column)
    if metric is None:
        return PageCell(column.title, number=number)
    definition = DEFINITIONS[metric]
    tip = f"{metric}, version {definition.version}: {definition.formula}"
    return PageCell(column.title, number=number, link=f"def-{metric}", tip=tip)


def _cell(one: ReportTable, index: int, column: Column, cell: Cell, tips: dict[str, str]) -> PageCell:
    row = one.table.rows[index]
    value = row.get(column.key)
    refs = () if column.quoted else one.refs(row, column)
    plain = PageCell(cell.text, cell.best, is_numeric(one.table, column), cell.quoted)
    if anchor := {("runs", "run"): f"run-{value}", ("definitions", "id"): f"def-{value}"}.get((one.name, column.key)):
        return replace(plain, anchor=anchor)
    if refs and value == joined(refs):  # the cell that names the runs
        parts = tuple(_run_link(ref, tips) for ref in refs)
        return replace(plain, parts=parts, anchor=_list_of(one, index) if len(refs) > 1 else "")
    if not refs or isinstance(value, bool) or not isinstance(value, int | float):
        return plain
    return replace(plain, link=_target(one, index, column, refs), tip=_tip(one, row, column, refs, tips))


def _list_of(one: ReportTable, index: int) -> str:
    return f"runs-{one.name}-{index + 1}"


def _target(one: ReportTable, index: int, column: Column, refs: Sequence[str]) -> str:
    """Return the anchor of what a number rests on: a run, or the table or cell that lists several."""
    if one.run_keys.get(column.key) == ALL_ROWS:
        return f"table-{one.name}"
    return _list_of(one, index) if len(refs) > 1 else f"run-{refs[0]}"


def _tip(one: ReportTable, row: Row, column: Column, refs: Sequence[str], tips: dict[str, str]) -> str:
    words = [tips.get(refs[0], "") if len(refs) == 1 else f"{len(refs)} runs"]
    metric = one.metrics.get(column.key)
    if metric is not None:
        words.append(f"{metric}, version {DEFINITIONS[metric].version}")
        count = row.get(f"{metric}_n")
        words += [] if count is None else [f"n = {count}"]
    return "; ".join(words)
