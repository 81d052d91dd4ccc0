"""What the gates look at: whether a run can be judged at all, and its problems beside the baseline's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lopa_bench.errors import ResultsError
from lopa_bench.results.comparison.baseline import HASH_DIGITS, Baseline, Cell, Line, current_definitions, line_of
from lopa_bench.results.comparison.chance import numeric
from lopa_bench.results.comparison.differences import Difference, differences, draws
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import StoredRun


@dataclass(frozen=True)
class Checked:
    """A run beside its cell: the common problems' lines, in the baseline's order, and what differs in settings."""

    cell: str
    run: str
    before: dict[str, Line]
    after: dict[str, Line]
    differences: tuple[Difference, ...]
    is_drawn: bool

    @property
    def numeric(self) -> list[Difference]:
        """The differences by which rounding, and so a token, may have moved."""
        return numeric(self.differences)


def what_is_broken(run: StoredRun) -> str | None:
    """Return why a run cannot pass whatever it is held to: unreadable, empty, unfinished, with errors."""
    try:
        samples = run.samples
    except ResultsError as error:
        return f"its samples cannot be read: {error}"
    if not samples:
        return "it has no samples"
    unjudged = sum(sample.has_scorer_error for sample in samples)
    if unjudged:
        return f"the scorer failed on {unjudged} of {len(samples)} samples"
    failed = [sample for sample in samples if sample.status == "error"]
    if failed:
        return f"{len(failed)} of {len(samples)} samples ended in an error ({failed[0].id}: {failed[0].error})"
    expected = run.record.task.num_documents
    if run.status != "finished" or len(samples) < expected:
        return f"it is {run.status} with {len(samples)} of {expected} samples"
    return None


def why_not_comparable(baseline: Baseline, cell: Cell, run: StoredRun) -> str | None:
    """Return why a run's figures must not be set beside the baseline's, None when they may."""
    old, new = cell.run.task, run.record.task
    for what, one, other in (("version", old.version, new.version), ("metric", old.metric, new.metric)):
        if one != other:
            return f"the task's {what} is {other or '-'}, the baseline's {one or '-'}"
    if old.num_available and new.num_available and old.num_available != new.num_available:
        return f"the data have {new.num_available} problems, the baseline's {old.num_available}"
    changed = {
        key: version for key, version in current_definitions().items() if baseline.definitions.get(key) != version
    }
    if changed:
        return f"the definition of {', '.join(changed)} has changed since the baseline"
    common = [sample for sample in run.samples if sample.id in cell.samples]
    if not common:
        return "no problem is in the baseline"
    other_prompts = [one.id for one in common if one.prompt_hash[:HASH_DIGITS] != cell.samples[one.id].prompt]
    if other_prompts:
        return f"{len(other_prompts)} of {len(common)} problems have other prompts ({other_prompts[0]} is the first)"
    return None


def missing_figures(samples: Sequence[SampleRecord], before: Mapping[str, Line] = MappingProxyType({})) -> str | None:
    """Return which figure a run lacks or has as no finite number, None when all are there.

    `before` are the baseline's lines of the same problems. Where none of them has any work, as behind a server that
    tells none, only scores are looked at.
    """
    for sample in samples:
        if sample.correct is None:
            return f"{sample.id} has no score: accuracy is missing"
        if not math.isfinite(sample.correct):
            return f"the score of {sample.id} is {sample.correct}: accuracy is no number"
    if before and not any(line.rounds for line in before.values()):
        return None
    if not sum(sample.work.rounds for sample in samples):
        return "no rounds were counted: TPF and work are missing"
    for sample in samples:
        if sample.id in before and (uncounted := _uncounted(sample, before[sample.id])):
            return f"{', '.join(uncounted)} of {sample.id} were not counted: they are 0"
    values = {name: METRICS[name].value(samples) for name in ("tpf", "calls_per_answer", "positions_per_answer")}
    bad = [name for name, value in values.items() if value is None or not math.isfinite(value)]
    return f"{', '.join(bad)} missing" if bad else None


def _uncounted(sample: SampleRecord, before: Line) -> list[str]:
    """Return the work that an answer must have taken, took in the baseline, and has not here.

    Rounds are counted by the tokens they gave for some decoders, so that an empty answer may have none.
    """
    always = ("model_calls", "branch_forwards", "positions")
    names = ("rounds", *always) if sample.tokens.useful else always
    return [name.replace("_", " ") for name in names if getattr(before, name) and not getattr(sample.work, name)]


def beside(name: str, cell: Cell, run: StoredRun) -> Checked:
    """Return the common problems of a run and its cell."""
    after = {sample.id: line_of(sample) for sample in run.samples if sample.id in cell.samples}
    before = {key: line for key, line in cell.samples.items() if key in after}
    found = tuple(differences(cell.run, run.record))
    return Checked(name, run.record.id, before, {key: after[key] for key in before}, found, draws(run.record))
