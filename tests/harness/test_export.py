"""A stored run in other programs' forms, read back by those programs themselves."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coded_answers import Scripted, bodies

from lopa_bench.errors import ConfigError, ResultsError
from lopa_bench.harness.export import export
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.schema import SampleRecord, Why
from lopa_bench.results.store import StoredRun, load_run
from lopa_bench.results.writer import reopen_run

Make = Callable[..., StoredRun]
SMALL: dict[str, Any] = {
    "decoder": "vanilla", "limit": 3, "warmup": 0, "threads": 1, "options": {"max_new_tokens": 32, "block_size": 32},
}  # fmt: skip


@pytest.fixture
def make(tmp_path: Path, diffusion_checkpoint: Path) -> Make:
    def made(task: str, **changes: Any) -> StoredRun:
        usual = {**SMALL, "model": str(diffusion_checkpoint), "runs_dir": tmp_path / "runs"}
        result = run(RunSpec(**{"task": task, **usual, **changes}))
        assert result.run is not None
        return load_run(result.run.path)

    return made


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_csv_has_a_row_for_every_sample(make: Make) -> None:
    stored = make("mini-maths")
    [path] = export(stored, "csv").files
    assert path == stored.path / "exports" / "samples.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [sample.id for sample in stored.samples]
    for row, sample in zip(rows, stored.samples, strict=True):
        assert (row["text"], int(row["tokens.useful"])) == (sample.text, sample.tokens.useful)
        assert float(row["score:exact_match"]) == sample.correct
    [named] = export(stored, "csv", stored.path.parent / "mine.csv").files
    assert named.read_bytes() == path.read_bytes()


def test_an_unfinished_run_is_told(make: Make) -> None:
    stored = make("mini-maths")
    assert export(stored, "csv").notes == ()
    samples = stored.path / "samples.jsonl"
    samples.write_text(samples.read_text().splitlines()[0] + "\n")
    assert export(load_run(stored.path), "csv").notes == ("the run is unfinished: it lacks 2 of 3 answers",)


def test_lm_evals_own_run_of_the_same_model_leaves_the_same_samples(
    make: Make, diffusion_checkpoint: Path, data_dir: Path, tmp_path: Path
) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from lopa_bench.harness.lm_eval_adapter import files as lm_eval_files
    from lopa_bench.harness.lm_eval_adapter.model import LopaBenchLM
    from lopa_bench.tasks.data_files import load_split
    from lopa_bench.tasks.maths_tasks import MATHS_TASKS

    options = {"max_new_tokens": 8, "block_size": 4}
    stored = make("gsm8k", data_dir=data_dir, num_fewshot=2, options=options)
    results_file, samples_file = export(stored, "lm-eval", tmp_path / "ours").files

    def load(**_: Any) -> dict[str, Any]:
        from datasets import Dataset

        definition = MATHS_TASKS["gsm8k"]
        splits = {"test": definition.test, "train": definition.shots}
        return {name: Dataset.from_list(list(load_split(one, data_dir).rows)) for name, one in splits.items() if one}

    config = lm_eval_files.load_yaml("gsm8k/gsm8k.yaml") | {"custom_dataset": load, "num_fewshot": 2}
    config.pop("tag", None)
    lm = LopaBenchLM(decoder="vanilla", model=str(diffusion_checkpoint), threads=1, **options)
    tracker = EvaluationTracker(output_path=str(tmp_path / "theirs"))
    manager = TaskManager(include_defaults=False)
    done = simple_evaluate(
        lm, tasks=[config], task_manager=manager, limit=3, log_samples=True, evaluation_tracker=tracker
    )
    assert done is not None
    samples = done.pop("samples")
    tracker.save_results_aggregated(done, samples)
    tracker.save_results_samples("gsm8k", samples["gsm8k"])
    [their_results] = (tmp_path / "theirs").rglob("results_*.json")
    [their_samples] = (tmp_path / "theirs").rglob("samples_*.jsonl")

    key = lambda row: (row["filter"], row["doc_id"])  # noqa: E731
    assert sorted(lines(samples_file), key=key) == sorted(lines(their_samples), key=key)
    ours, theirs = (json.loads(path.read_text()) for path in (results_file, their_results))
    assert set(ours["results"]["gsm8k"]) >= {name for name in theirs["results"]["gsm8k"] if name != "name"}
    for name, value in theirs["results"]["gsm8k"].items():
        if name not in ("name", "alias"):
            assert ours["results"]["gsm8k"][name] == value, name
    for part in ("n-shot", "n-samples", "versions", "higher_is_better"):
        assert ours[part] == theirs[part], part
    assert samples_file.name.startswith("samples_gsm8k_")


def test_lm_evals_form_of_programs_and_generated_tasks(
    make: Make, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solutions = bodies(data_dir)
    Scripted(monkeypatch, lambda prompt: solutions[prompt])
    stored = make("humaneval", data_dir=data_dir, allow_code_execution=True)
    results_file, samples_file = export(stored, "lm-eval", tmp_path / "a").files
    rows = lines(samples_file)
    assert [(row["doc_id"], row["filter"], row["pass@1"]) for row in rows[:2]] == [(0, "cleaned", 1.0), (0, "raw", 1.0)]
    assert rows[0]["doc"]["task_id"] == "HumanEval/0"
    figures = json.loads(results_file.read_text())["results"]["humaneval"]
    assert (figures["pass@1,cleaned"], figures["pass@1_stderr,raw"]) == (1.0, 0.0)

    monkeypatch.undo()
    rows = lines(export(make("mini-maths", limit=1), "lm-eval", tmp_path / "b").files[1])
    assert [(row["filter"], row["doc_id"]) for row in rows] == [("none", 0)]
    assert "exact_match" in rows[0]["metrics"]


def test_files_that_lm_eval_could_not_write_whole_are_told(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.loggers import EvaluationTracker

    stored = make("mini-maths", limit=2)
    save = EvaluationTracker.save_results_samples

    def on_a_full_disk(self: Any, name: str, samples: Any) -> None:
        save(self, name, samples)
        for path in Path(self.output_path).rglob("samples_*"):
            path.write_bytes(path.read_bytes()[:-9])

    monkeypatch.setattr(EvaluationTracker, "save_results_samples", on_a_full_disk)
    with pytest.raises(ResultsError, match=r"lm-eval could not write all of .*samples_mini_maths"):
        export(stored, "lm-eval")


@pytest.fixture
def programs(make: Make, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> StoredRun:
    """Two right answers of HumanEval+ and a wrong one."""
    solutions = bodies(data_dir, "humaneval+")
    answers = iter((*list(solutions.values())[:2], "    return None\n"))
    Scripted(monkeypatch, lambda _: next(answers))
    return make("humaneval+", data_dir=data_dir, allow_code_execution=True)


EVALUATE = """
import sys, time, types
from evalplus import evaluate
evaluate.time = types.SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(0.05))  # its watcher sleeps 20 s
evaluate.evaluate("humaneval", samples=sys.argv[1], parallel=1)
"""


def test_evalplus_reads_and_judges_the_exported_programs(programs: StoredRun, tmp_path: Path) -> None:
    written = export(programs, "evalplus", tmp_path / "out")
    samples, problems = written.files
    assert [row["task_id"] for row in lines(samples)] == ["HumanEval/0", "HumanEval/1", "HumanEval/2"]
    assert "3 of 164 problems" in written.notes[0] and f"HUMANEVAL_OVERRIDE_PATH={problems}" in written.notes[1]
    environment = {**os.environ, "HUMANEVAL_OVERRIDE_PATH": str(problems), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment |= {"HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", EVALUATE, str(samples)], env=environment, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    verdicts = json.loads((tmp_path / "out" / "samples_eval_results.json").read_text())["eval"]
    passed = [verdicts[f"HumanEval/{index}"][0]["plus_status"] == "pass" for index in range(3)]
    assert passed == [sample.correct == 1.0 for sample in programs.samples] == [True, True, False]
    again = export(programs, "evalplus", tmp_path / "out")
    assert "would show it again: delete it first" in again.notes[-1]


def test_what_cannot_be_exported_is_told(
    make: Make, programs: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # from here on the model itself answers
    maths = make("mini-maths", limit=1, decoder="vanilla")
    with pytest.raises(ConfigError, match=r"no export format is called 'evalpuls' \(did you mean 'evalplus'"):
        export(maths, "evalpuls")
    with pytest.raises(ConfigError, match="evalplus has no tests for task mini-maths"):
        export(maths, "evalplus")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot make"):
        export(maths, "csv", tmp_path / "file" / "below")

    faulty = SampleRecord(id=programs.samples[0].id, status="error", error="scorer_error: x", why=Why.SCORER_ERROR)
    with reopen_run(programs) as writer:
        from lopa_bench.results.summary import summarise

        writer.append(faulty)
        writer.finish(summarise(writer.record, writer.samples))
    with pytest.raises(ResultsError, match="has no score to export: no score: the scorer failed on 1"):
        export(load_run(programs.path), "lm-eval")
    with pytest.raises(ResultsError, match="none of its answers has a verdict"):
        export(with_errors(maths), "lm-eval")
    with pytest.raises(ResultsError, match="holds no programs: its 3 samples are errors"):
        export(with_errors(programs), "evalplus")


def with_errors(stored: StoredRun) -> StoredRun:
    """Make an error of every sample of a run."""
    changes = {"status": "error", "scores": {}, "correct": None, "extracted": None}
    samples = [one.model_copy(update=changes).model_dump_json() for one in stored.samples]
    (stored.path / "samples.jsonl").write_text("\n".join(samples) + "\n")
    return load_run(stored.path)
