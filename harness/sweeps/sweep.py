"""Running a sweep: the cells that are not finished, one after another, whatever becomes of each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Protocol

from lopa_bench.errors import InUse, LopaBenchError
from lopa_bench.harness.distributed.launched_run import run_on_its_devices
from lopa_bench.harness.loaded_models import models_kept
from lopa_bench.harness.progress import Reporter, Silent
from lopa_bench.harness.shared_work import shared_work
from lopa_bench.harness.sweeps.plan import (
    Paces,
    PlannedCell,
    label_columns,
    label_row,
    remaining,
    stored_paces,
    varying,
)
from lopa_bench.harness.sweeps.speed_remarks import speed_remarks
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.rows import metric_column, summary_row
from lopa_bench.results.schema import RunRecord, SampleRecord, Summary
from lopa_bench.results.store import StoredRun
from lopa_bench.results.summary import summarise
from lopa_bench.results.sweeps import SweepCell, SweepRecord, write_sweep
from lopa_bench.results.tables import Column, Row, Table

FIGURES = ("tpf", "tpf_branch", "tps_e2e", "latency_s")
PAUSE_S = 1.0  # between two looks at a run that another process is making

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: its run and what the problems asked come to, or why it failed."""

    planned: PlannedCell
    run: StoredRun | None = None
    summary: Summary | None = None
    num_new: int = 0
    error: str | None = None

    def cell(self) -> SweepCell:
        """Return the cell as the sweep's record holds it."""
        return SweepCell(
            values={**self.planned.cell.values},
            state="failed" if self.error is not None else "ran" if self.num_new else "stored",
            run=None if self.run is None else self.run.path.name,
            asked=self.planned.asked,
            num_new=self.num_new,
            error=self.error,
        )


class Listener(Protocol):
    """Hears of a sweep's course."""

    def cell_begins(self, number: int, total: int, planned: PlannedCell, left_s: float, num_unknown: int) -> Reporter:
        """A cell begins; `left_s` seconds may be left with it, those of `num_unknown` cells not counted."""
        ...

    def cell_held(self, number: int, total: int, reason: str) -> None:
        """Another process is making a cell's run; its turn comes again after the other cells."""
        ...

    def cell_ended(self, number: int, total: int, outcome: Outcome) -> None:
        """A cell has ended, well or not."""
        ...


class SilentListener:
    """Listens to nothing."""

    def cell_begins(self, number: int, total: int, planned: PlannedCell, left_s: float, num_unknown: int) -> Reporter:
        """Ignore it."""
        return Silent()

    def cell_held(self, number: int, total: int, reason: str) -> None:
        """Ignore it."""

    def cell_ended(self, number: int, total: int, outcome: Outcome) -> None:
        """Ignore it."""


def run_sweep(
    planned: Sequence[PlannedCell],
    runs_dir: Path,
    *,
    name: str,
    source: str = "",
    command: tuple[str, ...] = (),
    listener: Listener | None = None,
    paces: Paces | None = None,
) -> list[Outcome]:
    """Run the cells in turn; one that fails is noted and the next begins. The sweep's record follows every cell run.

    A cell whose run another process is making is left to it: its turn comes again after the others, and what that
    process has stored is not made again. So several processes may run one sweep together.

    Raises:
        KeyboardInterrupt: the user stopped it; what is done is stored, the same sweep goes on from there.
    """
    import torch

    threads = torch.get_num_threads()
    record = SweepRecord(name=name, source=source, command=command, cells=tuple(map(_planned_cell, planned)))
    write_sweep(runs_dir, record)
    course = _Course(planned, runs_dir, record, listener or SilentListener(), paces or stored_paces(runs_dir))
    try:
        with models_kept(), shared_work():
            held = [index for index in range(len(planned)) if not course.ended(index)]
            for index in held:
                while not course.ended(index):
                    sleep(PAUSE_S)
    finally:
        torch.set_num_threads(threads)
    return [course.outcomes[index] for index in range(len(planned))]


class _Course:
    """How far a sweep is: the outcome of every cell that has ended, by its place, and the record that follows them."""

    def __init__(
        self, planned: Sequence[PlannedCell], runs_dir: Path, record: SweepRecord, listener: Listener, paces: Paces
    ) -> None:
        import torch

        self.outcomes: dict[int, Outcome] = {}
        self._planned, self._runs_dir, self._record, self._paces = planned, runs_dir, record, paces
        self._listener = listener
        self._reporters: dict[int, Reporter] = {}
        self._threads = torch.get_num_threads()

    def ended(self, index: int) -> bool:
        """Run a cell and note what became of it; False where another process holds its run."""
        import torch

        torch.set_num_threads(self._threads)  # a cell before may have asked for its own number
        one, place = self._planned[index], (index + 1, len(self._planned))
        is_first_try = index not in self._reporters
        if is_first_try:
            waiting = [cell for other, cell in enumerate(self._planned) if other not in self.outcomes]
            self._reporters[index] = self._listener.cell_begins(*place, one, *remaining(waiting, self._paces))
        try:
            outcome = run_cell(one, self._reporters[index], f"cell {index + 1} of {len(self._planned)}")
        except InUse as error:
            if is_first_try:
                self._listener.cell_held(*place, str(error))
            return False
        self.outcomes[index] = outcome
        self._write(index, outcome.cell())
        self._listener.cell_ended(*place, outcome)
        _learn(self._paces, outcome)
        return True

    def _write(self, index: int, cell: SweepCell) -> None:
        cells = [*self._record.cells]
        if cells[index] != cell:
            cells[index] = cell
            self._record = self._record.model_copy(update={"cells": tuple(cells)})
            write_sweep(self._runs_dir, self._record)


def _planned_cell(planned: PlannedCell) -> SweepCell:
    """Return the cell as the record holds it at first: one that is done already is there with its run."""
    done = planned.run if planned.is_done else None
    return SweepCell(
        values={**planned.cell.values},
        asked=planned.asked,
        state="planned" if done is None else "stored",
        run=None if done is None else done.path.name,
    )


def run_cell(planned: PlannedCell, reporter: Reporter, label: str = "") -> Outcome:
    """Run one cell and sum up the problems that it asked; any error but an interruption becomes its outcome.

    Of a cell that is done the stored summary is taken as it is. A cell on several devices is run by processes of its
    own, which show its progress under `label`.

    Raises:
        InUse: another process is making the run.
    """
    if planned.is_done and planned.run is not None and planned.run.summary is not None:
        return Outcome(planned, planned.run, planned.run.summary)
    try:
        result = run_on_its_devices(planned.cell.spec, reporter, label)
    except InUse:
        raise
    except LopaBenchError as error:
        return Outcome(planned, error=str(error))
    except Exception as error:  # a fault of the program must not cost the other cells
        logger.exception("cell (%s) failed", planned.cell.words())
        return Outcome(planned, error=f"{type(error).__name__}: {error}")
    assert result.run is not None  # only a dry run has none
    summary = summary_of_asked(result.run.record, result.run.samples, result.asked)
    why = summary.blocked or (None if summary.n else "no answer went well")
    unread = StoredRun(result.run.path, result.run.record, result.run.version)  # or all samples of all cells would stay
    return Outcome(planned, unread, summary, result.num_new, why)


def summary_of_asked(record: RunRecord, samples: Sequence[SampleRecord], asked: Sequence[str]) -> Summary:
    """Sum up the problems asked for: a stored run may hold more, and all cells must be of the same ones."""
    chosen = [sample for sample in samples if sample.id in set(asked)]
    partial = len(asked) < record.task.num_available
    task = record.task.model_copy(update={"num_documents": len(asked), "partial": partial})
    return summarise(record.model_copy(update={"task": task}), chosen)


def _learn(paces: Paces, outcome: Outcome) -> None:
    if outcome.run is not None and outcome.summary is not None:
        paces.add(outcome.run.record, outcome.summary)


def has_failed(outcomes: Sequence[Outcome]) -> bool:
    """Tell whether any cell failed."""
    return any(outcome.error is not None for outcome in outcomes)


def result_table(outcomes: Sequence[Outcome]) -> Table:
    """Return one row per cell: what tells it apart, its figures, its run; failed ones say so and why below."""
    names = varying([outcome.planned.cell for outcome in outcomes])
    rows: list[Row] = []
    notes: list[str] = []
    for number, outcome in enumerate(outcomes, start=1):
        record = outcome.cell()
        row: dict[str, str | int | float | bool | None] = {
            **label_row(number, outcome.planned.cell, names),
            "state": record.state,
            "error": outcome.error,
            "run": record.run or "-",
        }
        if outcome.summary is not None:
            row = {**summary_row(outcome.summary), **row}
        rows.append(row)
        if outcome.error is not None:
            notes.append(f"cell {number} failed ({outcome.planned.cell.words()}): {outcome.error}")
    figures = [metric_column("accuracy", interval=True), *(metric_column(name) for name in FIGURES)]
    if len({outcome.planned.cell.value("task") for outcome in outcomes}) > 1:
        figures = [replace(column, direction="neither") for column in figures]  # no best over several tasks
    columns = [*label_columns(names), Column("state", "state"), Column("n", "n"), *figures, Column("run", "run")]
    notes += speed_remarks([outcome.planned for outcome in outcomes])
    notes.append(f"accuracy with its 95 % interval; TPF: {METRICS['tpf'].formula}")
    return Table(columns, rows, notes=tuple(notes))
