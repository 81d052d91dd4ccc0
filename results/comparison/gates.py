"""Gates: is a run as good as its baseline says, was that decided by more than noise, and could it be decided at all?

Accuracy, TPF and counts of work are deterministic where neither the program nor what it runs on has changed, and are
gated hard. Speed is not: it is gated only with several runs and a measured noise, see `speed_gate.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lopa_bench.errors import NotComparable, nearest
from lopa_bench.results.comparison.accuracy_gate import check_accuracy
from lopa_bench.results.comparison.baseline import Baseline, Cell, figures_of, nearest_cell
from lopa_bench.results.comparison.bounds import DEFAULT_BOUNDS, ROUNDING, Bounds
from lopa_bench.results.comparison.differences import semantic
from lopa_bench.results.comparison.gate_inputs import (
    Checked,
    beside,
    missing_figures,
    what_is_broken,
    why_not_comparable,
)
from lopa_bench.results.comparison.gate_results import GateResult, Outcome
from lopa_bench.results.comparison.noise import NoiseCell
from lopa_bench.results.store import StoredRun

WORK = ("rounds", "model_calls", "branch_forwards", "positions")


def check_run(
    baseline: Baseline,
    name: str,
    run: StoredRun,
    bounds: Bounds,
    stage: str | None = None,
    noise: Sequence[NoiseCell] = (),
) -> list[GateResult]:
    """Return the deterministic gates of one run.

    Args:
        baseline: what the run is held to.
        name: of the run's cell.
        run: a stored run.
        bounds: those of the command line; the stage's, then the defaults, fill the gaps.
        stage: whose bounds hold; by default that of the most problems which the run reaches.
        noise: the noise floors of the run's and the baseline's cell, as far as they were measured.
    """

    def one(outcome: Outcome, gate: str, reason: str) -> list[GateResult]:
        return [GateResult(name, run.record.id, gate, outcome, reason=reason)]

    broken = what_is_broken(run)
    if broken is not None:
        return one(Outcome.REGRESSED, "run", broken)
    cell = baseline.cells.get(name)
    if cell is None:
        near = nearest_cell(baseline.records, run.record)
        words = ["the baseline has no cell of these settings", near, "accept it with `lopa-bench baseline accept`"]
        return one(Outcome.NOT_COMPARABLE, "baseline", "; ".join(word for word in words if word))
    obstacle = why_not_comparable(baseline, cell, run)
    if obstacle is not None:
        return one(Outcome.NOT_COMPARABLE, "problems", obstacle)
    common = [sample for sample in run.samples if sample.id in cell.samples]
    missing = missing_figures(common, {sample.id: cell.samples[sample.id] for sample in common})
    if missing is not None:
        return one(Outcome.REGRESSED, "figures", missing)
    try:
        settled = bounds_for(baseline, bounds, len(common), stage)
    except NotComparable as error:
        return one(Outcome.NOT_COMPARABLE, "stage", str(error))
    return [*_coverage(name, cell, run, len(common)), *_gates(beside(name, cell, run), settled, noise)]


def _coverage(name: str, cell: Cell, run: StoredRun, num_common: int) -> list[GateResult]:
    """Say that only a part of the baseline's problems was looked at, which decides nothing."""
    if num_common == len(cell.samples):
        return []
    words = f"only {num_common} of the baseline's {len(cell.samples)} problems were checked: the run has no others"
    return [GateResult(name, run.record.id, "problems", Outcome.NOT_GATED, reason=words, is_notable=True)]


def _gates(checked: Checked, bounds: Bounds, noise: Sequence[NoiseCell]) -> list[GateResult]:
    results = [_settings(checked), _answers(checked), check_accuracy(checked, bounds, noise)]
    before, after = figures_of(checked.before), figures_of(checked.after)
    results.append(_tpf(checked, bounds, before["tpf"], after["tpf"]))
    return results + [_work(checked, bounds, name) for name in WORK]


def stage_for(baseline: Baseline, num_common: int, stage: str | None) -> str | None:
    """Return the stage asked for, or that of the most problems which `num_common` reach; None where there are none.

    Raises:
        NotComparable: the stage does not exist, or needs more problems than there are.
    """
    stages = baseline.stages
    if stage is None and not stages:
        return None
    if stage is not None and stage not in stages:
        raise NotComparable(f"the baseline has no stage '{stage}'{nearest(stage, stages)}")
    reached = [name for name, one in stages.items() if one.min_samples <= num_common]
    if stage is None:
        stage = (
            max(reached, key=lambda name: stages[name].min_samples)
            if reached
            else min(stages, key=lambda name: stages[name].min_samples)
        )
    if stage not in reached:
        raise NotComparable(
            f"stage {stage} needs {stages[stage].min_samples} problems of the baseline, this run has {num_common}"
        )
    return stage


def bounds_for(baseline: Baseline, bounds: Bounds, num_common: int, stage: str | None = None) -> Bounds:
    """Return the bounds in force: the command line's, then the stage's, then the defaults.

    Raises:
        NotComparable: as `stage_for`.
    """
    chosen = stage_for(baseline, num_common, stage)
    stored = Bounds() if chosen is None else baseline.stages[chosen].bounds
    return bounds.over(stored).over(DEFAULT_BOUNDS)


def _decided(
    checked: Checked, gate: str, ok: bool, before: float | None, after: float | None, bound: object, reason: str
) -> GateResult:
    outcome = Outcome.OK if ok else Outcome.REGRESSED
    return GateResult(checked.cell, checked.run, gate, outcome, before, after, str(bound), reason)


def _settings(checked: Checked) -> GateResult:
    """Say which settings have changed under the cell's name, as a default or the weights may; decides nothing."""
    changed = semantic(list(checked.differences))
    words = "; ".join(map(str, changed)) or "as the baseline's"
    return GateResult(checked.cell, checked.run, "settings", Outcome.NOT_GATED, reason=words, is_notable=bool(changed))


def _answers(checked: Checked) -> GateResult:
    """Count the answers with other tokens than the baseline's; decides nothing by itself."""
    changed = [key for key, line in checked.before.items() if line.answer != checked.after[key].answer]
    total = len(checked.before)
    words = f"{total - len(changed)} of {total} answers have the same tokens"
    words += f", {changed[0]} is the first that has not" if changed else ""
    left_out = "" if not changed or not checked.numeric else f" ({'; '.join(map(str, checked.numeric))})"
    return GateResult(
        checked.cell, checked.run, "answers", Outcome.NOT_GATED, reason=words + left_out, is_notable=bool(changed)
    )


def _tpf(checked: Checked, bounds: Bounds, before: float | None, after: float | None) -> GateResult:
    if bounds.tpf is None or before is None:
        return GateResult(checked.cell, checked.run, "tpf", Outcome.NOT_GATED, before, after)
    if after is None or not math.isfinite(after):
        return _decided(checked, "tpf", False, before, after, bounds.tpf, "TPF is missing")
    bounds.tpf.require_within(before, f"TPF of {checked.cell}")
    ok = bounds.tpf.allows(before, after, "higher")
    return _decided(checked, "tpf", ok, before, after, bounds.tpf, _moved(before, after))


def _work(checked: Checked, bounds: Bounds, name: str) -> GateResult:
    """Gate a total over the common problems: more of it is worse."""
    before, after = (
        float(sum(getattr(line, name) for line in side.values())) for side in (checked.before, checked.after)
    )
    gate = name.replace("_", " ")
    if bounds.forwards is None:
        return GateResult(checked.cell, checked.run, gate, Outcome.NOT_GATED, before, after)
    ok = bounds.forwards.allows(before, after, "lower")
    return _decided(checked, gate, ok, before, after, bounds.forwards, _moved(before, after))


def _moved(before: float, after: float) -> str:
    return "unchanged" if abs(after - before) <= ROUNDING else f"{(after - before) / before:+.1%}" if before else "new"
