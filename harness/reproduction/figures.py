"""A run's figures as the program behind a published table counts them, beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lopa_bench.results.comparison.tolerance import KIND, Tolerance, score_tolerance, speed_tolerance, tpf_tolerance
from lopa_bench.results.conventions import Answer, Unknown, convention_named
from lopa_bench.results.published_figures import PublishedCell, PublishedRow, select
from lopa_bench.results.recount import Recount, recount
from lopa_bench.results.schema import Environment, Interval, SampleRecord, Summary
from lopa_bench.results.statistics import bootstrap_ratio
from lopa_bench.results.store import StoredRun

DEVICES = ("A100", "H200", "910C")
# A table's counting, where it is not its paper's.
_CONVENTION = {
    "lopa-table2": "lopa-diffucoder",
    "lopa-table3": "lopa-dist",
    "lopa-table4": "lopa-dist",
    "lopa": "lopa-dream",
    "d2f": "d2f",
    "fast-dllm": "fast-dllm",
}


@dataclass(frozen=True)
class Figure:
    """One published figure and what was measured.

    `measured` is None where it is not known. `tolerance` is None where the figure is shown and not judged; `remark`
    says why.
    """

    published: PublishedRow
    measured: float | None
    n: int
    tolerance: Tolerance | None = None
    remark: str = ""

    @property
    def deviation(self) -> float | None:
        """Return measured minus published."""
        return None if self.measured is None else self.measured - self.published.value

    @property
    def is_within(self) -> bool | None:
        """Whether it lies within the tolerance; None where it is not judged."""
        if self.tolerance is None or self.deviation is None:
            return None
        return abs(self.deviation) <= self.tolerance.total


def convention_of(row: PublishedRow) -> str:
    """Return how the program behind a table counts, by the name in `results/conventions.py`."""
    if row.table_id == "lopa-figure4" and row.task.endswith("+"):
        return "lopa-diffucoder"
    return _CONVENTION.get(row.table_id) or _CONVENTION[row.paper]


def needs_trace(row: PublishedRow) -> bool:
    """Tell whether that program's counting looks at the tokens behind the EOS, which only a trace holds."""
    return convention_of(row) in ("lopa-diffucoder", "d2f", "fast-dllm")


def figures_of(cell: PublishedCell, run: StoredRun, samples: Sequence[SampleRecord], summary: Summary) -> list[Figure]:
    """Return every figure of a cell; `samples` are those of the run that were asked for, `summary` sums them up."""
    traces = {trace.id: trace for trace in run.traces()}
    counted = recount(run.record, samples, traces, convention_of(cell.first))
    interval = _tpf_interval([Answer(run.record, one, traces.get(one.id)) for one in samples], cell.first)
    found = []
    for metric, row in cell.figures.items():
        measured = _measured(metric, counted, summary)
        if measured is None:
            remark = "not measured: " + "; ".join(counted.notes or ("undefined for these answers",))
            found.append(Figure(row, None, summary.n, remark=remark))
            continue
        tolerance = _tolerance(row, summary.n, interval, run.record.environment)
        if isinstance(tolerance, str):
            found.append(Figure(row, measured, summary.n, remark=tolerance))
        else:
            found.append(Figure(row, measured, summary.n, tolerance))
    return found


def _tolerance(row: PublishedRow, n: int, interval: Interval | None, here: Environment) -> Tolerance | str:
    """Return a figure's tolerance, or why it is not judged."""
    same, obstacle = on_same_device(row, here)
    kind = KIND.get(row.metric)
    if kind == "score":
        return score_tolerance(row.value, n, same)
    if kind == "tpf":
        few = "not judged: too few answers for an interval"
        return few if interval is None else tpf_tolerance(row.value, interval, same)
    if kind == "speed":
        return speed_tolerance(row.value) if obstacle is None else f"not judged: {obstacle}"
    return "shown, not judged"


def _measured(metric: str, counted: Recount, summary: Summary) -> float | None:
    if metric == "score":
        accuracy = summary.metrics["accuracy"].value
        return None if accuracy is None else 100 * accuracy
    if metric == "gen_length":
        return counted.tokens / counted.n if counted.tokens is not None and counted.n else None
    return counted.figures.get(metric)


def _tpf_interval(answers: Sequence[Answer], row: PublishedRow) -> Interval | None:
    convention = convention_named(convention_of(row))
    good = [one for one in answers if one.sample.status == "ok"]
    try:
        return bootstrap_ratio([convention.tokens(one) for one in good], [convention.steps(one) for one in good])
    except Unknown:
        return None


def on_same_device(row: PublishedRow, here: Environment) -> tuple[bool, str | None]:
    """Tell whether a run's device is the published one, and why speeds may not be set beside the published ones."""
    hardware = row.settings.get("hardware")
    if hardware is None:
        return False, "the paper does not name the device"
    there = next((name for name in DEVICES if name in hardware), hardware)
    if there not in here.device_name:
        return False, f"{hardware} vs {here.device_name or here.device}"
    needed = devices_per_answer(row)
    if here.num_devices != needed:
        return True, f"{needed} devices an answer vs {here.num_devices}"
    return True, None


def devices_per_answer(row: PublishedRow) -> int:
    """Return on how many devices one answer was made: for settings S1 to S18, branches times tensor shares."""
    setting = row.settings.get("setting")
    if setting is None:
        return 1
    sizes = {one.metric: one.value for one in select("lopa-table6", rows=[setting])}
    return round(sizes["branch_parallel"] * sizes["tensor_parallel"])
