"""Runs on several numbers of devices are set against each other whatever the model, and whoever divided the cores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.reports.scaling import scaling
from lopa_bench.results.store import list_runs


@pytest.mark.slow
def test_a_model_of_ones_own_is_set_against_itself_on_more_devices(
    start: Callable[..., RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, root = start(), tmp_path / "runs"
    asked = ["-t", "mini-maths", "-d", "lopa", "-m", str(spec.model), "-n", "2", "--warmup", "0", "--json"]
    options = [word for name, value in spec.options.items() for word in ("--set", f"{name}={value}")]
    for devices, threads in ((1, "2"), (2, "1")):  # as two cores are divided, on any machine
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        words = ["run", *asked, *options, "--runs-dir", str(root), "--devices", str(devices), "--new"]
        done = subprocess.run([sys.executable, "-m", "lopa_bench.cli.app", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    [found] = scaling(list_runs(root))
    assert [(point.devices, point.threads) for point in found.points] == [(1, 2), (2, 1)]
    assert all(point.samples == 2 and point.same_answers for point in found.points)
