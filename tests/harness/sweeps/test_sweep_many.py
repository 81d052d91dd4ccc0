"""Sweeps of thousands of cells: what cells have in common is done once, and tables stay readable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError, ModelError
from lopa_bench.harness.shared_work import folder_state, once, shared_work
from lopa_bench.harness.sweeps.file import written_in_words
from lopa_bench.harness.sweeps.grid import cells_of
from lopa_bench.harness.sweeps.overview import plan_overview, result_overview
from lopa_bench.harness.sweeps.plan import Paces, PlannedCell, plan_cells, stored_paces
from lopa_bench.harness.sweeps.sweep import run_sweep
from lopa_bench.results.store import list_runs
from lopa_bench.results.sweeps import read_sweep
from lopa_bench.results.tables import to_text

# What takes its time, by where it is looked up.
COSTLY = (
    "lopa_bench.models.loading.load_tokenizer",
    "lopa_bench.models.loading.check_checkpoint",
    "lopa_bench.models.loading.load_config",
    "lopa_bench.models.skeleton.Transformer",
    "lopa_bench.models.weights.weights_hash",
    "lopa_bench.harness.environment.git_state",
    "lopa_bench.harness.job.choose",
    "lopa_bench.harness.job.find_task",
    "lopa_bench.harness.answering.Answerer.encode",
    "lopa_bench.harness.sweeps.plan.resumable_runs",
)
Count = Callable[[], Counter[str]]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Count the calls of what is costly."""
    from importlib import import_module

    calls: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **more)

        return call

    for path in COSTLY:
        place, _, name = path.rpartition(".")
        owner = import_module(place.removesuffix(".Answerer"))
        owner = owner.Answerer if place.endswith(".Answerer") else owner
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    return lambda: calls


@pytest.fixture
def grid(tmp_path: Path, diffusion_checkpoint: Path) -> Callable[..., list[Any]]:
    def cells(**changes: Any) -> list[Any]:
        small = {
            "task": ["mini-maths", "mini-code"], "decoder": ["d2f", "lopa"], "model": str(diffusion_checkpoint),
            "limit": 2, "warmup": 0, "max_new_tokens": 8, "block_size": 4, "threads": 1,
        }  # fmt: skip
        return cells_of(written_in_words({**small, **changes}), tmp_path / "runs")

    return cells


def fractions(count: int) -> list[float]:
    return [(index + 1) / (count + 1) for index in range(count)]


def test_thousands_of_cells_read_ask_and_hash_as_often_as_one(grid: Any, count: Count) -> None:
    plan_cells(grid(task="mini-maths", decoder="lopa"))
    one = Counter(count())
    assert set(one) == {path.rpartition(".")[2] for path in COSTLY}
    count().clear()
    cells = grid(decoder="lopa", branches=[1, 2, 3, 4], tau_add=fractions(15), tau_conf=fractions(20))
    assert len(cells) == 2 * 4 * 15 * 20
    planned = plan_cells(cells)
    assert len(planned) == len(cells) and {one.state for one in planned} == {"new"}
    per_task = {"choose", "find_task", "encode"}
    for name, calls in count().items():
        assert calls <= one[name] * (2 if name in per_task else 1), (name, calls, one[name])
    assert len({planned_cell.asked for planned_cell in planned}) == 2
    assert len({id(planned_cell.asked) for planned_cell in planned}) == 2  # one tuple of ids, not one for each cell


def test_the_cells_planned_together_are_those_planned_alone(grid: Any) -> None:
    cells = grid(branches=[1, 2], limit=[1, 2], dtype=["float32", "bfloat16"])
    together = plan_cells(cells)
    for cell, planned in zip(cells, together, strict=True):
        [alone] = plan_cells([cell])
        assert (alone.asked, alone.num_missing, alone.plan) == (planned.asked, planned.num_missing, planned.plan)
        assert alone.record is not None and planned.record is not None
        assert alone.record.fingerprint == planned.record.fingerprint


def test_a_bad_checkpoint_is_read_once_for_all_cells(grid: Any, count: Count, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"60 of 60 cells cannot run.*config\.json not found.*and 57 more"):
        plan_cells(grid(model=str(tmp_path / "empty"), tau_add=fractions(15)))
    assert count()["load_config"] == 1


def test_finished_cells_are_neither_run_nor_read_again(
    grid: Any, count: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, cells = tmp_path / "runs", grid(task="mini-maths", branches=[1, 2])
    first = run_sweep(plan_cells(cells), root, name="many")
    monkeypatch.setattr(
        "lopa_bench.harness.sweeps.sweep.run_on_its_devices", lambda *_: pytest.fail("a finished cell was run")
    )
    monkeypatch.setattr("lopa_bench.results.jsonl.read_lines", lambda *_: pytest.fail("its samples were read"))
    planned = plan_cells(cells)
    assert [(one.is_done, one.num_missing) for one in planned] == [(True, 0)] * 3
    written: list[Any] = []
    monkeypatch.setattr("lopa_bench.harness.sweeps.sweep.write_sweep", lambda _, record: written.append(record))
    again = run_sweep(planned, root, name="many")
    assert len(written) == 1 and [cell.state for cell in written[0].cells] == ["stored"] * 3
    assert [one.cell().run for one in again] == [one.cell().run for one in first]
    assert [one.summary.n for one in again if one.summary] == [2, 2, 2]


def test_a_cell_asked_for_fewer_problems_than_are_stored_is_summed_up_anew(grid: Any, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run_sweep(plan_cells(grid(task="mini-maths", decoder="d2f")), root, name="many")
    [planned] = plan_cells(grid(task="mini-maths", decoder="d2f", limit=1))
    assert (planned.is_done, planned.num_missing) == (False, 0)
    [outcome] = run_sweep([planned], root, name="many")
    assert outcome.summary is not None and outcome.summary.n == 1 and outcome.cell().state == "stored"
    assert read_sweep(root, "many").cells[0].state == "stored" and len(list_runs(root)) == 1


def test_long_lists_are_grouped(grid: Any, tmp_path: Path) -> None:
    cells = grid(branches=[1, 2])
    planned = plan_cells(cells)
    table = plan_overview(planned, Paces())
    assert [(row["task"], row["decoder"], row["cells"], row["new"], row["missing"]) for row in table.rows] == [
        ("mini-maths", "d2f", 1, 1, 2), ("mini-maths", "lopa", 2, 2, 4),
        ("mini-code", "d2f", 1, 1, 2), ("mini-code", "lopa", 2, 2, 4),
    ]  # fmt: skip
    assert {row["time"] for row in table.rows} == {"unknown"} and "--whole" in to_text(table)
    outcomes = run_sweep(planned[:3], tmp_path / "runs", name="many")
    [d2f, lopa] = result_overview(outcomes).rows
    assert (d2f["cells"], lopa["cells"], lopa["ran"], lopa["failed"]) == (1, 2, 2, 0)
    values = [one.summary.metrics["tpf"].value for one in outcomes[1:] if one.summary]
    assert (lopa["tpf_least"], lopa["tpf_most"]) == (min(values), max(values))
    later: list[PlannedCell] = plan_cells(cells)
    rows = plan_overview(later, stored_paces(tmp_path / "runs")).rows
    assert [row["finished"] for row in rows] == [1, 2, 0, 0] and rows[0]["time"] == "-"


def test_once_keeps_values_and_errors_within_its_scope_alone(tmp_path: Path) -> None:
    made: list[str] = []

    def make() -> str:
        made.append("value")
        return made[-1]

    def fail() -> str:
        made.append("error")
        raise ModelError("no")

    once("key", make), once("key", make)
    assert len(made) == 2
    with shared_work():
        with shared_work():
            once("key", make)
        once("key", make)
        for _ in range(2):
            with pytest.raises(ModelError, match="no"):
                once("other", fail)
    assert made.count("value") == 3 and made.count("error") == 1
    before = folder_state(tmp_path)
    (tmp_path / "file").write_text("text")
    assert folder_state(tmp_path) != before and folder_state(tmp_path / "absent") == ()


def test_looking_through_finished_runs_parses_none(grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new run looks for one to go on with and for an unfinished relative, whatever else is in the folder."""
    from lopa_bench.harness import kinship
    from lopa_bench.results import store

    root = tmp_path / "runs"
    [one, two] = run_sweep(plan_cells(grid(task="mini-maths", decoder="lopa", branches=[1, 2])), root, name="many")
    assert one.run is not None and two.run is not None
    read: list[str] = []
    parse = store.read_run

    def counted(path: Path) -> Any:
        read.append(path.name)
        return parse(path)

    monkeypatch.setattr(store, "read_run", counted)
    monkeypatch.setattr(kinship, "read_run", counted)
    assert store.find_resumable(root, "0" * 64) is None and read == []
    found = store.find_resumable(root, one.run.record.fingerprint)
    assert found is not None and read == [one.run.path.name]
    other = one.run.record.model_copy(update={"fingerprint": "0" * 64})
    assert kinship.unfinished_kin(root, other) is None and len(read) == 1
    file = one.run.path / store.RUN_FILE
    file.write_text(file.read_text().replace('"status": "finished"', '"status": "interrupted"', 1))
    assert "cannot be gone on with" in str(kinship.unfinished_kin(root, other)) and len(read) == 2
