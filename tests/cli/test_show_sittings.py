"""`lopa-bench show` of a run that was made in several places."""

from __future__ import annotations

from pathlib import Path

from stored import PLACE, record, store

from lopa_bench.cli.views import run_lines
from lopa_bench.results.sittings import Sitting


def test_all_places_are_told(tmp_path: Path) -> None:
    elsewhere = PLACE.model_copy(update={"device_name": "NVIDIA H200", "num_threads": 7})
    mixed = store(tmp_path, run=record(earlier_sittings=(Sitting(place=elsewhere, num_answers=5),)))
    lines = [*run_lines(mixed, all_settings=False)]
    [earlier] = [line for line in lines if line.startswith("up to answer 5 on: ")]
    [last] = [line for line in lines if line.startswith("ran on: ")]
    assert "NVIDIA H200" in earlier and "7 threads" in earlier and "AMD EPYC" in last and "1 threads" in last
    assert any("made in several sittings with AMD EPYC and NVIDIA H200; 1 thread and 7 threads" in one for one in lines)
    assert not any(line.startswith("up to answer") for line in run_lines(store(tmp_path), all_settings=False))
