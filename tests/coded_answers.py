"""Runs of code tasks whose answers are written here, so that only what judges them is under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness.answering import Answer, Question
from lopa_bench.harness.driver import Outcome
from lopa_bench.harness.lm_eval_adapter.model import AnsweringLM
from lopa_bench.results.schema import StoppedBy, TimeLedger, TokenLedger, WorkLedger

Text = Callable[[str], str]


class Scripted:
    """Puts `text(prompt)` in the place of every generation and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, text: Text, stopped_by: StoppedBy = "eos") -> None:
        self.prompts: list[str] = []
        self.text = text
        self.stopped_by = stopped_by
        monkeypatch.setattr(AnsweringLM, "answer_all", self._answer_all)

    def _answer_all(self, questions: Sequence[Question], **_: Any) -> Iterator[Answer]:
        return map(self._answer, questions)

    def _answer(self, question: Question) -> Answer:
        prompt = question.prompt
        self.prompts.append(prompt)
        text = self.text(prompt)
        outcome = Outcome(
            answer=(5,) * 4,
            tokens=TokenLedger(prompt=3, useful=4, committed=5, kept=4),
            work=WorkLedger(rounds=2, model_calls=2, branch_forwards=2, positions=8),
            time=TimeLedger(decode_s=0.5, first_round_s=0.2),
        )
        return Answer(text, text, self.stopped_by, None, 0, outcome)


def bodies(data_dir: Path, name: str = "humaneval") -> dict[str, str]:
    """The canonical solutions of a data set by their prompts."""
    from lopa_bench.tasks.code_data import load_code_data

    rows = load_code_data(name, data_dir).rows
    return {row["prompt"]: row["canonical_solution"] for row in rows}
