"""Code tasks as whole runs: what is refused before the start, what is recorded, and what a fault of the scorer does."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coded_answers import Scripted, bodies

from lopa_bench.errors import ConfigError, PrerequisiteError, ScorerError, TaskDataError
from lopa_bench.harness.code.consent import VARIABLE
from lopa_bench.harness.code.judge import OfficialJudge, Verdict
from lopa_bench.harness.progress import Silent
from lopa_bench.harness.runner import run
from lopa_bench.harness.sandbox.sandbox import Sandbox
from lopa_bench.harness.settings import RunSpec
from lopa_bench.harness.task_source import all_tasks, facts, known_name
from lopa_bench.results.store import load_run
from lopa_bench.tasks.code_tasks import CODE_TASKS
from lopa_bench.tasks.presets import PRESETS

Start = Callable[..., RunSpec]


@pytest.fixture
def start(tmp_path: Path, data_dir: Path, diffusion_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.delenv(VARIABLE, raising=False)

    def spec(**changes: Any) -> RunSpec:
        usual: dict[str, Any] = {
            "task": "humaneval", "decoder": "vanilla", "model": str(diffusion_checkpoint), "limit": 2, "warmup": 0,
            "threads": 1, "data_dir": data_dir, "runs_dir": tmp_path / "runs", "allow_code_execution": True,
            "options": {"max_new_tokens": 32, "block_size": 32},
        }  # fmt: skip
        return RunSpec(**{**usual, **changes})

    return spec


class Listener(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def wrapped(data_dir: Path) -> Callable[[str], str]:
    solutions = bodies(data_dir)
    return lambda prompt: f"Sure!\n```python\n{prompt}{solutions[prompt]}\n```\nThat is all.\n"


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopa_bench.models.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))


def test_code_tasks_are_known_by_every_spelling() -> None:
    assert {known_name(name) for name in ("humaneval_plus", "HumanEval+", "humaneval-plus")} == {"humaneval+"}
    assert set(CODE_TASKS) <= {task.name for task in all_tasks()}
    assert (facts("mbpp_plus").metric, facts("mbpp").needs_data) == ("pass@1,cleaned", True)
    with pytest.raises(ConfigError, match=r"did you mean 'humaneval\+'"):
        known_name("humanevall+")


def test_every_preset_is_about_a_task_that_runs() -> None:
    assert {known_name(preset.task) for preset in PRESETS.values()} <= {task.name for task in all_tasks()}


@pytest.mark.usefixtures("no_model")
def test_without_consent_nothing_begins(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "open", lambda *_: pytest.fail("something was executed"))
    for word in (None, "0", "false", "no"):
        if word is not None:
            monkeypatch.setenv(VARIABLE, word)
        with pytest.raises(PrerequisiteError, match="--allow-code-execution") as told:
            run(start(allow_code_execution=None))
        assert told.value.exit_code == 2
    assert not Path(str(start().runs_dir)).exists()
    monkeypatch.setenv(VARIABLE, "perhaps")
    with pytest.raises(ConfigError, match=f"{VARIABLE} = 'perhaps' is neither true nor false"):
        run(start(allow_code_execution=None))


@pytest.mark.usefixtures("no_model")
def test_a_dry_run_executes_nothing_and_says_what_would_be(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "open", lambda *_: pytest.fail("something was executed"))
    listener = Listener()
    result = run(start(allow_code_execution=None, dry_run=True, task="humaneval+"), listener)
    assert result.run is None and result.plan.num_available == 164
    assert any("every answer is run as a program" in note and "EvalPlus' inputs" in note for note in listener.notes)


@pytest.mark.usefixtures("no_model")
def test_damaged_data_are_told_before_a_model_is_loaded(start: Start, data_dir: Path, tmp_path: Path) -> None:
    whole = gzip.decompress((data_dir / "HumanEval.jsonl.gz").read_bytes())
    (tmp_path / "HumanEval.jsonl").write_bytes(whole[:-300])
    with pytest.raises(TaskDataError, match="damaged at line 164"):
        run(start(data_dir=tmp_path))
    (tmp_path / "HumanEval.jsonl").write_bytes(whole)
    for dry_run in (True, False):  # the package's evaluator takes the inputs of HumanEval+
        with pytest.raises(TaskDataError, match=r"of humaneval\+ in "):
            run(start(data_dir=tmp_path, scorer="evalplus", dry_run=dry_run))


@pytest.mark.usefixtures("no_model")
def test_a_failed_control_ends_the_run_before_it_begins(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OfficialJudge, "judge", lambda *_: Verdict(False, "wrong"))
    with pytest.raises(ScorerError, match="fail the canonical solution") as told:
        run(start())
    assert told.value.exit_code == 1
    assert not Path(str(start().runs_dir)).exists()


def test_flags_for_programs_are_refused_where_there_are_none(start: Start) -> None:
    for name, value in (("scorer", "evalplus"), ("cleanup", "none"), ("isolation", "limits")):
        with pytest.raises(ConfigError, match=f"--{name} is for tasks that run the answers, and mini-maths is none"):
            run(start(task="mini-maths", data_dir=None, **{name: value}))
    with pytest.raises(ConfigError, match="did you mean 'bubblewrap'"):
        run(start(isolation="bublewrap"))


def test_wrapped_answers_score_nothing_raw_and_all_cleaned(
    start: Start, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted(monkeypatch, wrapped(data_dir))
    before = dict(os.environ)
    result = run(start())
    assert result.run is not None and result.summary is not None
    scores = {name: score.value for name, score in result.summary.scores.items()}
    assert scores == {"pass@1,cleaned": 1.0, "pass@1,raw": 0.0}
    assert result.summary.metrics["accuracy"].value == 1.0
    record = result.run.record
    assert record.task.metric == "pass@1,cleaned", "the headline says that it is the cleaned score"
    assert (record.scoring["scorer"], record.scoring["cleanup"]) == ("HumanEval's check functions", "evalplus")
    assert record.scoring["controls"] == {
        "problem": "HumanEval/0", "right program": "passed", "wrong program": "wrong",
    }  # fmt: skip
    assert record.scoring["isolation"] and record.scoring["limits"]
    assert "78fbba" not in record.task.source and "scorer" not in record.task.source
    assert dict(os.environ) == before, "no switch of another harness is left on in this process"


def test_limits_alone_are_warned_of_in_notes_record_and_summary(
    start: Start, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted(monkeypatch, wrapped(data_dir))
    listener = Listener()
    result = run(start(isolation="limits", limit=1), listener)
    assert result.run is not None and result.summary is not None
    assert result.summary.metrics["accuracy"].value == 1.0
    for lines in (listener.notes, result.summary.warnings, [str(result.run.record.scoring["warning"])]):
        assert any("WITHOUT isolation" in line for line in lines)


def test_a_fault_of_the_scorer_blocks_the_score_until_the_answer_is_judged(
    start: Start, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = Scripted(monkeypatch, wrapped(data_dir))
    judge = OfficialJudge.judge

    def faulty(self: OfficialJudge, row: dict[str, Any], source: str) -> Verdict:
        if row["task_id"] == "HumanEval/1":
            raise ScorerError("the worker died")
        return judge(self, row, source)

    with monkeypatch.context() as patch:
        patch.setattr(OfficialJudge, "judge", faulty)
        result = run(start())
        assert result.run is not None and result.summary is not None
        bad = result.run.samples[1]
        assert (bad.status, bad.why, bad.error) == ("error", "scorer_error", "scorer_error: the worker died")
        assert bad.correct is None and not bad.scores and bad.text, "the answer is kept, and not counted"
        assert result.summary.blocked is not None and "humaneval-0001" in result.summary.blocked
        assert result.summary.metrics["accuracy"].value is None
        assert {score.value for score in result.summary.scores.values()} == {None}
        assert any("no score: the scorer failed on 1 (50%)" in line for line in result.summary.warnings)

    again = run(start())
    assert again.summary is not None and again.run is not None
    assert (again.num_new, len(scripted.prompts)) == (0, 2), "it is judged again and not generated again"
    assert (again.summary.blocked, again.summary.metrics["accuracy"].value) == (None, 1.0)
    [entry] = again.run.record.rescored
    assert (entry.accuracy, entry.accuracy_after, list(entry.changed)) == (None, 1.0, ["humaneval-0001"])


def test_another_clean_up_judges_what_is_stored_and_generates_nothing(
    start: Start, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = Scripted(monkeypatch, wrapped(data_dir))
    first = run(start())
    listener = Listener()
    second = run(start(cleanup="none"), listener)
    assert first.run is not None and second.run is not None and second.summary is not None
    assert (second.run.path, second.num_new, len(scripted.prompts)) == (first.run.path, 0, 2)
    assert any("judged again: they were judged by cleanup evalplus and not none" in note for note in listener.notes)
    assert second.summary.metrics["accuracy"].value == 0.0
    assert second.run.record.task.metric == "pass@1,raw"
    assert second.run.record.configuration["cleanup"].value == "none"
    more = run(start(cleanup="authors", limit=3))
    assert more.run is not None and more.summary is not None
    assert (more.num_new, more.summary.metrics["accuracy"].value) == (1, 1.0)
    assert [sample.correct for sample in more.run.samples] == [1.0, 1.0, 1.0]
    assert len(more.run.record.rescored) == 2


def test_a_program_that_ran_is_not_called_cut_short(
    start: Start, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(("    return None\n", "    return (\n"))
    Scripted(monkeypatch, lambda _: next(answers), stopped_by="budget")
    result = run(start(cleanup="none"))
    assert result.run is not None
    assert [sample.why for sample in result.run.samples] == ["wrong", "truncated"]
    assert load_run(result.run.path).record == result.run.record


def test_the_package_as_the_scorer_of_a_run(start: Start, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(monkeypatch, wrapped(data_dir))
    result = run(start(scorer="evalplus"))
    assert result.run is not None and result.summary is not None
    assert str(result.run.record.scoring["scorer"]).startswith("evalplus 0.")
    assert result.summary.metrics["accuracy"].value == 1.0
