from __future__ import annotations

import random
import re

import pytest

from lopa_bench.tasks import maths_wording as wording
from lopa_bench.tasks.base import Document
from lopa_bench.tasks.mini_maths import (
    LARGEST_COUNT,
    NUM_STEPS,
    SMALLEST_COUNT,
    MiniMaths,
    draw_problem,
    write_answer,
    write_prompt,
)


@pytest.fixture(scope="module")
def task() -> MiniMaths:
    return MiniMaths()


def document_for(problem_seed: int, level: int) -> tuple[Document, list[str]]:
    """Return one problem and twelve ways to answer it."""
    problem = draw_problem(random.Random(problem_seed), level)
    answers = [write_answer(problem, random.Random(seed)) for seed in range(12)]
    return Document("one", write_prompt(problem, random.Random(0)), str(problem.end)), answers


def test_every_canonical_answer_is_right_and_a_changed_one_is_not(task: MiniMaths) -> None:
    for document in task.documents() + task.documents("dev"):
        answer = document.metadata["answer"]
        verdict = task.judge(document, answer)
        assert (verdict.correct, verdict.why, verdict.extracted) == (1.0, None, document.target)
        assert verdict.scores == {"exact_match": 1.0, "flexible_match": 1.0}
        for change in (1, -1, 10):
            changed = answer.replace(f"#### {document.target}", f"#### {int(document.target) + change}")
            verdict = task.judge(document, changed)
            assert (verdict.correct, verdict.why) == (0.0, "wrong")


def test_the_chain_of_calculations_is_sound_and_within_bounds(task: MiniMaths) -> None:
    for document in task.documents():
        answer = document.metadata["answer"]
        count = None
        marks = re.findall(r" (\S+)=<<(\S+)=([0-9]+)>>([0-9]+) ", answer)
        assert len(marks) == document.metadata["num_steps"]
        for before, inside, value, shown in marks:
            first, sign, second = re.fullmatch(r"([0-9]+)([-+*/])([0-9]+)", inside).groups()  # type: ignore[union-attr]
            assert before == inside
            assert count in (None, int(first))
            by_sign = {
                "+": int(first) + int(second),
                "-": int(first) - int(second),
                "*": int(first) * int(second),
                "/": int(first) / int(second),
            }
            count = int(value)
            assert by_sign[sign] == count == int(shown)
            assert SMALLEST_COUNT <= count <= LARGEST_COUNT
        assert answer.endswith(f"\n#### {count}")


def test_levels_are_numbers_of_steps(task: MiniMaths) -> None:
    found = {(document.metadata["level"], document.metadata["num_steps"]) for document in task.documents()}
    assert found == {(level, number) for level, numbers in NUM_STEPS.items() for number in numbers}
    assert {number for _, number in found} == {2, 3, 4, 5}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_problem_may_be_answered_in_many_ways_all_of_them_right(task: MiniMaths, level: int) -> None:
    for seed in range(20):
        document, answers = document_for(seed, level)
        assert len(set(answers)) == len(answers)
        assert len({len(answer.split()) for answer in answers}) >= 4
        assert all(task.judge(document, answer).correct == 1.0 for answer in answers)


@pytest.mark.parametrize("wordings", [wording.OPENINGS, wording.CLOSINGS, *wording.STEPS.values()])
def test_alternatives_begin_differently_and_differ_in_length(wordings: tuple[str, ...]) -> None:
    assert len(wordings) == 8
    assert len({text.split()[0] for text in wordings}) == 8
    lengths = [len(text.split()) for text in wordings]
    assert len(set(lengths)) >= 5
    assert max(lengths) >= 1.6 * min(lengths)


def test_each_step_draws_its_wording_on_its_own_and_the_first_most_often() -> None:
    problem = draw_problem(random.Random(3), 3)
    drawn = [write_answer(problem, random.Random(seed)).split("\n") for seed in range(800)]
    for position, event in enumerate(problem.events, start=1):
        texts = [problem.words(text, event.amount) for text in wording.STEPS[event.operation]]
        counts = [sum(lines[position].startswith(text) for lines in drawn) for text in texts]
        assert sum(counts) == len(drawn)
        assert max(counts) == counts[0]
        assert 250 < counts[0] < 340  # of 294 expected
        assert min(counts) > 20  # of 37 expected
    pairs = {(lines[1].split()[0], lines[2].split()[0]) for lines in drawn}
    assert len(pairs) > 50  # of 64


def test_who_changes_the_list_of_problems_changes_only_his_own(task: MiniMaths) -> None:
    task.documents().clear()
    assert len(task.documents()) == len(MiniMaths().documents()) == 400


@pytest.mark.parametrize(
    ("text", "why", "exact", "flexible"),
    [
        ("", "empty", 0.0, 0.0),
        (" \n\t", "empty", 0.0, 0.0),
        ("It is 12", "not extracted", 0.0, 1.0),
        ("no idea", "not extracted", 0.0, 0.0),
        ("#### 13", "wrong", 0.0, 0.0),
        ("#### 13 no, 12", "wrong", 0.0, 1.0),
        ("#### 12", None, 1.0, 1.0),
        ("#### 12 apples of 30", None, 1.0, 0.0),
        ("#### 11\n#### 12\n", None, 1.0, 1.0),
        ("####" * 50_000, "not extracted", 0.0, 0.0),
        ("#### " + "9" * 100_000, "wrong", 0.0, 0.0),
        ("\ud800 \x00", "not extracted", 0.0, 0.0),
    ],
)
def test_the_last_marked_number_decides(
    task: MiniMaths, text: str, why: str | None, exact: float, flexible: float
) -> None:
    verdict = task.judge(Document("one", "", "12"), text)
    assert (verdict.why, verdict.correct) == (why, exact)
    assert verdict.scores == {"exact_match": exact, "flexible_match": flexible}
