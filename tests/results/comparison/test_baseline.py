"""Baseline files: what goes in, what is refused, what damage is told, and that a diff can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stored import record, sample, samples, store

from lopa_bench.errors import PrerequisiteError, ResultsError, SchemaTooNew
from lopa_bench.results.comparison.baseline import (
    BASELINE_VERSION,
    Acceptance,
    Baseline,
    Stage,
    accept,
    cell_for,
    cell_name,
    nearest_cell,
)
from lopa_bench.results.comparison.baseline_file import read_baseline, write_baseline
from lopa_bench.results.comparison.bounds import Bound, Bounds
from lopa_bench.results.schema import utc_now
from lopa_bench.results.store import StoredRun

NAME = "mini-maths lopa bundled:d2f"


def by(who: str = "somebody", why: str = "first baseline") -> Acceptance:
    return Acceptance(when=utc_now(), who=who, why=why, cells=())


def accepted(*runs: StoredRun, old: Baseline | None = None) -> Baseline:
    return accept(old, runs, by(), {})


def test_an_accepted_run_is_read_back_whole(tmp_path: Path) -> None:
    stage = {"smoke": Stage(min_samples=10, bounds=Bounds(max_drop=0.05, tpf=Bound(kind="exact")))}
    baseline = accept(None, [store(tmp_path)], by("Ada", "it is good"), stage)
    write_baseline(tmp_path / "deep" / "baseline.json", baseline)
    found = read_baseline(tmp_path / "deep" / "baseline.json")
    assert found == baseline
    cell = found.cells[NAME]
    assert cell.figures["accuracy"] == 0.8 and len(cell.samples) == 20 and len(cell.speeds) == 1
    assert [(one.who, one.why, one.cells) for one in found.history] == [("Ada", "it is good", (NAME,))]
    assert found.stages["smoke"].bounds.tpf == Bound(kind="exact")
    line = cell.samples["mini-maths-0001"]
    assert (line.correct, line.useful, line.rounds, line.prompt) == (1.0, 61, 13, "0" * 16)


def test_runs_of_one_cell_are_its_repeats(tmp_path: Path) -> None:
    runs = [store(tmp_path, samples(slower=slower)) for slower in (1.0, 1.1, 1.2)]
    [cell] = accepted(*runs).cells.values()
    assert len(cell.speeds) == 3 and cell.speeds[0] == pytest.approx(1.2 * cell.speeds[2])


def test_a_new_acceptance_replaces_its_cells_and_keeps_the_others_and_the_history(tmp_path: Path) -> None:
    other = record(decoder="d2f")
    first = accepted(store(tmp_path), store(tmp_path, run=other))
    second = accept(first, [store(tmp_path, samples([1.0] * 20))], by("Bob", "better"), {})
    assert list(second.cells) == ["mini-maths d2f bundled:d2f", NAME]
    assert second.cells[NAME].figures["accuracy"] == 1.0
    assert second.cells["mini-maths d2f bundled:d2f"] == first.cells["mini-maths d2f bundled:d2f"]
    assert [one.who for one in second.history] == ["somebody", "Bob"] and second.history[1].cells == (NAME,)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ({"status": "interrupted"}, "its status is interrupted"),
        ({"answers": []}, "it has no samples"),
        ({"run": record(num_documents=30)}, "it has 20 of 30 samples"),
        ({"answers": [sample(0, status="error", error="NaN")]}, "samples ended in errors"),
        ({"answers": [sample(0, correct=None)]}, "samples have no score"),
        (
            {"answers": [sample(0, correct=None, status="error", error="no sandbox", why="scorer_error")]},
            "the scorer failed",
        ),
    ],
)
def test_runs_that_must_not_become_a_baseline_are_refused(tmp_path: Path, make: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        accepted(store(tmp_path, **make))


def test_cells_are_named_by_what_was_asked_for() -> None:
    asked = {"branches": "flag", "limit": "flag", "device": "flag", "tau_conf": "file", "task": "flag"}
    assert cell_name(record(origins=asked)) == f"{NAME} branches=8 tau_conf=0.9"
    assert cell_name(record(options={"tau_conf": 0.5})) == NAME  # a changed default is the same cell
    preset = record(settings={"preset": "p"}, origins={"preset": "flag", "branches": "preset", "tau_conf": "flag"})
    assert cell_name(preset) == f"{NAME} preset=p tau_conf=0.9"


def test_a_default_that_is_said_is_the_cell_without_it(tmp_path: Path) -> None:
    plain, said = record(), record(origins={"branches": "flag"})
    other = record(options={"branches": 4}, origins={"branches": "flag"})
    dtype = record(settings={"dtype": "bfloat16"}, origins={"dtype": "flag"})
    cells = {cell_name(plain): plain, cell_name(other): other}
    assert cell_for(cells, said) == NAME and cell_for(cells, other) == f"{NAME} branches=4"
    assert cell_for({f"{NAME} branches=8": said}, plain) == f"{NAME} branches=8"
    assert cell_for(cells, dtype) == f"{NAME} dtype=bfloat16"
    assert cell_for(cells, record(options={"tau_conf": 0.5}, origins={"branches": "flag"})) == NAME
    assert nearest_cell(cells, dtype) == f"the nearest is {NAME} (dtype: auto vs bfloat16)"
    assert nearest_cell(cells, record(decoder="d2f")) == ""
    first = accepted(store(tmp_path, run=plain))
    assert list(accepted(store(tmp_path, run=said), old=first).cells) == [NAME]
    assert len(accepted(store(tmp_path, run=said), store(tmp_path, run=plain)).cells[f"{NAME} branches=8"].speeds) == 2


def test_a_diff_shows_problem_by_problem(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, accepted(store(tmp_path)))
    before = path.read_text().splitlines()
    write_baseline(path, accepted(store(tmp_path, samples([0.0] + [1.0] * 15 + [0.0] * 4))))
    changed = [line.strip() for line in path.read_text().splitlines() if line not in before]
    assert any(line.startswith('"mini-maths-0000": [0.0, 60, 12') for line in changed)
    assert not any(line.startswith('"mini-maths-0001"') for line in changed)
    assert any(line.startswith('"accuracy": 0.75') for line in changed)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"baseline_version": 1', '{"baseline_version": 1, "cells": [1]}', "<html>", "null"]
)
def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=r"is damaged.*restore it from version control"):
        read_baseline(path)


def edited(path: Path, change: dict[str, Any]) -> None:
    document = json.loads(path.read_text())
    document["cells"][NAME]["samples"]["mini-maths-0000"][0] = change.get("correct", 1.0)
    document.update({key: value for key, value in change.items() if key != "correct"})
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("value", "words"), [(0.0, "was edited"), (float("nan"), "is damaged|was edited"), ("x", "is damaged")]
)
def test_an_edited_sample_is_found(tmp_path: Path, value: Any, words: str) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, accepted(store(tmp_path)))
    edited(path, {"correct": value})
    with pytest.raises(ResultsError, match=words):
        read_baseline(path)


def test_a_later_program_s_file_and_other_definitions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    baseline = accepted(store(tmp_path))
    write_baseline(path, baseline)
    edited(path, {"baseline_version": BASELINE_VERSION + 1})
    with pytest.raises(SchemaTooNew, match=f"version {BASELINE_VERSION + 1}"):
        read_baseline(path)
    old = baseline.model_copy(update={"definitions": {**baseline.definitions, "tpf": 0}})
    with pytest.raises(ResultsError, match="other definitions"):
        accepted(store(tmp_path), old=old)


def test_a_run_record_of_an_older_schema_in_a_baseline_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, accepted(store(tmp_path)))
    document = json.loads(path.read_text())
    document["cells"][NAME]["run"]["schema_version"] = 1
    path.write_text(json.dumps(document))
    from lopa_bench.results.schema import SCHEMA_VERSION

    assert read_baseline(path).cells[NAME].run.schema_version == SCHEMA_VERSION
