"""Branches and tensors over the CUDA devices of this machine: runs of LoPA on 1, 2, 4, 8 devices, set side by side.

    python benchmarks/gpu_scaling.py --model Dream-org/Dream-v0-Instruct-7B --task gsm8k --limit 20

Every run is `lopa-bench run --new`; the table is made by results/reports/scaling.py from what they stored.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch

from lopa_bench.results.reports.scaling import scaling, scaling_table
from lopa_bench.results.store import load_run
from lopa_bench.results.tables import render


def arrangements(devices: int) -> list[list[str]]:
    """Flags for one device, then for all branches and all tensors on 2, 4, 8, and half and half."""
    found: list[list[str]] = [[]]
    for size in (2, 4, 8):
        if size <= devices:
            found.append(["--devices", str(size)])
            found.append(["--devices", str(size), "--tensor-parallel", str(size)])
        if 4 <= size <= devices:
            found.append(["--devices", str(size), "--tensor-parallel", "2"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bundled:d2f")
    parser.add_argument("--task", default="mini-maths")
    parser.add_argument("--limit", default="20")
    parser.add_argument("--runs-dir", default="runs-scaling")
    arguments = parser.parse_args()
    if torch.cuda.device_count() < 2:
        raise SystemExit(f"gpu_scaling.py needs two CUDA devices or more, and torch sees {torch.cuda.device_count()}")
    root = Path(arguments.runs_dir)
    for flags in arrangements(torch.cuda.device_count()):
        asked = ["--task", arguments.task, "--model", arguments.model, "--limit", arguments.limit, "--decoder", "lopa"]
        words = ["run", *asked, "--device", "cuda", "--runs-dir", str(root), "--new", *flags]
        subprocess.run([sys.executable, "-m", "lopa_bench.cli.app", *words], check=True)
    for one in scaling([load_run(path) for path in sorted(root.iterdir()) if (path / "run.json").exists()]):
        print(render(scaling_table(one)))


if __name__ == "__main__":
    main()
