"""The record of a sweep, `sweeps/NAME.json` beside the runs: its cells, and which run holds the answers of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, Field, JsonValue, NonNegativeInt

from lopa_bench.errors import ResultsError, SchemaTooNew, nearest
from lopa_bench.results import jsonl
from lopa_bench.results.schema import Record, utc_now
from lopa_bench.results.store import StoredRun, load_run
from lopa_bench.results.upgrades import parse
from lopa_bench.results.writer import slug

FOLDER = "sweeps"
SWEEP_VERSION = 1

CellState = Literal["planned", "ran", "stored", "failed"]


class SweepCell(Record):
    """One cell: the values that make it this one, and the folder's name of its run once there is one.

    `asked` are the ids of the problems that the sweep asked; the run may hold more. `state` is "ran" when this sweep
    generated answers, "stored" when all of them were there before, "failed" with the reason in `error`.
    """

    values: dict[str, JsonValue]
    state: CellState = "planned"
    run: str | None = None
    asked: tuple[str, ...] = ()
    num_new: NonNegativeInt = 0
    error: str | None = None


class SweepRecord(Record):
    """A sweep: `source` is the text of its file or the command's words."""

    schema_version: int = SWEEP_VERSION
    name: str
    source: str = ""
    command: tuple[str, ...] = ()
    started: AwareDatetime = Field(default_factory=utc_now)
    cells: tuple[SweepCell, ...] = ()


def sweep_file(root: Path | str, name: str) -> Path:
    """Return where the sweep of that name is kept."""
    return Path(root) / FOLDER / f"{slug(name)}.json"


def sweep_names(root: Path | str) -> list[str]:
    """Return the names of all sweeps under `root`."""
    return sorted(file.stem for file in (Path(root) / FOLDER).glob("*.json"))


def write_sweep(root: Path | str, record: SweepRecord) -> Path:
    """Store a sweep in one step, in place of an earlier one of its name."""
    file = sweep_file(root, record.name)
    with jsonl.sentence_on_os_error("make", file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    jsonl.replace_file(file, record.model_dump_json(indent=2).encode() + b"\n")
    return file


def read_sweep(root: Path | str, name: str) -> SweepRecord:
    """Return the sweep of that name; ResultsError names the nearest when there is none."""
    file = sweep_file(root, name)
    if not file.is_file():
        known = sweep_names(root)
        more = f"; there are {', '.join(known)}" if known else "; make one with `lopa-bench sweep`"
        raise ResultsError(f"sweep '{name}' not found in '{Path(root) / FOLDER}'{nearest(slug(name), known)}{more}")
    with jsonl.sentence_on_os_error("read", file):
        content = file.read_bytes()
    try:
        raw = jsonl.parse_json(content)
    except ValueError as error:
        raise ResultsError(f"{file} is damaged: {error}") from error
    if isinstance(raw, dict) and isinstance(version := raw.get("schema_version"), int) and version > SWEEP_VERSION:
        raise SchemaTooNew(f"{file} was written by a later version of lopa-bench (schema {version}); update lopa-bench")
    return parse(SweepRecord, raw, str(file))


def named_runs(
    references: Sequence[str], root: Path | str, *, sweep: str | None = None, task: str | None = None
) -> list[StoredRun]:
    """Return the runs that a command was given: those named, then those of a sweep, of one task where one is named.

    Raises:
        ResultsError: a run or sweep that is not there, or no run of that task among them.
    """
    found = [load_run(reference, root) for reference in references]
    there = {run.record.id for run in found}
    found += [run for run in ([] if sweep is None else sweep_runs(root, sweep)) if run.record.id not in there]
    tasks = dict.fromkeys(run.record.task.name for run in found)
    if task is not None and task not in tasks:
        raise ResultsError(f"none of these runs is of task '{task}'{nearest(task, tasks)}; there is {', '.join(tasks)}")
    return [run for run in found if task in (None, run.record.task.name)]


def sweep_runs(root: Path | str, name: str) -> list[StoredRun]:
    """Return the runs of a sweep's cells, in their order, each once, with the answers to what the sweep asked alone.

    A stored run that a cell took over may hold more problems than the sweep's other cells.

    Raises:
        ResultsError: no such sweep, or a run of it was removed.
    """
    record = read_sweep(root, name)
    asked: dict[str, set[str]] = {}
    for cell in record.cells:
        if cell.run is not None:
            asked.setdefault(cell.run, set()).update(cell.asked)
    if not asked:
        raise ResultsError(f"sweep '{record.name}' has no runs yet; `lopa-bench sweep` makes them")
    return [_cut(load_run(folder, root), ids) for folder, ids in asked.items()]


def _cut(run: StoredRun, asked: set[str]) -> StoredRun:
    if not asked or all(one.id in asked for one in run.samples):
        return run
    return run.holding(one for one in run.samples if one.id in asked)
