"""Accuracy and TPF of the bundled models with every decoder on the whole held-out test sets, as ordinary runs.

Writes the runs' records and a table: the figures of docs/bundled-models.md. Besides the five decoders there are
controls for LoPA: one branch (its base decoder under its own attention), more or fewer branches, and a random winner in
place of the most confident one.

    python benchmarks/bundled_models.py --out docs/bundled-models
    python benchmarks/bundled_models.py --out /tmp/try --limit 40 --cell lopa --cell "lopa, random winner"
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from pathlib import Path
from typing import Any

from lopa_bench.harness.progress import Running, Silent
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.rows import metric_column, summary_row
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import Column, Row, Table, render

TASKS = ("mini-maths", "mini-code")
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "ar": ("ar", {}),
    "vanilla": ("vanilla", {}),
    "fast-dllm": ("fast-dllm", {}),
    "d2f": ("d2f", {}),
    "lopa": ("lopa", {}),
    "lopa, 1 branch": ("lopa", {"branches": 1}),
    "lopa, 2 branches": ("lopa", {"branches": 2}),
    "lopa, 4 branches": ("lopa", {"branches": 4}),
    "lopa, 15 branches": ("lopa", {"branches": 15}),
    "lopa, random winner": ("lopa", {"select": "random"}),
    "lopa, full blocks only": ("lopa", {"candidates": "full"}),
}


class Lines(Silent):
    """One line every fifty samples."""

    def __init__(self, label: str) -> None:
        self.label = label

    def sampled(self, sample: SampleRecord, running: Running) -> None:
        """Print where it stands."""
        if running.num_done % 50 == 0:
            print(f"{self.label}: {running.num_done}", flush=True)


def measure(task: str, name: str, runs: Path, limit: int | None) -> tuple[Row, StoredRun]:
    """Run one cell, or take it from the store, and return its row."""
    decoder, options = CELLS[name]
    spec = RunSpec(task=task, decoder=decoder, options=options, limit=limit, runs_dir=runs, device="cpu", threads=1)
    result = run(spec, Lines(f"{task}, {name}"))
    if result.run is None or result.summary is None:
        raise SystemExit(f"{task}, {name}: no result")
    return summary_row(result.summary, task=task, decoder=name), result.run


def keep(stored: StoredRun, out: Path) -> None:
    """Copy a run's record to `out`, its samples compressed."""
    target = out / stored.path.name
    target.mkdir(parents=True, exist_ok=True)
    for name in ("run.json", "summary.json"):
        shutil.copy(stored.path / name, target / name)
    # No time stamp in the file, so that the same samples give the same bytes.
    samples = (stored.path / "samples.jsonl").read_bytes()
    (target / "samples.jsonl.gz").write_bytes(gzip.compress(samples, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the records and the table")
    parser.add_argument("--runs", type=Path, help="where the runs are stored while they go; OUT/runs by default")
    parser.add_argument("--limit", type=int, help="problems of each task; all by default")
    parser.add_argument("--cell", action="append", choices=list(CELLS), help="only these rows")
    parser.add_argument("--task", action="append", choices=TASKS, help="only these tasks")
    arguments = parser.parse_args()
    columns = [
        Column("task", "task"),
        Column("decoder", "decoder"),
        Column("n", "n"),
        metric_column("accuracy", interval=True),
        metric_column("tpf", interval=True),
        metric_column("tpf_committed"),
        metric_column("tpf_branch"),
        metric_column("amplification"),
        metric_column("tps_e2e"),
        Column("run", "run"),
    ]
    parts = []
    for task in arguments.task or TASKS:
        rows: list[Row] = []
        for name in arguments.cell or CELLS:
            row, stored = measure(task, name, arguments.runs or arguments.out / "runs", arguments.limit)
            rows.append(row)
            if arguments.runs:
                keep(stored, arguments.out)
        parts.append(render(Table(columns, rows), "markdown"))
    text = "\n\n".join(parts)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "table.md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
