"""What the environment says of a process's place in a job, as torchrun and our own launcher set it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lopa_bench.errors import ConfigError

MOST_RANKS = 1 << 20
AT_HOME = "start it by torchrun, or unset RANK and WORLD_SIZE to run alone"


def world_of(environment: Mapping[str, str] = os.environ) -> int | None:
    """Ranks of the job that this process was started in, by torchrun or our own launcher; None when it is alone.

    Raises:
        ConfigError: the environment's variables tell of no job that can be.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    size = _variable(environment, "WORLD_SIZE", range(1, MOST_RANKS))
    _variable(environment, "RANK", range(size))
    size_here = size
    if "LOCAL_WORLD_SIZE" in environment:
        size_here = _variable(environment, "LOCAL_WORLD_SIZE", range(1, size + 1))
    if "LOCAL_RANK" in environment:
        _variable(environment, "LOCAL_RANK", range(size_here))
    return size


def check_not_one_of_many(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a task of a bare `srun`: each would be a whole run of its own.

    A step tells its tasks how many they are (SLURM_STEP_NUM_TASKS); a batch script, which is one process, only knows
    how many tasks the job may have.

    Raises:
        ConfigError: it is one of several tasks, and nothing makes a job of them.
    """
    if "SLURM_PROCID" not in environment or world_of(environment) is not None:
        return
    is_script = environment.get("ENVIRONMENT") == "BATCH"
    count = environment.get("SLURM_STEP_NUM_TASKS", "1" if is_script else environment.get("SLURM_NTASKS", "1"))
    if count.isdecimal() and int(count) > 1:
        raise ConfigError(
            f"this is task {environment['SLURM_PROCID']} of {count} that srun started, and each would make the whole "
            "run: start one task a machine and torchrun in it (docs/distributed.md), or --devices on one machine, or "
            "unset SLURM_PROCID to run alone"
        )


def _variable(environment: Mapping[str, str], name: str, allowed: range) -> int:
    """A number that a launcher gives."""
    value = environment[name]
    if not value.strip().lstrip("-").isdecimal():
        raise ConfigError(f"{name}={value!r} in the environment is no number; {AT_HOME}")
    if int(value) not in allowed:
        raise ConfigError(
            f"{name}={value} in the environment is not within {allowed.start} to {allowed.stop - 1}; {AT_HOME}"
        )
    return int(value)


def check_meeting_point(environment: Mapping[str, str]) -> None:
    """Refuse a job whose processes cannot know where to meet.

    Raises:
        ConfigError: MASTER_ADDR or MASTER_PORT is missing or no such thing.
    """
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environment.get(name)]
    if missing:
        raise ConfigError(
            f"RANK={environment['RANK']} and WORLD_SIZE={environment['WORLD_SIZE']} in the environment tell of a job "
            f"of several processes, but {' and '.join(missing)}, where they meet, is not set; {AT_HOME}"
        )
    _variable(environment, "MASTER_PORT", range(1, 1 << 16))
