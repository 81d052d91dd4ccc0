"""Branches and tensors over the devices of this machine: runs of LoPA on 1, 2, 4, 8 of them, set side by side.

    python benchmarks/gpu_scaling.py --model Dream-org/Dream-v0-Instruct-7B --task gsm8k --limit 20
    python benchmarks/gpu_scaling.py --device cpu --devices 1,2 --limit 1      # a trial without accelerators

Every run is `lopa-bench run --new`; words that are not known here are passed on to it. The table is made by
results/reports/scaling.py from what they stored. A run that fails is named at the end, and the others are shown.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from gpu_devices import Way, add_arguments, heads_of, sizes_here, ways

from lopa_bench.results.metrics import throughput
from lopa_bench.results.reports.scaling import scaling, scaling_table
from lopa_bench.results.store import StoredRun, load_run
from lopa_bench.results.tables import render


def stored(root: Path) -> set[Path]:
    return {path for path in root.glob("*") if (path / "run.json").exists()}


def made(way: Way, root: Path, asked: list[str]) -> StoredRun | str:
    """The run of an arrangement, or what became of it; its own words are on the screen."""
    before = stored(root)
    words = ["run", *asked, "--runs-dir", str(root), "--new", *way.flags]
    code = subprocess.run([sys.executable, "-m", "lopa_bench.cli.app", *words]).returncode
    new = stored(root) - before
    if code or len(new) != 1:
        return f"{way.label}: the run ended with {code} and stored {len(new)} runs"
    return load_run(new.pop())


def show(runs: list[StoredRun]) -> None:
    """Print what there is: the scaling, or the speed of one arrangement alone."""
    tables = scaling(runs)
    for one in tables:
        print(render(scaling_table(one)))
    if not tables:
        for run in runs:
            speed = throughput(run.samples)
            print(f"{run.path.name}: {'n/a' if speed is None else f'{speed:.1f}'} tokens/s")
        print("one arrangement or none came out: there is nothing to set side by side")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bundled:d2f")
    parser.add_argument("--task", default="mini-maths")
    parser.add_argument("--limit", default="20")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs-scaling"))
    add_arguments(parser)
    arguments, further = parser.parse_known_args()
    asked = ["--task", arguments.task, "--model", arguments.model, "--limit", arguments.limit, "--decoder", "lopa"]
    asked += ["--device", arguments.device, *further]
    found = [made(way, arguments.runs_dir, asked) for way in ways(sizes_here(arguments), heads_of(arguments.model))]
    show([one for one in found if isinstance(one, StoredRun)])
    failed = [one for one in found if isinstance(one, str)]
    raise SystemExit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
