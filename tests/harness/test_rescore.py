"""Stored answers judged again: same verdicts by the same judge, others by another, and nothing generated or lost."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coded_answers import Scripted, bodies

from lopa_bench.errors import ConfigError, PrerequisiteError, ResultsError, ScorerError, TaskDataError
from lopa_bench.harness.code.consent import VARIABLE
from lopa_bench.harness.code.judge import OfficialJudge, Verdict
from lopa_bench.harness.rescore import chosen, rescore
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.models import loading
from lopa_bench.results import rescoring
from lopa_bench.results.locks import FileLock
from lopa_bench.results.store import LOCK_FILE, StoredRun, load_run

Make = Callable[..., StoredRun]


@pytest.fixture
def make(tmp_path: Path, diffusion_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Run a small task and return what is stored; afterwards no model can be loaded."""
    monkeypatch.delenv(VARIABLE, raising=False)
    real = loading.load_model

    def made(task: str = "mini-maths", **changes: Any) -> StoredRun:
        usual: dict[str, Any] = {"decoder": "vanilla", "model": str(diffusion_checkpoint), "limit": 3, "warmup": 0}
        usual |= {"threads": 1, "options": {"max_new_tokens": 32, "block_size": 32}}
        monkeypatch.setattr(loading, "load_model", real)
        result = run(RunSpec(**{"task": task, "runs_dir": tmp_path / "runs", **usual, **changes}))
        assert result.run is not None
        monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
        return load_run(result.run.path)

    return made


@pytest.fixture
def programs(make: Make, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A run of HumanEval: right and bare, right and wrapped, wrong."""
    solutions = list(bodies(data_dir).values())
    fenced = f"```python\n{list(bodies(data_dir))[1]}{solutions[1]}```\n"
    answers = iter((solutions[0], fenced, "    return None\n"))
    Scripted(monkeypatch, lambda _: next(answers))
    return lambda **changes: make("humaneval", data_dir=data_dir, allow_code_execution=True, **changes)


def scores(stored: StoredRun) -> list[float | None]:
    return [sample.correct for sample in stored.samples]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOCK_FILE}


ALLOWED = {"allow_code_execution": True}


@pytest.mark.parametrize("task", ["mini-maths", "mini-code"])
def test_the_same_judge_finds_the_same_bit_for_bit(make: Make, task: str) -> None:
    stored = make(task)
    result = rescore(stored, chosen(stored.record))
    assert (result.changed, result.after) == ((), result.before)
    again = load_run(stored.path)
    assert again.samples == stored.samples and again.summary == stored.summary
    assert again.record.rescored[0].changed == {} and again.status == stored.status
    assert again.record.fingerprint == stored.record.fingerprint


def test_gsm8k_too(make: Make, data_dir: Path) -> None:
    stored = make("gsm8k", data_dir=data_dir, num_fewshot=2, limit=2)
    result = rescore(stored, chosen(stored.record))
    assert (result.changed, result.after.scores) == ((), result.before.scores)
    assert result.scoring["scorer"].startswith("lm-eval")


def test_another_clean_up_changes_only_verdicts_and_keeps_the_old_ones(programs: Make) -> None:
    stored = programs()
    assert scores(stored) == [1.0, 1.0, 0.0]
    dry = rescore(stored, chosen(stored.record, cleanup="none", **ALLOWED), dry_run=True)
    assert {change.after.id: change.after.correct for change in dry.changed}["humaneval-0001"] == 0.0
    assert load_run(stored.path).samples == stored.samples, "a dry run stores nothing"

    result = rescore(stored, chosen(stored.record, cleanup="none", **ALLOWED))
    again = load_run(stored.path)
    assert scores(again) == [1.0, 0.0, 0.0]
    assert again.summary == result.after and again.record.task.metric == "pass@1,raw"
    for old, new in zip(stored.samples, again.samples, strict=True):
        kept = {"text", "text_kept", "token_ids", "tokens", "work", "time", "seed", "stopped_by", "prompt_hash"}
        assert old.model_dump(include=kept) == new.model_dump(include=kept)
    [entry] = again.record.rescored
    assert (entry.metric, entry.accuracy, entry.accuracy_after) == ("pass@1,cleaned", 2 / 3, 1 / 3)
    assert entry.scoring["cleanup"] == "evalplus" and again.record.scoring["cleanup"] == "none"
    assert entry.changed["humaneval-0001"].scores == {"pass@1,cleaned": 1.0, "pass@1,raw": 0.0}
    assert again.record.configuration["cleanup"].origin == "flag"


def test_the_package_judges_stored_answers_of_a_moved_run(programs: Make, tmp_path: Path) -> None:
    stored = programs()
    moved = load_run(shutil.move(stored.path, tmp_path / "elsewhere"))
    result = rescore(moved, chosen(moved.record, scorer="evalplus", **ALLOWED))
    assert scores(load_run(moved.path)) == [1.0, 1.0, 0.0]
    assert result.scoring["scorer"].startswith("evalplus 0.")


def test_consent_is_asked_for_anew_and_nothing_changes_without_it(
    programs: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = programs()
    before = contents(stored.path)
    with pytest.raises(PrerequisiteError, match="--allow-code-execution"):
        rescore(stored, chosen(stored.record))
    assert contents(stored.path) == before
    monkeypatch.setenv(VARIABLE, "yes")
    assert rescore(stored, chosen(stored.record)).changed == ()


def test_what_does_not_fit_is_refused_and_nothing_changes(
    programs: Make, make: Make, tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = programs()
    before = contents(stored.path)
    content = gzip.decompress((data_dir / "HumanEval.jsonl.gz").read_bytes())
    (tmp_path / "HumanEval.jsonl").write_bytes(content.replace(b"separate_paren", b"seperate_paren"))
    with pytest.raises(TaskDataError, match="are not those of run 0001"):
        rescore(stored, chosen(stored.record, data_dir=tmp_path, **ALLOWED))
    with monkeypatch.context() as patch:
        patch.setattr(OfficialJudge, "judge", lambda *_: Verdict(True))
        with pytest.raises(ScorerError, match="scores would be too high"):
            rescore(stored, chosen(stored.record, **ALLOWED))
    with pytest.raises(ConfigError, match="did you mean 'evalplus'"):
        rescore(stored, chosen(stored.record, scorer="evalplu", **ALLOWED))
    assert contents(stored.path) == before

    monkeypatch.undo()  # from here on the model itself answers
    maths = make("mini-maths", limit=1)
    with pytest.raises(ConfigError, match="--scorer is for tasks that run the answers"):
        chosen(maths.record, scorer="evalplus")
    file = maths.path / "samples.jsonl"
    file.write_text(json.dumps({**json.loads(file.read_text()), "prompt_hash": "0" * 64}) + "\n")
    with pytest.raises(ResultsError, match="was asked another prompt for mini-maths-0000"):
        rescore(load_run(maths.path), chosen(maths.record))


def test_a_fault_of_the_scorer_takes_the_score_away(programs: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = programs()
    judge = OfficialJudge.judge

    def faulty(self: OfficialJudge, row: dict[str, Any], source: str) -> Verdict:
        if row["task_id"] == "HumanEval/2":
            raise ScorerError("no process could be started")
        return judge(self, row, source)

    with monkeypatch.context() as patch:
        patch.setattr(OfficialJudge, "judge", faulty)
        result = rescore(stored, chosen(stored.record, **ALLOWED))
    assert result.after.blocked and result.run.status == "finished with errors"
    assert load_run(stored.path).samples[2].has_scorer_error
    healed = rescore(load_run(stored.path), chosen(stored.record, **ALLOWED))
    assert healed.after.blocked is None and healed.run.status == "finished"
    assert scores(healed.run) == [1.0, 1.0, 0.0]
    assert len(healed.run.record.rescored) == 2


def test_a_run_in_use_or_changed_meanwhile_is_left_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = make("mini-maths")
    with FileLock(stored.path / LOCK_FILE, "run"), pytest.raises(ResultsError, match="in use"):
        rescore(stored, chosen(stored.record))
    assert rescore(stored, chosen(stored.record)).run.record.rescored
    with pytest.raises(ResultsError, match="was changed while its answers were judged"):
        rescore(stored, chosen(stored.record))  # `stored` is what it was before


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_kill_at_any_step_loses_nothing_and_is_seen(make: Make, step: int) -> None:
    stored = make("mini-maths")
    process = multiprocessing.get_context("fork").Process(target=_killed_at, args=(stored, step))
    process.start()
    process.join()
    assert process.exitcode == -9
    left = load_run(stored.path)
    assert [sample.model_dump(exclude={"correct"}) for sample in left.samples] == [
        sample.model_dump(exclude={"correct"}) for sample in stored.samples
    ]
    told = left.record.scoring != stored.record.scoring
    assert told == (step > 1), "from the first write to the last the record says that judging was broken off"
    if told:
        assert not rescoring.judged_alike(left.record.scoring, stored.record.scoring)
    done = rescore(left, chosen(left.record))
    assert done.run.samples == stored.samples and done.run.record.scoring == stored.record.scoring


def _killed_at(stored: StoredRun, step: int) -> None:
    replace, num_writes = rescoring.jsonl.replace_file, 0

    def dying(path: Path, data: bytes) -> None:
        nonlocal num_writes
        num_writes += 1
        if num_writes == step:
            os.kill(os.getpid(), 9)
        replace(path, data)

    rescoring.jsonl.replace_file = dying
    rescore(stored, chosen(stored.record))
