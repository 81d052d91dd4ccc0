"""A report from stored runs alone: what the runs say, in one folder of pages, tables and figures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lopa_bench.errors import ResultsError
from lopa_bench.results.definitions import DEFINITIONS
from lopa_bench.results.jsonl import replace_file, sentence_on_os_error
from lopa_bench.results.reports import (
    figures_branches,
    figures_front,
    figures_rounds,
    figures_scaling,
    figures_speed,
)
from lopa_bench.results.reports import tables as report_tables
from lopa_bench.results.reports.answers import Answer, answers, fronts_of
from lopa_bench.results.reports.counted import counted_tables
from lopa_bench.results.reports.figures import STYLES, Drawing, Skipped, write
from lopa_bench.results.reports.report_table import ReportTable
from lopa_bench.results.reports.runs import Group, groups_of
from lopa_bench.results.reports.series import series_of
from lopa_bench.results.reports.sources import definitions, run_words
from lopa_bench.results.reports.sources import runs as runs_table
from lopa_bench.results.reports.tables import Quote
from lopa_bench.results.reports.traces import traced_of
from lopa_bench.results.schema import utc_now
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import Column, to_csv, to_json, to_latex

INDEX = "report.json"
TABLES, FIGURES = "tables", "figures"


@dataclass(frozen=True)
class Report:
    """All that a report says; `figures` were drawn, `skipped` could not be."""

    title: str
    made: datetime
    groups: tuple[Group, ...]
    answers: tuple[Answer, ...]
    tables: tuple[ReportTable, ...]
    runs: ReportTable
    definitions: ReportTable
    figures: tuple[Drawing, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]

    @property
    def all_tables(self) -> tuple[ReportTable, ...]:
        """The tables with those of runs and definitions."""
        return (*self.tables, self.runs, self.definitions)


def make_report(
    runs: Sequence[StoredRun],
    *,
    title: str = "",
    runs_dir: Path = Path("runs"),
    quotes: Sequence[Quote] = (),
    with_published: bool = False,
    count_as: str | None = None,
) -> Report:
    """Read the runs and say what they come to; nothing is written.

    Args:
        runs: of any tasks, decoders and models; what cannot be set side by side is shown apart.
        title: of the report.
        runs_dir: where the noise floor of this machine would be.
        quotes: published figures with what was measured beside them.
        with_published: set the LoPA paper's own figures beside the measured ones.
        count_as: a convention, or `all`, whose way of counting gets a table of its own.

    Raises:
        ResultsError: no run at all.
        ConfigError: no convention of that name.
    """
    if not runs:
        raise ResultsError("a report needs runs; make some with `lopa-bench run` or `lopa-bench sweep`")
    groups = groups_of(runs)
    series, without_base = series_of(groups, runs_dir)
    traced, without_traces = traced_of(groups)
    fronts = fronts_of(groups)
    scalings = figures_scaling.scalings_of(groups)
    no_traces = f"no run kept a trace ({', '.join(without_traces)}); give its command with --trace"
    drawn: list[Drawing | Skipped | None] = [
        figures_front.accuracy_tpf(groups, fronts),
        figures_branches.branches(series, with_published=with_published),
        figures_branches.branches_quoted([group.task for group in groups]) if with_published else None,
        figures_speed.throughput(groups),
        figures_speed.throughput_quoted() if with_published else None,
        figures_scaling.speed_up(groups, scalings),
        figures_rounds.tokens_per_round(traced, no_traces),
        figures_rounds.fill_order(traced, no_traces),
        figures_branches.branch_wins(traced, no_traces),
    ]
    tables = [report_tables.overview(groups), *map(report_tables.results, groups)]
    tables += [one for one in (report_tables.branches(series),) if one is not None]
    for group in groups:
        found = fronts[group.task]
        tables += [] if isinstance(found, str) else report_tables.front(group, found)
    tables += counted_tables(groups, count_as)
    tables += [*figures_scaling.scaling_tables(groups, scalings), *report_tables.from_traces(traced)]
    tables += [
        one for one in (report_tables.quoted(quotes, groups), report_tables.set_aside(groups)) if one is not None
    ]
    tables = [one for one in tables if one.table.rows]
    figures = tuple(one for one in drawn if isinstance(one, Drawing))
    notes = list(without_base)
    if traced and without_traces:
        notes.append(f"without a trace, and so in no figure of rounds: {', '.join(without_traces)}")
    said = answers(groups, series, traced, fronts)
    return Report(
        title or "Decoders of diffusion language models",
        utc_now(),
        tuple(groups),
        tuple(said),
        tuple(tables),
        runs_table(groups),
        definitions(_used(tables, figures, said)),
        figures,
        tuple(one for one in drawn if isinstance(one, Skipped)),
        tuple(notes),
    )


def _used(tables: Sequence[ReportTable], figures: Sequence[Drawing], said: Sequence[Answer]) -> set[str]:
    """Return the ids of the definitions that stand behind tables, figures and sentences."""
    ids = {metric for one in tables for metric in one.metrics.values()}
    ids |= {metric for one in figures for metric in one.metrics}
    return ids | {metric for one in said for sentence in one.sentences for metric in sentence.metrics}


def write_report(report: Report, out: Path, *, style: str = "screen") -> list[Path]:
    """Write a report's folder: pages, tables, figures, and an index of all that is in it.

    Raises:
        ResultsError: `out` holds something that is no report, or cannot be written.
    """
    from lopa_bench.results.reports.page import html_page, latex_page, markdown_page

    _make_room(out)
    written = [path for one in report.all_tables for path in _write_table(one, report, out / TABLES)]
    written += [path for one in report.figures for path in write(one, out / FIGURES, STYLES[style])]
    for name, text in (
        ("report.md", markdown_page(report)),
        ("report.tex", latex_page(report)),
        ("report.html", html_page(report, out / FIGURES, STYLES[style])),
        (INDEX, json.dumps(index_of(report, [path.relative_to(out) for path in written]), indent=2) + "\n"),
    ):
        with sentence_on_os_error("write", out / name):
            replace_file(out / name, text.encode("utf-8"))
        written.append(out / name)
    return written


def _make_room(out: Path) -> None:
    """Make the folder, or empty an earlier report out of it; what is no report is left alone."""
    if out.exists() and not out.is_dir():
        raise ResultsError(f"'{out}' is a file; --out names the folder for the report")
    if out.is_dir() and any(out.iterdir()):
        if not (out / INDEX).is_file():
            raise ResultsError(f"'{out}' holds other files and no report; name another folder with --out")
        with sentence_on_os_error("replace", out):
            for name in (TABLES, FIGURES):
                shutil.rmtree(out / name, ignore_errors=True)
    with sentence_on_os_error("make", out):
        (out / TABLES).mkdir(parents=True, exist_ok=True)
    replace_file(out / INDEX, b'{"unfinished": true}\n')  # a kill from here on leaves what the next report may replace


def _write_table(one: ReportTable, report: Report, folder: Path) -> list[Path]:
    """Write a table as LaTeX, CSV and JSON; CSV has the whole names of runs too."""
    named = [
        key
        for key in dict.fromkeys(key for row in one.table.rows for key in row)
        if key.endswith(("run_id", "run_ids"))
    ]
    known = {column.key for column in one.table.columns}
    whole = replace(one.table, columns=[*one.table.columns, *(Column(key, key) for key in named if key not in known)])
    texts = {".tex": to_latex(_with_sources(one, report)), ".csv": to_csv(whole), ".json": to_json(whole)}
    paths = []
    for suffix, text in texts.items():
        path = folder / f"{one.name}{suffix}"
        with sentence_on_os_error("write", path):
            path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def _with_sources(one: ReportTable, report: Report) -> Any:
    """Return the table with its sources as notes, which LaTeX gets as comments: definitions and runs."""
    metrics = [DEFINITIONS[name] for name in dict.fromkeys(one.metrics.values())]
    lines = [f"definition of {metric.id}, version {metric.version}: {metric.formula}" for metric in metrics]
    refs = {ref for row in one.table.rows for column in one.table.columns for ref in one.refs(row, column)}
    lines += [f"{row['run']}: {run_words(row)}" for row in report.runs.table.rows if row["run"] in refs]
    return replace(one.table, notes=(*one.table.notes, *lines)) if one.name != "runs" else one.table


def index_of(report: Report, files: Sequence[Path]) -> dict[str, Any]:
    """Return the report's contents as JSON values."""
    return {
        "title": report.title,
        "made": report.made.isoformat(),
        "answers": [
            {"question": one.question, "sentences": [vars(sentence) for sentence in one.sentences]}
            for one in report.answers
        ],
        "runs": [dict(row) for row in report.runs.table.rows],
        "definitions": [dict(row) for row in report.definitions.table.rows],
        "tables": [{"name": one.name, "title": one.heading} for one in report.all_tables],
        "figures": [
            {"name": one.name, "title": one.title, "caption": one.caption, "runs": one.refs, "metrics": one.metrics}
            for one in report.figures
        ],
        "skipped": [vars(one) for one in report.skipped],
        "notes": list(report.notes),
        "files": sorted(map(str, files)),
    }
