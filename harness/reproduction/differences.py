"""In what a run differs from what a paper did, as far as both are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lopa_bench.harness.reproduction.figures import convention_of, on_same_device
from lopa_bench.harness.settings import RunSpec, resolve
from lopa_bench.results.comparison.differences import INCIDENTAL, RECORDED_ELSEWHERE, device_words, draws, show
from lopa_bench.results.published_figures import PAPERS, PublishedRow
from lopa_bench.results.schema import RunRecord, Summary
from lopa_bench.tasks.preset import Preset

NOT_COMPARED = INCIDENTAL | RECORDED_ELSEWHERE | {"problems", "system_instruction", "scorer"}


@dataclass(frozen=True)
class Difference:
    """A setting as published and as it was here; `blocks` tells that it makes the run another experiment."""

    name: str
    published: str
    here: str
    blocks: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.published} -> {self.here}"


def differences_from(preset: Preset, row: PublishedRow, run: RunRecord, summary: Summary) -> Iterator[Difference]:
    """Yield what differs, what makes the figures incomparable first."""
    found = [*_model(preset, run), *_settings(preset, run), *_place(preset, row, run), *_problems(run, summary.n)]
    found += [*_counting(row, run, summary), *_libraries(row, run)]
    yield from sorted(found, key=lambda one: not one.blocks)


def _model(preset: Preset, run: RunRecord) -> Iterator[Difference]:
    """Yield model and adapter; a folder of the checkpoint's name is taken for it."""
    for name, wanted, given in (
        ("model", preset.model, run.model.name),
        ("adapter", preset.adapter, run.model.adapter),
    ):
        if wanted == given:
            continue
        same = wanted is not None and given is not None and wanted.rpartition("/")[2] == _last_part(given)
        remark = " (taken for it by its name)" if same else ""
        yield Difference(name, wanted or "none", f"{given or 'none'}{remark}", blocks=not same)


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _settings(preset: Preset, run: RunRecord) -> Iterator[Difference]:
    """Yield every setting of the preset that the run did not have."""
    wanted = resolve(RunSpec(preset=preset.name), needs_task=False, environment={}).all
    if run.task.name != wanted["task"].value:
        yield Difference("task", show(wanted["task"].value), run.task.name, blocks=True)
    for name, setting in wanted.items():
        if name in NOT_COMPARED or name not in run.configuration:
            continue
        here = run.configuration[name].value
        if not _equal(setting.value, here):
            yield Difference(name, show(setting.value), show(here), blocks=True)
    if draws(run) and run.seed != preset.seed:
        yield Difference("seed", str(preset.seed), str(run.seed))


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


def _place(preset: Preset, row: PublishedRow, run: RunRecord) -> Iterator[Difference]:
    place = run.environment
    same, _ = on_same_device(row, place)
    if not same:
        yield Difference("device", row.settings.get("hardware", "not stated"), device_words(place))
    if place.dtype != preset.dtype:
        yield Difference("dtype", preset.dtype, place.dtype)
    if place.batch_size != 1:
        yield Difference("batch size", "1", str(place.batch_size))


def _problems(run: RunRecord, n: int) -> Iterator[Difference]:
    if n < run.task.num_available:
        yield Difference("n", f"all {run.task.num_available}", str(n))


def _counting(row: PublishedRow, run: RunRecord, summary: Summary) -> Iterator[Difference]:
    """Yield how figures are counted, and which of a task's scores is the headline where the source does not say."""
    tpf = summary.metrics["tpf"].value
    own = "" if tpf is None else f"; by lopa-bench's own the TPF is {tpf:.2f}"
    yield Difference("convention", convention_of(row), f"the same, recounted from the record{own}")
    if run.task.name.startswith(("gsm8k", "math")):
        yield Difference("score", "filter not stated", run.task.metric)


def _libraries(row: PublishedRow, run: RunRecord) -> Iterator[Difference]:
    for package, pinned in PAPERS[row.paper].pins.items():
        here = run.environment.packages.get(package, "none")
        if here != pinned:
            yield Difference(package, pinned, here)
