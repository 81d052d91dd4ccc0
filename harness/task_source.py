"""Every task by name, wherever it is defined: the generated ones and those of lm-eval."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.harness.lm_eval_tasks import DEFINITIONS, ChatTemplate, LmEvalTask, PromptSettings
from lopa_bench.tasks.base import Task
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
    return generated + [
        TaskFacts(one.name, one.family, one.headline, one.max_new_tokens, f"lm-eval {one.yaml}", True, one.citation)
        for one in DEFINITIONS.values()
    ]


def known_name(name: str) -> str:
    """Return a task's own name for any spelling of it (`gsm8k_cot`); ConfigError with the nearest when unknown."""
    names = (*task_names(), *DEFINITIONS)
    plain = name.lower().replace("_", "-")
    if plain not in names:
        raise ConfigError(f"no task is called '{name}'{nearest(plain, names)}; there are {', '.join(names)}")
    return plain


def facts(name: str) -> TaskFacts:
    """Return the facts of one task."""
    plain = known_name(name)
    return next(task for task in all_tasks() if task.name == plain)


def find_task(
    name: str,
    *,
    data_dir: Path | None = None,
    num_fewshot: int | None = None,
    chat_template: ChatTemplate | None = None,
    multiturn: bool = True,
    system_instruction: str | None = None,
    first: int | None = None,
) -> Task:
    """Return a task ready to hand out its documents.

    Raises:
        ConfigError: no such task, or prompt settings that it does not have.
        TaskDataError: its data cannot be read.
    """
    plain = known_name(name)
    if plain in DEFINITIONS:
        prompts = PromptSettings(num_fewshot, chat_template, multiturn, system_instruction)
        return cast(Task, LmEvalTask(DEFINITIONS[plain], data_dir, prompts, first))
    if num_fewshot:
        raise ConfigError(f"task {plain} has no few-shot prompts; leave --num-fewshot out")
    if chat_template is not None or system_instruction:
        raise ConfigError(f"task {plain} is not asked as a chat; use --no-chat")
    return get_task(plain)


def source_of(task: Task) -> dict[str, Any]:
    """Return what a run record says about where a task's problems come from."""
    return task.source if isinstance(task, LmEvalTask) else {"generator": f"lopa-bench {task.name} {task.version}"}
