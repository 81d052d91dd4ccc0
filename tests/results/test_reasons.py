"""Which words a sample gets for being wrong, and how a run's are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lopa_bench.results.reasons import MEANINGS, UNSCORED, reasons, words_of
from lopa_bench.results.schema import Why

STRICT, FLEXIBLE = "exact_match,strict-match", "exact_match,flexible-extract"

CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "right": ({"correct": 1.0, "scores": {STRICT: 1.0, FLEXIBLE: 1.0}}, set()),
    "right, cut by the budget": ({"correct": 1.0, "stopped_by": "budget"}, set()),
    "plainly wrong": ({"correct": 0.0, "why": "wrong", "extracted": "7"}, {"wrong"}),
    "empty": ({"correct": 0.0, "why": "empty", "stopped_by": "eos"}, {"empty"}),
    "empty, all of the budget": ({"correct": 0.0, "why": "empty", "stopped_by": "budget"}, {"empty", "truncated"}),
    "cut, a number found": (
        {"correct": 0.0, "why": "truncated", "extracted": "7", "stopped_by": "budget"},
        {"truncated"},
    ),
    "cut, nothing found": (
        {"correct": 0.0, "why": "truncated", "text": "x", "text_kept": "x", "stopped_by": "budget"},
        {"truncated", "not extracted"},
    ),
    "no marker before the number": (
        {"correct": 0.0, "why": "not extracted", "scores": {STRICT: 0.0, FLEXIBLE: 1.0}},
        {"not extracted", "wrong format"},
    ),
    "wrong by the strict filter alone": (
        {"correct": 0.0, "why": "wrong", "extracted": "3", "scores": {STRICT: 0.0, FLEXIBLE: 1.0}},
        {"wrong format"},
    ),
    "right by the flexible filter, which is the headline": (
        {"correct": 1.0, "scores": {STRICT: 0.0, FLEXIBLE: 1.0}},
        {"wrong format"},
    ),
    "wrong, the prompt cut": ({"correct": 0.0, "why": "wrong", "prompt_tokens_cut": 3}, {"wrong", "prompt cut"}),
    "a task's own word": ({"correct": 0.0, "why": "recitation"}, {"recitation"}),
    "no verdict yet": ({"correct": None}, {"unscored"}),
    "out of memory": ({"status": "error", "why": "out_of_memory", "error": "out of memory: 2 GiB"}, {"out_of_memory"}),
    "out of memory, an old record": ({"status": "error", "error": "out of memory: 2 GiB"}, {"out_of_memory"}),
    "NaN, an old record": ({"status": "error", "error": "the model returned NaN logits"}, {"NaN logits"}),
    "masks left, an old record": ({"status": "error", "error": "2 masks left", "masks_left": 2}, {"masks left"}),
    "the scorer failed": ({"status": "error", "error": "scorer_error: no worker"}, {"scorer_error"}),
    "another failure": ({"status": "error", "error": "the prompt does not fit"}, {"decoding failed"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_words_of_a_sample(make_sample: Any, case: str) -> None:
    values, expected = CASES[case]
    assert words_of(make_sample("a", **values)) == expected


def test_a_run_s_reasons_name_samples_and_say_what_they_mean(make_sample: Any) -> None:
    rows = [make_sample(f"empty-{i}", correct=0.0, why="empty") for i in range(4)]
    rows += [make_sample("wrong", correct=0.0, why="wrong"), make_sample("right", correct=1.0)]
    rows += [make_sample("late", correct=0.0, why="timeout", prompt_tokens_cut=7)]
    rows += [make_sample("big", status="error", why="out_of_memory", error="out of memory: no more")]
    found = reasons(rows)
    assert [(one.word, one.count, one.of) for one in found] == [
        ("out_of_memory", 1, 8), ("empty", 4, 7), ("prompt cut", 1, 8), ("timeout", 1, 7), ("wrong", 1, 7),
    ]  # fmt: skip
    assert found[1].ids == ("empty-0", "empty-1", "empty-2")
    assert found[1].short == "empty=4 (57%)"
    assert all(one.meaning for one in found)


def test_every_word_has_a_meaning() -> None:
    assert set(Why) <= set(MEANINGS)


def test_the_page_on_runs_names_every_word() -> None:
    page = (Path(__file__).parents[2] / "docs" / "runs.md").read_text()
    assert [word for word in MEANINGS if word != UNSCORED and f"`{word}`" not in page] == []


def test_no_samples_have_no_reasons() -> None:
    assert reasons([]) == ()
