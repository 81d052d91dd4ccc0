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
from lopa_bench.results.schema import Summary
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import Column, Row, Table

TASKS = ("mini-maths", "mini-code")
DECODERS = ("ar", "vanilla", "fast-dllm", "d2f", "lopa")
BASELINE = "vanilla"
NUM_SAMPLES = 30
NUM_QUICK = 3
PLOT = "demo-accuracy-tpf.png"


@dataclass(frozen=True)
class Cell:
    """One decoder on one task."""

    task: str
    decoder: str
    run: StoredRun
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
                command=("lopa-bench", "demo"),
            )  # fmt: skip
            result = run(spec, reporter_for(f"{task} · {decoder}"))
            if result.run is not None and result.summary is not None:
                cells.append(Cell(task, decoder, result.run, result.summary))
    plot = runs_dir / PLOT
    plot_accuracy_tpf([_point(cell) for cell in cells], plot, title="Bundled models, mini tasks")
    return Demo(tuple(cells), demo_table(cells), plot)


def demo_table(cells: Sequence[Cell]) -> Table:
    """Return accuracy with its interval, TPF, tokens/s and the difference in accuracy to vanilla decoding."""
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
        metric_column("tpf"),
        metric_column("tps_e2e"),
        Column("n", "n"),
    ]
    notes = (
        f"accuracy with its 95 % interval; TPF: {METRICS['tpf'].formula}, AR is 1 by definition",
        "tokens/s: useful tokens per second of generation on this machine",
    )
    return Table(columns, rows, "Bundled models on generated tasks", notes)


def _difference(value: float | None, baseline: float | None) -> float | None:
    return None if value is None or baseline is None else value - baseline


def _point(cell: Cell) -> TradeOff:
    accuracy, tpf = cell.summary.metrics["accuracy"], cell.summary.metrics["tpf"]
    label = f"{cell.decoder}, {cell.task.removeprefix('mini-')}"
    return TradeOff(label, tpf.value, accuracy.value, tpf.interval, accuracy.interval)
