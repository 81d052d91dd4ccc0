"""The task of a stored run, made anew from its record, and made sure of: same data, same prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ResultsError, TaskDataError
from lopa_bench.harness import identity
from lopa_bench.harness.code.scoring import scoring_settings
from lopa_bench.harness.problem_choice import outline, prompts_up_to
from lopa_bench.harness.settings import DEFAULTS
from lopa_bench.harness.task_source import find_task, source_of

if TYPE_CHECKING:
    from lopa_bench.results.schema import RunRecord, SampleRecord, Setting
    from lopa_bench.results.store import StoredRun
    from lopa_bench.tasks.base import Document, Task


def task_of(configuration: Mapping[str, Setting]) -> Task:
    """Return the task that a run's settings name, with all its problems.

    The chat template is left out, which would take the model's tokenizer: a run that was asked as a chat had other
    prompts, and holds them itself. What an older program did not know of has its default.
    """
    values = dict(DEFAULTS) | {name: setting.value for name, setting in configuration.items()}
    return find_task(
        str(values["task"]),
        data_dir=None if values["data_dir"] is None else Path(str(values["data_dir"])).expanduser(),
        num_fewshot=values["num_fewshot"],
        multiturn=bool(values["multiturn"]),
        system_instruction=None if values["chat"] else values["system_instruction"],
        scoring=scoring_settings(values),
    )


def documents_of(run: StoredRun, task: Task, samples: Sequence[SampleRecord], *, same_prompts: bool) -> list[Document]:
    """Return the problem of each sample.

    Args:
        run: the run that holds the samples.
        task: its task.
        samples: some of its samples.
        same_prompts: whether the task's prompts must be those that the run asked.

    Raises:
        TaskDataError: the data are others than those of the run.
        ResultsError: the run asked what the task does not have, or in other words.
    """
    _check_data(run.record, source_of(task).get("data"))
    where = {entry.id: index for index, entry in enumerate(outline(task))}
    unknown = next((sample.id for sample in samples if sample.id not in where), None)
    if unknown is not None:
        raise ResultsError(f"run {run.path.name} holds an answer to {unknown}, which task {task.name} has not")
    built = prompts_up_to(task, 1 + max((where[sample.id] for sample in samples), default=-1))
    documents = [built[where[sample.id]] for sample in samples]
    for sample, document in zip(samples, documents, strict=True):
        if same_prompts and sample.prompt_hash not in ("", identity.prompt_hash(document.prompt)):
            raise ResultsError(
                f"run {run.path.name} was asked another prompt for {sample.id} than task {task.name} has now; "
                "use the version that made the run, or make it again"
            )
    return documents


def _check_data(record: RunRecord, cards: Any) -> None:
    """Refuse data files that are not those of the run."""
    for card in cards.values() if isinstance(cards, dict) else ():
        sha256 = card.get("sha256", "") if isinstance(card, dict) else ""
        if sha256 and "sha256:" in record.task.source and f"sha256:{sha256[:12]}" not in record.task.source:
            raise TaskDataError(
                f"the data in {card['source']} (sha256 {sha256[:12]}) are not those of run {record.id} "
                f"({record.task.source}); give the folder that holds them: --data-dir"
            )
