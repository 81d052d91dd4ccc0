"""Reference decodings replayed on the devices of this machine: on one, and shared by 2, 4, 8 in every arrangement.

    python benchmarks/gpu_verify.py golden/cases.json                            # as many CUDA devices as there are
    python benchmarks/gpu_verify.py golden/cases.json --device cpu --devices 1,2 --every 20      # a trial

Every replay is `lopa-bench verify`, in float32. The cases were made on a CPU: another device may round a near tie the
other way, so that what matters of several devices is which cases differ there and not on one. Exit 1 when a case
differs or a replay fails; all of them are carried out first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_devices import Way, add_arguments, heads_of, sizes_here, ways


@dataclass
class Replay:
    """What an arrangement came to: equal cases of how many, by decoder, and the differences by case."""

    way: Way
    equal: dict[str, str] = field(default_factory=dict)
    differences: dict[str, str] = field(default_factory=dict)
    failed: str = ""


def every_nth(cases: Path, step: int, folder: Path) -> Path:
    """A file with every n-th case of each decoder."""
    by_decoder: dict[str, list[Any]] = defaultdict(list)
    for case in json.loads(cases.read_text(encoding="utf-8")):
        by_decoder[case["decoder"]].append(case)
    few = folder / "cases.json"
    few.write_text(json.dumps([case for of_one in by_decoder.values() for case in of_one[::step]]), encoding="utf-8")
    return few


def replay(way: Way, cases: Path, models: Path, device: str) -> Replay:
    """Replay the cases; those of decoders without branches only where the network alone is shared."""
    only_lopa = way.devices > 1 and not way.label.startswith("network")
    words = ["verify", str(cases), "--models-dir", str(models), "--device", device, "--json", *way.flags]
    words += ["--decoder", "lopa"] if only_lopa else []
    done = subprocess.run([sys.executable, "-m", "lopa_bench.cli.app", *words], capture_output=True, text=True)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing was said"]
        return Replay(way, failed=f"ended with {done.returncode}: {said[-1]}")
    found = Replay(way)
    for one in told["decoders"]:
        found.differences |= {failure["id"]: failure["difference"] for failure in one["failures"]}
        found.equal[one["decoder"]] = f"{one['cases'] - len(one['failures'])} of {one['cases']}"
    return found


def show(found: Replay, alone: Replay | None) -> None:
    """Print an arrangement: equal cases, and each that differs otherwise than on one device."""
    if found.failed:
        print(f"{found.way.label:24} failed: {found.failed}", flush=True)
        return
    print(f"{found.way.label:24} equal: " + ", ".join(f"{name} {of}" for name, of in found.equal.items()), flush=True)
    known = alone.differences if alone is not None else {}
    for case, difference in found.differences.items():
        word = "as on one device" if known.get(case) == difference else difference
        print(f"{'':24} {case}: {word}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="JSON file of cases, their models beside it (docs/verify.md)")
    parser.add_argument("--every", type=int, default=1, help="replay every n-th case of each decoder only")
    add_arguments(parser)
    arguments = parser.parse_args()
    if not arguments.cases.is_file():
        raise SystemExit(f"{arguments.cases} is no file of cases; docs/verify.md says how to get or make one")
    models = arguments.cases.resolve().parent
    names = {case["model"] for case in json.loads(arguments.cases.read_text(encoding="utf-8"))}
    heads = min((heads for name in names if (heads := heads_of(str(models / name))) is not None), default=None)
    replays: list[Replay] = []
    with tempfile.TemporaryDirectory() as scratch:
        cases = every_nth(arguments.cases, arguments.every, Path(scratch))
        for way in ways(sizes_here(arguments), heads):
            found = replay(way, cases, models, arguments.device)
            show(found, replays[0] if replays and replays[0].way.devices == 1 else None)
            replays.append(found)
    broken = [one.way.label for one in replays if one.failed or one.differences]
    raise SystemExit(f"not equal everywhere: {', '.join(broken)}" if broken else 0)


if __name__ == "__main__":
    main()
