"""A kill at any single step of a run's writing, the first to the last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_kill_at_any_step_on_the_disk_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    command = [sys.executable, Path(__file__).with_name("crash_points.py"), tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40
