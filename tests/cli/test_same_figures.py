"""One run's figures are the same numbers in every command and format that prints them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from stored import record, samples, store

FIGURES = ("accuracy", "tpf", "tps_e2e")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    store(tmp_path / "runs", samples([0.0] * 3 + [1.0] * 17))
    store(tmp_path / "runs", samples([1.0] * 15 + [0.0] * 5, 1.3), record(options={"tau_conf": 0.8}))
    return tmp_path / "runs"


def shown(call: Any) -> list[tuple[str, dict[str, float]]]:
    """The figures of run 2 by every way to get at them; each way names those that it has."""

    def rows(*words: str) -> Any:
        code, out, err = call(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    def lines(*words: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(call(*words, "--csv")[1])))

    def floats(row: dict[str, Any], ending: str = "") -> dict[str, float]:
        return {name: float(row[f"{name}{ending}"]) for name in FIGURES if f"{name}{ending}" in row}

    assert call("baseline", "accept", "2", "--why", "a test")[0] == 0
    gates = {"accuracy": "accuracy", "tpf": "tpf", "tokens/s": "tps_e2e"}
    check = ("check", "--baseline", "baseline.json", "2")
    frontier = [one for one in rows("frontier", "1", "2")["settings"] if one["run"].startswith("0002")]
    return [
        ("show", floats({one["id"]: one["value"] for one in rows("show", "2", "--metrics")["rows"]})),
        ("show, csv", floats({one["id"]: one["value"] for one in lines("show", "2", "--metrics")})),
        ("list", floats(next(one for one in rows("list", "runs")["rows"] if one["run"].startswith("0002")))),
        ("compare", floats(rows("compare", "1", "2")["pairs"][0], "_after")),
        ("compare, csv", floats(lines("compare", "1", "2")[0], "_after")),
        ("check", {gates[one["gate"]]: one["after"] for one in rows(*check)["results"] if one["gate"] in gates}),
        ("check, csv", {gates[one["gate"]]: float(one["after"]) for one in lines(*check) if one["gate"] in gates}),
        ("frontier", floats(frontier[0])),
    ]


def test_every_command_prints_the_same_figures(call: Any, runs: Path) -> None:
    found = shown(call)
    expected = found[0][1]
    assert set(expected) == set(FIGURES) and expected["accuracy"] == 0.75
    for name, figures in found:
        assert len(figures) >= 2, name
        for figure, value in figures.items():
            assert value == pytest.approx(expected[figure], rel=1e-12), (name, figure)
