"""What 8-bit products, merged projections and compilation bring on a device, each decoder's rounds at a 7B shape.

    python benchmarks/gpu_speed.py               # all five ways, every decoder, on a CUDA device
    python benchmarks/gpu_speed.py --decoder "lopa 8"
    python benchmarks/gpu_speed.py --device cpu --shape tiny --decoder ar --most-rounds 6      # a trial

Runs engine_speed.py once a way and prints milliseconds a round, how many times as fast as without, and how far the
logits are from those of the plain network in the same dtype: the norm of the difference over the norm. A way that fails
is told and the others are measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

WAYS: dict[str, list[str]] = {
    "plain": [],
    "--merge-qkv": ["--merge-qkv"],
    "--quantize w8a8": ["--quantize", "w8a8"],
    "--compile": ["--compile"],
    "all three": ["--merge-qkv", "--quantize", "w8a8", "--compile"],
}


def rows_of(way: list[str], asked: list[str]) -> list[dict[str, Any]] | str:
    """The rows of a way, or the last thing that was said where it failed."""
    script = Path(__file__).with_name("engine_speed.py")
    done = subprocess.run([sys.executable, str(script), "--json", *asked, *way], capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        return said[-1]
    rows: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])["rows"]
    return rows


def line(way: str, row: dict[str, Any], plain_ms: float | None) -> str:
    name, ms = row["decoder"], row["ms_per_round"]
    times = "   n/a" if plain_ms is None else f"{plain_ms / ms:5.2f}x"
    error = "n/a" if row["logits_error"] is None else f"{row['logits_error']:.2%}"
    done = "; ".join(row["accelerations"]) or "as it is"
    return f"{way:16} {name:17} {ms:8.2f} ms/round  {times}  logits off by {error:>7}  ({done})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decoder", action="append", default=[])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", help="tiny, small or large; large on a CUDA device by default")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only these, plain first")
    parser.add_argument("--most-rounds")
    arguments = parser.parse_args()
    on_gpu = arguments.device.startswith("cuda")
    if on_gpu and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device here; --device cpu --shape tiny is a trial on any machine")
    asked = ["--device", arguments.device, "--dtype", "bfloat16"]
    asked += [word for name in arguments.decoder for word in ("--decoder", name)]
    for option, value in (("--shape", arguments.shape), ("--most-rounds", arguments.most_rounds)):
        asked += [option, value] if value else []
    chip = torch.cuda.get_device_name(arguments.device) if on_gpu else platform.processor() or platform.machine()
    print(f"{chip}, torch {torch.__version__}, bfloat16")
    plain: dict[str, float] = {}
    failed = []
    for way in [way for way in WAYS if arguments.way is None or way in arguments.way]:
        rows = rows_of(WAYS[way], asked)
        if isinstance(rows, str):
            failed.append(way)
            print(f"{way:16} failed: {rows}", flush=True)
            continue
        for row in rows:
            if way == "plain":
                plain[row["decoder"]] = row["ms_per_round"]
            print(line(way, row, plain.get(row["decoder"])), flush=True)
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
