"""The deterministic gates: what passes, what fails, what cannot be said, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import more_work, record, sample, samples, store, wrong

from lopa_bench.results.comparison.baseline import Acceptance, Stage, accept
from lopa_bench.results.comparison.bounds import Bound, Bounds, bounds_from
from lopa_bench.results.comparison.check import CheckOptions, Verdict, check
from lopa_bench.results.comparison.gate_results import GateResult, Outcome
from lopa_bench.results.schema import SampleRecord, utc_now

STRICT = bounds_from("acc=1.0pt", "exact", "0%", None)

Judge = Callable[..., Verdict]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Hold a stored run to a baseline made of an ordinary one."""

    def held(
        *, bounds: Bounds = STRICT, accepted: Any = None, stages: Any = None, stage: str | None = None,
        edit: Any = None, edit_samples: Any = None, **stored: Any,
    ) -> Verdict:  # fmt: skip
        good = store(tmp_path / "accepted", **(accepted or {}))
        baseline = accept(None, [good], Acceptance(when=utc_now(), who="a", why="b", cells=()), stages or {})
        baseline = baseline.model_copy(update=edit or {})
        return check(
            baseline, [store(tmp_path / "runs", edit=edit_samples, **stored)], CheckOptions(bounds=bounds, stage=stage)
        )

    return held


def gate(verdict: Verdict, name: str) -> GateResult:
    return next(one for one in verdict.results if one.gate == name)


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {one.gate: one.outcome.value for one in verdict.results if one.outcome != Outcome.NOT_GATED}


def test_the_same_run_passes_every_gate(judge: Judge) -> None:
    verdict = judge()
    gates = ("accuracy", "tpf", "rounds", "model calls", "branch forwards", "positions")
    assert outcomes(verdict) == dict.fromkeys(gates, "ok")
    assert (verdict.outcome, verdict.exit_code) == (Outcome.OK, 0)
    assert "20 of 20 answers have the same tokens" in gate(verdict, "answers").reason


def test_ten_percent_more_forwards_at_equal_score_is_an_alarm(judge: Judge) -> None:
    slower = [
        one.model_copy(update={"work": one.work.model_copy(update={"model_calls": round(1.1 * one.work.model_calls)})})
        for one in samples()
    ]
    verdict = judge(answers=slower)
    assert verdict.exit_code == 1 and gate(verdict, "accuracy").outcome == Outcome.OK
    assert gate(verdict, "model calls").outcome == Outcome.REGRESSED
    assert [name for name, word in outcomes(verdict).items() if word == "regressed"] == ["model calls"]
    assert judge(answers=slower, bounds=bounds_from(None, None, "2%", None)).exit_code == 1


@pytest.mark.parametrize("name", ["rounds", "model_calls", "branch_forwards", "positions"])
def test_every_kind_of_work_is_gated(judge: Judge, name: str) -> None:
    grown = [
        one.model_copy(update={"work": one.work.model_copy(update={name: round(1.2 * getattr(one.work, name))})})
        for one in samples()
    ]
    assert gate(judge(answers=grown), name.replace("_", " ")).outcome == Outcome.REGRESSED


def test_less_work_and_more_tpf_pass_but_not_exact(judge: Judge) -> None:
    faster = [more_work(one, 0.5) for one in samples()]
    assert judge(answers=faster, bounds=bounds_from("acc=0pt", "0%", "0%", None)).exit_code == 0
    verdict = judge(answers=faster, bounds=bounds_from(None, "exact", "exact", None))
    assert gate(verdict, "tpf").outcome == gate(verdict, "rounds").outcome == Outcome.REGRESSED


@pytest.mark.parametrize(("bound", "code"), [("exact", 1), ("5%", 1), ("10%", 0), ("0.6", 0), ("0.1", 1)])
def test_tpf_within_and_beyond_its_bound(judge: Judge, bound: str, code: int) -> None:
    fewer = [one.model_copy(update={"tokens": one.tokens.model_copy(update={"useful": 57})}) for one in samples()]
    verdict = judge(answers=fewer, bounds=bounds_from(None, bound, None, None))  # TPF 4.86 -> 4.41, -9.3 %
    assert gate(verdict, "tpf").outcome == (Outcome.REGRESSED if code else Outcome.OK)


def lost(count: int) -> list[SampleRecord]:
    """The ordinary answers, so many of them other ones and wrong."""
    return [*wrong(samples()[:count]), *samples()[count:]]


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no samples": ({"answers": []}, "it has no samples"),
    "unfinished": ({"status": "interrupted"}, "it is interrupted with 20 of 20 samples"),
    "too few": ({"run": record(num_documents=30)}, "finished with 20 of 30 samples"),
    "an error": (
        {"answers": [*samples()[:19], sample(19, correct=None, status="error", error="NaN logits")]},
        "1 of 20 samples ended in an error (mini-maths-0019: NaN logits)",
    ),
    "no score": ({"answers": [sample(0, correct=None), *samples()[1:]]}, "accuracy is missing"),
    "no work": ({"answers": [more_work(one, 0) for one in samples()]}, "TPF and work are missing"),
    "NaN": ({"edit": lambda text: text.replace('"correct":1.0', '"correct":NaN', 1)}, "cannot be read"),
    "infinite": ({"edit": lambda text: text.replace('"decode_s":0.2', '"decode_s":Infinity', 1)}, "cannot be read"),
    "cut": ({"edit": lambda text: "{" + text}, "cannot be read"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_cannot_be_judged_fails(judge: Judge, name: str) -> None:
    stored, words = BROKEN[name]
    if "edit" in stored:
        stored = {"edit_samples": stored["edit"]}
    verdict = judge(**stored)
    assert verdict.exit_code == 1
    assert words in verdict.results[0].reason


def test_a_cell_without_any_work_is_held_to_its_score_alone(judge: Judge) -> None:
    timed_only = [more_work(one, 0) for one in samples()]
    verdict = judge(answers=timed_only, accepted={"answers": timed_only})
    assert verdict.exit_code == 0 and gate(verdict, "tpf").outcome == Outcome.NOT_GATED
    assert judge(answers=[more_work(one, 0) for one in lost(2)], accepted={"answers": timed_only}).exit_code == 1


def test_a_score_that_is_no_number_in_memory_fails_too() -> None:
    from lopa_bench.results.comparison.gate_inputs import missing_figures

    spoilt = [samples()[0].model_copy(update={"correct": float("nan")}), *samples()[1:]]
    assert missing_figures(spoilt) == "the score of mini-maths-0000 is nan: accuracy is no number"
    assert missing_figures(samples()) is None


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({"answers": samples(prompt_hash="f" * 64)}, "20 of 20 problems have other prompts"),
        ({"run": record(task={"version": "2"})}, "the task's version is 2, the baseline's 1"),
        ({"run": record(task={"metric": "flexible"})}, "the task's metric is flexible, the baseline's exact_match"),
        ({"run": record(task={"num_available": 378})}, "378 problems, the baseline's 400"),
        ({"answers": [sample(99)]}, "no problem is in the baseline"),
        ({"run": record(decoder="d2f")}, "the baseline has no cell of these settings; accept it"),
        (
            {"run": record(options={"branches": 4}, origins={"branches": "flag"})},
            "no cell of these settings; the nearest is mini-maths lopa bundled:d2f (branches: 8 vs 4); accept it",
        ),
        ({"edit": {"definitions": {"tpf": 0}}}, "the definition of"),
    ],
)
def test_what_cannot_be_compared_is_neither_passed_nor_failed(judge: Judge, stored: dict[str, Any], words: str) -> None:
    verdict = judge(**stored)
    assert (verdict.outcome, verdict.exit_code) == (Outcome.NOT_COMPARABLE, 3)
    assert words in verdict.results[0].reason


def test_a_changed_default_is_named_beside_what_it_did(judge: Judge) -> None:
    verdict = judge(run=record(options={"tau_conf": 0.5}), answers=[more_work(one, 2) for one in samples()])
    assert gate(verdict, "settings").reason == "tau_conf: 0.9 vs 0.5" and verdict.exit_code == 1


def test_changed_tokens_are_counted(judge: Judge) -> None:
    moved = [samples()[0], sample(1, token_ids=(1, 2)), *samples()[2:]]
    assert "19 of 20 answers have the same tokens, mini-maths-0001" in gate(judge(answers=moved), "answers").reason


def test_a_smaller_run_is_checked_over_its_own_problems(judge: Judge) -> None:
    verdict = judge(answers=samples()[:5])
    assert verdict.exit_code == 0 and gate(verdict, "rounds").before == sum(12 + index % 3 for index in range(5))


STAGES = {
    "smoke": Stage(min_samples=5, bounds=Bounds(max_drop=0.3, tpf=Bound(kind="relative", value=0.5))),
    "full": Stage(min_samples=20, bounds=Bounds(max_drop=0.0)),
}


def test_the_stage_follows_from_the_number_of_problems(judge: Judge) -> None:
    none = Bounds()
    assert judge(answers=lost(1)[:5], stages=STAGES, bounds=none).exit_code == 0
    assert judge(answers=lost(1), stages=STAGES, bounds=none).exit_code == 1
    assert judge(answers=lost(1), stages=STAGES, bounds=none, stage="smoke").exit_code == 0
    assert judge(answers=lost(1)[:5], stages=STAGES, bounds=bounds_from("acc=0pt", None, None, None)).exit_code == 1


@pytest.mark.parametrize(("count", "stage"), [(4, None), (19, "full"), (20, "fulll")])
def test_a_stage_that_is_not_reached_compares_nothing(judge: Judge, count: int, stage: str | None) -> None:
    verdict = judge(answers=samples()[:count], stages=STAGES, stage=stage)
    assert verdict.exit_code == 3 and "stage" in verdict.results[0].reason


def test_a_cell_that_vanished_is_told_and_can_be_made_to_fail(tmp_path: Path) -> None:
    both = [store(tmp_path), store(tmp_path, run=record(decoder="d2f"))]
    baseline = accept(None, both, Acceptance(when=utc_now(), who="a", why="b", cells=()), {})
    one = check(baseline, both[:1])
    assert one.exit_code == 0 and "mini-maths d2f bundled:d2f" in one.notes[0]
    strict = check(baseline, both[:1], CheckOptions(all_cells=True))
    assert strict.exit_code == 1 and strict.results[-1].reason == "no run of this cell"
