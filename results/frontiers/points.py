"""Runs as points of a trade-off: what each is called, and which problems they can be compared over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lopa_bench.errors import NotComparable
from lopa_bench.results.comparison.differences import speed_obstacle
from lopa_bench.results.comparison.paired import require_same_task
from lopa_bench.results.metrics import Metric, clusters, scored
from lopa_bench.results.schema import RunRecord, SampleRecord

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun


@dataclass(frozen=True)
class Setting:
    """One run as a point: its name, and per problem the score and the two halves of its speed, in one order."""

    run_id: str
    decoder: str
    words: str
    scores: tuple[float, ...]
    above: tuple[float, ...]
    below: tuple[float, ...]
    clusters: tuple[str | None, ...]

    def point(self, rows: Sequence[int]) -> tuple[float, float] | None:
        """Return (speed, accuracy share) over some of the problems, None where the speed is undefined."""
        below = sum(self.below[row] for row in rows)
        if not rows or not below:
            return None
        return sum(self.above[row] for row in rows) / below, sum(self.scores[row] for row in rows) / len(rows)


def setting_words(runs: Sequence[StoredRun]) -> list[str]:
    """Name each run by its decoder, the options in which its runs differ, and the model where models differ."""
    records = [run.record for run in runs]
    several_models = len({record.model.name for record in records}) > 1
    return [_words(record, records, several_models) for record in records]


def _words(record: RunRecord, records: Sequence[RunRecord], several_models: bool) -> str:
    alike = [other.decoder.options for other in records if other.decoder.name == record.decoder.name]
    options = record.decoder.options
    differing = [name for name in options if any(other.get(name) != options[name] for other in alike)]
    words = [record.decoder.name, *(f"{name}={options[name]}" for name in differing)]
    return " ".join([*words, f"({record.model.name})"] if several_models else words)


def common_problems(runs: Sequence[StoredRun], metric: Metric) -> tuple[tuple[str, ...], int]:
    """Return the ids that count in every run, in the first one's order, and how many ids do not.

    Raises:
        NotComparable: other tasks, scores, data or prompts, speeds of other machines where `metric` is one, or no
            problem that all runs answered.
    """
    tasks = sorted({run.record.task.name for run in runs})
    if len(tasks) > 1:
        raise NotComparable(f"a front needs runs of one task, found {', '.join(tasks)}; --task chooses one")
    for run in runs[1:]:
        require_same_task(runs[0].record, run.record)
        obstacle = speed_obstacle(runs[0].record, run.record) if metric.unit == "tokens/s" else None
        if obstacle is not None:
            raise NotComparable(f"the speeds of {runs[0].record.id} and {run.record.id} are {obstacle[2:]}")
    usable = [{sample.id: sample for sample in metric.select(scored(run.samples))} for run in runs]
    shared = [id for id in usable[0] if all(id in one for one in usable)]
    for run, one in zip(runs[1:], usable[1:], strict=True):
        other = next((id for id in shared if one[id].prompt_hash != usable[0][id].prompt_hash), None)
        if other is not None:
            raise NotComparable(f"runs {runs[0].record.id} and {run.record.id} put {other} in different prompts")
    if not shared:
        raise NotComparable(f"no problem was answered and scored in all of the {len(runs)} runs")
    return tuple(shared), len({id for one in usable for id in one}) - len(shared)


def make_setting(run: StoredRun, metric: Metric, ids: Sequence[str], words: str) -> Setting:
    """Return a run as a point over the problems `ids`; `metric` must be a ratio of sums."""
    by_id: dict[str, SampleRecord] = {sample.id: sample for sample in run.samples}
    samples = [by_id[id] for id in ids]
    assert metric.numerator is not None and metric.denominator is not None
    return Setting(
        run.record.id,
        run.record.decoder.name,
        words,
        tuple(sample.correct or 0.0 for sample in samples),
        tuple(map(metric.numerator, samples)),
        tuple(map(metric.denominator, samples)),
        tuple(clusters(samples)),
    )
