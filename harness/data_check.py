"""Whether the data that tasks need are there, whole and the known ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lopa_bench.errors import ConfigError, PrerequisiteError, TaskDataError
from lopa_bench.harness.lm_eval_adapter.files import load_yaml, require
from lopa_bench.harness.task_source import all_tasks, known_name, splits_of
from lopa_bench.tasks.code_tasks import CODE_TASKS
from lopa_bench.tasks.data_files import Split, find_files, read_split
from lopa_bench.tasks.maths_tasks import MATHS_TASKS

Status = Literal["known release", "unknown release", "a part of the release", "damaged", "not there", "from the hub"]


@dataclass(frozen=True)
class SplitCheck:
    """One split of one data set: where it was found and what it is.

    `rows` and `sha256` are None where nothing could be read. `problem` is the sentence that a run would end with.
    """

    data: str
    split: str
    tasks: tuple[str, ...]
    status: Status
    file: str = ""
    rows: int | None = None
    sha256: str | None = None
    release: str | None = None
    problem: str = ""


def check_data(names: Iterable[str] = (), data_dir: Path | None = None) -> list[SplitCheck]:
    """Read and check the data of tasks, each data set once.

    Args:
        names: the tasks; none stands for all that need data.
        data_dir: the folder; without one nothing is read, and nothing is fetched.

    Raises:
        ConfigError: no such task, or a task that needs no data.
        TaskDataError: no such folder.
    """
    asked = [known_name(name) for name in names] or [task.name for task in all_tasks() if task.needs_data]
    if data_dir is not None and not data_dir.is_dir():
        raise TaskDataError(
            f"data folder {data_dir} does not exist or is a file; give the folder with the tasks' files"
        )
    users: dict[tuple[str, str], list[str]] = {}
    splits: dict[tuple[str, str], Split] = {}
    for name in dict.fromkeys(asked):
        if not (needed := splits_of(name)):
            raise ConfigError(f"task {name} is generated and needs no data")
        for split in needed:
            key = (split.data, split.split)
            splits[key] = split
            users.setdefault(key, []).append(name)
    return [check_split(split, users[key], data_dir) for key, split in splits.items()]


def check_split(split: Split, tasks: Sequence[str], data_dir: Path | None) -> SplitCheck:
    """Read and check one split; without a folder only say where it comes from."""
    who = (split.data, split.split, tuple(tasks))
    if data_dir is None:
        return SplitCheck(*who, "from the hub", split.hub)
    try:
        files = find_files(split, data_dir)
        if not files:
            return SplitCheck(*who, "not there")
        data = read_split(split, data_dir)
    except TaskDataError as error:
        return SplitCheck(*who, "damaged", problem=str(error))
    status: Status = "unknown release"
    if data.release is not None:
        status = "known release"
    elif len(data.rows) < split.num_rows:
        status = "a part of the release"
    return SplitCheck(*who, status, data.source, len(data.rows), data.sha256, data.release)


@dataclass(frozen=True)
class TaskFitness:
    """Whether a task could be run here, as far as packages go; `remark` says what is missing."""

    task: str
    usable: bool
    data: str
    remark: str = ""


def fitness_of_tasks(data_dir: Path | None = None) -> list[TaskFitness]:
    """Return for every task whether its definition loads and its scorer's packages are installed."""
    return [_fitness(task.name, data_dir) for task in all_tasks()]


def _fitness(name: str, data_dir: Path | None) -> TaskFitness:
    data = where_data_are(name, data_dir)
    try:
        if name in MATHS_TASKS:
            require(name, MATHS_TASKS[name].needs)
            load_yaml(MATHS_TASKS[name].yaml, functions=False)
        elif name in CODE_TASKS and (yaml := CODE_TASKS[name].yaml) is not None:
            load_yaml(yaml, functions=False)
    except PrerequisiteError as error:
        return TaskFitness(name, False, data, str(error))
    return TaskFitness(name, True, data)


def where_data_are(name: str, data_dir: Path | None) -> str:
    """Say in a few words where a task's problems would come from; nothing is read."""
    splits = splits_of(name)
    if not splits:
        return "none needed"
    hub = f"from the hub: {splits[0].hub}"
    if data_dir is None:
        return hub
    if not data_dir.is_dir():
        return f"{data_dir} does not exist"
    try:
        found = find_files(splits[0], data_dir)
    except TaskDataError:
        return "found in part"
    return f"found: {found[0].name}" if found else f"not found ({splits[0].file_stem}.jsonl.gz)"
