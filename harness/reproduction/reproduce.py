"""Running a published row's preset and saying whether its figures come out.

A row is *reproduced* when every figure that can be judged lies within its tolerance, *not reproduced* when one does
not, and *not comparable* when the run is another experiment: another model, task or setting, too few problems, or a row
whose settings the source leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from lopa_bench.errors import LopaBenchError, ModelError, PrerequisiteError, ResultsError
from lopa_bench.harness.bundled_defaults import is_bundled, model_for
from lopa_bench.harness.job import prepare
from lopa_bench.harness.progress import Reporter
from lopa_bench.harness.reproduction.differences import Difference, differences_from
from lopa_bench.harness.reproduction.figures import Figure, figures_of, needs_trace
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec, resolve
from lopa_bench.harness.sweeps.plan import require_consent_of
from lopa_bench.harness.sweeps.sweep import summary_of_asked
from lopa_bench.results.comparison.tolerance import WIDEST_SCORE, problems_needed
from lopa_bench.results.published_figures import PublishedCell, cells, select
from lopa_bench.results.schema import FINISHED
from lopa_bench.results.store import StoredRun, list_runs
from lopa_bench.tasks.code_tasks import CODE_TASKS
from lopa_bench.tasks.preset import Preset
from lopa_bench.tasks.presets import presets_of, why_no_preset

Verdict = Literal["reproduced", "not reproduced", "not comparable"]
BUNDLED = "bundled"
EXIT_CODES: dict[Verdict, int] = {"reproduced": 0, "not reproduced": 1, "not comparable": 3}


@dataclass(frozen=True)
class Target:
    """A published cell, the preset that stands for it and the run that this asks for; the last two None without one."""

    cell: PublishedCell
    preset: Preset | None = None
    spec: RunSpec | None = None


@dataclass(frozen=True)
class Reproduction:
    """What became of a cell; `why` explains a verdict other than "reproduced"."""

    target: Target
    verdict: Verdict
    why: str = ""
    figures: tuple[Figure, ...] = ()
    differences: tuple[Difference, ...] = ()
    run: StoredRun | None = None


def targets(
    table: str, asked: RunSpec, *, rows: Sequence[str] = (), tasks: Sequence[str] = ()
) -> list[Target]:  # fmt: skip
    """Return the cells of a table with the runs that they ask for.

    Args:
        table: `lopa-table1` and the like.
        asked: what to change in the presets' runs: model, device, problems, folders. Model "bundled" takes the small
            model and task of the same kind, with the preset's decoder and options.
        rows: only rows of these names.
        tasks: only these tasks.

    Raises:
        ResultsError: no table, row or task of that name, or a table that has settings alone.
    """
    found = cells(select(table, rows=rows, tasks=tasks))
    if not found:
        raise ResultsError(f"{table} has settings and no results; `lopa-bench list published` shows all tables")
    return [_target(cell, asked) for cell in found]


def _target(cell: PublishedCell, asked: RunSpec) -> Target:
    presets = presets_of(cell.id)
    if not presets:
        return Target(cell)
    preset = presets[0]
    asked = replace(asked, trace=needs_trace(cell.first) or None)
    if is_mechanics(asked):
        return Target(cell, preset, _on_bundled(preset, asked))
    adapter = asked.adapter if preset.adapter is not None else None
    for_programs = asked.allow_code_execution if preset.task in CODE_TASKS else None
    return Target(cell, preset, replace(asked, preset=preset.name, adapter=adapter, allow_code_execution=for_programs))


def _on_bundled(preset: Preset, asked: RunSpec) -> RunSpec:
    """Return the run of a preset's decoder, with all its options, on a bundled model and the mini task of its kind."""
    settled = resolve(RunSpec(preset=preset.name), needs_task=False, environment={})
    return replace(
        asked,
        preset=None,
        task="mini-code" if preset.task in CODE_TASKS else "mini-maths",
        decoder=preset.decoder,
        model=model_for(preset.decoder, causal=False) if asked.model == BUNDLED else asked.model,
        adapter=None,
        convention=preset.convention,
        options={name: one.value for name, one in settled.options.items()},
        allow_code_execution=None,
        data_dir=None,
        seed=preset.seed,
    )


def check_prerequisites(found: Sequence[Target]) -> None:
    """Make sure that every run could begin; nothing is run and no weights are read.

    Raises:
        PrerequisiteError: a checkpoint that is not to be had; says in a sentence which and what else to do.
        LopaBenchError: data, consent or settings that are missing.
    """
    for target in found:
        if target.spec is None or target.preset is None:
            continue
        try:
            require_consent_of(prepare(replace(target.spec, dry_run=True)))
        except ModelError as error:
            wanted = target.spec.model or target.preset.model
            adapter = f" with adapter {target.preset.adapter}" if target.preset.adapter else ""
            raise PrerequisiteError(
                f"{target.cell.id} needs {wanted}{adapter}, which is missing: {error}; give --model FOLDER, or --model "
                f"{BUNDLED} to see the mechanics alone"
            ) from None


def reproduce(
    found: Sequence[Target], reporter_for: Callable[[str], Reporter | None] = lambda label: None
) -> list[Reproduction]:
    """Run each target and judge it; a cell whose run fails is not comparable and says why."""
    from lopa_bench.harness.loaded_models import models_kept

    done = []
    with models_kept():
        for number, target in enumerate(found, start=1):
            if target.spec is None:
                done.append(Reproduction(target, "not comparable", why_no_preset(target.cell.id)))
                continue
            try:
                result = run(target.spec, reporter_for(f"{number} of {len(found)}: {target.cell.id}"))
            except LopaBenchError as error:
                done.append(Reproduction(target, "not comparable", f"its run failed: {error}"))
                continue
            assert result.run is not None  # only a dry run has none
            done.append(judge(target, result.run, result.asked))
    return done


def from_stored(found: Sequence[Target], runs_dir: Path) -> list[Reproduction]:
    """Judge the newest finished run of each target's preset in a folder, wherever it was made."""
    by_preset: dict[str, StoredRun] = {}
    for one in list_runs(runs_dir):
        preset = one.record.configuration.get("preset")
        if preset is not None and one.status in FINISHED:
            by_preset[str(preset.value)] = one
    done = []
    for target in found:
        stored = by_preset.get(target.preset.name) if target.preset else None
        if target.preset is None:
            done.append(Reproduction(target, "not comparable", why_no_preset(target.cell.id)))
        elif stored is None:
            why = f"no finished run of preset {target.preset.name} is stored in {runs_dir}"
            done.append(Reproduction(target, "not comparable", why))
        else:
            done.append(judge(target, stored, tuple(sample.id for sample in stored.samples)))
    return done


def judge(target: Target, stored: StoredRun, asked: Sequence[str]) -> Reproduction:
    """Set a run's figures over the problems asked beside the published ones."""
    assert target.preset is not None
    samples = [sample for sample in stored.samples if sample.id in set(asked)]
    summary = summary_of_asked(stored.record, samples, asked)
    figures = tuple(figures_of(target.cell, stored, samples, summary))
    differences = tuple(differences_from(target.preset, target.cell.first, stored.record, summary))
    verdict, why = _verdict(target, figures, differences, summary.blocked)
    return Reproduction(target, verdict, why, figures, differences, stored)


def _verdict(
    target: Target, figures: Sequence[Figure], differences: Sequence[Difference], blocked: str | None
) -> tuple[Verdict, str]:
    """Return the verdict and its reason."""
    assert target.preset is not None
    reasons = [f"{one.name} differs" for one in differences if one.blocks]
    if target.preset.open_question:
        reasons.append(target.preset.open_question)
    if blocked:
        reasons.append(blocked)
    judged = [one for one in figures if one.tolerance is not None]
    for one in judged:
        if one.published.metric == "score" and one.tolerance and one.tolerance.sampling > WIDEST_SCORE:
            needed = problems_needed(one.published.value)
            reasons.append(
                f"n = {one.n} tells a score to ±{one.tolerance.sampling:.0f} points only; take {needed} or more"
            )
    if not judged:
        reasons.append("none of its figures can be judged here")
    if reasons:
        return "not comparable", "; ".join(dict.fromkeys(reasons))
    off = [one.published.metric for one in judged if not one.is_within]
    return ("not reproduced", f"outside its tolerance: {', '.join(off)}") if off else ("reproduced", "")


def exit_code(done: Sequence[Reproduction]) -> int:
    """Return 1 when a cell was not reproduced, else 3 when one is not comparable, else 0."""
    codes = {EXIT_CODES[one.verdict] for one in done}
    return 1 if 1 in codes else max(codes, default=0)


def is_mechanics(asked: RunSpec) -> bool:
    """Tell whether a run was asked on a bundled model, which no figure can be held against."""
    return asked.model is not None and (asked.model == BUNDLED or is_bundled(asked.model))
