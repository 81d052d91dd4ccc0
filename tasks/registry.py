"""Tasks by name."""

from __future__ import annotations

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.tasks.base import GeneratedTask
from lopa_bench.tasks.mini_code import MiniCode
from lopa_bench.tasks.mini_maths import MiniMaths

TASKS: dict[str, type[GeneratedTask]] = {MiniMaths.name: MiniMaths, MiniCode.name: MiniCode}


def task_names() -> list[str]:
    """Return the names of all tasks, in the order in which they are listed to users."""
    return list(TASKS)


def get_task(name: str) -> GeneratedTask:
    """Return the task called `name`; an unknown name raises ConfigError with the nearest match."""
    if name not in TASKS:
        raise ConfigError(f"no task is called '{name}'{nearest(name, TASKS)}: choose from {', '.join(TASKS)}")
    return TASKS[name]()
