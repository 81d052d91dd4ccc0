from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.errors import ResultsError
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.rows import metric_column, score_column, summary_row
from lopa_bench.results.summary import summarise
from lopa_bench.results.tables import Table, render


def test_a_run_s_summary_by_hand(make_run: Any, make_sample: Any) -> None:
    rows = [
        make_sample("a", useful=30, committed=32, rounds=10, decode_s=1.0, correct=1.0,
                    scores={"strict": 1.0, "flexible": 1.0}, stopped_by="eos", warmup=True),
        make_sample("b", useful=10, committed=32, rounds=10, prefill_s=0.5, decode_s=0.5, correct=0.0,
                    scores={"strict": 0.0, "flexible": 1.0}, stopped_by="budget", why="not extracted"),
        make_sample("c", status="error", error="a mask is left", masks_left=2),
    ]  # fmt: skip
    summary = summarise(make_run(3, id="0004-x"), rows)
    assert (summary.run_id, summary.n, summary.num_errors, summary.num_warmup) == ("0004-x", 2, 1, 1)
    assert set(summary.metrics) == set(METRICS)
    accuracy, tpf, speed = (summary.metrics[key] for key in ("accuracy", "tpf", "tps_e2e"))
    assert (accuracy.value, accuracy.n, accuracy.version) == (0.5, 2, 1)
    assert accuracy.interval is not None
    assert accuracy.interval.method == "Wilson"
    assert (tpf.value, tpf.n) == (2.0, 2)
    assert tpf.interval is not None
    assert (tpf.interval.low, tpf.interval.high) == (1.0, 3.0)
    assert (speed.value, speed.n, speed.interval) == (10.0, 1, None)
    assert {name: score.value for name, score in summary.scores.items()} == {"flexible": 1.0, "strict": 0.5}
    assert (summary.tokens.useful, summary.timed_tokens.useful, summary.time.total_s) == (40, 10, 1.0)
    assert summary.stopped_by == {"eos": 1, "budget": 1}
    assert summary.why == {"not extracted": 1}
    assert summary.warnings == (
        "errors=1 (33%), not scored: c",
        "not extracted=1 (50%)",
        "truncated=1 (50%)",
        "wrong format=1 (50%)",
    )
    assert [(one.word, one.ids) for one in summary.reasons][:2] == [("masks left", ("c",)), ("not extracted", ("b",))]


def test_what_a_reader_must_know_is_a_warning(make_run: Any, make_sample: Any) -> None:
    rows = [make_sample(str(i), correct=0.0, why="empty" if i < 4 else "wrong") for i in range(9)]
    rows += [make_sample("long", prompt_tokens_cut=7)]
    assert summarise(make_run(20, partial=True), rows).warnings == (
        "unfinished: 10 of 20 samples",
        "partial: 20 of 400 problems, not the task's score",
        "empty=4 (40%)",
        "prompts cut=1 (10%) to fit the context: long",
        "unscored=1 (10%)",
    )


def test_a_rare_reason_is_counted_without_a_warning(make_run: Any, make_sample: Any) -> None:
    rows = [make_sample(str(i), correct=float(i > 0), why=None if i else "timeout") for i in range(40)]
    summary = summarise(make_run(40), rows)
    assert (summary.why, summary.warnings) == ({"timeout": 1}, ())


def test_no_samples_give_no_score(make_run: Any) -> None:
    summary = summarise(make_run(0), [])
    assert summary.metrics["accuracy"].value is None
    assert summary.warnings == ("no samples: there is no score",)


def test_all_errors_give_no_score(make_run: Any, make_sample: Any) -> None:
    rows = [make_sample(str(i), status="error", error="NaN logits") for i in range(5)]
    summary = summarise(make_run(5), rows)
    assert summary.metrics["accuracy"].value is None
    assert summary.warnings == ("errors=5 (100%), not scored: 0, 1, 2, ...",)


@pytest.mark.parametrize(("first_s", "warned"), [(1.0, True), (0.25, False)])
def test_a_slow_first_sample_is_a_suspect(make_run: Any, make_sample: Any, first_s: float, warned: bool) -> None:
    rows = [make_sample(str(i), rounds=10, decode_s=0.1 if i else first_s, correct=1.0) for i in range(6)]
    warnings = summarise(make_run(6), rows).warnings
    expected = ("suspect warm-up: the first timed sample took 10.0 times the usual time per round",)
    assert warnings == (expected if warned else ())
    rows[0] = rows[0].model_copy(update={"warmup": True})
    assert summarise(make_run(6), rows).warnings == ()


def test_first_rounds_add_up_only_when_each_was_measured(make_run: Any, make_sample: Any) -> None:
    rows = [make_sample("a", decode_s=1.0, first_round_s=0.5), make_sample("b", decode_s=1.0, first_round_s=0.25)]
    assert summarise(make_run(2), rows).time.first_round_s == 0.75
    assert summarise(make_run(3), [*rows, make_sample("c")]).time.first_round_s is None


def test_summaries_become_rows_of_a_table(make_run: Any, make_sample: Any) -> None:
    rows = [
        make_sample(
            str(i), useful=30, rounds=10, correct=float(i < 3), scores={"strict": float(i < 3)}, decode_s=1.0
        )
        for i in range(4)
    ]  # fmt: skip
    summary = summarise(make_run(4, id="0001-x"), rows)
    columns = [metric_column("accuracy", interval=True), metric_column("tpf"), metric_column("latency_s")]
    columns += [metric_column("tps_top10"), score_column("strict")]
    row = summary_row(summary, decoder="lopa")
    assert (row["decoder"], row["run"], row["n"], row["num_errors"]) == ("lopa", "0001-x", 4, 0)
    assert row["accuracy"] == 0.75
    text = render(Table(columns, [row]), "markdown").splitlines()
    assert text[0] == "| accuracy % | TPF | latency s/answer | tokens/s (top 10) | strict % |"
    assert text[2] == "| 75.0 [30.1, 95.4] | 3.00 | 1.000 | n/a | 75.0 |"
    with pytest.raises(ResultsError, match="metric 'tps_e2' not found \\(did you mean 'tps_e2e'\\?\\)"):
        metric_column("tps_e2")
