"""The gate of accuracy: a collapse is never waved through, a near tie that went the other way never cried over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stored import PLACE, record, sample, samples, store, wrong

from lopa_bench.results.comparison.accuracy_gate import (
    ALPHA,
    LOST_TO_ROUNDING,
    by_rounding,
    judged_together,
    problems_to_decide,
)
from lopa_bench.results.comparison.baseline import Acceptance, accept
from lopa_bench.results.comparison.bounds import bounds_from
from lopa_bench.results.comparison.check import CheckOptions, Verdict, check
from lopa_bench.results.comparison.gate_output import document
from lopa_bench.results.comparison.gate_results import Evidence, GateResult, Outcome
from lopa_bench.results.comparison.noise import Agreement, NoiseCell, Repeat
from lopa_bench.results.schema import SampleRecord, utc_now

ELSEWHERE: dict[str, Any] = {"device_name": "Intel Xeon"}


def right(count: int) -> list[SampleRecord]:
    return samples([1.0] * count)


def lost(count: int, of: int) -> list[SampleRecord]:
    """Answers that were all right, so many of them other ones now and wrong."""
    return [*wrong(right(of)[:count]), *right(of)[count:]]


def judged(
    root: Path,
    *cells: tuple[Sequence[SampleRecord], Sequence[SampleRecord]],
    place: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    bound: str = "acc=0pt",
    noise: NoiseCell | None = None,
) -> Verdict:
    """Hold the second answers of each cell to the first; the cells differ in their branches."""
    accepted, new = [], []
    for branches, (before, after) in enumerate(cells, start=1):
        about = {"options": {"branches": branches, **(options or {})}, "origins": {"branches": "flag"}}
        accepted.append(store(root / "accepted", before, record(num_documents=len(before), **about)))
        new.append(store(root / "runs", after, record(num_documents=len(after), place=place, **about)))
    baseline = accept(None, accepted, Acceptance(when=utc_now(), who="a", why="b", cells=()), {})
    bounds = bounds_from(bound, "exact", "exact", None)
    return check(baseline, new, CheckOptions(bounds=bounds, find_noise=lambda _: noise))


def accuracy(verdict: Verdict) -> GateResult:
    return next(one for one in verdict.results if one.gate == "accuracy")


def floor(*accuracies: float, identical: int = 20, num_problems: int = 20) -> NoiseCell:
    repeats = [
        Agreement(repeat=Repeat(run="x", accuracy=one), samples=num_problems, identical=identical, tokens=1.0)
        for one in accuracies
    ]
    return NoiseCell(cell="x", environment=PLACE, samples=num_problems, repeats=tuple(repeats))


def test_one_lost_problem_fails_where_nothing_but_the_program_has_changed(tmp_path: Path) -> None:
    found = accuracy(judged(tmp_path / "a", (right(20), lost(1, 20))))
    assert found.outcome == Outcome.REGRESSED and "nothing but the program has changed" in found.reason
    assert judged(tmp_path / "b", (right(20), lost(1, 20)), bound="acc=5pt").exit_code == 0


@pytest.mark.parametrize(("num_lost", "code"), [(1, 0), (2, 0), (3, 3), (4, 3), (5, 3), (6, 1), (8, 1)])
def test_of_eight_answers_on_another_machine(tmp_path: Path, num_lost: int, code: int) -> None:
    """One or two may be rounding; five are no pass; six are more than chance."""
    verdict = judged(tmp_path, (right(8), lost(num_lost, 8)), place=ELSEWHERE)
    found = accuracy(verdict)
    assert verdict.exit_code == code and f"0 gained, {num_lost} lost of 8" in found.reason
    assert "chance has a part (device: AMD EPYC vs Intel Xeon)" in found.reason
    assert ("undecided" in found.reason) == (code != 1) == (found.evidence is not None)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_that_all_answers_are_lost_never_passes_however_few_they_are(tmp_path: Path, count: int) -> None:
    assert judged(tmp_path, (right(count), lost(count, count)), place=ELSEWHERE).exit_code == 3


def test_an_undecided_drop_says_how_many_problems_would_decide(tmp_path: Path) -> None:
    found = accuracy(judged(tmp_path, (right(8), lost(5, 8)), place=ELSEWHERE))
    assert "undecided: McNemar p = 0.0625" in found.reason and "about 10 problems" in found.reason


def test_a_drop_within_the_bound_is_ok_on_another_machine_too(tmp_path: Path) -> None:
    found = accuracy(judged(tmp_path, (right(8), lost(5, 8)), place=ELSEWHERE, bound="acc=70pt"))
    assert (found.outcome, found.is_notable) == (Outcome.OK, False)


def test_the_same_tokens_scored_lower_are_no_rounding(tmp_path: Path) -> None:
    rescored = [sample(0, correct=0.0), *right(8)[1:]]
    found = accuracy(judged(tmp_path / "a", (right(8), rescored), place=ELSEWHERE))
    assert found.outcome == Outcome.REGRESSED
    assert "1 with the same tokens as before, mini-maths-0000 first: it is the scoring" in found.reason
    assert judged(tmp_path / "b", (right(8), rescored), place=ELSEWHERE, bound="acc=13pt").exit_code == 0


def test_cells_that_each_lose_a_few_are_judged_together(tmp_path: Path) -> None:
    one = (right(8), lost(1, 8))
    assert judged(tmp_path / "a", *[one] * 5, place=ELSEWHERE).exit_code == 0
    verdict = judged(tmp_path / "b", *[one] * 6, (right(8), right(8)), place=ELSEWHERE)
    failed = [found for found in verdict.results if found.outcome == Outcome.REGRESSED]
    assert verdict.exit_code == 1 and [found.gate for found in failed] == ["accuracy"] * 6
    assert "yet 0 gained, 6 lost of 56 over the 7 cells together, McNemar p = 0.0312" in failed[0].reason


def test_what_other_cells_gained_counts_as_well(tmp_path: Path) -> None:
    down, up = (right(8), lost(1, 8)), (lost(1, 8), right(8))
    assert judged(tmp_path, *[down] * 6, *[up] * 6, place=ELSEWHERE).exit_code == 0


def result(lost: int, num_problems: int, max_drop: float, cell: str = "a", undecided: bool = True) -> GateResult:
    evidence = Evidence(0, lost, num_problems, lost / num_problems, max_drop, undecided)
    return GateResult(cell, "1", "accuracy", Outcome.OK, evidence=evidence)


def test_repeats_of_a_cell_are_not_several_cells() -> None:
    three = [result(2, 8, 0.0) for _ in range(3)]
    assert judged_together(three) == three
    assert judged_together([*three, result(2, 8, 0.0, "b")]) == [*three, result(2, 8, 0.0, "b")]


def test_what_a_large_cell_may_lose_is_no_evidence_against_a_small_one() -> None:
    both = [result(40, 1000, 0.05, "large", undecided=False), result(1, 8, 0.05, "small")]
    assert judged_together(both) == both
    strict = [both[0], result(1, 8, 0.0, "small")]
    assert [one.outcome for one in judged_together(strict)] == [Outcome.OK, Outcome.REGRESSED]


@pytest.mark.parametrize(("num_lost", "code"), [(3, 0), (9, 1)])
def test_drawn_answers_leave_room_for_chance_on_the_same_machine(tmp_path: Path, num_lost: int, code: int) -> None:
    drawn = {"temperature": 0.7}
    verdict = judged(tmp_path, (right(20), lost(num_lost, 20)), options=drawn)
    assert verdict.exit_code == code and "answers are drawn" in accuracy(verdict).reason


def test_another_draw_may_move_more_than_rounding_yet_not_everything(tmp_path: Path) -> None:
    half = samples([1.0] * 4 + [0.0] * 4)
    fewer = [*wrong(half[:3]), *half[3:]]
    assert judged(tmp_path / "a", (half, fewer), options={"temperature": 0.7}).exit_code == 0
    assert judged(tmp_path / "b", (half, fewer), place=ELSEWHERE).exit_code == 3
    assert judged(tmp_path / "c", (right(8), lost(5, 8)), options={"temperature": 0.7}).exit_code == 3


def test_a_drop_within_the_measured_noise_is_no_regression(tmp_path: Path) -> None:
    """As on a device whose sums differ from run to run: equal runs there are not equal."""
    unsteady = floor(1.0, 0.9, 0.95, identical=18)
    within = accuracy(judged(tmp_path / "a", (right(20), lost(2, 20)), noise=unsteady))
    assert within.outcome == Outcome.OK and within.is_notable
    assert "within the noise floor: equal runs differ by up to 10.0 pt here" in within.reason
    beyond = judged(tmp_path / "b", (right(20), lost(5, 20)), noise=unsteady)
    assert beyond.exit_code == 3 and "equal runs are not equal here" in accuracy(beyond).reason
    assert judged(tmp_path / "c", (right(20), lost(2, 20)), noise=floor(1.0, 1.0, 1.0)).exit_code == 1


def test_noise_of_other_problems_excuses_nothing(tmp_path: Path) -> None:
    other = floor(1.0, 0.0, num_problems=4)
    assert judged(tmp_path, (right(20), lost(2, 20)), noise=other).exit_code == 1


def test_noise_never_excuses_a_changed_scorer(tmp_path: Path) -> None:
    rescored = [sample(0, correct=0.0), *right(20)[1:]]
    assert judged(tmp_path, (right(20), rescored), noise=floor(1.0, 0.5, identical=3)).exit_code == 1


def test_what_rounding_may_cost_is_the_binomial_of_its_share() -> None:
    assert by_rounding(Evidence(0, 1, 1, 1.0, 0.0)) == pytest.approx(LOST_TO_ROUNDING)
    assert by_rounding(Evidence(0, 2, 2, 1.0, 0.0)) == pytest.approx(LOST_TO_ROUNDING**2)
    assert by_rounding(Evidence(0, 100, 1000, 0.1, 0.0)) < ALPHA < by_rounding(Evidence(0, 47, 1000, 0.047, 0.0))
    half_points = Evidence(0, 3, 8, 1.5 / 8, 0.0)  # three answers that lost half of their score each: as two lost ones
    assert by_rounding(half_points) == by_rounding(Evidence(0, 2, 8, 2 / 8, 0.0))


@pytest.mark.parametrize(
    ("gained", "lost", "n", "expected"), [(0, 5, 8, 10), (0, 1, 8, 48), (0, 3, 1000, 2000), (2, 2, 8, None)]
)
def test_the_number_of_problems_that_would_decide(gained: int, lost: int, n: int, expected: int | None) -> None:
    assert problems_to_decide(Evidence(gained, lost, n, (lost - gained) / n, 0.0)) == expected


def test_programs_get_the_counts_too(tmp_path: Path) -> None:
    verdict = judged(tmp_path, (right(8), lost(5, 8)), place=ELSEWHERE)
    text = json.dumps(document(verdict, "baseline.json"), allow_nan=False)
    [entry] = [one for one in json.loads(text)["results"] if one["gate"] == "accuracy"]
    assert entry["evidence"]["lost"] == 5 and entry["evidence"]["is_undecided"] and entry["outcome"] == "not comparable"
