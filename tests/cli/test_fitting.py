"""Intervals of TPF and speed: printed where the terminal has room, and never at the price of the table."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from report_cases import lopa

from lopa_bench.cli import fitting as module
from lopa_bench.cli.fitting import fitting
from lopa_bench.cli.views import run_table, summary_of
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import Table, to_text
from lopa_bench.results.terminal import has_room, natural_width

INTERVAL = re.compile(r"\d \[[\d.]+, [\d.]+\]")


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return lopa(tmp_path / "runs", 8)


def with_interval(table: Table) -> set[str]:
    return {column.key for column in table.columns if column.interval}


def test_a_wide_table_is_left_whole_and_a_narrow_one_keeps_accuracy_s(stored: StoredRun) -> None:
    table = run_table([stored])
    widest = natural_width(table)
    assert max(map(len, to_text(table).splitlines()[:4])) <= widest
    assert with_interval(fitting(table, widest)) == {"accuracy", "tpf", "tps_e2e"}
    assert with_interval(fitting(table, widest - 1)) == {"accuracy"}
    assert [column.key for column in fitting(table, widest - 1).columns] == [column.key for column in table.columns]


def test_where_no_grid_fits_nothing_is_left_out(stored: StoredRun) -> None:
    """One row is turned on its side then, which is narrow with any intervals."""
    table = fitting(run_table([stored]), 60)
    assert not has_room(table, 60) and with_interval(table) == {"accuracy", "tpf", "tps_e2e"}
    lines = to_text(table, 60).splitlines()
    assert all(len(line) <= 60 for line in lines) and sum(bool(INTERVAL.search(line)) for line in lines) == 3


def test_show_prints_them_and_gives_their_bounds(call: Any, stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    row = call("show", "1")[1].splitlines()[4]
    figures = summary_of(stored).metrics
    for name, digits in (("tpf", 2), ("tps_e2e", 1)):
        one = figures[name]
        assert one.interval is not None
        bounds = f"{one.interval.low:.{digits}f}, {one.interval.high:.{digits}f}"
        assert f"{one.value:.{digits}f} [{bounds}]" in row
    [held] = csv.DictReader(io.StringIO(call("show", "1", "--csv")[1]))
    assert float(held["tpf_low"]) <= float(held["tpf"]) <= float(held["tpf_high"])
    assert float(held["tps_e2e_low"]) <= float(held["tps_e2e"]) <= float(held["tps_e2e_high"])
    monkeypatch.setattr(module, "terminal_width", lambda: 140)
    row = call("show", "1")[1].splitlines()[4]
    assert len(INTERVAL.findall(row)) == 1
    assert len(INTERVAL.findall(call("show", "1", "--markdown")[1])) == 3, "a file is as wide as it takes"


def test_what_is_no_terminal_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.terminal_width() is None
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "133")
    assert module.terminal_width() == 133
