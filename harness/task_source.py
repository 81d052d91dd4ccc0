"""Every task by name, wherever it is defined: the generated ones, those of lm-eval, and those that run programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.harness.code.scoring import ScoringSettings
from lopa_bench.harness.code.task import CodeTask, find_code_task
from lopa_bench.harness.lm_eval_adapter.tasks import ChatTemplate, LmEvalTask, PromptSettings
from lopa_bench.tasks.base import Task
from lopa_bench.tasks.code_data import DATA_SETS
from lopa_bench.tasks.code_tasks import CODE_TASKS, code_task_name
from lopa_bench.tasks.data_files import Split
from lopa_bench.tasks.maths_tasks import MATHS_TASKS, maths_task_name
from lopa_bench.tasks.registry import get_task, task_names


@dataclass(frozen=True)
class TaskFacts:
    """What can be said of a task before its data are read."""

    name: str
    family: str
    metric: str
    max_new_tokens: int
    origin: str
    needs_data: bool
    citation: str


def all_tasks() -> list[TaskFacts]:
    """Return every task, the bundled ones first."""
    generated = [
        TaskFacts(task.name, task.family, task.metric, task.max_new_tokens, "generated here", False, task.citation)
        for task in map(get_task, task_names())
    ]
    defined = [
        TaskFacts(one.name, one.family, one.headline, one.max_new_tokens, f"lm-eval {one.yaml}", True, one.citation)
        for one in MATHS_TASKS.values()
    ]
    return generated + defined + [_code_facts(name) for name in CODE_TASKS]


def _code_facts(name: str) -> TaskFacts:
    one, task = CODE_TASKS[name], find_code_task(name)
    origin = "the problem's own text" if one.yaml is None else f"lm-eval {one.yaml}"
    return TaskFacts(one.name, one.family, task.metric, one.max_new_tokens, origin, True, one.citation)


def known_name(name: str) -> str:
    """Return a task's own name for any spelling of it (`minerva_math`); ConfigError with the nearest when unknown."""
    names = (*task_names(), *MATHS_TASKS, *CODE_TASKS)
    plain = maths_task_name(name)
    if (code := code_task_name(name)) in CODE_TASKS:
        return code
    if plain not in names:
        raise ConfigError(f"no task is called '{name}'{nearest(plain, names)}; there are {', '.join(names)}")
    return plain


def facts(name: str) -> TaskFacts:
    """Return the facts of one task."""
    return _facts_by_name()[known_name(name)]


@cache
def _facts_by_name() -> dict[str, TaskFacts]:
    return {task.name: task for task in all_tasks()}


def splits_of(name: str) -> tuple[Split, ...]:
    """Return the splits that a task's problems and shots come from; none for a generated task."""
    plain = known_name(name)
    if plain in CODE_TASKS:
        return (DATA_SETS[CODE_TASKS[plain].data],)
    if plain in MATHS_TASKS:
        one = MATHS_TASKS[plain]
        return (one.test,) if one.shots is None else (one.test, one.shots)
    return ()


def find_task(
    name: str,
    *,
    data_dir: Path | None = None,
    num_fewshot: int | None = None,
    chat_template: ChatTemplate | None = None,
    multiturn: bool = True,
    system_instruction: str | None = None,
    first: int | None = None,
    scoring: ScoringSettings | None = None,
) -> Task:
    """Return a task ready to hand out its documents; `scoring` is for those that run programs.

    Raises:
        ConfigError: no such task, or prompt settings that it does not have.
        TaskDataError: its data cannot be read.
    """
    plain = known_name(name)
    prompts = PromptSettings(num_fewshot, chat_template, multiturn, system_instruction)
    if plain in CODE_TASKS:
        return cast(Task, find_code_task(plain, data_dir=data_dir, prompts=prompts, first=first, scoring=scoring))
    if plain in MATHS_TASKS:
        return cast(Task, LmEvalTask(MATHS_TASKS[plain], data_dir, prompts, first))
    if num_fewshot:
        raise ConfigError(f"task {plain} has no few-shot prompts; leave --num-fewshot out")
    if chat_template is not None or system_instruction:
        raise ConfigError(f"task {plain} is not asked as a chat; use --no-chat")
    return get_task(plain)


def source_of(task: Task) -> dict[str, Any]:
    """Return what a run record says about where a task's problems come from."""
    if isinstance(task, LmEvalTask | CodeTask):
        return task.source
    return {"generator": f"lopa-bench {task.name} {task.version}"}


def scoring_of(task: Task) -> dict[str, Any]:
    """Return what the verdicts of a task depend on: two runs that agree in this were judged alike."""
    if isinstance(task, CodeTask):
        return task.scoring_identity
    if isinstance(task, LmEvalTask):
        return {"scorer": source_of(task)["harness"]}
    return {"scorer": f"lopa-bench {task.name} {task.version}"}


def prepare_scoring(task: Task) -> dict[str, Any]:
    """Make sure that answers can be judged, and return what a run record says about how.

    Raises:
        PrerequisiteError: programs would be run without consent, or a tool is missing.
        ScorerError: programs cannot be run here, or the judge fails its controls.
    """
    return task.prepare() if isinstance(task, CodeTask) else scoring_of(task)


def end_scoring(task: Task) -> None:
    """End what judging has started."""
    if isinstance(task, CodeTask):
        task.close()
