from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import lm_eval.tasks
import pytest

from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.harness.code import prompts as code_prompts
from lopa_bench.harness.code.prompts import CodePrompts, as_document, read_examples
from lopa_bench.harness.lm_eval_adapter.tasks import PromptSettings
from lopa_bench.tasks.code_data import load_code_data
from lopa_bench.tasks.code_tasks import CODE_TASKS, EVALPLUS_STOPS

HASHES = {
    "humaneval": "dd7a1e2593f95402",
    "humaneval+": "dd7a1e2593f95402",
    "mbpp": "1cfa9ac078eaaaa2",
    "mbpp+": "fc1c34d05f541813",
    "humaneval-instruct": "5877d802b5cba3fc",
    "humaneval+-instruct": "5877d802b5cba3fc",
    "mbpp-instruct": "244e437cd98d94b6",
    "mbpp+-instruct": "90e767875d6d7dce",
}
"""sha256 of the first three prompts of each task, so that a change of a prompt is seen; raise the task's version."""


def chat(chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
    turns = "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)
    return turns + ("<assistant>" if add_generation_prompt else "")


def prompts(name: str, data_dir: Path, settings: PromptSettings | None = None, first: int = 3) -> CodePrompts:
    definition = CODE_TASKS[name]
    settings = settings or PromptSettings(chat_template=chat if definition.is_chat else None)
    return CodePrompts(definition, load_code_data(definition.data, data_dir).rows[:first], settings)


@pytest.mark.parametrize("name", CODE_TASKS)
def test_prompts_are_what_they_were(name: str, data_dir: Path) -> None:
    built = prompts(name, data_dir).build()
    assert hashlib.sha256("\0".join(built).encode()).hexdigest()[:16] == HASHES[name]


@pytest.mark.parametrize("name", CODE_TASKS)
def test_no_escape_is_written_out(name: str, data_dir: Path) -> None:
    """lm-eval once shipped line breaks as two characters."""
    for prompt in prompts(name, data_dir, first=40).build():
        assert "\\n[BEGIN]" not in prompt
        assert "```python\\n" not in prompt
        assert prompt.count("\n") > 2


def test_humaneval_is_the_problem_s_prompt(data_dir: Path) -> None:
    rows = load_code_data("humaneval", data_dir).rows
    assert prompts("humaneval", data_dir).build() == [row["prompt"] for row in rows[:3]]
    assert prompts("humaneval", data_dir).stop == ("\nclass", "\ndef", "\n#", "\nif", "\nprint")


def test_mbpp_has_three_fixed_shots(data_dir: Path) -> None:
    made = prompts("mbpp", data_dir)
    first, second, _ = made.build()
    assert made.num_fewshot == 3
    assert first.count("[BEGIN]\n") == 4
    assert first.count("[DONE]") == 3
    assert first.endswith("[BEGIN]\n")
    assert first.split("[DONE]")[:3] == second.split("[DONE]")[:3]
    assert "def similar_elements" in first
    assert made.stop == ("[DONE]",)


def test_shots_can_be_fewer_and_not_more(data_dir: Path) -> None:
    assert prompts("mbpp", data_dir, PromptSettings(num_fewshot=1)).build()[0].count("[DONE]") == 1
    with pytest.raises(ConfigError, match="--num-fewshot 4 does not work for mbpp: it has 3 examples"):
        prompts("mbpp", data_dir, PromptSettings(num_fewshot=4))
    for name in ("humaneval", "mbpp+"):
        with pytest.raises(ConfigError, match="is asked without examples"):
            prompts(name, data_dir, PromptSettings(num_fewshot=1))


def test_mbpp_plus_is_evalplus_own_prompt(data_dir: Path) -> None:
    rows = load_code_data("mbpp+", data_dir).rows
    assert prompts("mbpp+", data_dir).build() == [row["prompt"] for row in rows[:3]]


def test_mbpp_plus_stops_are_the_package_s() -> None:
    from evalplus.provider.utility import EOS, extra_eos_for_direct_completion

    texts = [word for word in EOS if word.startswith("\n")]  # the others are tokens of some models
    assert list(EVALPLUS_STOPS) == texts + extra_eos_for_direct_completion("mbpp")


def test_mbpp_plus_text_and_assertions_are_taken_apart(data_dir: Path) -> None:
    definition = CODE_TASKS["mbpp+-instruct"]
    for row in load_code_data("mbpp+", data_dir).rows:
        doc = as_document(definition, row)
        assert doc["prompt"]
        assert '"""' not in doc["prompt"]
        assert "assert" not in doc["prompt"]
        assert len(doc["test_list"]) >= 3


def test_the_chat_s_last_turn_is_left_open(data_dir: Path) -> None:
    for name in ("humaneval-instruct", "mbpp-instruct", "mbpp+-instruct"):
        prompt = prompts(name, data_dir).build()[0]
        assert "```python\n" in prompt.rpartition("<assistant>")[2]
    assert prompts("mbpp-instruct", data_dir).build()[0].count("<user>") == 4


def test_a_prefix_of_the_problems_has_the_same_prompts(data_dir: Path) -> None:
    for name in ("mbpp", "mbpp-instruct"):
        assert prompts(name, data_dir, first=2).build() == prompts(name, data_dir, first=5).build()[:2]


def test_examples_are_those_that_the_package_would_return() -> None:
    path = Path(lm_eval.tasks.__file__).parent / "mbpp" / "utils.py"
    source = path.read_text()
    space: dict[str, Any] = {}
    exec(source[source.index("def list_fewshot_samples") :], space)
    assert read_examples(path) == space["list_fewshot_samples"]()


def test_another_lm_eval_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "utils.py").write_text("def other(): return []")
    with pytest.raises(PrerequisiteError, match=r"no few-shot examples in utils\.py; install"):
        read_examples(tmp_path / "utils.py")
    with pytest.raises(PrerequisiteError, match=r"has no nowhere/task.yaml; install lm-eval 0.4.13"):
        code_prompts._load_yaml("nowhere/task.yaml")
