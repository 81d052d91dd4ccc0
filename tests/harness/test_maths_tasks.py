"""MATH as lm-eval's minerva_math asks and scores it, over problems made here in the hub's layout."""

from __future__ import annotations

import importlib.util
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import PrerequisiteError, ScorerError, TaskDataError
from lopa_bench.harness import identity
from lopa_bench.harness.lm_eval_adapter.files import load_yaml, read_grammars
from lopa_bench.harness.lm_eval_adapter.tasks import LmEvalTask, PromptSettings
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.schema import Why
from lopa_bench.tasks.base import Entry
from lopa_bench.tasks.maths_tasks import MATH_TEST, MATHS_TASKS, MathsDefinition, maths_task_name

PROBLEMS = [
    ("What is $1 + 1$?", "Level 1", "Prealgebra", r"We add: $1 + 1 = \boxed{2}$."),
    ("Name the point.", "Level 5", "Algebra", r"The point is $\boxed{(0,1)}$."),
    ("Halve one.", "Level 2", "Algebra", r"It is $\boxed{\frac{1}{2}}$."),
    ("Count to a thousand.", "Level 3", "Counting & Probability", r"There are $\boxed{1{,}000}$."),
]
ROWS = [dict(zip(("problem", "level", "type", "solution"), one, strict=True)) for one in PROBLEMS]

# The prompt of the first problem above, with lm-eval's four examples, as version 3.1 of its task builds it.
GOLDEN = "67cc27e9c780cd70fab2f80f69815281f3064dadce23d044c034e63a04e486a1"

needs_math = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in MATHS_TASKS["math"].needs),
    reason="the scores of MATH need the extra 'math'",
)


def write(folder: Path, rows: list[dict[str, Any]] = ROWS, name: str = "math_test") -> Path:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def math(tmp_path: Path) -> LmEvalTask:
    return LmEvalTask(MATHS_TASKS["math"], write(tmp_path))


@needs_math
def test_prompts_are_lm_eval_s_and_the_parts_stand_in_its_order(math: LmEvalTask) -> None:
    documents = math.documents()
    assert [one.metadata["cluster"] for one in documents] == [
        "Algebra", "Algebra", "Counting & Probability", "Prealgebra",
    ]  # fmt: skip
    assert [one.target for one in documents] == ["(0,1)", r"\frac{1}{2}", "1000", "2"]
    assert documents[0].prompt.endswith("Problem:\nName the point.\n\nSolution:")
    assert documents[0].prompt.count("I hope it is correct.") == math.num_fewshot == 4
    theirs = math._task
    theirs.build_all_requests(limit=4)
    assert [one.args[0] for one in theirs.instances] == [one.prompt for one in documents]
    assert math.stop == tuple(theirs.instances[0].args[1]["until"]) == ("Problem:",)
    assert math.version == "3.1"
    assert identity.prompt_hash(documents[0].prompt) == GOLDEN


@needs_math
@pytest.mark.parametrize(
    ("text", "exact", "verify", "extracted", "why"),
    [
        ("Final Answer: The final answer is $(0,1)$. I hope it is correct.", 1.0, 1.0, "$(0,1)$", None),
        (r"So it is $\boxed{(0,1)}$.", 0.0, 1.0, "(0,1)", None),
        ("Final Answer: The final answer is $(1,0)$. I hope it is correct.", 0.0, 0.0, "$(1,0)$", Why.WRONG),
        ("I do not know.", 0.0, 0.0, None, Why.NOT_EXTRACTED),
        (" \n", 0.0, 0.0, None, Why.EMPTY),
        ("\x00\ud7ff \\boxed{" * 30, 0.0, 0.0, None, Why.NOT_EXTRACTED),
    ],
)
def test_both_scores_of_every_answer(
    math: LmEvalTask, text: str, exact: float, verify: float, extracted: str | None, why: str | None
) -> None:
    verdict = math.judge(math.documents()[0], text)
    assert verdict.scores == {"exact_match,none": exact, "math_verify,none": verify}
    assert (verdict.correct, verdict.extracted, verdict.why) == (verify, extracted, why)


@needs_math
def test_equal_values_are_equal_answers(math: LmEvalTask) -> None:
    half, thousand = math.documents()[1:3]
    assert math.judge(half, "Final Answer: The final answer is $0.5$. I hope it is correct.").correct == 1.0
    for text in ("1000", "1,000"):
        answer = f"Final Answer: The final answer is ${text}$. I hope it is correct."
        assert math.judge(thousand, answer).scores["exact_match,none"] == 1.0


@needs_math
def test_no_comparison_s_five_seconds_go_on_reading_a_grammar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries end a comparison by an alarm and call what it ended unequal: a slow machine's first answer."""
    import sympy.parsing.latex
    from sympy.parsing.latex import parse_latex

    done: list[str] = []
    monkeypatch.setattr(signal, "alarm", lambda seconds: done.append(f"alarm {seconds}"))
    monkeypatch.setattr(sympy.parsing.latex, "parse_latex", lambda text: done.append("read") or parse_latex(text))
    read_grammars.cache_clear()
    LmEvalTask(MATHS_TASKS["math"], write(tmp_path)).documents()
    LmEvalTask(MATHS_TASKS["math"], write(tmp_path)).documents()
    assert done == ["read"]


@needs_math
def test_a_fault_of_the_scorer_is_no_wrong_answer(math: LmEvalTask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    document = math.documents()[0]
    monkeypatch.setattr(math._task, "process_results", fail)
    with pytest.raises(ScorerError, match="scores of math fail on this answer: ZeroDivisionError"):
        math.judge(document, "x")


@needs_math
def test_no_shots_and_a_chat(tmp_path: Path) -> None:
    def render(chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)

    none = LmEvalTask(MATHS_TASKS["math"], write(tmp_path), PromptSettings(num_fewshot=0))
    assert none.documents()[0].prompt == "Problem:\nName the point.\n\nSolution:"
    chat = LmEvalTask(MATHS_TASKS["math"], tmp_path, PromptSettings(chat_template=render)).documents()[0].prompt
    assert (chat.count("<user>"), chat.count("<assistant>")) == (5, 4)


@needs_math
def test_math_500_has_its_own_fields(tmp_path: Path) -> None:
    row = {"problem": "Halve one.", "solution": r"$\boxed{0.5}$", "answer": "0.5", "subject": "Algebra", "level": 2}
    row["unique_id"] = "test/algebra/1.json"
    task = LmEvalTask(MATHS_TASKS["math500"], write(tmp_path, [row], "math500_test"))
    [document] = task.documents()
    assert document.metadata["cluster"] == "Algebra"
    assert task.outline() == [Entry("math500-0000", "Algebra, 2", "test/algebra/1.json")]
    assert task.judge(document, r"\boxed{\frac12}").correct == 1.0


def test_a_part_of_the_data_says_so(math: LmEvalTask) -> None:
    assert "holds 4 problems of math, the release has 5000" in math.notes[0]
    assert math.num_available == 5000
    assert next(one.stratum for one in math.outline()) == "Algebra, Level 5"


def test_a_missing_package_is_told_before_anything_is_built(math: LmEvalTask, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "math_verify" else find(name))
    with pytest.raises(PrerequisiteError, match=r"\(math_verify\): pip install 'lopa-bench\[math\]'"):
        math.documents()


def test_another_antlr_is_told(math: LmEvalTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "4.13.2")
    with pytest.raises(PrerequisiteError, match=r"antlr4-python3-runtime 4.11, found 4.13.2"):
        math.documents()


@needs_math
def test_a_solution_that_cannot_be_read_is_a_fault_of_the_data(tmp_path: Path) -> None:
    for solution, words in (("It is 2.", r"line 1: the solution lacks"), (r"\boxed{2", "cannot read the problems")):
        task = LmEvalTask(MATHS_TASKS["math"], write(tmp_path, [{**ROWS[0], "solution": solution}]))
        with pytest.raises(TaskDataError, match=words):
            task.documents()


def test_the_hub_s_names_are_those_of_lm_eval_s_own_files() -> None:
    import lm_eval.tasks

    folder = Path(lm_eval.tasks.__file__).parent / "minerva_math"
    files = sorted(file.name for file in folder.glob("minerva_math_*.yaml"))
    parts = [load_yaml(f"minerva_math/{name}", functions=False) for name in files]
    assert tuple(part["dataset_name"] for part in parts) == MATH_TEST.configs
    assert {part["dataset_path"] for part in parts} == {MATH_TEST.hub}
    own = {"task", "dataset_name", "tag"}
    shared = [{name: value for name, value in part.items() if name not in own} for part in parts]
    assert all(part == shared[0] for part in shared), "one task file stands for all parts"


@pytest.mark.parametrize("definition", MATHS_TASKS.values(), ids=lambda one: one.name)
def test_every_definition_names_the_hub_s_data(definition: MathsDefinition) -> None:
    config = load_yaml(definition.yaml, functions=False)
    assert config["dataset_path"] == definition.test.hub
    assert config["test_split"] == "test"
    assert config["dataset_name"] in (*definition.test.configs, "default")
    assert maths_task_name(config["task"]) in (definition.name, "minerva-math-algebra")


@pytest.mark.parametrize(
    ("given", "name"), [("minerva_math", "math"), ("MATH-500", "math500"), ("gsm8k_cot", "gsm8k-cot")]
)
def test_other_spellings(given: str, name: str) -> None:
    assert maths_task_name(given) == name


def spec(tmp_path: Path, checkpoint: Path, **more: Any) -> RunSpec:
    return RunSpec(
        task="minerva_math", decoder="d2f", model=str(checkpoint), data_dir=write(tmp_path), runs_dir=tmp_path / "runs",
        num_fewshot=0, warmup=0, threads=1, options={"max_new_tokens": 8, "block_size": 4}, **more,
    )  # fmt: skip


@needs_math
def test_math_goes_through_the_main_path(tmp_path: Path, diffusion_checkpoint: Path) -> None:
    result = run(spec(tmp_path, diffusion_checkpoint))
    assert result.run is not None and result.summary is not None
    task = result.run.record.task
    assert (task.name, task.version, task.num_documents, task.num_available, task.partial) == (
        "math",
        "3.1",
        4,
        5000,
        True,
    )
    assert any("holds 4 problems of math" in note for note in result.plan.notes)
    assert set(result.summary.scores) == {"exact_match,none", "math_verify,none"}
    assert [sample.id for sample in result.run.samples] == [f"math-{index:04d}" for index in range(4)]


def test_a_missing_package_ends_a_run_before_anything_is_made(
    tmp_path: Path, diffusion_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "antlr4" else find(name))
    monkeypatch.setattr("lopa_bench.models.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    with pytest.raises(PrerequisiteError, match=r"\(antlr4\): pip install 'lopa-bench\[math\]'"):
        run(spec(tmp_path, diffusion_checkpoint))
    assert not (tmp_path / "runs").exists()
