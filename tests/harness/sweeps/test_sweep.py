"""Sweeps on a tiny random network: only what is missing runs, and one bad cell costs no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import Behaviour, serving

from lopa_bench.errors import ConfigError, DecodeError, PrerequisiteError, ResultsError, SchemaTooNew
from lopa_bench.harness.progress import Silent
from lopa_bench.harness.runner import run
from lopa_bench.harness.sweeps.file import written_in_words
from lopa_bench.harness.sweeps.grid import cells_of
from lopa_bench.harness.sweeps.plan import Paces, PlannedCell, duration, plan_cells, plan_table, stored_paces
from lopa_bench.harness.sweeps.sweep import SilentListener, has_failed, result_table
from lopa_bench.harness.sweeps.trial import try_out
from lopa_bench.results.reports.runs import groups_of
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.store import list_runs
from lopa_bench.results.sweeps import named_runs, read_sweep, sweep_file, sweep_names, sweep_runs
from lopa_bench.results.tables import render

Plan = Callable[..., list[PlannedCell]]


def states(planned: list[PlannedCell]) -> list[str]:
    return [one.state for one in planned]


def test_cells_are_listed_with_rounds_and_time_once_a_like_run_is_known(plan: Plan, go: Any, tmp_path: Path) -> None:
    first = plan_table(plan(), stored_paces(tmp_path / "runs"))
    assert [row["cell"] for row in first.rows] == [1, 2, 3]
    assert [(row["state"], row["missing"], row["most_rounds"]) for row in first.rows] == [("new", 2, 16)] * 3
    assert {row["time"] for row in first.rows} == {"unknown"} and {row["rounds"] for row in first.rows} == {None}
    assert "3 cells: 3 new; 3 with a time not known" in first.notes[0]
    assert [column.key for column in first.columns][:4] == ["cell", "task", "decoder", "branches"]
    go(plan())
    later = plan_table(plan(limit=6), stored_paces(tmp_path / "runs"))
    assert {row["state"] for row in later.rows} == {"2 of 6"} and {row["missing"] for row in later.rows} == {4}
    for row in later.rows:
        assert 4 <= row["rounds"] <= row["most_rounds"] == 32 and row["seconds"] > 0  # type: ignore[operator]
    assert "3 cells: 3 begun; about" in later.notes[0] and "not known" not in later.notes[0]
    done = plan_table(plan(), stored_paces(tmp_path / "runs"))
    assert {row["time"] for row in done.rows} == {"-"} and "nothing to generate" in done.notes[0]


def test_only_missing_cells_run(plan: Plan, go: Any) -> None:
    assert [one.num_new for one in go(plan(branches=1))] == [2, 2]
    second = go(plan())
    assert [(one.num_new, one.cell().state) for one in second] == [(0, "stored"), (0, "stored"), (2, "ran")]
    assert states(plan()) == ["finished"] * 3
    assert [one.num_new for one in go(plan())] == [0, 0, 0]


def test_an_interrupted_sweep_goes_on(plan: Plan, go: Any, tmp_path: Path) -> None:
    class Impatient(SilentListener):
        def cell_begins(self, number: int, *rest: Any) -> Silent:
            return Stopper() if number == 2 else Silent()

    class Stopper(Silent):
        def sampled(self, sample: SampleRecord, running: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(plan(), listener=Impatient())
    record = read_sweep(tmp_path / "runs", "small")
    assert [cell.state for cell in record.cells] == ["ran", "planned", "planned"]
    assert states(plan()) == ["finished", "1 of 2", "new"]
    assert [one.num_new for one in go(plan())] == [0, 1, 2]
    assert len(list_runs(tmp_path / "runs")) == 3


def test_a_failing_cell_stops_no_other(plan: Plan, go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S6: a launcher that goes on after a failed experiment must not end well."""
    from lopa_bench.decoders.d2f import D2FDecoder

    def broken(self: Any, *_: Any, **__: Any) -> Any:
        raise PrerequisiteError("the device is gone")

    with monkeypatch.context() as patch:
        patch.setattr(D2FDecoder, "decode", broken)
        outcomes = go(plan())
    assert [one.error for one in outcomes] == ["the device is gone", None, None]
    assert has_failed(outcomes)
    table = result_table(outcomes)
    assert [row["state"] for row in table.rows] == ["failed", "ran", "ran"]
    assert "cell 1 failed (mini-maths, d2f" in table.notes[0] and "the device is gone" in table.notes[0]
    assert read_sweep(tmp_path / "runs", "small").cells[0].error == "the device is gone"
    again = go(plan())
    assert [one.num_new for one in again] == [2, 0, 0] and not has_failed(again)


def test_a_fault_of_the_program_costs_its_cell_only(
    plan: Plan, go: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from lopa_bench.decoders.d2f import D2FDecoder

    monkeypatch.setattr(D2FDecoder, "decode", lambda *_, **__: 1 / 0)
    outcomes = go(plan())
    assert [one.error for one in outcomes] == ["ZeroDivisionError: division by zero", None, None]
    assert "Traceback" in caplog.text


def test_a_cell_without_one_good_answer_has_failed(plan: Plan, go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.decoders.d2f import D2FDecoder

    def nan(*_: Any, **__: Any) -> Any:
        raise DecodeError("the model returned NaN logits")

    monkeypatch.setattr(D2FDecoder, "decode", nan)
    first, second = go(plan(branches=1))
    assert first.error == "no answer went well" and second.error is None


def test_every_cell_is_checked_before_the_first_starts(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(branches=[2, 0, 4], block_size=[4, 0])
    words = str(caught.value)
    assert "cells cannot run, so none was started" in words and "branches = 0" in words and "more" in words
    with pytest.raises(ConfigError, match=r"1 of 4 cells cannot run.*cell 4 \(mini-maths, ar.*needs an autoregressive"):
        plan(decoder=["d2f", "lopa", "ar"])
    assert not (tmp_path / "runs").exists()


def test_the_model_is_loaded_once(plan: Plan, go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.models import loading

    loaded: list[str] = []
    load = loading.load_model

    def counting(name: str, **more: Any) -> Any:
        loaded.append(name)
        return load(name, **more)

    monkeypatch.setattr("lopa_bench.models.loading.load_model", counting)
    go(plan())
    assert len(loaded) == 1
    go(plan(dtype=["float32", "float64"], limit=3))
    assert len(loaded) == 3  # one of each format, and the first was dropped before


def test_a_kept_model_gives_the_same_answers(plan: Plan, go: Any, tmp_path: Path) -> None:
    outcomes = go(plan())
    for outcome in outcomes:
        alone = run(replace(outcome.planned.cell.spec, fresh=True, runs_dir=tmp_path / "alone"))
        assert alone.run is not None and outcome.run is not None
        assert [one.token_ids for one in alone.run.samples] == [one.token_ids for one in outcome.run.samples]


def test_the_record_names_the_run_of_every_cell(plan: Plan, go: Any, tmp_path: Path) -> None:
    go(plan(), source="decoder=d2f,lopa", command=("lopa-bench", "sweep"))
    record = read_sweep(tmp_path / "runs", "small")
    assert (record.source, record.command) == ("decoder=d2f,lopa", ("lopa-bench", "sweep"))
    assert [cell.values.get("branches") for cell in record.cells] == [None, 1, 2]
    assert [run.path.name for run in sweep_runs(tmp_path / "runs", "small")] == [cell.run for cell in record.cells]
    assert all(cell.asked == ("mini-maths-0000", "mini-maths-0001") for cell in record.cells)
    assert sweep_names(tmp_path / "runs") == ["small"]


def test_other_commands_take_a_sweeps_runs(plan: Plan, go: Any, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    go(plan(task=["mini-maths", "mini-code"], branches=1))
    names = [run.record.id for run in named_runs([], root, sweep="small")]
    assert len(names) == 4
    assert [run.record.id for run in named_runs(["2"], root, sweep="small")] == [names[1], names[0], *names[2:]]
    assert [run.record.task.name for run in named_runs([], root, sweep="small", task="mini-code")] == ["mini-code"] * 2
    assert [run.record.number for run in named_runs(["1", "1"], root)] == [1, 1]
    with pytest.raises(ResultsError, match="did you mean 'mini-code'"):
        named_runs([], root, sweep="small", task="mini-cod")


def test_other_commands_take_of_a_larger_run_what_the_sweep_asked(plan: Plan, go: Any, tmp_path: Path) -> None:
    go(plan(branches=1, limit=4), name="large")
    go(plan())
    assert [len(run.samples) for run in sweep_runs(tmp_path / "runs", "small")] == [2, 2, 2]
    [group] = groups_of(named_runs([], tmp_path / "runs", sweep="small"))
    assert group.num_problems == 2 and not group.aside
    assert [len(run.samples) for run in named_runs(["1"], tmp_path / "runs")] == [4]


def test_figures_are_of_the_problems_asked_though_the_run_holds_more(plan: Plan, go: Any) -> None:
    go(plan(limit=4))
    outcomes = go(plan(limit=2))
    assert [row["n"] for row in result_table(outcomes).rows] == [2, 2, 2]
    assert [one.num_new for one in outcomes] == [0, 0, 0]


def test_the_table_prints_in_every_format(plan: Plan, go: Any) -> None:
    table = result_table(go(plan()))
    for format in ("table", "json", "csv", "markdown", "latex"):
        assert "lopa" in render(table, format)


def test_code_tasks_need_consent_before_anything_starts(
    plan: Plan, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOPA_BENCH_ALLOW_CODE_EXECUTION", raising=False)
    with pytest.raises(ConfigError, match="--allow-code-execution"):
        plan(task=["mini-maths", "humaneval"], data_dir=str(data_dir))
    assert len(plan(task=["mini-maths", "humaneval"], data_dir=str(data_dir), consent_needed=False)) == 6


def test_a_server_is_swept_like_any_decoder(go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopa_bench.harness.servers.client.FIRST_WAIT_S", 0.001)
    with serving(Behaviour(text="The answer is 12.")) as address:
        grid = {"task": "mini-maths", "decoder": "server", "base_url": address, "max_new_tokens": [8, 16], "limit": 2}
        planned = plan_cells(cells_of(written_in_words({**grid, "warmup": 0}), tmp_path / "runs"))
        table = plan_table(planned, Paces())
        outcomes = go(planned)
        later = plan_table(planned, stored_paces(tmp_path / "runs"))
    assert {(row["rounds"], row["most_rounds"]) for row in (*table.rows, *later.rows)} == {(None, None)}
    assert [(one.error, one.num_new) for one in outcomes] == [(None, 2), (None, 2)]
    assert {row["time"] for row in table.rows} == {"unknown"} and {row["time"] for row in later.rows} == {"1 s"}


def test_a_sweep_that_is_not_there_or_not_readable(tmp_path: Path, plan: Plan, go: Any) -> None:
    with pytest.raises(ResultsError, match="make one with `lopa-bench sweep`"):
        read_sweep(tmp_path / "runs", "small")
    go(plan(branches=1))
    with pytest.raises(ResultsError, match="did you mean 'small'"):
        read_sweep(tmp_path / "runs", "smal")
    file = sweep_file(tmp_path / "runs", "small")
    text = file.read_text()
    file.write_text(text.replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(SchemaTooNew, match="later version"):
        read_sweep(tmp_path / "runs", "small")
    file.write_text(text[:50])
    with pytest.raises(ResultsError, match="damaged"):
        read_sweep(tmp_path / "runs", "small")


def test_a_pace_is_taken_from_the_most_similar_run(plan: Plan, go: Any) -> None:
    [d2f, one, two] = go(plan())
    paces = Paces([outcome.run for outcome in (d2f, one, two) if outcome.run is not None])
    asked = {outcome.planned.cell.words(): paces.expected(outcome.planned.record) for outcome in (d2f, one, two)}
    assert all(asked.values())
    for outcome in (d2f, one, two):
        found = paces.expected(outcome.planned.record)
        assert found is not None and outcome.summary is not None
        assert found.seconds == outcome.summary.metrics["latency_s"].value
    [other] = plan(decoder=["lopa"], branches=[4])
    assert paces.expected(other.record) == paces.expected(two.planned.record)  # the newest of that decoder and task
    assert Paces().expected(other.record) is None and paces.expected(None) is None


def test_cells_that_no_run_tells_of_are_tried_with_one_answer(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, paces = plan(), Paces()
    assert try_out(planned, paces) == 2  # d2f and lopa; lopa's other cell goes by the first
    for one in planned:
        pace = paces.expected(one.record)
        assert pace is not None and pace.seconds > 0 and pace.rounds is not None and 1 <= pace.rounds <= 8
    assert "about" in plan_table(planned, paces).notes[0] and try_out(planned, paces) == 0
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr("lopa_bench.harness.sweeps.trial.SMALL", 10)
    assert try_out(planned, Paces()) == 0
    monkeypatch.undo()
    monkeypatch.setattr("lopa_bench.harness.sweeps.trial.BUDGET_S", -1.0)
    assert try_out(planned, Paces()) == 0


def test_a_trial_that_goes_wrong_is_left_to_the_run(plan: Plan, go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.decoders.d2f import D2FDecoder

    def nan(*_: Any, **__: Any) -> Any:
        raise DecodeError("the model returned NaN logits")

    monkeypatch.setattr(D2FDecoder, "decode", nan)
    assert try_out(plan(branches=1), Paces()) == 1


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (40, "40 s"), (89, "89 s"), (150, "2 min"), (5400, "1.5 h"), (9000, "2.5 h")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
