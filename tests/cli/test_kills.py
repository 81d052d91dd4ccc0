"""`lopa-bench run` under kill -9 at random moments, fifty of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NUM_KILLS = 50


@pytest.mark.slow
def test_fifty_kills_change_nothing_but_times(diffusion_checkpoint: Path, tmp_path: Path) -> None:
    command = [sys.executable, Path(__file__).with_name("kill_loop.py"), diffusion_checkpoint, tmp_path, NUM_KILLS]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    num_kills, num_runs = map(int, done.stdout.split()[:2])
    assert num_kills == NUM_KILLS and num_runs < NUM_KILLS, "a run must be killed several times"
