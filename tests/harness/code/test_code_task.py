from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError, PrerequisiteError, ScorerError, TaskDataError
from lopa_bench.harness.code import scoring as code_scoring
from lopa_bench.harness.code.consent import VARIABLE
from lopa_bench.harness.code.judge import AssertionJudge, OfficialJudge, Verdict
from lopa_bench.harness.code.scoring import ScoringSettings
from lopa_bench.harness.code.task import CodeTask, find_code_task
from lopa_bench.harness.lm_eval_adapter.tasks import PromptSettings
from lopa_bench.tasks.base import Document, Task
from lopa_bench.tasks.code_tasks import CODE_TASKS

ALLOWED = ScoringSettings(allow_execution=True)


def chat(chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
    return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)


def task(name: str, data_dir: Path, **scoring: Any) -> CodeTask:
    return find_code_task(name, data_dir=data_dir, first=3, scoring=ScoringSettings(allow_execution=True, **scoring))


def answer(one: CodeTask, index: int = 1) -> tuple[Document, str, str]:
    """A problem with its solution as an answer to its prompt and as a whole program."""
    row = one.data.rows[index]
    body = row.get("canonical_solution", row.get("code"))
    return one.documents()[index], body, row["prompt"] + body if "prompt" in row else body


@pytest.mark.parametrize("name", CODE_TASKS)
def test_every_task_judges_right_wrong_and_wrapped_answers(name: str, data_dir: Path) -> None:
    one = task(name, data_dir)
    assert isinstance(one, Task)
    document, body, whole = answer(one)

    right = one.judge(document, body)
    assert right.correct == 1.0
    assert right.why is None
    assert right.scores["pass@1,cleaned"] == right.scores["pass@1,raw"] == 1.0

    wrapped = one.judge(document, f"Sure, here it is:\n```python\n{whole}\n```\nIt is right.\n")
    assert (wrapped.scores["pass@1,raw"], wrapped.scores["pass@1,cleaned"]) == (0.0, 1.0)
    assert wrapped.correct == 1.0, "the headline is the cleaned score"
    assert one.metric == "pass@1,cleaned"

    wrong = one.judge(document, body.replace("return", "return None and"))
    assert wrong.correct == 0.0
    assert wrong.why in ("wrong", "runtime error")
    assert one.judge(document, " \n").why == "empty"


@pytest.mark.parametrize("name", CODE_TASKS)
def test_facts(name: str, data_dir: Path) -> None:
    one = find_code_task(name, data_dir=data_dir, first=2)
    first, second = one.documents()
    assert first.id == f"{name}-0000"
    assert first.target
    assert one.num_available == {"humaneval": 164, "humaneval+": 164, "mbpp": 500, "mbpp+": 378}[one.definition.data]
    assert second.metadata["task_id"] == one.data.rows[1]["task_id"]
    assert second.metadata["entry_point"] in second.target + second.prompt
    source = one.source
    assert source["data"]["test"]["release"] != "unknown release"
    assert not {"scorer", "cleanup", "time_rule"} & set(source), "how answers are judged decides no answer"
    assert one.scoring_identity["cleanup"] == one.cleanup
    assert one.citation.endswith(".")


def test_base_scores_stand_beside_the_plus_ones(data_dir: Path) -> None:
    one = task("humaneval+", data_dir)
    document = one.documents()[2]
    for body, base, plus in (("return number % 1.0", 1.0, 1.0), ("return {3.5: 0.5}.get(number)", 0.0, 0.0)):
        scores = one.judge(document, f"    {body}\n").scores
        assert (scores["pass@1 base,cleaned"], scores["pass@1,cleaned"]) == (base, plus)


def test_nothing_is_run_without_consent(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = find_code_task("humaneval", data_dir=data_dir, first=1)
    monkeypatch.setattr(code_scoring, "Sandbox", None)
    for act in (one.prepare, lambda: one.judge(one.documents()[0], "    return 1")):
        with pytest.raises(PrerequisiteError, match="--allow-code-execution"):
            act()


def test_the_variable_is_consent(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    one = find_code_task("humaneval", data_dir=data_dir, first=1)
    record = one.prepare()
    assert record["scorer"] == "HumanEval's check functions"
    assert record["cleanup"] == "evalplus"
    assert record["isolation"] in ("limits only",) or record["isolation"].startswith("bubblewrap")


def test_controls_run_before_the_first_verdict(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = task("humaneval", data_dir)
    monkeypatch.setattr(OfficialJudge, "judge", lambda *_: Verdict(True))
    for act in (one.prepare, lambda: one.judge(one.documents()[0], "x")):
        with pytest.raises(ScorerError, match="scores would be too high"):
            act()


def test_a_program_judged_already_is_not_judged_twice(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = task("mbpp", data_dir)
    document, body, _ = answer(one)
    one.prepare()
    asked: list[str] = []
    monkeypatch.setattr(AssertionJudge, "judge", lambda _, row, source: asked.append(source) or Verdict(True))
    one.judge(document, body.replace("\r", "").rstrip())
    assert len(set(asked)) == len(asked) == 1


def test_cut_inside_a_fence_is_told(data_dir: Path) -> None:
    one = task("humaneval", data_dir)
    assert one.judge(one.documents()[0], "```python\nfrom typing import List\n\n").why == "cut inside a fence"


def test_what_is_no_python_is_told_from_what_lacks_the_function(data_dir: Path) -> None:
    one = task("humaneval", data_dir)
    document = one.documents()[0]
    assert one.judge(document, "Anna has 3 apples, and so on.\n").why == "syntax error"
    assert one.judge(document, "```python\ndef other(x):\n    return x\n```\n").why == "no such function"
    assert one.judge(document, "    return (\n").why == "syntax error"
    assert one.judge(document, "Count '\\d' twice.\n").why == "syntax error", "and no warning of an odd escape"


def test_a_crash_of_the_cleaner_is_told_and_the_raw_answer_judged(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = task("humaneval", data_dir)
    document, body, _ = answer(one)
    one.prepare()

    def crash(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("lopa_bench.tasks.longest_code.ast.parse", crash)
    assert one.judge(document, body).correct == 1.0
    assert one.judge(document, "    return None\n").why == "sanitize_error"


@pytest.mark.parametrize("cleanup", ["none", "evalplus", "authors"])
def test_clean_ups_by_name(cleanup: str, data_dir: Path) -> None:
    one = task("humaneval", data_dir, cleanup=cleanup)
    document, body, whole = answer(one)
    assert one.judge(document, body).correct == 1.0
    assert one.judge(document, f"```python\n{whole}\n```").correct == float(cleanup != "none")
    assert one.metric == ("pass@1,raw" if cleanup == "none" else "pass@1,cleaned")
    assert one.scoring_identity["cleanup"] == cleanup


def test_the_authors_rule_for_humaneval_spoils_no_right_answer_to_mbpp(data_dir: Path) -> None:
    one = task("mbpp+", data_dir, cleanup="authors")
    for index in range(3):
        document, body, _ = answer(one, index)
        assert one.judge(document, body).scores["pass@1,cleaned"] == 1.0


@pytest.mark.parametrize("name", ["humaneval", "humaneval+", "mbpp+-instruct"])
def test_the_package_judges_the_same_programs(name: str, data_dir: Path) -> None:
    one = task(name, data_dir, scorer="evalplus")
    assert one.prepare()["scorer"].startswith("evalplus 0.")
    document, body, whole = answer(one)
    assert one.judge(document, body).correct == 1.0
    wrapped = one.judge(document, f"Here:\n```python\n{whole}\n```\n")
    assert (wrapped.scores["pass@1,raw"], wrapped.scores["pass@1,cleaned"]) == (0.0, 1.0)
    assert one.judge(document, body.replace("return", "return None and")).correct == 0.0
    one.close()


def test_what_does_not_fit_is_told(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no code task is called 'humaneval_puls' \(did you mean 'humaneval"):
        find_code_task("humaneval_puls")
    with pytest.raises(ConfigError, match="did you mean 'evalplus'"):
        task("humaneval", data_dir, scorer="evalplu")
    with pytest.raises(ConfigError, match="did you mean 'authors'"):
        task("humaneval", data_dir, cleanup="author")
    with pytest.raises(ConfigError, match="no tests for the 500 problems of mbpp; use --task mbpp"):
        task("mbpp", data_dir, scorer="evalplus")
    with pytest.raises(ConfigError, match="the tests of mbpp may need more"):
        task("mbpp", data_dir, cleanup="authors")
    with pytest.raises(ConfigError, match="no split 'train'"):
        task("mbpp", data_dir).documents("train")
    with pytest.raises(TaskDataError, match="found nothing"):
        find_code_task("mbpp", data_dir=tmp_path).documents()


def test_a_prompt_and_a_chat_that_do_not_go_together_are_noted(data_dir: Path) -> None:
    chatty = PromptSettings(chat_template=chat)
    assert "consider --task mbpp-instruct" in find_code_task("mbpp", data_dir=data_dir, prompts=chatty).notes[0]
    assert "consider --task mbpp" in find_code_task("mbpp-instruct", data_dir=data_dir).notes[0]
    assert find_code_task("mbpp", data_dir=data_dir).notes == ()
    assert find_code_task("mbpp-instruct", data_dir=data_dir, prompts=chatty).notes == ()


def test_scoring_never_imports_torch(data_dir: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom lopa_bench.harness.code.task import *\n"
        "from lopa_bench.harness.code.scoring import ScoringSettings\n"
        "one = find_code_task('humaneval+', data_dir=Path(sys.argv[1]), first=1,"
        " scoring=ScoringSettings(allow_execution=True))\n"
        "print(one.judge(one.documents()[0], one.data.rows[0]['canonical_solution']).correct)\n"
        "print([name for name in ('torch', 'transformers', 'evaluate') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(data_dir)], capture_output=True, text=True, timeout=280)
    assert done.stdout.split("\n")[:2] == ["1.0", "[]"], done.stderr
