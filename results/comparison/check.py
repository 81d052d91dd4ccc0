"""Runs against a baseline: all gates of all cells, and the one outcome they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lopa_bench.results.comparison.accuracy_gate import judged_together
from lopa_bench.results.comparison.baseline import Baseline, cell_for
from lopa_bench.results.comparison.bounds import Bounds
from lopa_bench.results.comparison.gate_results import GateResult, Outcome
from lopa_bench.results.comparison.gates import bounds_for, check_run
from lopa_bench.results.comparison.noise import NoiseCell
from lopa_bench.results.comparison.speed_gate import check_speed, is_to_be_repeated
from lopa_bench.results.schema import RunRecord
from lopa_bench.results.store import StoredRun

EXIT_CODES = {Outcome.REGRESSED: 1, Outcome.NOT_COMPARABLE: 3}

FindNoise = Callable[[RunRecord], NoiseCell | None]
Remeasure = Callable[[StoredRun], Sequence[StoredRun]]


@dataclass(frozen=True)
class Verdict:
    """All results, and lines on what was not looked at."""

    results: tuple[GateResult, ...]
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst: regressed before not comparable before ok."""
        found = {one.outcome for one in self.results}
        return next((one for one in EXIT_CODES if one in found), Outcome.OK)

    @property
    def exit_code(self) -> int:
        """0 ok, 1 regressed, 3 not comparable."""
        return EXIT_CODES.get(self.outcome, 0)

    def count(self, outcome: Outcome) -> int:
        """Return how many gates came to this."""
        return sum(one.outcome == outcome for one in self.results)


def not_compared(gate: str, reason: str) -> Verdict:
    """Return the verdict on runs none of which could be looked at."""
    return Verdict((GateResult("all", "-", gate, Outcome.NOT_COMPARABLE, reason=reason),))


@dataclass(frozen=True)
class CheckOptions:
    """How to check.

    `bounds` are the command line's, `stage` names the baseline's whose bounds fill the gaps. `all_cells` makes a cell
    of the baseline without a run a failure. `find_noise` looks up the machine's noise floor. `remeasure` runs a cell
    anew, some times; a slow one is judged by that instead before it fails. `looked_at` says which runs there were.
    """

    bounds: Bounds = field(default_factory=Bounds)
    stage: str | None = None
    all_cells: bool = False
    find_noise: FindNoise = lambda record: None
    remeasure: Remeasure | None = None
    looked_at: str = "is there"


def check(
    baseline: Baseline,
    runs: Sequence[StoredRun],
    options: CheckOptions = CheckOptions(),
    unreadable: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:
    """Return what the gates say of `runs`; runs of one cell are its repeats, one that is given twice counts once.

    `unreadable` are runs that cannot be judged, by name with the reason: each is a failure.
    """
    by_cell: dict[str, list[StoredRun]] = {}
    records = baseline.records
    for run in {run.path.resolve(): run for run in runs}.values():
        by_cell.setdefault(cell_for(records, run.record), []).append(run)
    results = [
        GateResult("unknown", name, "run", Outcome.REGRESSED, reason=f"it cannot be read: {reason}")
        for name, reason in unreadable.items()
    ]
    for name, group in by_cell.items():
        results += _check_cell(baseline, name, group, options)
    absent = [name for name in baseline.cells if name not in by_cell]
    if options.all_cells:
        results += [GateResult(name, "-", "run", Outcome.REGRESSED, reason="no run of this cell") for name in absent]
        absent = []
    notes = (f"not checked, as no run of them {options.looked_at}: {', '.join(absent)}",) if absent else ()
    return Verdict(tuple(judged_together(results)), notes)


def _check_cell(baseline: Baseline, name: str, runs: Sequence[StoredRun], options: CheckOptions) -> list[GateResult]:
    """Return the deterministic gates of every run, then one of the speed where all of them can be judged."""
    cell = baseline.cells.get(name)
    results = []
    for run in runs:
        noise = _noise_of([run.record, *([cell.run] if cell else [])], options.find_noise)
        results += check_run(baseline, name, run, options.bounds, options.stage, noise)
    judged = {one.run for one in results if one.gate == "tpf"}
    if cell is None or any(run.record.id not in judged for run in runs):
        return results
    num_common = sum(sample.id in cell.samples for sample in runs[0].samples)
    bounds = bounds_for(baseline, options.bounds, num_common, options.stage)
    floor = options.find_noise(cell.run)
    speed = check_speed(name, cell, runs, bounds.tps, floor)
    if is_to_be_repeated(speed) and options.remeasure is not None:
        speed = check_speed(name, cell, options.remeasure(runs[0]), bounds.tps, floor)
    return [*results, speed]


def _noise_of(records: Sequence[RunRecord], find_noise: FindNoise) -> list[NoiseCell]:
    """Return the noise floors of these runs' cells, as far as they were measured."""
    return [found for record in records if (found := find_noise(record)) is not None]
