"""The tables that a report ends with, to which its numbers and headings link: its runs, and its definitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lopa_bench.results.comparison.differences import device_words
from lopa_bench.results.definitions import DEFINITIONS
from lopa_bench.results.reports.report_table import ReportTable
from lopa_bench.results.reports.runs import Entry, Group
from lopa_bench.results.tables import Column, Row, Table


def definitions(used: Collection[str]) -> ReportTable:
    """Return the definition of every figure that the report shows, by their ids."""
    rows: list[Row] = [
        {"id": one.id, "version": one.version, "title": one.title, "unit": one.unit, "better": one.direction,
         "formula": one.formula} for one in DEFINITIONS.values() if one.id in used
    ]  # fmt: skip
    titles = {"id": "id", "version": "version", "title": "called", "unit": "unit", "better": "better"}
    columns = [Column(key, title) for key, title in {**titles, "formula": "formula"}.items()]
    return ReportTable("definitions", "Definitions", Table(columns, rows, "definitions", ()))


def runs(groups: Sequence[Group]) -> ReportTable:
    """Return every run with where it comes from: program, weights, machine, status."""
    rows = [_run_row(one) for group in groups for one in (*group.main, *group.aside)]
    titles = {
        "run": "run", "run_id": "name", "status": "status", "created": "made", "commit": "commit",
        "version": "version", "code": "code", "model": "model", "weights": "weights", "device": "device",
        "threads": "threads", "torch": "torch", "seed": "seed", "fingerprint": "fingerprint",
    }  # fmt: skip
    notes = (
        "commit and version: of this program, as it made the run; `changed`: files of that commit had been edited. "
        "code: the beginning of a sha256 of its sources that decide answers.",
    )
    table = Table([Column(key, title) for key, title in titles.items()], rows, "runs", notes)
    return ReportTable("runs", "Runs", table)


def _run_row(entry: Entry) -> Row:
    record, place = entry.record, entry.record.environment
    commit = (place.git_commit or "")[:10] or None
    return {
        "run": entry.ref, "run_id": entry.id, "status": entry.run.status,
        "created": record.created.strftime("%Y-%m-%d %H:%M"),
        "commit": f"{commit}, changed" if commit and place.git_dirty else commit, "model": record.model.name,
        "weights": record.model.hash.rpartition(":")[2][:12] or None,
        "device": f"{device_words(place)}, {place.dtype}", "threads": place.num_threads,
        "torch": place.packages.get("torch"), "seed": record.seed, "fingerprint": record.fingerprint[:12] or None,
        "version": place.packages.get("lopa-bench"), "code": place.code[:12] or None,
    }  # fmt: skip


def run_words(row: Row) -> str:
    """Say in a few words which run a row of `runs` is and what made it."""
    made_by = f"commit {row['commit'] or 'unknown'}"
    if not row["commit"]:
        made_by += "".join(f", {name} {row[name]}" for name in ("version", "code") if row[name])
    return f"{row['run_id']}, {made_by}"
