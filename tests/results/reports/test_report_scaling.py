"""Runs of one setting on several numbers of devices in a report."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from stored import record, samples, store

from lopa_bench.results.reports.figures import STYLES, Drawing, write
from lopa_bench.results.reports.report import make_report
from lopa_bench.results.store import StoredRun


def on(root: Path, devices: int, slower: float) -> StoredRun:
    place: dict[str, Any] = {"world_size": devices, "groups": {"bp": devices} if devices > 1 else {}}
    return store(root, samples(slower=slower), record(place=place, fingerprint="f" * 8))


def test_speed_up_is_drawn_and_tabled_also_where_it_is_below_one(tmp_path: Path) -> None:
    report = make_report([on(tmp_path, 1, 1.0), on(tmp_path, 2, 0.6), on(tmp_path, 4, 1.25)], runs_dir=tmp_path)
    drawing = next(one for one in report.figures if one.name == "scaling")
    assert drawing.refs == ("R1", "R2", "R3")
    write(drawing, tmp_path / "out", STYLES["screen"])
    assert (tmp_path / "out" / "scaling.pdf").read_bytes().startswith(b"%PDF")
    rows = next(one.table.rows for one in report.tables if one.name == "scaling-1")
    assert [row["run"] for row in rows] == ["R1", "R2", "R3"]
    assert [row["speed_up"] for row in rows] == pytest.approx([1.0, 1 / 0.6, 0.8])


def test_a_line_for_each_way_of_sharing_and_a_bar_for_each_arrangement(tmp_path: Path) -> None:
    runs = [on(tmp_path, 1, 1.0)]
    for groups in ({"bp": 2}, {"tp": 2}, {"dp": 2}, {"bp": 2, "tp": 2}):
        size = math.prod(groups.values())
        answers = [one.model_copy(update={"token_ids": (1,)}) for one in samples()] if size == 4 else samples()
        place: dict[str, Any] = {"world_size": size, "groups": groups}
        runs.append(store(tmp_path, answers, record(place=place, fingerprint="f" * 8)))
    report = make_report(runs, runs_dir=tmp_path)
    drawing = next(one for one in report.figures if one.name == "scaling")
    assert isinstance(drawing, Drawing) and "Not the same answers: branches 2 x network 2 (" in drawing.caption
    left, right = drawing.draw(STYLES["paper"]).axes
    ways = ["perfect", "share branches", "share samples", "share network", "share branches and network"]
    assert left.get_legend_handles_labels()[1] == ways
    bars = [label.get_text() for label in right.get_yticklabels()]
    assert sorted(bars) == sorted(["one device", "branches 2", "network 2", "samples 2", "branches 2 x network 2"])


def test_one_number_of_devices_is_no_scaling(tmp_path: Path) -> None:
    report = make_report([on(tmp_path, 1, 1.0)], runs_dir=tmp_path)
    assert "scaling" in {one.name for one in report.skipped}
