"""The baseline file: what runs are held to, written only by an explicit acceptance that says who, when and why.

One JSON file holds any number of cells. Of each it keeps the run's record, its figures, and one line per problem
(score, ledgers, hashes of prompt and answer), so that a change of baseline can be read in a diff and so that a smaller
run can be checked over the problems it has in common.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import AwareDatetime, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from lopa_bench.errors import PrerequisiteError, ResultsError
from lopa_bench.results.comparison.bounds import Bounds
from lopa_bench.results.comparison.differences import INCIDENTAL, show
from lopa_bench.results.comparison.load import load_of, unhindered_speed
from lopa_bench.results.comparison.paired import Side
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.schema import Record, RunRecord, SampleRecord, Setting
from lopa_bench.results.sittings import mixture
from lopa_bench.results.store import StoredRun

BASELINE_VERSION = 2  # 2 added the loads
HASH_DIGITS = 16
ASKED_ORIGINS = ("flag", "file", "preset")
# Settings that say where and how much, not what: two runs that differ in them alone are runs of the same cell.
NOT_IN_CELL = (INCIDENTAL - {"preset", "convention"}) | {"task", "decoder", "model", "threads", "device", "trace"}
FIGURES = ("accuracy", "tpf", "tpf_branch", "amplification")


class Line(NamedTuple):
    """One problem of a baseline, one line of the file."""

    correct: float
    useful: int
    rounds: int
    model_calls: int
    branch_forwards: int
    positions: int
    prompt: str
    answer: str


class Cell(Record):
    """One accepted cell: the first run's record and samples, and the speeds of all runs that were accepted with it.

    `unhindered` are the speeds without the seconds in which the process had no processor, `loads` the shares of the
    machine that other work had, for the runs that say so.
    """

    run: RunRecord
    figures: dict[str, float | None]
    speeds: tuple[PositiveFloat, ...] = ()
    unhindered: tuple[PositiveFloat, ...] = ()
    loads: tuple[NonNegativeFloat, ...] = ()
    samples: dict[str, Line]


class Stage(Record):
    """Bounds that hold from a number of problems on, as a smoke test of a hundred before a full run."""

    min_samples: NonNegativeInt = 0
    bounds: Bounds = Bounds()


class Acceptance(Record):
    """Who accepted which cells, when and why."""

    when: AwareDatetime
    who: str
    why: str
    cells: tuple[str, ...]
    commit: str | None = None


class Baseline(Record):
    """The content of a baseline file; `definitions` are the versions of the metrics' definitions."""

    baseline_version: int = BASELINE_VERSION
    definitions: dict[str, int]
    history: tuple[Acceptance, ...] = ()
    stages: dict[str, Stage] = Field(default_factory=dict)
    cells: dict[str, Cell] = Field(default_factory=dict)

    @property
    def records(self) -> dict[str, RunRecord]:
        """The record of every cell, by its name."""
        return {name: cell.run for name, cell in self.cells.items()}


def current_definitions() -> dict[str, int]:
    """Return the versions of the definitions that a baseline rests on."""
    return {name: METRICS[name].version for name in (*FIGURES, "tps_e2e")}


def cell_name(record: RunRecord) -> str:
    """Return the name of a run's cell: task, decoder and model, and what else was asked for.

    Defaults are not in it: a default that has changed is the same cell with other figures, which is what a gate is for.
    """
    return " ".join([*_main_words(record), *(f"{name}={value}" for name, value in _asked(record).items())])


def _main_words(record: RunRecord) -> tuple[str, str, str]:
    return record.task.name, record.decoder.name, record.model.name


def _asked(record: RunRecord) -> dict[str, Any]:
    """Return what a run was asked that makes its cell, by flag, file or preset; a preset stands for its values."""
    settings = record.configuration
    asked = {
        name: one.value
        for name, one in sorted(settings.items())
        if one.origin in ASKED_ORIGINS and name not in NOT_IN_CELL and one.value is not None
    }
    if asked.get("preset"):
        asked = {name: value for name, value in asked.items() if settings[name].origin != "preset" or name == "preset"}
    return asked


def cell_for(cells: Mapping[str, RunRecord], record: RunRecord) -> str:
    """Return under which name of `cells` a run belongs, or its own name where it is of none.

    Saying a default in so many words is asking for the same: without a cell of its own name, a run is of the only one
    that has the same values for whatever either of them was asked.
    """
    name = cell_name(record)
    if name in cells:
        return name
    alike = [known for known, other in cells.items() if _is_alike(other, record) and not _apart(other, record)]
    return alike[0] if len(alike) == 1 else name


def nearest_cell(cells: Mapping[str, RunRecord], record: RunRecord) -> str:
    """Return words on the cell of the same task, decoder and model that differs least from a run; empty without any."""
    alike = {name: _apart(other, record) for name, other in cells.items() if _is_alike(other, record)}
    if not alike:
        return ""
    name = min(alike, key=lambda one: len(alike[one]))
    return f"the nearest is {name}" + (f" ({', '.join(alike[name])})" if alike[name] else "")


def _is_alike(one: RunRecord, other: RunRecord) -> bool:
    return _main_words(one) == _main_words(other)


def _apart(one: RunRecord, other: RunRecord) -> list[str]:
    """Return the settings that either was asked for and that are not the same in both."""
    values = [{name: setting.value for name, setting in record.configuration.items()} for record in (one, other)]
    names = sorted({*_asked(one), *_asked(other)})
    pairs = [(name, values[0].get(name), values[1].get(name)) for name in names]
    return [f"{name}: {show(before)} vs {show(after)}" for name, before, after in pairs if before != after]


def short_hash(text: str) -> str:
    """Return a sha256 in as many digits as a baseline keeps."""
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def line_of(sample: SampleRecord) -> Line:
    """Return what a baseline keeps of a sample; one without a score is not accepted."""
    assert sample.correct is not None
    work = sample.work
    return Line(
        sample.correct,
        sample.tokens.useful,
        work.rounds,
        work.model_calls,
        work.branch_forwards,
        work.positions,
        sample.prompt_hash[:HASH_DIGITS],
        short_hash(" ".join(map(str, sample.token_ids)) or sample.text),  # a server gives no ids
    )


def cell_of(sides: Sequence[Side]) -> Cell:
    """Return the cell of a run and its repeats: the first's samples, all their speeds but those that are mixtures."""
    first = sides[0]
    timed = [side for side in sides if mixture(side.record) is None]
    speeds = [METRICS["tps_e2e"].value(side.samples) for side in timed]
    unhindered = [unhindered_speed(side.samples) for side in timed]
    loads = [load_of(side.samples) for side in sides]
    settings = {name: Setting(value=one.value, origin=one.origin) for name, one in first.record.configuration.items()}
    kept = {name: one for name, one in settings.items() if name not in ("runs_dir", "data_dir")}
    lines = {sample.id: line_of(sample) for sample in first.samples}
    return Cell(
        run=first.record.model_copy(update={"command": (), "configuration": kept}),
        figures=figures_of(lines),
        speeds=tuple(speed for speed in speeds if speed),
        unhindered=tuple(speed for speed in unhindered if speed),
        loads=tuple(load for load in loads if load is not None),
        samples=lines,
    )


def figures_of(lines: Mapping[str, Line]) -> dict[str, float | None]:
    """Return the figures that follow from a baseline's lines, None where undefined."""

    def ratio(above: str, below: str) -> float | None:
        total = sum(getattr(line, below) for line in lines.values())
        return sum(getattr(line, above) for line in lines.values()) / total if total else None

    return {
        "accuracy": sum(line.correct for line in lines.values()) / len(lines) if lines else None,
        "tpf": ratio("useful", "rounds"),
        "tpf_branch": ratio("useful", "branch_forwards"),
        "amplification": ratio("positions", "useful") or None,
    }


def accept(
    baseline: Baseline | None, runs: Sequence[StoredRun], acceptance: Acceptance, stages: Mapping[str, Stage]
) -> Baseline:
    """Return `baseline` with the cells of `runs` put in, or a new one.

    Runs of the same cell are its repeats. Cells of the baseline that no run is of stay as they are.

    Raises:
        PrerequisiteError: a run that is given twice, is unfinished, or has errors, no samples or no scores.
        ResultsError: the baseline's figures follow other definitions than this version's.
    """
    definitions = current_definitions()
    if baseline is not None and baseline.definitions != definitions:
        raise ResultsError("the baseline's figures have other definitions than this version's; write a new file")
    sides: dict[str, list[Side]] = {}
    require_once(runs)
    known = {} if baseline is None else baseline.records
    for run in runs:
        require_acceptable(run)
        name = cell_for({**known, **{name: group[0].record for name, group in sides.items()}}, run.record)
        sides.setdefault(name, []).append(Side(run.record, run.samples))
    new = {name: cell_of(group) for name, group in sides.items()}
    old = baseline or Baseline(definitions=definitions)
    return old.model_copy(
        update={
            "baseline_version": BASELINE_VERSION,
            "cells": dict(sorted({**old.cells, **new}.items())),
            "stages": {**old.stages, **stages},
            "history": (*old.history, acceptance.model_copy(update={"cells": tuple(new)})),
        }
    )


def require_once(runs: Sequence[StoredRun]) -> None:
    """Refuse a run that is given twice: as its own repeat it would show no spread at all.

    Raises:
        PrerequisiteError: naming the first such run.
    """
    counts = Counter(run.path.resolve() for run in runs)
    for path, count in counts.items():
        if count > 1:
            raise PrerequisiteError(f"run {path.name} is given {count} times; repeats of a cell are runs of their own")


def require_acceptable(run: StoredRun) -> None:
    """Refuse a run that must not become a baseline.

    Raises:
        PrerequisiteError: with the reason.
    """
    reasons = {
        f"its status is {run.status}": run.status != "finished",
        "it has no samples": not run.samples,
        f"it has {len(run.samples)} of {run.record.task.num_documents} samples": (
            len(run.samples) < run.record.task.num_documents
        ),
        "the scorer failed on samples": any(sample.has_scorer_error for sample in run.samples),
        "samples ended in errors": any(sample.status == "error" for sample in run.samples),
        "samples have no score": any(sample.correct is None for sample in run.samples),
    }
    for reason, holds in reasons.items():
        if holds:
            raise PrerequisiteError(f"run {run.record.id} cannot be accepted: {reason}; finish or repeat it first")
