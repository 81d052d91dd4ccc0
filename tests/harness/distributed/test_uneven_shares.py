"""Seven problems are shared unevenly by two and three processes; dual cache and batches give one process's record."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.store import StoredRun, list_runs


def told(run: StoredRun) -> list[dict[str, Any]]:
    """All that a run says of its samples but times and which process it was."""
    return [sample.model_dump(exclude={"time": ..., "rank": ..., "extra": ...}) for sample in run.samples]


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "batch"), [(2, 1), (3, 2)])
def test_seven_problems_with_a_dual_cache_make_the_record_of_one_process(
    devices: int, batch: int, start: Callable[..., RunSpec], tmp_path: Path
) -> None:
    chosen: dict[str, Any] = {"max_new_tokens": 12, "block_size": 4, "cache": "dual"}
    spec = RunSpec(**{**vars(start(decoder="fast-dllm", limit=7)), "options": chosen})
    options = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    words = ["run", "-t", "mini-maths", "-d", "fast-dllm", "-m", str(spec.model), "-n", "7", "--warmup", "0", "--json"]
    words += [
        "--threads",
        "1",
        "--devices",
        str(devices),
        "--batch-size",
        str(batch),
        "--runs-dir",
        str(tmp_path / "many"),
    ]
    program = [sys.executable, "-m", "lopa_bench.cli.app"]
    done = subprocess.run([*program, *words, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [together] = list_runs(tmp_path / "many")
    alone = run(spec).run
    assert alone is not None and len(alone.samples) == 7
    assert told(together) == told(alone)
    assert together.record.environment.groups == {"dp": devices, "bp": 1, "tp": 1}
    shares = [sum(one.rank == rank for one in together.samples) for rank in range(devices)]
    assert shares == {2: [4, 3], 3: [3, 2, 2]}[devices]
