from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopa_bench.results.metrics import METRICS, accuracy_by_cluster
from lopa_bench.results.schema import SampleRecord, TimeLedger, TokenLedger, WorkLedger
from lopa_bench.results.store import load_run
from lopa_bench.results.summary import summarise, total_time
from lopa_bench.results.upgrades import upgrade

SHIPPED = Path(__file__).parents[2] / "docs" / "bundled-models"
COUNT = st.integers(0, 10_000)
SECONDS = st.floats(0, 1e4).map(lambda value: round(value, 9))


@st.composite
def samples(draw: st.DrawFn) -> SampleRecord:
    return SampleRecord(
        id=str(draw(COUNT)),
        tokens=TokenLedger(prompt=draw(COUNT), useful=draw(COUNT), committed=draw(COUNT), kept=draw(COUNT)),
        work=WorkLedger(
            prefill_calls=draw(COUNT),
            rounds=draw(COUNT),
            model_calls=draw(COUNT),
            branch_forwards=draw(COUNT),
            positions=draw(COUNT),
        ),
        time=TimeLedger(prefill_s=draw(SECONDS), decode_s=draw(SECONDS), comm_s=draw(SECONDS), wait_s=draw(SECONDS)),
        correct=draw(st.none() | st.floats(0, 1)),
        status=draw(st.sampled_from(["ok", "ok", "ok", "error"])),
        warmup=draw(st.booleans()),
        reused=draw(st.booleans()),
        rank=draw(st.integers(0, 2)),
    )


def value(metric: str, *samples: SampleRecord) -> float | None:
    return METRICS[metric].value(samples)


@settings(max_examples=60)
@given(rows=st.lists(samples(), max_size=8))
def test_every_ratio_times_its_denominator_gives_its_numerator(rows: list[SampleRecord]) -> None:
    for metric in METRICS.values():
        if metric.numerator is None or metric.denominator is None:
            continue
        for chosen in [rows, *([row] for row in rows)]:  # the run, and every stored row by itself
            counted = metric.select(chosen)
            above, below = sum(map(metric.numerator, counted)), sum(map(metric.denominator, counted))
            figure = metric.value(chosen)
            if below == 0:
                assert figure is None
            else:
                assert figure is not None
                assert math.isclose(figure * below, above, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize(
    "folder", [file.parent for file in sorted(SHIPPED.glob("*/samples.jsonl.gz"))], ids=lambda path: path.name
)
def test_the_identities_hold_for_every_shipped_answer(folder: Path) -> None:
    version = load_run(folder).version
    lines = gzip.decompress((folder / "samples.jsonl.gz").read_bytes()).splitlines()
    rows = [SampleRecord.model_validate(upgrade("sample", json.loads(line), version)) for line in lines]
    assert rows
    for row in rows:
        for metric in ("tpf", "tpf_committed", "tpf_branch", "tps_decode", "tps_e2e", "latency_s"):
            definition = METRICS[metric]
            assert definition.numerator is not None and definition.denominator is not None
            figure = definition.value([row])
            if figure is not None:
                product = figure * definition.denominator(row)
                assert math.isclose(product, definition.numerator(row), rel_tol=1e-9, abs_tol=1e-9)


@settings(max_examples=15)
@given(rows=st.lists(samples(), max_size=6, unique_by=lambda row: row.id))
def test_a_summary_s_figures_times_its_totals_give_its_tokens(make_run: Any, rows: list[SampleRecord]) -> None:
    summary = summarise(make_run(), rows)
    products = [
        ("tpf", summary.work.rounds, summary.tokens.useful),
        ("tpf_committed", summary.work.rounds, summary.tokens.committed),
        ("tpf_branch", summary.work.branch_forwards, summary.tokens.useful),
        ("tps_decode", summary.time.decode_s, summary.timed_tokens.useful),
        ("tps_e2e", summary.time.total_s, summary.timed_tokens.useful),
    ]
    for metric, factor, tokens in products:
        figure = summary.metrics[metric].value
        assert (figure is None) == (factor == 0)
        if figure is not None:
            assert math.isclose(figure * factor, tokens, rel_tol=1e-9, abs_tol=1e-9)


def test_prompt_tokens_never_count(make_sample: Any) -> None:
    sample = make_sample(prompt=100, useful=20, rounds=10, decode_s=2.0)
    assert (value("tpf", sample), value("tps_e2e", sample)) == (2.0, 10.0)


def test_tokens_after_the_eos_count_as_committed_only(make_sample: Any) -> None:
    sample = make_sample(useful=40, committed=64, rounds=64)
    assert (value("tpf_committed", sample), value("tpf", sample)) == (1.0, 0.625)


@pytest.mark.parametrize(("useful", "calls"), [(17, 18), (64, 64), (1, 2)])
def test_ar_has_tpf_exactly_1(make_sample: Any, useful: int, calls: int) -> None:
    samples = [make_sample(str(i), useful=useful, rounds=useful, model_calls=calls) for i in range(3)]
    assert value("tpf", *samples, make_sample("empty", useful=0, rounds=0, model_calls=1)) == 1.0


def test_branches_are_one_round_and_many_forwards(make_sample: Any) -> None:
    rows = [
        make_sample("a", useful=30, rounds=5, model_calls=5, branch_forwards=33, positions=1056),
        make_sample("b", useful=20, rounds=5, model_calls=5, branch_forwards=17, positions=544),
    ]
    assert value("tpf", *rows) == 5.0
    assert value("tpf_branch", *rows) == 1.0
    assert value("tpf_call", *rows) == 5.0
    assert value("amplification", *rows) == 32.0
    assert value("rounds_per_answer", *rows) == 5.0
    assert value("positions_per_answer", *rows) == 800.0


def test_decode_speed_and_end_to_end_speed_are_two_figures(make_sample: Any) -> None:
    sample = make_sample(useful=50, rounds=25, prefill_s=1.0, decode_s=1.0, comm_s=0.25)
    assert (value("tps_decode", sample), value("tps_e2e", sample)) == (50.0, 25.0)
    assert (value("latency_s", sample), value("round_s", sample), value("comm_share", sample)) == (2.0, 0.08, 0.25)


def test_communication_that_was_not_measured_is_unknown_and_not_nothing(make_sample: Any) -> None:
    unknown = make_sample("a", useful=5, rounds=5, decode_s=2.0, comm_s=None, rank_wait_s=None)
    known = make_sample("b", useful=5, rounds=5, decode_s=2.0, comm_s=0.5, rank_wait_s=0.25)
    assert value("comm_share", unknown) is None and value("rank_wait_share", unknown) is None
    assert (value("comm_share", unknown, known), value("rank_wait_share", unknown, known)) == (0.25, 0.125)
    assert total_time([unknown.time, known.time]).comm_s is None
    assert total_time([known.time, known.time]).comm_s == 1.0


def test_waiting_for_other_answers_is_latency_and_no_work(make_sample: Any) -> None:
    """Two answers of 2 s each made side by side: 4 s from beginning to end for both, 10 tokens in the 4 s."""
    rows = [make_sample(name, useful=5, rounds=5, decode_s=2.0, wait_s=2.0) for name in "ab"]
    assert (value("latency_s", *rows), value("decode_s", *rows), value("tps_e2e", *rows)) == (4.0, 2.0, 2.5)


def test_ratio_of_sums_mean_of_rates_best_and_top_ten_differ(make_sample: Any) -> None:
    rows = [make_sample(str(i), useful=10 * i, decode_s=1.0) for i in range(1, 12)]
    rows.append(make_sample("slow", useful=10, decode_s=9.0))
    rates = [10.0 * i for i in range(1, 12)] + [10 / 9]
    assert value("tps_e2e", *rows) == pytest.approx(670 / 20)
    assert value("tps_mean", *rows) == pytest.approx(sum(rates) / 12)
    assert value("tps_max", *rows) == 110.0
    assert value("tps_top10", *rows) == pytest.approx(sum(sorted(rates)[-10:]) / 10)
    assert value("tps_top10", *rows[:9]) is None


def test_processes_are_merged_by_sums_and_the_slowest_one_s_time(make_sample: Any) -> None:
    rows = [
        make_sample(f"{rank}-{i}", rank=rank, useful=10, rounds=5 + 5 * rank, decode_s=1.0 + rank)
        for rank, count in enumerate((7, 7, 6, 6))
        for i in range(count)
    ]
    assert value("tpf", *rows) == 260 / (7 * 5 + 7 * 10 + 6 * 15 + 6 * 20)
    assert value("throughput", *rows) == 260 / 24.0  # rank 3: 6 samples of 4 s
    assert value("tps_e2e", *rows) == 260 / (7 + 14 + 18 + 24)


def test_warm_up_and_reused_samples_leave_only_the_times(make_sample: Any) -> None:
    rows = [
        make_sample("a", useful=10, rounds=10, decode_s=100.0, correct=1.0, warmup=True),
        make_sample("b", useful=10, rounds=10, decode_s=0.001, correct=1.0, reused=True),
        make_sample("c", useful=20, rounds=5, decode_s=1.0, correct=0.0),
    ]
    assert value("tps_e2e", *rows) == 20.0
    assert value("tpf", *rows) == 40 / 25
    assert value("accuracy", *rows) == pytest.approx(2 / 3)


def test_errors_take_no_part(make_sample: Any) -> None:
    rows = [
        make_sample("a", useful=20, rounds=10, decode_s=1.0, correct=1.0),
        make_sample("b", useful=99, rounds=1, decode_s=9.0, correct=0.0, status="error", error="NaN logits"),
    ]
    assert [value(metric, *rows) for metric in ("tpf", "tps_e2e", "accuracy")] == [2.0, 20.0, 1.0]


@pytest.mark.parametrize("metric", METRICS)
def test_every_figure_of_nothing_is_undefined(make_sample: Any, metric: str) -> None:
    assert value(metric) is None
    assert value(metric, make_sample(useful=3, rounds=1, decode_s=1.0, status="error", error="x")) is None


@pytest.mark.parametrize("metric", ["tps_decode", "tps_e2e", "tps_mean", "tps_max", "throughput", "tpf", "accuracy"])
def test_rates_over_nothing_are_undefined_not_0(make_sample: Any, metric: str) -> None:
    assert value(metric, make_sample(useful=7)) is None


def test_accuracy_by_cluster_counts_scored_samples_of_each() -> None:
    samples = [
        SampleRecord(id="a", correct=1.0, extra={"cluster": "Geometry"}),
        SampleRecord(id="b", correct=0.0, extra={"cluster": "Geometry"}),
        SampleRecord(id="c", correct=1.0, extra={"cluster": "Algebra"}),
        SampleRecord(id="d", status="error", error="NaN", extra={"cluster": "Algebra"}),
        SampleRecord(id="e", correct=1.0),
    ]
    assert list(accuracy_by_cluster(samples).items()) == [("Algebra", (1.0, 1)), ("Geometry", (0.5, 2))]
    assert accuracy_by_cluster(samples[-1:]) == {}
