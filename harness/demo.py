"""The demonstration: five decoders on the bundled models and the mini tasks, as ordinary runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lopa_bench.harness.progress import Reporter
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.plots import TradeOff, plot_accuracy_tpf
from lopa_bench.results.rows import metric_column, summary_row
from lopa_bench.results.schema import SampleRecord, Summary
from lopa_bench.results.store import StoredRun
from lopa_bench.results.summary import summarise
from lopa_bench.results.tables import Column, Row, Table

TASKS = ("mini-maths", "mini-code")
DECODERS = ("ar", "vanilla", "fast-dllm", "d2f", "lopa")
BASELINE = "vanilla"
NUM_SAMPLES = 20
NUM_QUICK = 2
PLOT = "demo-accuracy-tpf.png"


@dataclass(frozen=True)
class Cell:
    """One decoder on one task: the stored run, those of its samples that were asked for, and what they come to."""

    task: str
    decoder: str
    run: StoredRun
    samples: tuple[SampleRecord, ...]
    summary: Summary

    @property
    def accuracy(self) -> float | None:
        """Share of right answers."""
        return self.summary.metrics["accuracy"].value


@dataclass(frozen=True)
class Demo:
    """All cells, the table made of them and the file that shows them."""

    cells: tuple[Cell, ...]
    table: Table
    plot: Path


def run_demo(
    *,
    quick: bool = False,
    limit: int | None = None,
    runs_dir: Path = Path("runs"),
    threads: int | None = None,
    reporter_for: Callable[[str], Reporter | None] = lambda label: None,
) -> Demo:
    """Run all decoders on all mini tasks and draw accuracy against TPF.

    Args:
        quick: a few problems of each task instead of some dozens.
        limit: problems of each task, instead of either.
        runs_dir: where the runs and the plot go.
        threads: CPU threads.
        reporter_for: gives each cell, by its label, the reporter that shows it.
    """
    number = limit or (NUM_QUICK if quick else NUM_SAMPLES)
    cells = []
    for task in TASKS:
        for decoder in DECODERS:
            spec = RunSpec(
                task=task, decoder=decoder, limit=number, runs_dir=runs_dir, threads=threads, device="cpu",
                warmup=0 if quick else 1, command=("lopa-bench", "demo"),
            )  # fmt: skip
            result = run(spec, reporter_for(f"{task} · {decoder}"))
            if result.run is not None:
                cells.append(_cell(task, decoder, result.run, result.asked))
    plot = runs_dir / PLOT
    plot_accuracy_tpf(trade_offs(cells), plot, title=f"Bundled models, {' and '.join(TASKS)} together")
    return Demo(tuple(cells), demo_table(cells), plot)


def _cell(task: str, decoder: str, stored: StoredRun, asked: Sequence[str]) -> Cell:
    """Sum up the problems asked for: a stored run may hold more, and all rows of the table must be of the same ones."""
    samples = tuple(sample for sample in stored.samples if sample.id in asked)
    info = stored.record.task.model_copy(update={"num_documents": len(asked), "partial": True})
    return Cell(task, decoder, stored, samples, summarise(stored.record.model_copy(update={"task": info}), samples))


def demo_table(cells: Sequence[Cell]) -> Table:
    """Return accuracy, TPF and tokens/s with their intervals and the difference in accuracy to vanilla decoding."""
    baseline = {cell.task: cell.accuracy for cell in cells if cell.decoder == BASELINE}
    rows: list[Row] = [
        summary_row(cell.summary, task=cell.task, decoder=cell.decoder)
        | {"delta": _difference(cell.accuracy, baseline.get(cell.task))}
        for cell in cells
    ]
    columns = [
        Column("task", "task"),
        Column("decoder", "decoder"),
        metric_column("accuracy", interval=True),
        Column("delta", f"Δ to {BASELINE}", digits=1, scale=100.0, signed=True),
        metric_column("tpf", interval=True),
        metric_column("tps_e2e", interval=True),
        Column("n", "n"),
    ]
    notes = (
        f"intervals are 95 %, over the problems; TPF: {METRICS['tpf'].formula}, AR is 1 by definition",
        "tokens/s: useful tokens per second of generation on this machine",
    )
    return Table(columns, rows, "Bundled models on generated tasks", notes)


def _difference(value: float | None, baseline: float | None) -> float | None:
    return None if value is None or baseline is None else value - baseline


def trade_offs(cells: Sequence[Cell]) -> list[TradeOff]:
    """Return one point per decoder, its answers to all tasks taken together."""
    points = []
    for decoder in dict.fromkeys(cell.decoder for cell in cells):
        own = [cell for cell in cells if cell.decoder == decoder]
        together = summarise(own[0].run.record, [sample for cell in own for sample in cell.samples])
        accuracy, tpf = together.metrics["accuracy"], together.metrics["tpf"]
        points.append(TradeOff(decoder, tpf.value, accuracy.value, tpf.interval, accuracy.interval))
    return points
