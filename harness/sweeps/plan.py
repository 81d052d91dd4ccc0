"""What a sweep will do: every cell checked, what is stored of it already, and how long the rest may take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lopa_bench.errors import ConfigError, LopaBenchError, ModelError
from lopa_bench.harness.job import Job, prepare
from lopa_bench.harness.runner import missing_from, record_of
from lopa_bench.harness.shared_work import once, shared_work
from lopa_bench.harness.speed_conditions import best_of, conditions_asked
from lopa_bench.harness.sweeps.grid import Cell, shown
from lopa_bench.harness.sweeps.speed_remarks import matching_in_speed, remark_on, speed_remarks
from lopa_bench.harness.task_source import scoring_of
from lopa_bench.results.rescoring import judged_alike
from lopa_bench.results.schema import RunRecord, Setting, Summary
from lopa_bench.results.store import StoredRun, list_runs, resumable_runs
from lopa_bench.results.tables import Column, Row, Table

if TYPE_CHECKING:
    from lopa_bench.harness.plan import Plan

ERRORS_TOLD = 3


@dataclass(frozen=True)
class Pace:
    """What one answer takes: seconds of generation and, where they are known, rounds."""

    seconds: float
    rounds: float | None


@dataclass(frozen=True)
class PlannedCell:
    """A cell that can run.

    `asked` are the ids of its problems, `num_missing` of them without an answer in `run`, the stored run of the same
    settings. `record` is what its run would begin with, None where the weights are not on this machine yet.
    `is_done` tells that `run` has answers to these problems and no others, all of them judged as they would be now.
    `remark` says that its speeds are not of what was asked: of another machine, number of threads, ... .
    """

    cell: Cell
    plan: Plan
    asked: tuple[str, ...]
    num_missing: int
    run: StoredRun | None = None
    record: RunRecord | None = None
    is_done: bool = False
    remark: str = ""

    @property
    def state(self) -> str:
        """Return "finished", "12 of 20 stored" or "new"."""
        if self.run is None or self.num_missing == len(self.asked):
            return "new"
        return "finished" if not self.num_missing else f"{len(self.asked) - self.num_missing} of {len(self.asked)}"

    @cached_property
    def likeness(self) -> tuple[str, ...] | None:
        """What its pace is looked up by."""
        return None if self.record is None else likeness_of(self.record)


class Paces:
    """How fast stored runs went, by what they ran, for estimates."""

    def __init__(self, runs: Iterable[StoredRun] = ()) -> None:
        self._found: dict[tuple[str, ...], Pace] = {}
        for run in runs:
            if run.summary is not None:
                self.add(run.record, run.summary)

    def add(self, record: RunRecord, summary: Summary) -> None:
        """Take a run into account; the last one counts most."""
        seconds, rounds = (summary.metrics[name].value for name in ("latency_s", "rounds_per_answer"))
        if seconds is not None:
            self.learn(record, Pace(seconds, rounds))

    def learn(self, record: RunRecord, pace: Pace) -> None:
        """Take the pace of a run into account."""
        self._found |= dict.fromkeys(_steps(likeness_of(record)), pace)

    def expected(self, record: RunRecord | None) -> Pace | None:
        """Return the pace of the most similar run on this device, the newest of several; None without a similar one.

        Similar means the same weights and device, and: the same decoder, options and task, else decoder and task, else
        decoder and options.
        """
        return None if record is None else self._of(likeness_of(record))

    def of(self, planned: PlannedCell) -> Pace | None:
        """Return the pace to expect of a cell."""
        return None if planned.likeness is None else self._of(planned.likeness)

    def _of(self, likeness: tuple[str, ...]) -> Pace | None:
        return next((self._found[step] for step in _steps(likeness) if step in self._found), None)


def likeness_of(record: RunRecord) -> tuple[str, ...]:
    """Return weights, place and decoder in one, then options, then task."""
    place = record.environment
    same = (record.model.hash, place.device_name, place.dtype, place.num_threads, record.decoder.name)
    return repr(same), json.dumps(record.decoder.options, sort_keys=True), record.task.name


def _steps(likeness: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the kinds of likeness, the closest first."""
    same, options, task = likeness
    return [likeness, (same, "any options", task), (same, options, "any task")]


def plan_cells(
    cells: Sequence[Cell],
    *,
    consent_needed: bool = True,
    listener: Callable[[int, int], None] = lambda done, total: None,
) -> list[PlannedCell]:
    """Check every cell and look up what is stored of it; no weights are read but for their hashes.

    Args:
        cells: of one sweep.
        consent_needed: refuse cells that would run programs without the user's consent; not for a dry run.
        listener: is told how many cells are checked, of how many.

    Raises:
        ConfigError: cells that cannot run; the first few are named.
    """
    import torch

    planned: list[PlannedCell] = []
    faults: list[str] = []
    threads = torch.get_num_threads()
    cells = matching_in_speed(cells)
    with shared_work():
        for number, cell in enumerate(cells, start=1):
            listener(number - 1, len(cells))
            torch.set_num_threads(threads)  # a cell before may have asked for its own number
            try:
                if cell.error is not None:
                    raise ConfigError(cell.error)
                planned.append(_planned(cell, consent_needed))
            except LopaBenchError as error:
                faults.append(f"{cell.where}cell {number} ({cell.words()}): {error}")
    torch.set_num_threads(threads)
    if faults:
        told = "; ".join(faults[:ERRORS_TOLD])
        more = f"; and {len(faults) - ERRORS_TOLD} more" if len(faults) > ERRORS_TOLD else ""
        raise ConfigError(f"{len(faults)} of {len(cells)} cells cannot run, so none was started: {told}{more}")
    return planned


def _planned(cell: Cell, consent_needed: bool) -> PlannedCell:
    """Plan one cell."""
    job = prepare(replace(cell.spec, dry_run=True), cell.settings)
    if consent_needed:
        require_consent_of(job)
    record = _record(job)
    plan = PlannedCell(cell, job.plan, job.asked, len(job.documents), None, record)
    if record is None:
        return plan
    root = Path(str(job.settings["runs_dir"]))
    stored = once(("stored", root), lambda: resumable_runs(root)).get(record.fingerprint, ())
    asked = conditions_asked(record, job.spread.shape)
    run = best_of(stored, asked, cell.spec.must_match)
    if run is None:
        return plan
    plan = replace(plan, run=run, remark=remark_on(run, asked))
    if run.record.status == "finished" and run.record.task.prompts_hash == record.task.prompts_hash:
        is_done = judged_alike(run.record.scoring, scoring_of(job.task))
        return replace(plan, num_missing=0, is_done=is_done)  # its samples need not be read
    return replace(plan, num_missing=_num_missing(run, job))


def _num_missing(run: StoredRun, job: Job) -> int:
    samples = StoredRun(run.path, run.record, run.version).samples  # of a copy, so that they are not kept
    return len(missing_from(samples, job.documents))


def require_consent_of(job: Job) -> None:
    """Refuse a job that would run programs without the user's consent."""
    from lopa_bench.harness.code.consent import require_consent
    from lopa_bench.harness.code.task import CodeTask

    if isinstance(job.task, CodeTask):
        require_consent(job.task.name, bool(job.settings["allow_code_execution"]))


def _record(job: Job) -> RunRecord | None:
    """Return the record that a job's run would begin with; None where that would take a download."""
    from lopa_bench.harness.model_source import ModelSource

    if not isinstance(job.source, ModelSource):
        return record_of(job, ())  # a server's
    run = {**job.settings.run, "offline": Setting(value=True)}
    here = ModelSource(replace(job.settings, run=run))
    try:
        return record_of(replace(job, source=here), ())
    except ModelError:
        return None


def varying(cells: Sequence[Cell]) -> list[str]:
    """Return the names of values that are not the same in all cells, task and decoder left out."""
    names = dict.fromkeys(name for cell in cells for name in cell.values if name not in ("task", "decoder"))
    missing = object()
    return [name for name in names if len({shown(cell.values.get(name, missing)) for cell in cells}) > 1]


def label_row(number: int, cell: Cell, names: Sequence[str]) -> dict[str, str | int | float | bool | None]:
    """Return what tells a cell from the others, for a table."""
    row: dict[str, str | int | float | bool | None] = {"cell": number}
    row |= {name: str(cell.value(name)) for name in ("task", "decoder")}
    for name in names:
        if name in cell.values:
            value = cell.values[name]
            row[name] = value if isinstance(value, int | float | str) else shown(value)
    return row


def label_columns(names: Sequence[str]) -> list[Column]:
    """Return the columns of `label_row`."""
    return [Column(name, name) for name in ("cell", "task", "decoder", *names)]


def plan_table(planned: Sequence[PlannedCell], paces: Paces) -> Table:
    """Return the cells with what is stored of them, expected and most rounds, and expected time."""
    names = varying([one.cell for one in planned])
    rows: list[Row] = []
    for number, one in enumerate(planned, start=1):
        pace = paces.of(one)
        seconds = pace.seconds * one.num_missing if pace else None
        rows.append(
            {
                **label_row(number, one.cell, names),
                "state": one.state,
                "missing": one.num_missing,
                "rounds": round(pace.rounds * one.num_missing) if pace and pace.rounds is not None else None,
                "most_rounds": None if one.plan.is_remote else one.plan.rounds[1] * one.num_missing,
                "seconds": 0.0 if not one.num_missing else seconds,
                "time": "-" if not one.num_missing else "unknown" if seconds is None else duration(seconds),
            }
        )
    columns = [
        *label_columns(names),
        Column("state", "state"),
        Column("missing", "answers to make"),
        Column("rounds", "rounds, about"),
        Column("most_rounds", "at most"),
        Column("time", "time, about"),
    ]
    return Table(columns, rows, notes=(total_line(planned, paces), *speed_remarks(planned)))


def total_line(planned: Sequence[PlannedCell], paces: Paces) -> str:
    """Return how many cells there are and what they may take together."""
    states = [one.state for one in planned]
    counts = {
        "finished": states.count("finished"),
        "begun": sum(" of " in state for state in states),
        "new": states.count("new"),
    }
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    known, num_unknown = remaining(planned, paces)
    line = f"{len(planned)} cells: {words}"
    if not any(one.num_missing for one in planned):
        return f"{line}; nothing to generate"
    if known:
        line += f"; about {duration(known)} of generation"
    if num_unknown:
        line += (
            f"; {num_unknown} with a time not known before their first answers: no like run on this device is stored"
        )
    return line


def remaining(planned: Sequence[PlannedCell], paces: Paces) -> tuple[float, int]:
    """Return the seconds that the missing answers may take, and of how many cells that is not known."""
    waiting = [one for one in planned if one.num_missing]
    found = [(one.num_missing, paces.of(one)) for one in waiting]
    seconds = sum(pace.seconds * number for number, pace in found if pace is not None)
    return seconds, sum(pace is None for _, pace in found)


def stored_paces(runs_dir: Path) -> Paces:
    """Return the paces of all runs stored in a folder."""
    return Paces(list_runs(runs_dir))


def duration(seconds: float) -> str:
    """Return seconds, minutes or hours, in round figures."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
