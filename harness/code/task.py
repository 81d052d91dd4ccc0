"""The code tasks as the runner sees them: documents with prompts, and answers cleaned, run and judged.

Every answer is judged twice, as it is and cleaned up; the headline is the cleaned score and its name says so.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.harness.code.evalplus_scorer import EvalPlusJudge
from lopa_bench.harness.code.judge import Judge, Verdict, function_called, split_assertions
from lopa_bench.harness.code.prompts import CodePrompts
from lopa_bench.harness.code.scoring import CodeScoring, ScoringSettings
from lopa_bench.harness.installed import version_of
from lopa_bench.harness.lm_eval_adapter.tasks import PromptSettings
from lopa_bench.results.schema import Why
from lopa_bench.tasks.base import Document, Entry, Judgement
from lopa_bench.tasks.cleanup import FENCE, Program, Question, check_cleanup, clean, defines, fenced_code
from lopa_bench.tasks.code_data import CodeData, load_code_data
from lopa_bench.tasks.code_tasks import CODE_TASKS, CodeDefinition, code_task_name
from lopa_bench.tasks.known_bad import known_bad
from lopa_bench.tasks.longest_code import CleanupFailed, syntax_error

RAW = "raw"
CLEANED = "cleaned"


class CodeTask:
    """One code task behind the protocol of `lopa_bench.tasks.base.Task`.

    Args:
        definition: which task.
        data_dir: folder with local files; None fetches the data from where they are published.
        prompts: shots and chat settings.
        first: build only the first so many prompts; a prefix has the same prompts as the whole.
        scoring: consent, clean-up and scorer.
    """

    def __init__(
        self,
        definition: CodeDefinition,
        data_dir: Path | None = None,
        prompts: PromptSettings | None = None,
        first: int | None = None,
        scoring: ScoringSettings | None = None,
    ) -> None:
        scoring = scoring or ScoringSettings()
        self.definition = definition
        self.cleanup = check_cleanup(scoring.cleanup or definition.cleanup)
        if self.cleanup == "authors" and not definition.has_entry_point:
            raise ConfigError(
                f"the clean-up 'authors' keeps what one function needs, and the tests of {definition.name} may need "
                "more; use --cleanup evalplus or none"
            )
        self.scoring = CodeScoring(definition, scoring, data_dir)
        self.name = definition.name
        self.family = definition.family
        self.max_new_tokens = definition.max_new_tokens
        self.version = definition.version
        self.citation = definition.citation
        self.metric = f"pass@1,{RAW if self.cleanup == 'none' else CLEANED}"
        self._data_dir = data_dir
        self._settings = prompts or PromptSettings()
        self._first = first
        self._built: list[Document] = []

    @cached_property
    def data(self) -> CodeData:
        """The problems."""
        return load_code_data(self.definition.data, self._data_dir)

    @cached_property
    def stop(self) -> tuple[str, ...]:
        """Strings before which an answer is cut."""
        return self._prompts.stop

    @property
    def num_fewshot(self) -> int:
        """Shots in every prompt."""
        return self._prompts.num_fewshot

    @property
    def num_available(self) -> int:
        """Problems of the whole test split."""
        return len(self.data.rows)

    @property
    def source(self) -> dict[str, Any]:
        """What a run record says about where the task comes from; how it is judged decides no answer and is apart."""
        definition = self.definition
        return {
            "harness": f"lm-eval {version_of('lm_eval')}",
            "definition": definition.yaml or "the problem's own text",
            "num_fewshot": self.num_fewshot,
            "data": {"test": self.data.card()},
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the start."""
        name, has_chat = self.name, self._settings.chat_template is not None
        lines = []
        if has_chat and not self.definition.is_chat:
            lines.append(
                f"{name} is a prompt for base models and is asked through a chat template; many models then answer in "
                f"prose: consider --task {name}-instruct or --no-chat"
            )
        if self.definition.is_chat and not has_chat:
            plain = name.removesuffix("-instruct")
            lines.append(f"{name} is meant for a chat template and is asked without one; consider --task {plain}")
        return tuple(lines)

    def documents(self, split: str = "test") -> list[Document]:
        """Return the problems with their complete prompts, in the order of the data; there is only "test"."""
        if split != "test":
            raise ConfigError(f"task {self.name} has no split '{split}': it has test")
        return self.first_documents(len(self.data.rows) if self._first is None else self._first)

    def outline(self) -> list[Entry]:
        """Return id and kind of every problem, without its prompt; the kind is the length of its solution."""
        return [
            Entry(self._id(index), f"2^{len(solution(row).split()).bit_length()} words", str(row["task_id"]))
            for index, row in enumerate(self.data.rows)
        ]

    def first_documents(self, count: int) -> list[Document]:
        """Return the first `count` problems with their complete prompts, which do not depend on each other."""
        if len(self._built) < min(count, len(self.data.rows)):
            self._built = [
                Document(
                    self._id(index),
                    prompt,
                    solution(row),
                    {"task_id": row["task_id"], "entry_point": entry_point(row), "index": index},
                )
                for index, (row, prompt) in enumerate(zip(self.data.rows, self._prompts.build(count), strict=False))
            ]
        return self._built[:count]

    @cached_property
    def _prompts(self) -> CodePrompts:
        return CodePrompts(self.definition, self.data.rows, self._settings)

    def _id(self, index: int) -> str:
        return f"{self.name}-{index:04d}"

    @property
    def scoring_identity(self) -> dict[str, Any]:
        """What verdicts depend on; nothing is started to tell it."""
        return self.scoring.identity(self.cleanup)

    def prepare(self) -> dict[str, Any]:
        """Make sure that answers can be judged, and return what a run record says about how; call it first.

        Raises:
            PrerequisiteError: no consent, or a tool is missing.
            TaskDataError: data that only the judge needs cannot be read.
            ScorerError: programs cannot be run here, or the judge fails its controls.
        """
        return self.scoring_identity | self._ready[1]

    def close(self) -> None:
        """End what judging has started and kept running."""
        if "_ready" in self.__dict__ and isinstance(self._judge, EvalPlusJudge):
            self._judge.close()

    @cached_property
    def _ready(self) -> tuple[Judge, dict[str, Any]]:
        """The judge, which has told a right program from a wrong one before its first verdict."""
        return self.scoring.start(self.data)

    @property
    def _judge(self) -> Judge:
        return self._ready[0]

    def judge(self, document: Document, text: str) -> Judgement:
        """Judge one answer, cleaned up and as it is; never raises for anything a model may write.

        Raises:
            PrerequisiteError: no consent.
            ScorerError: it is the judge that failed; the answer must not be counted.
        """
        self._ready  # noqa: B018 - refused without consent even where there is nothing to run
        row = self.data.rows[document.metadata["index"]]
        question = self._question(row)
        cleaned, raw = clean(self.cleanup, question, text), clean("none", question, text)
        verdicts = {CLEANED: self._verdict(row, text, cleaned)}
        same = raw.source == cleaned.source
        verdicts[RAW] = verdicts[CLEANED] if same else self._verdict(row, text, raw)
        if self.cleanup == "none":
            del verdicts[CLEANED]
        name = self.metric.partition(",")[2]
        headline = verdicts[name]
        scores = {f"pass@1,{word}": float(verdict.passed) for word, verdict in verdicts.items()}
        if self.definition.tests == "inputs":
            scores[f"pass@1 base,{name}"] = float((headline.halves or {}).get("base", False))
        if known_bad(self.data.release):
            scores[f"pass@1 without known-bad tests,{name}"] = float(headline.passed or headline.is_excused)
        return Judgement(scores[self.metric], scores, cleaned.source, self._why(headline, cleaned, raw, question, text))

    def _verdict(self, row: dict[str, Any], text: str, program: Program) -> Verdict:
        if not text.strip():
            return Verdict(False, Why.EMPTY)
        if not program.source.strip():
            return Verdict(False, Why.NOT_EXTRACTED)
        return self._judge.judge(self.scoring.tested(row), program.source)

    def _why(self, verdict: Verdict, program: Program, raw: Program, question: Question, text: str) -> str | None:
        if verdict.passed:
            return None
        if program.error is not None:
            return "sanitize_error"
        if verdict.why == "no such function":
            if self.definition.style != "open fence" and text.count(FENCE) % 2:
                return "cut inside a fence"
            if not defines(fenced_code(text, question), None) and not is_python(raw.source):
                return Why.SYNTAX_ERROR  # that the clean-up left nothing of it says nothing of the answer
        return verdict.why

    def _question(self, row: dict[str, Any]) -> Question:
        definition = self.definition
        code = row["prompt"] if definition.shows_code else ""
        return Question(code, entry_point(row) if definition.has_entry_point else None, definition.style)


def is_python(source: str) -> bool:
    """Whether a text can be parsed."""
    try:
        return syntax_error(source) is None
    except CleanupFailed:
        return False


def solution(row: dict[str, Any]) -> str:
    """Return a problem's canonical solution."""
    return str(row.get("canonical_solution", row.get("code", "")))


def entry_point(row: dict[str, Any]) -> str:
    """Return the function that a problem's tests call."""
    return row["entry_point"] if "entry_point" in row else function_called(split_assertions(row)[0][0])


def find_code_task(name: str, **settings: Any) -> CodeTask:
    """Return the code task called `name`, however it is spelt; the settings are those of `CodeTask`.

    Raises:
        ConfigError: no such task, or settings that it does not have.
    """
    plain = code_task_name(name)
    if plain not in CODE_TASKS:
        there = ", ".join(CODE_TASKS)
        raise ConfigError(f"no code task is called '{name}'{nearest(plain, CODE_TASKS)}; there are {there}")
    return CodeTask(CODE_TASKS[plain], **settings)
