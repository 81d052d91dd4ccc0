"""What makes two runs the same run, and what random numbers a sample gets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lopa_bench.harness.settings import Settings
from lopa_bench.harness.task_source import source_of
from lopa_bench.results.schema import Environment, ModelInfo
from lopa_bench.results.store import fingerprint
from lopa_bench.tasks.base import Document, Task

# Settings that decide no answer: where to write, how much to print, what was typed instead of what it came to.
INCIDENTAL = (
    "runs_dir", "data_dir", "offline", "warmup", "threads", "preset", "limit", "samples", "subset", "problems",
    "device", "dtype", "model", "adapter", "force_adapter", "convention", "allow_code_execution",
    "cleanup", "scorer", "isolation", "min_call_s", "api_key_env", "request_timeout",
    "devices", "branch_parallel", "tensor_parallel", "data_parallel", "cache_protocol", "comm_timeout",
)  # fmt: skip
CODE_FOLDERS = ("decoders", "models", "tasks")
NO_ANSWERS_FROM = ("preset*.py", "catalog.py", "memory.py", "tiny.py")
CODE_FILES = (
    "answering.py", "batching.py", "driver.py", "lm_eval_adapter/tasks.py", "lm_eval_adapter/files.py",
    "code/prompts.py",
)  # fmt: skip


def sample_seed(seed: int, sample_id: str) -> int:
    """Return the seed of one sample: the same whatever other samples run, another for every sample and run seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{sample_id}".encode()).digest()[:6])


def prompt_hash(prompt: str) -> str:
    """Return the sha256 of a prompt's text."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def prompts_hash(documents: Sequence[Document]) -> str:
    """Return the sha256 over the hashes of all prompts, in order."""
    return hashlib.sha256("\n".join(prompt_hash(document.prompt) for document in documents).encode()).hexdigest()


@cache
def code_hash() -> str:
    """Return a sha256 over the sources that answers depend on, so that a changed decoder never gets old answers."""
    root = Path(__file__).resolve().parent.parent
    found = [file for folder in CODE_FOLDERS for file in sorted((root / folder).glob("*.py"))]
    files = [file for file in found if not any(file.match(pattern) for pattern in NO_ANSWERS_FROM)]
    digest = hashlib.sha256()
    for file in [*files, *(root / "harness" / name for name in CODE_FILES)]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def run_fingerprint(settings: Settings, task: Task, first: Document, model: ModelInfo, environment: Environment) -> str:
    """Return the fingerprint of a run: equal for two commands that would give the same answers.

    Which problems are asked is not in it, so that more of them go on where fewer ended; of the prompts `first`, the
    task's first one, stands for the way they are built, and the data by their own hashes. Each stored sample has its
    prompt's hash besides.
    """
    semantic: dict[str, Any] = {
        "settings": {name: one.value for name, one in settings.run.items() if name not in INCIDENTAL},
        "options": {name: one.value for name, one in settings.options.items()},
        "task": {"name": task.name, "version": str(task.version), "source": _without_paths(source_of(task))},
        "first_prompt": prompt_hash(first.prompt),
        "model": model.model_dump(exclude={"name", "revision", "adapter"}),
        "device": environment.device,
        "dtype": environment.dtype,
        "torch": environment.packages.get("torch"),
        "version": environment.packages.get("lopa-bench"),
        "code": code_hash(),
    }
    return fingerprint(semantic)


def _without_paths(source: dict[str, Any]) -> dict[str, Any]:
    """Leave out where data lie: the same data elsewhere are the same data."""
    return {
        name: _without_paths(value) if isinstance(value, dict) else value
        for name, value in source.items()
        if not (name == "source" and "sha256" in source)
    }
