"""The gate that must not cry wolf: equal code on noisy machines raises no alarm, a real loss does."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stored import PLACE, more_work, noise_factors, record, samples, store

from lopa_bench.results.comparison.baseline import BASELINE_VERSION, Acceptance, Baseline, accept
from lopa_bench.results.comparison.baseline_file import read_baseline, write_baseline
from lopa_bench.results.comparison.bounds import bounds_from
from lopa_bench.results.comparison.check import CheckOptions, check
from lopa_bench.results.comparison.gate_results import GateResult, Outcome
from lopa_bench.results.comparison.load import LOAD, QUEUED, WATCHED
from lopa_bench.results.comparison.noise import Agreement, NoiseCell, Repeat
from lopa_bench.results.schema import utc_now
from lopa_bench.results.store import StoredRun

BOUNDS = bounds_from("acc=1.0pt", "exact", "0%", "15%")


def runs(root: Path, slower: Sequence[float], **place: Any) -> list[StoredRun]:
    return [store(root, samples(slower=factor), record(place=place)) for factor in slower]


def baseline_of(accepted: Sequence[StoredRun]) -> Baseline:
    return accept(None, accepted, Acceptance(when=utc_now(), who="a", why="b", cells=()), {})


def speed(baseline: Baseline, new: Sequence[StoredRun], options: CheckOptions | None = None) -> GateResult:
    verdict = check(baseline, new, options or CheckOptions(bounds=BOUNDS))
    return next(one for one in verdict.results if one.gate == "tokens/s")


def quiet(count: int, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [1 + draw.gauss(0, 0.01) for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_twenty_checks_of_identical_code_on_a_shared_runner_raise_no_alarm(tmp_path: Path, seed: int) -> None:
    """Every run takes 10 to 125 % longer than on an idle machine, as field reports have it."""
    baseline = baseline_of(runs(tmp_path, noise_factors(3, seed)))
    verdict = check(baseline, runs(tmp_path, noise_factors(3, seed + 1000)), CheckOptions(bounds=BOUNDS))
    assert verdict.outcome == Outcome.OK and verdict.exit_code == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_runner_that_is_busy_for_some_of_the_runs_raises_no_alarm(tmp_path: Path, seed: int) -> None:
    """A quiet baseline makes a narrow band; two of three new runs met a neighbour and took up to 2.25 times as long."""
    baseline = baseline_of(runs(tmp_path, quiet(5, seed)))
    busy = [*noise_factors(2, seed), 1.0]
    assert speed(baseline, runs(tmp_path, busy)).outcome == Outcome.OK


def test_noise_does_not_hide_ten_percent_more_forwards(tmp_path: Path) -> None:
    baseline = baseline_of(runs(tmp_path, noise_factors(3, 1)))
    work = [[more_work(one, 1.1) for one in samples(slower=factor)] for factor in noise_factors(3, 2)]
    verdict = check(baseline, [store(tmp_path, one) for one in work], CheckOptions(bounds=BOUNDS))
    assert verdict.exit_code == 1
    failed = {one.gate for one in verdict.results if one.outcome == Outcome.REGRESSED}
    assert {"rounds", "model calls", "tpf"} <= failed and "tokens/s" not in failed


def test_half_the_speed_on_a_quiet_machine_is_an_alarm(tmp_path: Path) -> None:
    found = speed(baseline_of(runs(tmp_path, quiet(5))), runs(tmp_path, [2 * one for one in quiet(3, 2)]))
    assert found.outcome == Outcome.REGRESSED and "0.50x over 3 runs" in found.reason


def test_three_repeats_make_a_wider_band_than_five(tmp_path: Path) -> None:
    slow = runs(tmp_path, [1.2, 1.2, 1.2])
    few = [0.98, 1.0, 1.02]
    assert speed(baseline_of(runs(tmp_path, few)), slow).outcome == Outcome.OK
    found = speed(baseline_of(runs(tmp_path, [*few, 0.99, 1.01])), slow)
    assert found.outcome == Outcome.REGRESSED


def test_a_drop_within_the_bound_or_a_gain_is_ok(tmp_path: Path) -> None:
    baseline = baseline_of(runs(tmp_path, [1.0, 1.001, 0.999, 1.0, 1.0]))
    assert speed(baseline, runs(tmp_path, [1.1, 1.1, 1.1])).outcome == Outcome.OK
    assert speed(baseline, runs(tmp_path, [0.5, 0.5, 0.5])).outcome == Outcome.OK


@pytest.mark.parametrize(("old", "new", "words"), [(1, 3, "a baseline of 3 runs"), (3, 1, "3 new runs, found 1")])
def test_too_few_runs_are_reported_and_decide_nothing(tmp_path: Path, old: int, new: int, words: str) -> None:
    baseline = baseline_of(runs(tmp_path, quiet(old)))
    found = speed(baseline, runs(tmp_path, [9.0] * new))
    assert found.outcome == Outcome.NOT_GATED and words in found.reason
    assert found.after is not None and found.before is not None
    assert check(baseline, runs(tmp_path, [9.0] * new), CheckOptions(bounds=BOUNDS)).exit_code == 0


def floor(speeds: Sequence[float], **place: Any) -> NoiseCell:
    repeats = [
        Agreement(repeat=Repeat(run="x", tokens_per_second=one), samples=20, identical=20, tokens=1.0) for one in speeds
    ]
    return NoiseCell(cell="x", environment=PLACE.model_copy(update=place), samples=20, repeats=tuple(repeats))


def test_the_machine_s_noise_floor_stands_in_for_repeats_of_the_baseline(tmp_path: Path) -> None:
    baseline, slow = baseline_of(runs(tmp_path, [1.0])), runs(tmp_path, [2.0, 2.0, 2.0])

    def with_floor(cell: NoiseCell) -> GateResult:
        return speed(baseline, slow, CheckOptions(bounds=BOUNDS, find_noise=lambda _: cell))

    assert with_floor(floor([300, 302, 298, 301, 299])).outcome == Outcome.REGRESSED
    assert with_floor(floor([300, 150, 600])).outcome == Outcome.OK
    assert with_floor(floor([300, 302])).outcome == Outcome.NOT_GATED
    assert with_floor(floor([300, 302, 298], packages={"torch": "2.8"})).outcome == Outcome.NOT_GATED


def test_another_machine_is_not_comparable_where_a_bound_was_asked_for(tmp_path: Path) -> None:
    baseline = baseline_of(runs(tmp_path, quiet(3)))
    elsewhere = runs(tmp_path, [1.0, 1.0, 1.0], device_name="H200")
    found = speed(baseline, elsewhere)
    assert found.outcome == Outcome.NOT_COMPARABLE and found.reason == "AMD EPYC vs H200"
    assert check(baseline, elsewhere, CheckOptions(bounds=BOUNDS)).exit_code == 3
    assert check(baseline, elsewhere, CheckOptions(bounds=bounds_from(None, None, None, None))).exit_code == 0


def test_runs_without_times_fail_where_a_bound_was_asked_for(tmp_path: Path) -> None:
    timeless = [store(tmp_path, [one.model_copy(update={"reused": True}) for one in samples()]) for _ in range(3)]
    found = speed(baseline_of(runs(tmp_path, quiet(3))), timeless)
    assert found.outcome == Outcome.REGRESSED and "3 of 3 runs have no speed" in found.reason


def test_a_slow_cell_is_measured_again_before_it_fails(tmp_path: Path) -> None:
    baseline, slow = baseline_of(runs(tmp_path, quiet(5))), runs(tmp_path, [3.0, 3.0, 3.0])
    asked: list[str] = []

    def again(factors: list[float]) -> CheckOptions:
        def measure(run: StoredRun) -> list[StoredRun]:
            asked.append(run.record.id)
            return runs(tmp_path, factors)

        return CheckOptions(bounds=BOUNDS, remeasure=measure)

    assert speed(baseline, slow, again([1.0, 1.0, 1.0])).outcome == Outcome.OK
    assert speed(baseline, slow, again([3.0, 3.0, 3.0])).outcome == Outcome.REGRESSED
    assert asked == [slow[0].record.id] * 2
    assert speed(baseline, runs(tmp_path, [1.0, 1.0, 1.0]), again([])).outcome == Outcome.OK and len(asked) == 2


def loaded(root: Path, slower: Sequence[float], loads: Sequence[float | None]) -> list[StoredRun]:
    """Runs during which other work had these shares of the machine; None where the system did not tell."""
    extras = [{} if load is None else {LOAD: load, WATCHED: 0.1} for load in loads]
    return [store(root, samples(slower=one, extra=extra)) for one, extra in zip(slower, extras, strict=True)]


def queued(root: Path, slower: Sequence[float], shares: Sequence[float], load: float = 0.5) -> list[StoredRun]:
    """Runs that had no processor for these shares of their time and took as much longer for it, all equally loaded."""
    return [
        store(root, samples(slower=one / (1 - share), extra={QUEUED: 0.1 * share, WATCHED: 0.1, LOAD: load}))
        for one, share in zip(slower, shares, strict=True)
    ]


SLOW = [3.0, 3.0, 3.0]


def test_a_machine_that_was_busy_all_along_is_not_comparable_and_no_regression(tmp_path: Path) -> None:
    baseline = baseline_of(loaded(tmp_path, quiet(5), [0.0, 0.02, 0.05, 0.01, 0.03]))
    busy = loaded(tmp_path, SLOW, [0.6, 0.9, 0.5])
    found = speed(baseline, busy)
    assert found.outcome == Outcome.NOT_COMPARABLE and found.is_notable
    assert "other work had 50% of the processors, 5% before: run it again when the machine is as quiet" in found.reason
    assert check(baseline, busy, CheckOptions(bounds=BOUNDS)).exit_code == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0.5] * 5, [0.6, 0.55, 0.58]),  # as busy as ever
        ([0.0] * 5, [0.9, 0.9, 0.05]),  # one of the new runs met a quiet machine, and was as slow
        ([0.9] * 5, [0.0, 0.0, 0.0]),
        ([None] * 5, [0.9, 0.9, 0.9]),
        ([0.0] * 5, [0.9, 0.9, None]),
    ],
)
def test_load_that_does_not_explain_it_hides_no_regression(
    tmp_path: Path, before: list[float | None], after: list[float | None]
) -> None:
    found = speed(baseline_of(loaded(tmp_path, quiet(5), before)), loaded(tmp_path, SLOW, after))
    assert found.outcome == Outcome.REGRESSED


def test_a_busy_machine_spoils_no_speed_that_is_good_enough(tmp_path: Path) -> None:
    baseline = baseline_of(loaded(tmp_path, quiet(5), [0.0] * 5))
    assert speed(baseline, loaded(tmp_path, quiet(3, 2), [0.9] * 3)).outcome == Outcome.OK


def test_a_run_on_a_busy_machine_is_measured_again_where_that_was_asked_for(tmp_path: Path) -> None:
    baseline = baseline_of(loaded(tmp_path, quiet(5), [0.0] * 5))
    busy = loaded(tmp_path, SLOW, [0.9] * 3)

    def again(factors: list[float], load: float) -> GateResult:
        options = CheckOptions(bounds=BOUNDS, remeasure=lambda run: loaded(tmp_path, factors, [load] * 3))
        return speed(baseline, busy, options)

    assert again([1.0, 1.0, 1.0], 0.0).outcome == Outcome.OK
    assert again(SLOW, 0.0).outcome == Outcome.REGRESSED
    assert again(SLOW, 0.9).outcome == Outcome.NOT_COMPARABLE


def test_a_baseline_of_the_first_version_knows_no_loads(tmp_path: Path) -> None:
    baseline = baseline_of(loaded(tmp_path, quiet(5), [0.0] * 5))
    write_baseline(tmp_path / "baseline.json", baseline)
    document = json.loads((tmp_path / "baseline.json").read_text())
    document["baseline_version"] = 1
    for cell in document["cells"].values():
        assert cell.pop("loads") == [0.0] * 5
    (tmp_path / "baseline.json").write_text(json.dumps(document))
    old = read_baseline(tmp_path / "baseline.json")
    assert speed(old, loaded(tmp_path, SLOW, [0.9] * 3)).outcome == Outcome.REGRESSED
    newer = accept(old, loaded(tmp_path, quiet(3), [0.1] * 3), old.history[0], {})
    assert newer.baseline_version == BASELINE_VERSION and [one.loads for one in newer.cells.values()] == [(0.1,) * 3]


BUSY = [0.5, 0.75, 0.7]


def test_time_without_a_processor_is_no_slowness(tmp_path: Path) -> None:
    """By the clock these runs take two to four times as long."""
    baseline = baseline_of(queued(tmp_path, quiet(5), [0.0, 0.01, 0.0, 0.02, 0.0]))
    found = speed(baseline, queued(tmp_path, quiet(3, 2), BUSY))
    assert found.outcome == Outcome.OK
    assert "without up to 75% of the time in which there was no processor (2% before)" in found.reason
    assert found.before is not None and found.after == pytest.approx(found.before, rel=0.05)


def test_a_slow_program_on_a_busy_machine_is_a_regression(tmp_path: Path) -> None:
    baseline = baseline_of(queued(tmp_path, quiet(5), [0.0, 0.3, 0.1, 0.6, 0.2]))
    found = speed(baseline, queued(tmp_path, [1.5, 1.52, 1.49], BUSY))
    assert found.outcome == Outcome.REGRESSED and "0.67x over 3 runs" in found.reason
    by_clock = [one.model_copy(update={"unhindered": ()}) for one in baseline.cells.values()]
    plain = baseline.model_copy(update={"cells": dict.fromkeys(baseline.cells, by_clock[0])})
    assert speed(plain, queued(tmp_path, [1.5, 1.52, 1.49], BUSY)).outcome == Outcome.OK, "the clock's band is wide"


def test_a_slow_program_is_not_hidden_by_a_baseline_from_a_busy_machine(tmp_path: Path) -> None:
    """By the clock it is as fast as before."""
    baseline = baseline_of(queued(tmp_path, quiet(5), [0.5] * 5))
    assert speed(baseline, queued(tmp_path, [2.0, 2.0, 2.0], [0.0] * 3)).outcome == Outcome.REGRESSED


def test_a_run_that_hardly_had_a_processor_is_to_be_made_again(tmp_path: Path) -> None:
    baseline = baseline_of(queued(tmp_path, quiet(5), [0.0] * 5))
    found = speed(baseline, queued(tmp_path, quiet(3, 2), [0.95, 0.95, 0.95]))
    assert found.outcome == Outcome.NOT_COMPARABLE
    assert "it had no processor for 95% of the time, 0% before: run it again" in found.reason


def test_what_is_left_may_be_caches_where_others_had_more_of_the_machine(tmp_path: Path) -> None:
    baseline = baseline_of(queued(tmp_path, quiet(5), [0.0] * 5, load=0.1))
    found = speed(baseline, queued(tmp_path, [1.3, 1.3, 1.3], BUSY, load=0.8))
    assert found.outcome == Outcome.NOT_COMPARABLE and "other work had 80% of the processors" in found.reason


def test_no_neighbour_explains_a_program_of_half_the_speed(tmp_path: Path) -> None:
    baseline = baseline_of(queued(tmp_path, quiet(5), [0.0] * 5, load=0.1))
    assert speed(baseline, queued(tmp_path, [2.0] * 3, BUSY, load=0.8)).outcome == Outcome.REGRESSED


def test_the_noise_floor_knows_the_spread_without_that_time(tmp_path: Path) -> None:
    baseline = baseline_of(queued(tmp_path, [1.0], [0.0]))
    repeats = [
        Agreement(
            repeat=Repeat(run="x", tokens_per_second=300 * (1 - share), unhindered=300 + step, queued=share),
            samples=20, identical=20, tokens=1.0,
        )
        for share, step in ((0.0, 0), (0.5, 1), (0.7, -1), (0.2, 2), (0.6, -2))
    ]  # fmt: skip
    cell = NoiseCell(cell="x", environment=PLACE, samples=20, repeats=tuple(repeats))
    options = CheckOptions(bounds=BOUNDS, find_noise=lambda _: cell)
    assert speed(baseline, queued(tmp_path, [1.3] * 3, BUSY), options).outcome == Outcome.REGRESSED
    assert speed(baseline, queued(tmp_path, [1.01] * 3, BUSY), options).outcome == Outcome.OK


def test_a_speed_over_other_problems_is_reported_only(tmp_path: Path) -> None:
    """Ten problems may be slower ones than all twenty."""
    baseline = baseline_of(runs(tmp_path, quiet(5)))
    some = [store(tmp_path, samples(slower=9.0)[:10], record(num_documents=10)) for _ in range(3)]
    found = speed(baseline, some)
    assert found.outcome == Outcome.NOT_GATED and found.is_notable and "the baseline's were others" in found.reason
