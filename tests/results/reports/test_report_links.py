"""Every number of a report leads to the runs that it rests on, and every heading of numbers to its definition."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_cases import RIGHT, lopa, other, with_traces
from stored import record, samples, store

from lopa_bench.results.definitions import DEFINITIONS, DERIVED
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.published_figures import select
from lopa_bench.results.reports.report import Report, make_report, write_report
from lopa_bench.results.reports.tables import Quote
from lopa_bench.results.tables import is_numeric


@dataclass
class Cell:
    """A cell of the page: its text, where it links to, and its own name."""

    text: str = ""
    links: list[str] = field(default_factory=list)
    id: str = ""


class Tables(HTMLParser):
    """The page's tables by the names of their sections: rows of cells, the headings first."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: dict[str, list[list[Cell]]] = {}
        self.section = ""
        self.cell: Cell | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "section":
            self.section = given.get("id", "").removeprefix("table-")
        elif tag == "tr":
            self.rows.setdefault(self.section, []).append([])
        elif tag in ("td", "th"):
            self.cell = Cell(id=given.get("id", ""))
            self.rows[self.section][-1].append(self.cell)
        elif tag == "a" and self.cell is not None:
            self.cell.links.append(given["href"])

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.text += data


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A report that has every section there is."""
    root = tmp_path_factory.mktemp("runs")
    runs = [lopa(root, 1), lopa(root, 2, rounds=0.7), lopa(root, 4, rounds=0.5), other(root, "ar", {})]
    runs = [with_traces(one) for one in runs]
    runs.append(lopa(root, 8, correct=RIGHT[:3]))
    for devices in (1, 2):
        place: dict[str, Any] = {"world_size": devices, "groups": {"bp": devices} if devices > 1 else {}}
        place["num_threads"] = 2 // devices
        runs.append(store(root, samples(slower=1 / devices), record(decoder="d2f", place=place, fingerprint="f" * 8)))
    quotes = [Quote(row, runs[1].record.id, 5.25, 20) for row in select("lopa-table1")[:1]]
    quotes += [Quote(row) for row in select("lopa-table1")[1:3]]
    return make_report(runs, runs_dir=root, quotes=quotes, with_published=True, count_as="all")


@pytest.fixture(scope="module")
def folder(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "report"
    write_report(report, out)
    return out


@pytest.fixture(scope="module")
def page(folder: Path) -> Tables:
    return Tables((folder / "report.html").read_text(encoding="utf-8"))


def test_the_report_has_every_section(report: Report) -> None:
    names = {re.sub(r"-(mini-maths|\d)$", "", one.name) for one in report.all_tables}
    assert names == {
        "overview", "results", "branches", "front", "aup", "counted", "scaling", "fill-order", "branch-wins",
        "published", "set-aside", "runs", "definitions",
    }  # fmt: skip


def numbers(report: Report, page: Tables) -> Iterator[tuple[str, int, int, Cell]]:
    """Every cell that shows a number measured here: table, row, column, cell."""
    for one in report.tables:
        for index, row in enumerate(one.table.rows):
            for place, column in enumerate(one.table.columns):
                value = row.get(column.key)
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if is_number and not column.quoted and one.refs(row, column):
                    yield one.name, index, place, page.rows[one.name][index + 1][place]


def test_every_number_leads_to_the_runs_that_it_rests_on(report: Report, page: Tables) -> None:
    runs = {f"#{row[0].id}": row[0].text for row in page.rows["runs"][1:]}
    listed = {
        f"#{cell.id}": cell
        for rows in page.rows.values()
        for row in rows
        for cell in row
        if cell.id.startswith("runs-")
    }
    found = list(numbers(report, page))
    by_name = {one.name: one for one in report.tables}
    for name, index, place, cell in found:
        table = by_name[name].table
        [link] = cell.links
        refs = by_name[name].refs(table.rows[index], table.columns[place])
        if link in runs:
            assert refs == (runs[link],), (name, cell)
        elif link == f"#table-{name}":
            rows = {run for row in page.rows[name][1:] for one in row for run in one.links if run in runs}
            assert {runs[run] for run in rows} >= set(refs), (name, cell)
        else:
            assert [runs[run] for run in listed[link].links] == list(refs) and len(refs) > 1, (name, cell)
    assert {name for name, *_ in found} == set(by_name)


def test_no_number_measured_here_is_without_a_run(report: Report) -> None:
    for one in report.tables:
        for row in one.table.rows:
            for column in one.table.columns:
                if is_numeric(one.table, column) and not column.quoted and row.get(column.key) is not None:
                    assert one.refs(row, column), (one.name, column.key)


def test_a_figure_that_was_published_leads_to_no_run_of_this_report(report: Report, page: Tables) -> None:
    place = [column.key for column in report.tables[-2].table.columns].index("published")
    assert report.tables[-2].name == "published"
    assert all(not row[place].links for row in page.rows["published"][1:])


def test_every_heading_of_numbers_leads_to_its_definition(report: Report, page: Tables) -> None:
    defined = {f"#{row[0].id}": row for row in page.rows["definitions"][1:]}
    for one in report.tables:
        for column, head in zip(one.table.columns, page.rows[one.name][0], strict=True):
            if not is_numeric(one.table, column):
                continue
            assert len(head.links) == 1 and head.links[0] in defined, (one.name, head)
            definition = DEFINITIONS[head.links[0].removeprefix("#def-")]
            cells = [cell.text for cell in defined[head.links[0]]]
            assert cells == [
                definition.id, str(definition.version), definition.title, definition.unit, definition.direction,
                definition.formula,
            ]  # fmt: skip


def test_definitions_are_those_in_use_and_no_others(report: Report, folder: Path) -> None:
    linked = set(re.findall(r'href="#def-([^"]+)"', (folder / "report.html").read_text(encoding="utf-8")))
    assert linked == {row["id"] for row in report.definitions.table.rows}


def test_markdown_and_latex_name_the_runs_of_figures_of_several(folder: Path, report: Report) -> None:
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert "[R1](#run-R1), [R2](#run-R2), [R3](#run-R3)" in markdown and "[R3](#run-R3), [R1](#run-R1)" in markdown
    latex = (folder / "tables" / "aup-mini-maths.tex").read_text(encoding="utf-8")
    assert "% definition of aup, version 1: rho_1 y_1 + sum" in latex
    assert all(re.search(rf"% R{number}: 000{number}-\S+, commit aaaaaaaaaa", latex) for number in (1, 2, 3, 4))


def test_a_figure_is_defined_once_and_completely() -> None:
    assert not set(METRICS) & set(DERIVED) and set(DEFINITIONS) == set(METRICS) | set(DERIVED)
    for name, one in DEFINITIONS.items():
        assert one.id == name and one.version >= 1 and one.title and one.unit and one.formula
        assert one.direction in ("higher", "lower", "neither")
