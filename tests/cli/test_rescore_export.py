"""`rescore` and `export` from outside: exit codes, what is printed, and the whole way with the bundled model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bundled(call: Call, data_dir: Path) -> tuple[int, str, str]:
    """HumanEval+ asked of the bundled model."""
    words = ("run", "-t", "humaneval+", "-d", "lopa", "-n", "2", "--warmup", "0", "--data-dir", str(data_dir))
    words += ("--max-new-tokens", "64")
    code, _, err = call(*words)
    assert code == 2 and "--allow-code-execution" in err and not Path("runs").exists()
    code, out, err = call(*words, "--dry-run")
    assert code == 0 and "every answer is run as a program" in out + err
    return call(*words, "--allow-code-execution")


def test_the_bundled_model_fails_humaneval_and_the_record_says_why(
    bundled: tuple[int, str, str], call: Call, data_dir: Path
) -> None:
    code, out, _ = bundled
    assert code == 0
    assert "accuracy is pass@1,cleaned (clean-up evalplus, judged by EvalPlus' inputs)" in out and "raw %" in out
    shown = call("show", "last")[1]
    assert "judged by: EvalPlus' inputs, clean-up evalplus, in " in shown
    assert "controls: right program passed, wrong program wrong" in shown
    summary = json.loads(call("show", "last", "--json")[1])["summary"]
    assert summary["metrics"]["accuracy"]["value"] == 0.0 and summary["blocked"] is None
    assert sum(reason["count"] for reason in summary["reasons"]) >= 2 and summary["reasons"][0]["ids"]

    code, _, err = call("rescore", "last")
    assert code == 2 and "--allow-code-execution" in err and "judging" not in err
    code, out, err = call("rescore", "last", "--cleanup", "none", "--allow-code-execution", "--dry-run")
    assert code == 0 and "of 2 verdicts changed; accuracy 0.0% -> 0.0%" in out and "nothing was stored" in err
    code, out, _ = call("rescore", "last", "--scorer", "evalplus", "--allow-code-execution", "--json")
    assert code == 0 and {"id", "before", "after"} <= set((json.loads(out)["rows"] or [{"id", "before", "after"}])[0])
    shown = call("show", "last")[1]
    assert "judged by: evalplus 0." in shown and "judged again: " in shown

    code, out, _ = call("export", "last", "--format", "evalplus", "--out", "programs")
    assert code == 0 and out.split() == ["programs/samples.jsonl", "programs/samples_problems.jsonl"]
    code, out, _ = call("export")
    assert code == 0 and Path(out.strip()).read_text().count("humaneval+-000") == 2
    code, _, err = call("export", "last", "--format", "jsonl")
    assert code == 2 and "there are lm-eval, evalplus, csv" in err


def test_a_blocked_run_ends_with_1(call: Call, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.errors import ScorerError
    from lopa_bench.harness.code.judge import OfficialJudge

    judge, num_calls = OfficialJudge.judge, 0

    def faulty(self: OfficialJudge, row: dict[str, Any], source: str) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls > 2:  # the controls went well
            raise ScorerError("the worker died")
        return judge(self, row, source)

    words = ("run", "-t", "humaneval", "-d", "ar", "-n", "1", "--warmup", "0", "--max-new-tokens", "16")
    words += ("--data-dir", str(data_dir), "--allow-code-execution")
    with monkeypatch.context() as patch:
        patch.setattr(OfficialJudge, "judge", faulty)
        code, out, _ = call(*words)
    assert code == 1 and "no score: the scorer failed on 1 (100%): humaneval-0000" in out and "n/a" in out
    code, out, _ = call("rescore", "last", "--allow-code-execution")
    assert code == 0 and "accuracy n/a -> 0.0%" in out
    code, out, err = call(*words)
    assert code == 0 and "nothing was generated" in err


@pytest.mark.parametrize(("is_error", "words"), [(True, "its 1 samples are errors"), (False, "it holds no samples")])
def test_a_run_without_answers_is_not_judged(call: Call, is_error: bool, words: str) -> None:
    call("run", "-t", "mini-maths", "-d", "ar", "-n", "1", "--warmup", "0", "--max-new-tokens", "4")
    [samples] = Path("runs").glob("0001-*/samples.jsonl")
    one = json.loads(samples.read_text()) | {"status": "error", "error": "decoding failed", "scores": {}}
    samples.write_text(json.dumps(one | {"correct": None}) + "\n" if is_error else "")
    code, out, err = call("rescore", "last")
    assert (code, out) == (2, "") and "has no answer to judge" in err and words in err
