"""What other work has of the machine: read from the system's counts, kept with every answer of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness import load
from lopa_bench.harness.load import SCHEDSTAT, STAT, Neighbours, busy_seconds, queued_seconds
from lopa_bench.harness.runner import run
from lopa_bench.results.comparison.load import LOAD, QUEUED, WATCHED, load_of, queued_share, unhindered_speed
from lopa_bench.results.metrics import METRICS

TICKS = os.sysconf("SC_CLK_TCK")


def test_idle_and_waiting_for_a_disk_are_not_busy_and_stolen_time_is(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    file.write_text("cpu  1 2 4 1000 1000 8 16 32 500 500\ncpu0 9 9 9\n")
    assert busy_seconds(file) == pytest.approx((1 + 2 + 4 + 8 + 16 + 32) / TICKS)


@pytest.mark.parametrize("text", ["", "intr 1 2 3\n", "cpu  1 2\n", "cpu  a b c d e f g h\n"])
def test_a_system_that_tells_nothing_of_use_has_no_load(tmp_path: Path, text: str) -> None:
    file = tmp_path / "stat"
    file.write_text(text)
    assert busy_seconds(file) is None and busy_seconds(tmp_path / "nowhere") is None
    assert Neighbours(file).share() is None


def test_the_time_without_a_processor_is_the_second_number_in_nanoseconds(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("9000000000 2500000000 17\n")
    assert queued_seconds(file) == 2.5
    for text in ("", "1", "a b c"):
        file.write_text(text)
        assert queued_seconds(file) is None
    assert queued_seconds(tmp_path / "nowhere") is None


@pytest.mark.parametrize(("before", "after", "found"), [(1.0, 1.5, 0.5), (None, 1.0, None), (1.0, None, None)])
def test_the_time_without_a_processor_is_that_since_the_beginning(
    monkeypatch: pytest.MonkeyPatch, before: float | None, after: float | None, found: float | None
) -> None:
    told = iter([before, before, after])
    monkeypatch.setattr(load, "queued_seconds", lambda: next(told))
    neighbours = Neighbours()
    neighbours.begin()
    assert neighbours.queued_s() == found


def shares(monkeypatch: pytest.MonkeyPatch, spans: list[tuple[float, float]], cpus: int = 2) -> list[float | None]:
    """Spans of a second each, of `busy` seconds over all processors and `own` of them this process's."""
    now = {"busy": 0.0, "own": 0.0, "passed": 0.0}
    monkeypatch.setattr(load, "busy_seconds", lambda file: now["busy"])
    monkeypatch.setattr(load.time, "process_time", lambda: now["own"])
    monkeypatch.setattr(load.time, "monotonic", lambda: now["passed"])
    monkeypatch.setattr(load.os, "cpu_count", lambda: cpus)
    neighbours, found = Neighbours(), []
    for busy, own in spans:
        neighbours.begin()
        now = {"busy": now["busy"] + busy, "own": now["own"] + own, "passed": now["passed"] + 1.0}
        found.append(neighbours.share())
    return found


def test_the_own_work_is_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares(monkeypatch, [(1.0, 1.0), (2.0, 1.0), (2.0, 0.5)]) == pytest.approx([0.0, 0.5, 0.75])


def test_what_a_tick_counts_too_late_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a quiet machine the mean stays 0 however ticks fall, and is not that of the positive ones alone."""
    assert shares(monkeypatch, [(0.9, 1.0), (1.1, 1.0)]) == pytest.approx([0.0, 0.0])


def test_a_span_shorter_than_a_tick_tells_nothing() -> None:
    neighbours = Neighbours()
    neighbours.begin()
    assert neighbours.share() is None


def test_every_answer_of_a_run_says_what_else_the_machine_did(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "busy_seconds", lambda file: None)
    monkeypatch.setattr(load, "queued_seconds", lambda: None)
    silent = run(replace(start(), fresh=True)).run
    assert silent is not None and load_of(silent.samples) is queued_share(silent.samples) is None
    assert unhindered_speed(silent.samples) is None
    assert all(QUEUED not in one.extra and LOAD not in one.extra for one in silent.samples)


@pytest.mark.skipif(
    busy_seconds(STAT) is None or queued_seconds(SCHEDSTAT) is None,
    reason="this system does not tell what else it does",
)
def test_a_run_knows_its_load_and_its_speed_without_it(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "SHORTEST_S", 0.0)
    found = run(replace(start(), fresh=True)).run
    assert found is not None and found.samples
    for one in found.samples:
        watched = float(str(one.extra[WATCHED]))
        assert 0 <= float(str(one.extra[LOAD])) <= 1 and 0 <= float(str(one.extra[QUEUED])) <= watched + 1e-3
        assert watched >= one.time.total_s - 1e-3
    share, speed, plain = queued_share(found.samples), unhindered_speed(found.samples), load_of(found.samples)
    assert share is not None and 0 <= share < 1 and plain is not None and 0 <= plain <= 1
    assert speed == pytest.approx((METRICS["tps_e2e"].value(found.samples) or 0) / (1 - share))
