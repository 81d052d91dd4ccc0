"""Consent to run what a model wrote: asked for before anything is generated."""

from __future__ import annotations

import os

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness.assignments import parse_bool

VARIABLE = "LOPA_BENCH_ALLOW_CODE_EXECUTION"
FLAG = "--allow-code-execution"


def has_consent(allowed: bool = False) -> bool:
    """Whether the user has agreed, by the flag or by the environment variable, in which "false" and the like are no."""
    word = os.environ.get(VARIABLE, "").strip()
    return allowed or (bool(word) and parse_bool(word, VARIABLE))


def require_consent(task: str, allowed: bool = False) -> None:
    """Do nothing when the user has agreed to have programs run.

    Raises:
        PrerequisiteError: he has not.
    """
    if not has_consent(allowed):
        raise PrerequisiteError(
            f"task {task} runs the programs that the model writes, in a sandbox on this machine: "
            f"agree with {FLAG} or {VARIABLE}=1"
        )
