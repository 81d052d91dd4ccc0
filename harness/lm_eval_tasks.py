"""Tasks as lm-eval defines them, with only the source of the data replaced.

Prompts, few-shot draws, filters and scores are lm-eval's own code and YAML, read from the installed package; this
module adds local data, documents in a fixed order and one verdict per document, so that these tasks look to the
runner like any other. A further task is one more `Definition`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from lopa_bench.errors import ConfigError, PrerequisiteError, TaskDataError
from lopa_bench.harness.task_files import SplitData, read_split
from lopa_bench.results.schema import Why
from lopa_bench.tasks.base import Document, Judgement

FEWSHOT_SEED = 1234
INVALID = "[invalid]"


@dataclass(frozen=True)
class Definition:
    """Where lm-eval keeps a task and what this program adds: local files, headline, length.

    `data_name` is the stem of the local files (`gsm8k` for `gsm8k_test.jsonl.gz`), `fields` the text fields every row
    must have, `fewshot_split` the split that shots are drawn from (None when the YAML brings them),
    `headline` the score, as "metric,filter", that tables call accuracy.
    """

    name: str
    yaml: str
    data_name: str
    fields: tuple[str, ...]
    fewshot_split: str | None
    headline: str
    family: str
    max_new_tokens: int
    citation: str


GSM8K_CITATION = "Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems (arXiv:2110.14168)."

DEFINITIONS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        Definition(
            name="gsm8k",
            yaml="gsm8k/gsm8k.yaml",
            data_name="gsm8k",
            fields=("question", "answer"),
            fewshot_split="train",
            headline="exact_match,flexible-extract",
            family="maths",
            max_new_tokens=256,
            citation=GSM8K_CITATION,
        ),
        Definition(
            name="gsm8k-cot",
            yaml="gsm8k/gsm8k-cot.yaml",
            data_name="gsm8k",
            fields=("question", "answer"),
            fewshot_split=None,
            headline="exact_match,flexible-extract",
            family="maths",
            max_new_tokens=256,
            citation=GSM8K_CITATION,
        ),
    )
}


class ChatTemplate(Protocol):
    """Turns a conversation into the one string that the model is given."""

    def __call__(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Render messages of the form {"role": ..., "content": ...}."""
        ...


@dataclass(frozen=True)
class PromptSettings:
    """What decides a prompt besides the document: shots, chat template, system message.

    `num_fewshot` None keeps lm-eval's default; `multiturn` makes each shot a pair of turns instead of one long turn.
    """

    num_fewshot: int | None = None
    chat_template: ChatTemplate | None = None
    multiturn: bool = True
    system_instruction: str | None = None


@dataclass
class LmEvalTask:
    """One task of lm-eval behind the protocol of `lopa_bench.tasks.base.Task`.

    Args:
        definition: which task.
        data_dir: folder with local files; None asks the hub.
        prompts: shots and chat settings.
        first: build only the first so many prompts. Shots are drawn document after document from one generator,
            so a prefix of the documents always has the same prompts as the whole.
    """

    definition: Definition
    data_dir: Path | None = None
    prompts: PromptSettings = field(default_factory=PromptSettings)
    first: int | None = None

    def __post_init__(self) -> None:
        self.name = self.definition.name
        self.family = self.definition.family
        self.max_new_tokens = self.definition.max_new_tokens
        self.metric = self.definition.headline
        self.citation = self.definition.citation
        self.splits: dict[str, SplitData] = {}

    @cached_property
    def version(self) -> int:
        """lm-eval's version number of the task."""
        return int(self._task.VERSION)

    @cached_property
    def stop(self) -> tuple[str, ...]:
        """Strings before which an answer is cut."""
        until = self._task.config.generation_kwargs["until"]
        return tuple(word for word in ([until] if isinstance(until, str) else until) if word)

    @property
    def num_fewshot(self) -> int:
        """Shots in every prompt."""
        return int(self._task.config.num_fewshot or 0)

    @property
    def num_available(self) -> int:
        """Documents of the whole test split."""
        return len(self._task.eval_docs)

    @property
    def source(self) -> dict[str, Any]:
        """What a run record says about where the task comes from."""
        config = self._task.config
        return {
            "harness": f"lm-eval {metadata.version('lm_eval')}",
            "definition": self.definition.yaml,
            "num_fewshot": self.num_fewshot,
            "data": {split: data.card() for split, data in self.splits.items()} or {"source": config.dataset_path},
        }

    def documents(self, split: str = "test") -> list[Document]:
        """Return the test documents with their complete prompts, in the order of the file."""
        if split != "test":
            raise ConfigError(f"task {self.name} has no split '{split}': it has test")
        return self._documents

    def judge(self, document: Document, text: str) -> Judgement:
        """Score one answer with every filter of the task; never raises for anything a model may write."""
        scores: dict[str, float] = {}
        extracted: dict[str, str] = {}
        for filters in self._task._filters:
            instance = _Answer(document.metadata["doc"], [text])
            filters.apply([instance])
            answer = instance.filtered_resps[filters.name]
            extracted[filters.name] = str(answer)
            for metric, value in self._task.process_results(instance.doc, [answer]).items():
                scores[f"{metric},{filters.name}"] = float(value)
        correct = scores[self.metric]
        found = extracted[self.metric.partition(",")[2]]
        return Judgement(correct, scores, None if found == INVALID else found, _why(correct, text, found))

    @cached_property
    def _documents(self) -> list[Document]:
        task, prompts = self._task, self.prompts
        documents = []
        for index, doc in task.doc_iterator(limit=self.first):
            try:
                prompt = task.fewshot_context(
                    doc,
                    num_fewshot=self.num_fewshot,
                    system_instruction=prompts.system_instruction,
                    apply_chat_template=prompts.chat_template is not None,
                    fewshot_as_multiturn=prompts.multiturn,
                    chat_template=prompts.chat_template,
                    gen_prefix=task.doc_to_prefix(doc),
                )
            except (AssertionError, ValueError) as error:
                raise ConfigError(f"--num-fewshot {self.num_fewshot} does not work for {self.name}: {error}") from error
            target = str(task.doc_to_target(doc))
            documents.append(Document(f"{self.name}-{index:04d}", prompt, target, {"doc": dict(doc)}))
        return documents

    @cached_property
    def _task(self) -> Any:
        with _quiet():
            config = _load_yaml(self.definition.yaml)
            config.pop("tag", None)
            if self.data_dir is not None:
                config["custom_dataset"] = self._read_local(self.data_dir, config)
            task = _build(config, self.name, self.data_dir)
        if self.prompts.num_fewshot is not None:
            task.set_config("num_fewshot", self.prompts.num_fewshot)
        task.set_fewshot_seed(FEWSHOT_SEED)
        return task

    def _read_local(self, data_dir: Path, config: dict[str, Any]) -> Callable[..., dict[str, Any]]:
        """Read the splits this run needs and return the loader that lm-eval calls for them."""
        definition, shots = self.definition, self.prompts.num_fewshot
        shots = config.get("num_fewshot") if shots is None else shots
        self.splits["test"] = read_split(data_dir, definition.data_name, "test", definition.fields)
        if definition.fewshot_split and shots:
            self.splits["train"] = read_split(data_dir, definition.data_name, "train", definition.fields)

        def load(**_: Any) -> dict[str, Any]:
            from datasets import Dataset

            loaded = {split: Dataset.from_list(data.rows) for split, data in self.splits.items()}
            loaded.setdefault("train", loaded["test"])  # named in the YAML, never drawn from without shots
            return loaded

        return load


@dataclass
class _Answer:
    """The part of lm-eval's `Instance` that its filters read and write."""

    doc: dict[str, Any]
    resps: list[str]
    filtered_resps: dict[str, Any] = field(default_factory=dict)


def _why(correct: float, text: str, found: str) -> str | None:
    if correct >= 1:
        return None
    if not text.strip():
        return Why.EMPTY
    return Why.NOT_EXTRACTED if found == INVALID else Why.WRONG


def _load_yaml(relative: str) -> dict[str, Any]:
    import lm_eval.tasks

    try:
        from lm_eval.tasks._yaml_loader import load_yaml
    except ImportError as error:
        raise PrerequisiteError(
            f"lm-eval {metadata.version('lm_eval')} keeps its task files in another way; install lm-eval 0.4.13"
        ) from error
    path = Path(lm_eval.tasks.__file__).parent / relative
    if not path.is_file():
        raise PrerequisiteError(f"lm-eval {metadata.version('lm_eval')} has no {relative}; install lm-eval 0.4.13")
    return load_yaml(path)


def _build(config: dict[str, Any], name: str, data_dir: Path | None) -> Any:
    from lm_eval.tasks import TaskManager

    try:
        # The default manager reads thirteen thousand task files first.
        return TaskManager(include_defaults=False).load([config])["tasks"][config["task"]]
    except TaskDataError:
        raise
    except Exception as error:
        if data_dir is not None:
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TaskDataError(
            f"the data of {name} ({config['dataset_path']}) could not be fetched from the hub: {reason}; "
            "give a folder with local files: --data-dir"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep lm-eval's advice to its own command-line users off our users' screens."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
