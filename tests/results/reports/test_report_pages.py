"""The report's folder: equal numbers in every format, sources behind every number, pages that need nothing else."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_cases import RIGHT, lopa, other

from lopa_bench.errors import ConfigError, ResultsError
from lopa_bench.results.published_figures import select
from lopa_bench.results.reports.report import Report, make_report, write_report
from lopa_bench.results.reports.tables import Quote
from lopa_bench.results.tables import Column, Table, show, to_latex, to_markdown

SPECIAL = "a_b & 50% #1 {x} ~ ^ \\ $y$ \u6f22\x1b<b>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    root = tmp_path_factory.mktemp("runs")
    runs = [
        lopa(root, 1), lopa(root, 4, rounds=0.5), lopa(root, 8, correct=RIGHT[:3]),
        other(root, "ar", {}, model={"name": SPECIAL, "hash": "sha256:aa"}),
    ]  # fmt: skip
    quotes = [Quote(row, runs[1].record.id, 5.25, 20, "not comparable") for row in select("lopa-table1")[:1]]
    quotes += [Quote(row) for row in select("lopa-table1")[1:3]]
    return make_report(runs, title=f"Trial of {SPECIAL}", runs_dir=root, quotes=quotes, with_published=True)


@pytest.fixture(scope="module")
def folder(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "report"
    write_report(report, out)
    return out


class Page(HTMLParser):
    """What a page has: ids, links, sources of pictures, and tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.sources += [given["src"] or ""] if "src" in given else []


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_every_table_and_figure_is_there_in_every_format(report: Report, folder: Path) -> None:
    names = {one.name for one in report.all_tables}
    assert {"overview", "results-mini-maths", "branches", "published", "set-aside", "runs", "definitions"} <= names
    assert {p.name for p in (folder / "tables").iterdir()} == {
        f"{n}.{s}" for n in names for s in ("tex", "csv", "json")
    }
    drawn = {one.name for one in report.figures}
    assert {"accuracy-tpf", "branches", "branches-quoted", "throughput", "throughput-quoted"} == drawn
    assert {p.name for p in (folder / "figures").iterdir()} == {f"{n}.{s}" for n in drawn for s in ("png", "pdf")}
    for path in (folder / "figures").iterdir():
        assert path.read_bytes()[:4] in (b"\x89PNG", b"%PDF")
    index = json.loads((folder / "report.json").read_text())
    assert {folder / one for one in index["files"]} == {p for p in folder.rglob("*/*") if p.is_file()}


def test_what_runs_without_traces_lack_is_said(report: Report, folder: Path) -> None:
    skipped = {one.name: one.reason for one in report.skipped}
    assert {"tokens-per-round", "fill-order", "branch-wins"} <= set(skipped)
    assert "--trace" in skipped["tokens-per-round"]
    for name in ("report.md", "report.html"):
        assert "no run kept a trace (R1, R2, R4)" in (folder / name).read_text(encoding="utf-8")


def test_numbers_are_equal_in_all_formats(report: Report, folder: Path) -> None:
    """One table, read back from each of its files."""
    for one in report.all_tables:
        rows = json.loads((folder / "tables" / f"{one.name}.json").read_text(encoding="utf-8"))["rows"]
        with (folder / "tables" / f"{one.name}.csv").open(newline="", encoding="utf-8") as lines:
            read = list(csv.DictReader(lines))
        latex = (folder / "tables" / f"{one.name}.tex").read_text(encoding="utf-8")
        markdown = (folder / "report.md").read_text(encoding="utf-8")
        html = (folder / "report.html").read_text(encoding="utf-8")
        assert len(rows) == len(read) == latex.count(r" \\") - 1
        for row, line in zip(rows, read, strict=True):
            for column in one.table.columns:
                value = row.get(column.key)
                if isinstance(value, float):
                    assert float(line[column.key]) == value
                    text = show(row, column)
                    assert text in markdown and text in html and text.replace("%", r"\%") in latex
                elif value is None:
                    assert line[column.key] == ""


def test_every_anchor_is_there_and_every_number_leads_to_its_run(report: Report, page: Page, folder: Path) -> None:
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids) and len(page.ids) == len(set(page.ids))
    assert {"run-R1", "run-R2", "run-R3", "run-R4", "def-tpf", "def-accuracy"} <= inside
    html = (folder / "report.html").read_text(encoding="utf-8")
    [group] = report.groups
    tpf = f"{group.main[1].summary.metrics['tpf'].value:.2f}"
    found = re.findall(rf'<a href="#run-R2" title="([^"]+)">(?:<strong>)?{tpf} \[', html)
    assert any("commit aaaaaaaaaa; tpf, version 1; n = 20" in one for one in found)
    files = [link for link in page.links if not link.startswith("#")]
    assert files and all((folder / link).is_file() for link in files)
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    links = set(re.findall(r"\]\(#([^)]+)\)", markdown))
    assert links and links <= set(re.findall(r'<a id="([^"]+)"></a>', markdown))
    assert all((folder / link).is_file() for link in re.findall(r"\]\(((?:tables|figures)/[^)]+)\)", markdown))


def test_the_page_needs_nothing_from_elsewhere(page: Page, folder: Path) -> None:
    assert not page.tags & {"script", "link", "iframe", "object", "embed"}
    assert page.sources and all(one.startswith("data:image/png;base64,") for one in page.sources)
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "http" not in html and "url(" not in html and "@import" not in html
    assert 'name="viewport"' in html and "@media print" in html


def test_names_are_escaped_in_each_language(folder: Path) -> None:
    escaped = r"a\_b \& 50\% \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} \$y\$"
    assert escaped in (folder / "tables" / "results-mini-maths.tex").read_text(encoding="utf-8")
    document = (folder / "report.tex").read_text(encoding="utf-8")
    assert escaped in document and document.count("{") - document.count(r"\{") == document.count("}") - document.count(
        r"\}"
    )
    assert "a_b &amp; 50% #1" in (folder / "report.html").read_text(encoding="utf-8")
    assert "\\texttt{U+6F22}\\textbackslash{}x1b\\textless{}b" in document
    assert "\u6f22\\x1b\\<b>" in (folder / "report.md").read_text(encoding="utf-8")
    for path in (*folder.glob("report.*"), *folder.glob("tables/*.tex")):
        assert "\x1b" not in path.read_text(encoding="utf-8"), path


@pytest.mark.slow
def test_the_latex_document_compiles(folder: Path, tmp_path: Path) -> None:
    latex = shutil.which("pdflatex")
    if latex is None:
        pytest.skip("pdflatex is not installed")
    command = [latex, "-interaction=nonstopmode", "-halt-on-error", f"-output-directory={tmp_path}", "report.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000 and "Overfull" not in done.stdout


def test_runs_are_counted_as_another_program_would(tmp_path: Path) -> None:
    runs = [lopa(tmp_path, 1), lopa(tmp_path, 4, rounds=0.5)]
    made = make_report(runs, runs_dir=tmp_path, count_as="lopa-dream")
    [counted] = [one for one in made.tables if one.name == "counted-mini-maths"]
    assert counted.heading == "mini-maths: as lopa-dream counts"
    assert [row["run"] for row in counted.table.rows] == ["R1", "R2"]
    assert counted.table.rows[0]["tokens"] == sum(one.tokens.committed for one in runs[0].samples)
    with pytest.raises(ConfigError, match="did you mean 'lopa-dream'"):
        make_report(runs, runs_dir=tmp_path, count_as="lopa-drea")


def test_latex_tables_name_their_sources_in_comments(folder: Path) -> None:
    latex = (folder / "tables" / "results-mini-maths.tex").read_text(encoding="utf-8")
    assert "% definition of tpf, version 1: sum(useful) / sum(rounds)" in latex
    assert re.search(r"% R2: 0002-\S+, commit aaaaaaaaaa", latex)


def test_quoted_figures_stand_apart_with_their_deviation(report: Report, folder: Path) -> None:
    [first, second, _] = next(one for one in report.tables if one.name == "published").table.rows
    assert first["deviation"] == pytest.approx(5.25 - float(first["published"] or 0)) and first["run"] == "R2"
    assert "measured" not in second
    latex = (folder / "tables" / "published.tex").read_text(encoding="utf-8")
    assert r"\textit{1.0} & quoted & 5.25 & +4.25 & 20 & R2" in latex and "& — & — & —" in latex
    assert "<i>1.0</i>" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_best_goes_by_direction_and_a_missing_cell_is_a_dash() -> None:
    columns = [Column("up", "up", 1, direction="higher"), Column("down", "down", 1, direction="lower")]
    table = Table(columns, [{"up": 1.0, "down": 1.0}, {"up": 2.0, "down": 2.0}, {"up": None}])
    assert "| **2.0** | 2.0 |" in to_markdown(table) and "| n/a | — |" in to_markdown(table)
    assert r"1.0 & \textbf{1.0} \\" in to_latex(table)


def test_the_same_runs_give_the_same_figures_and_a_report_replaces_nothing_but_a_report(
    report: Report, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    write_report(report, out)
    for path in (folder / "figures").iterdir():
        assert path.read_bytes() == (out / "figures" / path.name).read_bytes()
    (out / "figures" / "old.png").write_bytes(b"")
    write_report(report, out, style="paper")
    assert not (out / "figures" / "old.png").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ResultsError, match="holds other files and no report"):
        write_report(report, tmp_path / "mine")
    with pytest.raises(ResultsError, match="is a file"):
        write_report(report, tmp_path / "mine" / "thesis.tex")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_a_report_that_was_stopped_is_replaced(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("lopa_bench.results.reports.report.write", stopped)
        write_report(report, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == {"unfinished": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # letters that a font lacks are no news for the terminal
        assert write_report(report, tmp_path / "out")


def test_no_run_is_no_report() -> None:
    with pytest.raises(ResultsError, match="a report needs runs"):
        make_report([])
