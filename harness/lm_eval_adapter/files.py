"""What is taken from the installed lm-eval: its task files, its task class over our rows, its own answer rules."""

from __future__ import annotations

import importlib.util
import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from lopa_bench.errors import PrerequisiteError
from lopa_bench.tasks.data_files import Split, SplitData

Rows = Sequence[dict[str, Any]]
NO_ANSWER = "[invalidanswer]"


def load_yaml(relative: str, *, functions: bool = True) -> dict[str, Any]:
    """Return a task file with what it includes.

    Args:
        relative: its place below lm-eval's `tasks`.
        functions: load the functions that it names, which runs the task's module; otherwise they are left as names.

    Raises:
        PrerequisiteError: this lm-eval has no such file, or keeps them in another way.
    """
    import lm_eval.tasks

    version = metadata.version("lm_eval")
    try:
        from lm_eval.tasks._yaml_loader import load_yaml as load

        if "resolve_func" not in inspect.signature(load).parameters:
            raise ImportError(relative)
    except ImportError as error:
        raise PrerequisiteError(
            f"lm-eval {version} keeps its task files in another way; install lm-eval 0.4.13"
        ) from error
    path = Path(lm_eval.tasks.__file__).parent / relative
    if not path.is_file():
        raise PrerequisiteError(f"lm-eval {version} has no {relative}; install lm-eval 0.4.13")
    config: dict[str, Any] = load(path, resolve_func=functions)
    return config


def build(yaml: str, splits: Mapping[str, Rows]) -> Any:
    """Return lm-eval's task over rows of ours; the splits that its file names and `splits` lacks are never drawn from.

    Nothing is fetched: the rows are the only data there are.
    """
    from lm_eval.tasks import TaskManager

    def load(**_: Any) -> dict[str, Any]:
        from datasets import Dataset, disable_progress_bars

        disable_progress_bars()
        loaded = {split: Dataset.from_list(list(rows)) for split, rows in splits.items()}
        loaded.setdefault("train", loaded["test"])
        return loaded

    with quiet():
        config = load_yaml(yaml)
        config.pop("tag", None)
        config["custom_dataset"] = load
        # The default manager reads thirteen thousand task files first.
        return TaskManager(include_defaults=False).load([config])["tasks"][config["task"]]


def require(task: str, packages: Sequence[str]) -> None:
    """Make sure that what a task's scores take is installed; PrerequisiteError names what is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise PrerequisiteError(
            f"the scores of {task} take packages that are not installed ({', '.join(missing)}): "
            "pip install 'lopa-bench[math]'"
        )
    if "antlr4" in packages and not (found := metadata.version("antlr4-python3-runtime")).startswith("4.11"):
        raise PrerequisiteError(
            f"the scores of {task} take antlr4-python3-runtime 4.11, found {found}: pip install 'lopa-bench[math]'"
        )


@cache
def read_grammars() -> None:
    """Read the grammars of the scores of MATH, so that no comparison has to.

    Both libraries give a comparison five seconds and call what took longer unequal; on a busy machine the first one
    would spend them on the grammar.
    """
    from math_verify import parse, verify
    from sympy.parsing.latex import parse_latex

    with quiet("math_verify"):  # it warns of the time limit that is left out
        parse_latex(r"\frac{1}{2}")
        one = parse(r"$\boxed{\frac{1}{2}}$", parsing_timeout=None)
        verify(one, one, timeout_seconds=None)


def math_answer(task: Any, text: str) -> str | None:
    """Return the final answer that lm-eval's rules for MATH find in a text, None where there is none.

    The answer after "Final Answer: The final answer is", as `exact_match` reads it, else what `math_verify` takes.
    """
    from math_verify import parse

    module = inspect.getmodule(task.config.process_results)
    found = str(module.get_unnormalized_answer(text)) if module is not None else NO_ANSWER
    if found != NO_ANSWER:
        return found
    parsed = parse(text)
    return str(parsed[-1]) if parsed else None


def data_note(split: Split, data: SplitData) -> str:
    """Return what a user should know of data that are no known release; "" for those that are."""
    if data.release is not None:
        return ""
    if len(data.rows) != split.num_rows:
        return f"{data.source} holds {len(data.rows)} problems of {split.data}, the release has {split.num_rows}"
    return f"{data.source}: {split.identity(data.sha256)}" if split.known else ""


@contextmanager
def compiled_once() -> Iterator[None]:
    """Let lm-eval compile each prompt template once: it does so for every document, most of the time prompts take."""
    from lm_eval.utils import env

    env.from_string = cache(env.from_string)
    try:
        yield
    finally:
        del env.from_string  # its class has the method that was hidden


@contextmanager
def quiet(library: str = "lm_eval") -> Iterator[None]:
    """Keep a library's advice to its own users off our users' screens."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
