"""What a gate must not take at its word: uncounted work, a part of the problems, one run given thrice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stored import record, sample, samples, store, wrong

from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.results.comparison.baseline import Acceptance, Baseline, accept
from lopa_bench.results.comparison.bounds import bounds_from
from lopa_bench.results.comparison.check import CheckOptions, Verdict, check
from lopa_bench.results.comparison.gate_output import cells_table
from lopa_bench.results.comparison.gate_results import Outcome
from lopa_bench.results.schema import SampleRecord, utc_now
from lopa_bench.results.store import StoredRun


def baseline_of(*runs: StoredRun) -> Baseline:
    return accept(None, runs, Acceptance(when=utc_now(), who="a", why="b", cells=()), {})


def judged(tmp_path: Path, answers: Sequence[SampleRecord], bounds: str | None = None, **about: Any) -> Verdict:
    """Hold answers to those of an ordinary run; `about` is of the run's record."""
    baseline = baseline_of(store(tmp_path / "accepted", samples([1.0] * 20)))
    run = store(tmp_path / "runs", answers, record(num_documents=len(answers), **about))
    return check(baseline, [run], CheckOptions(bounds=bounds_from(None, bounds, None, None)))


def without(one: SampleRecord, *names: str) -> SampleRecord:
    return one.model_copy(update={"work": one.work.model_copy(update=dict.fromkeys(names, 0))})


@pytest.mark.parametrize("name", ["rounds", "model_calls", "branch_forwards", "positions"])
@pytest.mark.parametrize("lacking", [1, 20])
def test_work_that_was_not_counted_is_no_improvement(tmp_path: Path, name: str, lacking: int) -> None:
    answers = samples([1.0] * 20)
    verdict = judged(tmp_path, [*(without(one, name) for one in answers[:lacking]), *answers[lacking:]])
    assert verdict.exit_code == 1 and ("not counted" in verdict.results[0].reason or "no rounds were" in str(verdict))


def test_an_empty_answer_of_a_decoder_that_counts_rounds_by_tokens_is_an_answer(tmp_path: Path) -> None:
    empty = sample(0).tokens.model_copy(update={"useful": 0})
    answers = [without(sample(0, tokens=empty), "rounds"), *samples([1.0] * 20)[1:]]
    assert [one.gate for one in judged(tmp_path, answers).results][:2] == ["settings", "answers"]


def remarks(verdict: Verdict) -> str:
    return "\n".join(cells_table(verdict).notes)


def test_a_pass_over_a_part_of_the_problems_says_so(tmp_path: Path) -> None:
    assert "problems: only 5 of the baseline's 20 problems" in remarks(judged(tmp_path / "a", samples([1.0] * 5)))
    assert "problems:" not in remarks(judged(tmp_path / "b", samples([1.0] * 20)))
    assert "problems:" not in remarks(judged(tmp_path / "c", samples([1.0] * 25)))


def test_a_drop_that_passes_as_chance_is_said(tmp_path: Path) -> None:
    answers = [*wrong(samples([1.0] * 20)[:3]), *samples([1.0] * 20)[3:]]
    verdict = judged(tmp_path, answers, place={"packages": {"torch": "3.0.0"}})
    assert verdict.exit_code == 0
    assert "accuracy: 0 gained, 3 lost of 20; undecided: McNemar p = 0.25" in remarks(verdict)


def test_one_run_is_not_its_own_repeat(tmp_path: Path) -> None:
    run = store(tmp_path)
    with pytest.raises(PrerequisiteError, match="0001-mini-maths-lopa is given 3 times; repeats"):
        baseline_of(run, run, run)
    three = baseline_of(*(store(tmp_path) for _ in range(3)))
    slow = store(tmp_path, samples(slower=2.0))
    verdict = check(three, [slow, slow, slow], CheckOptions(bounds=bounds_from(None, None, None, "15%")))
    speed = verdict.results[-1]
    assert (speed.gate, speed.outcome) == ("tokens/s", Outcome.NOT_GATED) and "found 1" in speed.reason
    assert sum(one.gate == "tpf" for one in verdict.results) == 1


def test_a_bound_that_no_drop_can_exceed_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the bound 5 on TPF of mini-maths lopa .* for a percentage write 5%"):
        judged(tmp_path, samples([1.0] * 20), "5")


def test_a_run_that_cannot_be_read_fails(tmp_path: Path) -> None:
    good = store(tmp_path)
    verdict = check(baseline_of(good), [good], unreadable={"0002-x": "run.json is damaged"})
    assert verdict.exit_code == 1
    assert (verdict.results[0].run, verdict.results[0].reason) == ("0002-x", "it cannot be read: run.json is damaged")
