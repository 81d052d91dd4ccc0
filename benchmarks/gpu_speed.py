"""What 8-bit products, merged projections and compilation bring on a CUDA device, each decoder's rounds at a 7B shape.

    python benchmarks/gpu_speed.py               # all four ways, every decoder
    python benchmarks/gpu_speed.py --decoder "lopa 8"

Runs engine_speed.py once a way and prints milliseconds a round, and how many times as fast as without.
"""

from __future__ import annotations

import argparse
import json
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


def rows_of(way: list[str], decoders: list[str]) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("engine_speed.py")
    chosen = [word for name in decoders for word in ("--decoder", name)]
    done = subprocess.run(
        [sys.executable, str(script), "--device", "cuda", "--json", *chosen, *way], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"engine_speed.py {' '.join(way)} failed: {done.stderr.strip().splitlines()[-1]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])["rows"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decoder", action="append", default=[])
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("gpu_speed.py needs a CUDA device, and torch sees none here")
    plain: dict[str, float] = {}
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, bfloat16")
    for way, flags in WAYS.items():
        for row in rows_of(flags, arguments.decoder):
            name, ms = row["decoder"], row["ms_per_round"]
            plain.setdefault(name, ms)
            done = "; ".join(row["accelerations"]) or "as it is"
            print(f"{way:16} {name:17} {ms:8.2f} ms/round  {plain[name] / ms:5.2f}x  ({done})", flush=True)


if __name__ == "__main__":
    main()
