"""Measuring the noise floor: a cell run again as it is, and in settings that ought not to matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.harness.assignments import parse_assignments
from lopa_bench.harness.repeating import run_again, threads_kept
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.comparison.differences import differences, semantic
from lopa_bench.results.comparison.noise import (
    FEWEST_REPEATS,
    NOISE_FOLDER,
    Agreement,
    NoiseCell,
    agreement,
    cell_key,
    repeat_of,
    store_noise,
)
from lopa_bench.results.comparison.paired import Side, pairs_of
from lopa_bench.results.store import StoredRun

# Settings that ought not to change an answer.
VARIABLE = ("dtype", "threads", "batch_size", "device")
SAME = "the same again"


@dataclass(frozen=True)
class Measured:
    """A cell's noise floor, the file it was stored in, and a stored run's answers beside those of its repeats."""

    cell: NoiseCell
    path: Path
    stored: Agreement | None = None


def parse_variants(words: Sequence[str]) -> list[dict[str, Any]]:
    """Read `--vary` words such as dtype=bfloat16; each is a run of its own.

    Raises:
        ConfigError: a setting that may change answers, or one that this version has not.
    """
    return [_variant(word) for word in words]


def _variant(word: str) -> dict[str, Any]:
    [(key, value)] = parse_assignments([word], "--vary").items()
    name = key.replace("-", "_")
    if name not in VARIABLE:
        known = ", ".join(one.replace("_", "-") for one in VARIABLE)
        raise ConfigError(f"--vary {key} is no setting that ought not to matter{nearest(name, VARIABLE)}: {known}")
    if name not in {one.name for one in fields(RunSpec)}:
        raise ConfigError(f"--vary {key}: this version has no such setting")
    if name in ("threads", "batch_size") and not (isinstance(value, int) and value >= 1):
        raise ConfigError(f"--vary {key}={value} is no number of 1 or more")
    return {name: value}


def measure_noise(
    spec: RunSpec,
    runs_dir: Path,
    *,
    repeats: int = FEWEST_REPEATS,
    variants: Sequence[Mapping[str, Any]] = (),
    stored: StoredRun | None = None,
    told: Callable[[str], None] = lambda line: None,
) -> Measured:
    """Run a cell `repeats` times and once per variant, and store what that came to as this machine's noise floor.

    Args:
        spec: the cell.
        runs_dir: the folder of runs; the repeats go into a folder of their own in it.
        repeats: fresh runs of the cell as it is; the answers of the first are what the others' are set beside.
        variants: fields of `spec` to change, one run each.
        stored: a run of the same cell whose answers are set beside the first repeat's too.
        told: hears of every finished run.
    """
    if repeats < 2:
        raise ConfigError(
            f"--repeats {repeats} shows no noise; it must be at least 2 ({FEWEST_REPEATS} to gate speeds)"
        )
    folder = runs_dir / NOISE_FOLDER / "runs"
    plans: list[Mapping[str, Any]] = [{}] * repeats
    with threads_kept():
        for change in ({}, *variants):  # what cannot be run is told before anything is
            run(replace(spec, **change, runs_dir=folder, dry_run=True))
    runs: list[tuple[str, StoredRun]] = []
    for index, change in enumerate([*plans, *variants], start=1):
        words = ", ".join(f"{name} = {value}" for name, value in change.items()) or SAME
        told(f"{index} of {repeats + len(variants)}: {words}")
        runs.append((words, run_again(spec, folder, **change)))
    reference = runs[0][1]
    found = [_beside(reference, one, words) for words, one in runs]
    cell = NoiseCell(
        cell=cell_key(reference.record),
        environment=reference.record.environment,
        samples=len(reference.samples),
        repeats=tuple(found[:repeats]),
        variants=tuple(found[repeats:]),
    )
    path = store_noise(runs_dir, cell, cell.cell)
    if stored and cell_key(stored.record) != cell.cell:
        told(
            f"the floor does not count for run {stored.record.number}: it has other problems, a trace, or another place"
        )
    return Measured(cell, path, _beside(reference, stored, f"run {stored.record.number}") if stored else None)


def _beside(reference: StoredRun, other: StoredRun, setting: str) -> Agreement:
    """Set a run's answers beside the reference's."""
    pairs = pairs_of(Side(reference.record, reference.samples), Side(other.record, other.samples))
    found = agreement(repeat_of(other.record, other.samples, setting), pairs)
    changed = semantic(differences(reference.record, other.record))
    if changed:
        raise ConfigError(f"run {other.record.id} is another cell: {'; '.join(map(str, changed))}")
    return found
