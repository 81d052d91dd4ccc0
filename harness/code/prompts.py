"""The prompts of the code tasks, made by lm-eval's own code from its own YAML, without running its task modules.

Those modules want a metric from the hub as soon as they are imported. Only two things are taken from them, and read
instead of run: the YAML, and the few-shot examples, a literal in their source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.harness.lm_eval_adapter.files import compiled_once, load_yaml, quiet
from lopa_bench.harness.lm_eval_adapter.tasks import FEWSHOT_SEED, PromptSettings
from lopa_bench.tasks.code_tasks import CodeDefinition

EXAMPLES = "list_fewshot_samples"
NAMED = ("prompt", "entry_point", "test", "text", "code", "test_list")
"""The fields that lm-eval's templates for these tasks name."""


class CodePrompts:
    """Builds the prompts of one task.

    Args:
        definition: which task.
        rows: the problems, as the data set has them.
        settings: shots and chat.
    """

    def __init__(self, definition: CodeDefinition, rows: Iterable[dict[str, Any]], settings: PromptSettings) -> None:
        self._definition = definition
        self._settings = settings
        self._docs = [as_document(definition, row) for row in rows]
        config = _own_text() if definition.yaml is None else _load_yaml(definition.yaml)
        self._task = _build(config, self._docs)
        if settings.num_fewshot is not None:
            self._set_shots(settings.num_fewshot)
        self._task.set_fewshot_seed(FEWSHOT_SEED)

    @property
    def num_fewshot(self) -> int:
        """Shots in every prompt."""
        return int(self._task.config.num_fewshot or 0)

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings before which an answer is cut: the task's own, else lm-eval's."""
        if self._definition.stop is not None:
            return self._definition.stop
        until = self._task.config.generation_kwargs["until"]
        return tuple(word for word in ([until] if isinstance(until, str) else until) if word)

    def build(self, count: int | None = None) -> list[str]:
        """Return the prompts of the first `count` problems, in order; all of them unless told otherwise."""
        with quiet(), compiled_once():
            return [self._settings.prompt_of(self._task, doc, self.num_fewshot) for doc in self._docs[:count]]

    def _set_shots(self, num_fewshot: int) -> None:
        examples = (self._task.config.fewshot_config and self._task.config.fewshot_config.samples) or []
        if num_fewshot > len(examples):
            has = f"has {len(examples)} examples" if examples else "is asked without examples"
            raise ConfigError(f"--num-fewshot {num_fewshot} does not work for {self._definition.name}: it {has}")
        self._task.set_config("num_fewshot", num_fewshot)


def as_document(definition: CodeDefinition, row: dict[str, Any]) -> dict[str, Any]:
    """Return a problem with the fields that lm-eval's templates name.

    MBPP+'s own prompt is a docstring of the task's text and one assertion; lm-eval's copy of the data has them apart.
    """
    if definition.data != "mbpp+":
        return {name: row[name] for name in NAMED if name in row}
    if definition.yaml is None:
        return {"prompt": row["prompt"]}
    text = row["prompt"].strip().strip('"').strip().partition("\nassert ")[0]
    asserts = [line for line in row["assertion"].splitlines() if line.startswith("assert ")]
    return {"prompt": text, "test_list": asserts, "code": row["canonical_solution"]}


def _own_text() -> dict[str, Any]:
    """A task whose prompt is the problem's text and nothing else."""
    return {"task": "own", "output_type": "generate_until", "test_split": "test", "doc_to_text": "{{prompt}}",
            "doc_to_target": "", "num_fewshot": 0}  # fmt: skip


def _load_yaml(relative: str) -> dict[str, Any]:
    import lm_eval.tasks

    config = load_yaml(relative, functions=False)
    path = Path(lm_eval.tasks.__file__).parent / relative
    fewshot = config.get("fewshot_config") or {}
    if isinstance(fewshot.get("samples"), str):
        fewshot["samples"] = read_examples(path.with_name("utils.py"))
    return config


def read_examples(path: Path) -> list[dict[str, Any]]:
    """Return the few-shot examples that a task module's function returns, from its source."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == EXAMPLES:
            returned = node.body[-1]
            if isinstance(returned, ast.Return) and returned.value is not None:
                return ast.literal_eval(returned.value)
    raise PrerequisiteError(
        f"lm-eval {metadata.version('lm_eval')} has no few-shot examples in {path.name}; install lm-eval 0.4.13"
    )


def _build(config: dict[str, Any], docs: list[dict[str, Any]]) -> Any:
    """Return lm-eval's task over our documents, with its metric and filter left out: scoring is not its job here."""
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    def load(**_: Any) -> dict[str, Any]:
        return {"test": Dataset.from_list(docs)}

    for key in ("tag", "filter_list", "dataset_name", "unsafe_code"):
        config.pop(key, None)
    unused = {"metric": _unused, "aggregation": "mean", "higher_is_better": True}
    config.update(dataset_path="json", custom_dataset=load, metric_list=[unused])
    with quiet():
        return ConfigurableTask(config=config)


def _unused(*_: Any, **__: Any) -> float:
    return 0.0
