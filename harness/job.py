"""Everything a run needs, settled and checked before a weight is read: settings, problems, plan."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.harness.acceleration import acceleration_of, check_tensor_parallel
from lopa_bench.harness.code.scoring import scoring_settings
from lopa_bench.harness.code.task import CodeTask
from lopa_bench.harness.distributed.spread import Spread, is_head, settle
from lopa_bench.harness.loading import answerer_for, device_and_dtype, set_up_process, source_of_model
from lopa_bench.harness.plan import Plan, make_plan
from lopa_bench.harness.problem_choice import ONE_OF, Choice, choose
from lopa_bench.harness.settings import RunSpec, Settings, resolve
from lopa_bench.harness.shared_work import once
from lopa_bench.harness.task_source import find_task, prepare_scoring
from lopa_bench.results.schema import Setting
from lopa_bench.tasks.code_tasks import CODE_TASKS

if TYPE_CHECKING:
    from lopa_bench.harness.model_source import ModelSource
    from lopa_bench.tasks.base import Document, Task

NARROW = ("bfloat16", "float16")
"""Number formats in which the order of a sum shows."""


@dataclass(frozen=True)
class Job:
    """A run that could begin: what was asked, of which model, about which problems, and how they will be judged.

    `scoring` is empty for a dry run, in which nothing is started, and for a process that judges nothing.
    """

    settings: Settings
    source: ModelSource
    task: Task
    choice: Choice
    plan: Plan
    scoring: dict[str, Any]
    spread: Spread

    @property
    def documents(self) -> list[Document]:
        """The problems, in the task's order."""
        return self.choice.documents

    @property
    def asked(self) -> tuple[str, ...]:
        """Ids of the problems."""
        return self.choice.ids


def prepare(spec: RunSpec, settings: Settings | None = None) -> Job:
    """Settle the settings, read the problems, check decoder against model and judge; no weights are read.

    `settings` are what the spec comes to, where that is known already.
    """
    settings = resolve(spec) if settings is None else replace(settings, run={**settings.run})
    set_up_process(settings)
    device, dtype = device_and_dtype(settings)
    spread = settle(settings, device)
    acceleration_of(settings).check(device, spread.shape.tensor)
    source = source_of_model(settings)
    source.unloaded_decoder()
    source.check()
    check_tensor_parallel(settings, source, spread.shape.tensor)
    task = _task(settings, source, spec.dry_run)
    chosen = {name: settings[name] for name in ONE_OF}
    choice = once(("choice", _task_key(settings), *chosen.values()), lambda: choose(task, **chosen))
    settings = _with_choice(settings, choice)
    answerer = answerer_for(settings, source)
    plan = make_plan(settings, answerer, choice, device=device, dtype=dtype, mesh=spread.shape)
    notes = [*spread.notes, *_rounding_notes(spread, dtype), *_notes(task, spec.dry_run)]
    judges = is_head(spread.shape)
    scoring = {} if spec.dry_run or not judges else prepare_scoring(task)
    if warning := scoring.get("warning"):
        notes.append(str(warning))
    plan = replace(plan, notes=(*plan.notes, *notes), problems=choice.line)
    return Job(settings, source, task, choice, plan, scoring, spread)


def _with_choice(settings: Settings, choice: Choice) -> Settings:
    """Add what the choice of problems came to, so that it is stored with what was asked."""
    origins = {settings.run[name].origin for name in ONE_OF if settings[name] is not None}
    problems = Setting(value=choice.indices, origin=origins.pop() if origins else "default")
    return replace(settings, run={**settings.run, "problems": problems})


def _rounding_notes(spread: Spread, dtype: str) -> list[str]:
    """Return what a narrow number format means where processes share an answer's matrices."""
    if dtype not in NARROW or spread.shape.branch == spread.shape.tensor == 1:
        return []
    return [
        f"{dtype} on several devices: matrices cut otherwise may round otherwise, so that some answers differ from "
        "those of one device; float32 gives the same"
    ]


def _notes(task: Task, dry_run: bool) -> list[str]:
    """Return what the user should know of the task and its judge; what judging takes is read, nothing started."""
    notes = list(getattr(task, "notes", ()))
    if not isinstance(task, CodeTask):
        return notes
    task.scoring.check_data()
    if dry_run:
        notes.append(f"a real run executes what the model writes: {task.scoring.plan()}")
    return notes


def _task_key(settings: Settings) -> tuple[Hashable, ...]:
    """Return all that a task's prompts and verdicts depend on."""
    names = ("task", "data_dir", "num_fewshot", "multiturn", "system_instruction")
    asker = (settings["model"], settings["tokenizer"]) if settings["chat"] else None  # whose chat template it is
    return (*(settings[name] for name in names), asker, scoring_settings(settings))


def _task(settings: Settings, source: ModelSource, dry_run: bool) -> Task:
    """Return the task; one whose judge will run programs is never shared, since its judge is ended after the run."""
    if settings["task"] in CODE_TASKS and not dry_run:
        return _new_task(settings, source)
    return once(("task", _task_key(settings)), lambda: _new_task(settings, source))


def _new_task(settings: Settings, source: ModelSource) -> Task:
    from lopa_bench.harness.answering import render_chat

    def chat(chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return render_chat(source.tokenizer, chat_history, add_generation_prompt)

    data_dir = settings["data_dir"]
    return find_task(
        str(settings["task"]),
        data_dir=None if data_dir is None else Path(str(data_dir)).expanduser(),
        num_fewshot=settings["num_fewshot"],
        chat_template=chat if settings["chat"] else None,
        multiturn=bool(settings["multiturn"]),
        system_instruction=settings["system_instruction"],
        scoring=scoring_settings(settings),
    )
