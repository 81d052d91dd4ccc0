"""Tasks as lm-eval defines them, with only the source of the data replaced.

Prompts, few-shot draws, filters and scores are lm-eval's own code and YAML, read from the installed package; this
module adds local data, documents in a fixed order and one verdict per document, so that these tasks look to the
runner like any other. The tasks themselves are in `lopa_bench.tasks.maths_tasks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from lopa_bench.errors import ConfigError, ScorerError, TaskDataError
from lopa_bench.harness.installed import version_of
from lopa_bench.harness.lm_eval_adapter import files as lm_eval_files
from lopa_bench.results.reasons import RECITATION
from lopa_bench.results.schema import Why
from lopa_bench.tasks.base import Document, Entry, Judgement
from lopa_bench.tasks.data_files import SplitData, load_split
from lopa_bench.tasks.maths_tasks import MathsDefinition

FEWSHOT_SEED = 1234
INVALID = "[invalid]"


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

    def prompt_of(self, task: Any, doc: dict[str, Any], num_fewshot: int) -> str:
        """Return a document's prompt as lm-eval's own `task` builds it with so many shots."""
        return str(
            task.fewshot_context(
                doc,
                num_fewshot=num_fewshot,
                system_instruction=self.system_instruction,
                apply_chat_template=self.chat_template is not None,
                fewshot_as_multiturn=self.multiturn,
                chat_template=self.chat_template,
                gen_prefix=task.doc_to_prefix(doc),
            )
        )


@dataclass
class LmEvalTask:
    """One task of lm-eval behind the protocol of `lopa_bench.tasks.base.Task`.

    Shots are drawn document after document from one generator, so prompts are always built in the order of the data and
    from its first document on; a prompt is the same whatever else is asked.

    Args:
        definition: which task.
        data_dir: folder with local files; None asks the hub.
        prompts: shots and chat settings.
        first: `documents` returns only the first so many.
    """

    definition: MathsDefinition
    data_dir: Path | None = None
    prompts: PromptSettings = field(default_factory=PromptSettings)
    first: int | None = None

    def __post_init__(self) -> None:
        self.name = self.definition.name
        self.family = self.definition.family
        self.max_new_tokens = self.definition.max_new_tokens
        self.metric = self.definition.headline
        self.citation = self.definition.citation
        self._built: list[Document] = []

    @cached_property
    def version(self) -> str:
        """lm-eval's version number of the task."""
        return str(self._config["metadata"]["version"])

    @cached_property
    def stop(self) -> tuple[str, ...]:
        """Strings before which an answer is cut."""
        until = self._config["generation_kwargs"]["until"]
        return tuple(word for word in ([until] if isinstance(until, str) else until) if word)

    @property
    def generation_kwargs(self) -> dict[str, Any]:
        """What lm-eval asks of a model besides answering the prompt."""
        return dict(self._config["generation_kwargs"])

    @property
    def num_fewshot(self) -> int:
        """Shots in every prompt."""
        own = int(self._config.get("num_fewshot") or 0)
        return own if self.prompts.num_fewshot is None else self.prompts.num_fewshot

    @property
    def num_available(self) -> int:
        """Documents of the whole test split; more than there are here where the data are a part of the release."""
        return max(len(self.splits["test"].rows), self.definition.test.num_rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the start."""
        lines = [lm_eval_files.data_note(self.definition.test, self.splits["test"])]
        has_chat = self.prompts.chat_template is not None
        if self.definition.is_chat and not has_chat:
            lines.append(f"{self.name} is meant for a chat template and is asked without one; consider --chat")
        return tuple(line for line in lines if line)

    @property
    def source(self) -> dict[str, Any]:
        """What a run record says about where the task comes from."""
        return {
            "harness": f"lm-eval {version_of('lm_eval')}",
            "definition": self.definition.yaml,
            "num_fewshot": self.num_fewshot,
            "data": {split: data.card() for split, data in self.splits.items()},
        }

    @cached_property
    def splits(self) -> dict[str, SplitData]:
        """The splits that this run needs, read and checked: the problems, and what shots are drawn from."""
        definition = self.definition
        found = {"test": load_split(definition.test, self.data_dir)}
        if definition.subset == "type":  # the hub has one part per type, and lm-eval asks them in this order
            rows = tuple(sorted(found["test"].rows, key=lambda row: str(row["type"])))
            found["test"] = replace(found["test"], rows=rows)
        if definition.shots is not None and self.num_fewshot:
            found["train"] = load_split(definition.shots, self.data_dir)
        return found

    def outline(self) -> list[Entry]:
        """Return id and kind of every document, without its prompt."""
        definition = self.definition
        return [
            Entry(self._id(index), definition.stratum(row), str(row.get("unique_id", "")))
            for index, row in enumerate(self.splits["test"].rows)
        ]

    def documents(self, split: str = "test") -> list[Document]:
        """Return the test documents with their complete prompts, in the order of the file."""
        if split != "test":
            raise ConfigError(f"task {self.name} has no split '{split}': it has test")
        return self.first_documents(len(self.splits["test"].rows) if self.first is None else self.first)

    def first_documents(self, count: int) -> list[Document]:
        """Return the first `count` documents; the prompts built before stay as they are."""
        docs = self._task.task_docs
        with lm_eval_files.compiled_once():
            for index in range(len(self._built), min(count, len(docs))):
                self._built.append(self._document(index, docs[index]))
        return self._built[:count]

    def _document(self, index: int, doc: dict[str, Any]) -> Document:
        details: dict[str, Any] = {"doc": dict(doc)}
        if (subset := self.definition.subset) is not None and doc.get(subset) is not None:
            details["cluster"] = str(doc[subset])
        return Document(self._id(index), self._prompt(doc), str(self._task.doc_to_target(doc)), details)

    def judge(self, document: Document, text: str) -> Judgement:
        """Score one answer with every filter of the task; never raises for anything a model may write.

        Raises:
            ScorerError: lm-eval's own scoring failed on this text; the answer must not be counted.
        """
        scores: dict[str, float] = {}
        extracted: dict[str, str] = {}
        for filters in self._task._filters:
            doc = document.metadata["doc"]
            answer = _filtered(filters, doc, text)
            extracted[filters.name] = str(answer)
            try:
                results = self._task.process_results(doc, [answer])
            except Exception as error:
                raise ScorerError(f"lm-eval's scores of {self.name} fail on this answer: {error!r}") from error
            for metric, value in results.items():
                scores[f"{metric},{filters.name}"] = float(value)
        correct = scores[self.metric]
        found: str | None = extracted[self.metric.partition(",")[2]]
        if self.definition.needs:
            found = lm_eval_files.math_answer(self._task, text)
        found = None if found == INVALID else found
        return Judgement(correct, scores, found, self._why(correct, text, found))

    def _why(self, correct: float, text: str, found: str | None) -> str | None:
        if correct >= 1:
            return None
        if not text.strip():
            return Why.EMPTY
        if found is None:
            return Why.NOT_EXTRACTED
        return RECITATION if text.count(self.definition.mark) > 1 else Why.WRONG

    def filtered(self, document: Document, text: str) -> dict[str, Any]:
        """Return what every filter of the task makes of an answer, by the filter's name."""
        doc = document.metadata["doc"]
        return {filters.name: _filtered(filters, doc, text) for filters in self._task._filters}

    def _id(self, index: int) -> str:
        return f"{self.name}-{index:04d}"

    def _prompt(self, doc: dict[str, Any]) -> str:
        try:
            return self.prompts.prompt_of(self._task, doc, self.num_fewshot)
        except (AssertionError, ValueError) as error:
            raise ConfigError(f"--num-fewshot {self.num_fewshot} does not work for {self.name}: {error}") from error

    @cached_property
    def _config(self) -> dict[str, Any]:
        """lm-eval's definition, its functions not loaded."""
        config = lm_eval_files.load_yaml(self.definition.yaml, functions=False)
        if self.prompts.num_fewshot and not config.get("num_fewshot"):
            raise ConfigError(
                f"--num-fewshot {self.prompts.num_fewshot} does not work for {self.name}: lm-eval asks it without "
                "examples; leave it out"
            )
        return config

    @cached_property
    def _task(self) -> Any:
        lm_eval_files.require(self.name, self.definition.needs)
        if self.definition.needs:
            lm_eval_files.read_grammars()
        num_fewshot = self.num_fewshot
        try:
            task = lm_eval_files.build(self.definition.yaml, {name: data.rows for name, data in self.splits.items()})
        except TypeError as error:
            source = self.splits["test"].source
            raise TaskDataError(f"lm-eval cannot read the problems of {self.name} in {source}: {error}") from error
        task.set_config("num_fewshot", num_fewshot)
        task.set_fewshot_seed(FEWSHOT_SEED)
        return task


@dataclass
class _Answer:
    """The part of lm-eval's `Instance` that its filters read and write."""

    doc: dict[str, Any]
    resps: list[str]
    filtered_resps: dict[str, Any] = field(default_factory=dict)


def _filtered(filters: Any, doc: dict[str, Any], text: str) -> Any:
    """Return what one of lm-eval's filters makes of an answer."""
    instance = _Answer(doc, [text])
    filters.apply([instance])
    return instance.filtered_resps[filters.name]
