"""Summing a run up: every figure with its definition and interval, and what a reader should be warned of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isclose
from statistics import median
from typing import TypeVar

from lopa_bench.results.metrics import METRICS, Metric, clusters, counted, sample_rates, timed
from lopa_bench.results.reasons import IDS_SHOWN, PROMPT_CUT, UNSCORED, reasons
from lopa_bench.results.schema import (
    MetricValue,
    RunRecord,
    SampleRecord,
    Status,
    Summary,
    TimeLedger,
    TokenLedger,
    Why,
    WorkLedger,
)
from lopa_bench.results.sittings import mixture
from lopa_bench.results.statistics import bootstrap_mean, bootstrap_ratio, score_interval

WITH_INTERVAL = (
    "tpf", "tpf_committed", "tpf_branch", "tpf_call", "amplification", "tps_decode", "tps_e2e", "latency_s",
)  # fmt: skip
WARN_SHARE = 0.05
SLOW_START = 3.0
SLOW_START_MIN_SAMPLES = 5

LedgerT = TypeVar("LedgerT", TokenLedger, WorkLedger)


def summarise(run: RunRecord, samples: Sequence[SampleRecord]) -> Summary:
    """Return what `samples`, of the run `run`, come to; the run may be unfinished.

    Their order does not matter, but for the warning of a slow start.
    """
    as_run, samples = samples, sorted(samples, key=lambda sample: sample.id)
    good, on_clock = counted(samples), timed(samples)
    blocked = why_blocked(samples)
    scores = {name: _score(name, good) for name in sorted({name for sample in good for name in sample.scores})}
    metrics = {metric.id: measure(metric, samples) for metric in METRICS.values()}
    if blocked:
        metrics["accuracy"] = _without_value(metrics["accuracy"])
        scores = {name: _without_value(score) for name, score in scores.items()}
    return Summary(
        run_id=run.id,
        n=len(good),
        num_errors=len(samples) - len(good),
        num_expected=run.task.num_documents,
        num_warmup=sum(sample.warmup for sample in samples),
        num_prompts_cut=sum(sample.prompt_tokens_cut > 0 for sample in samples),
        partial=run.task.partial,
        metrics=metrics,
        scores=scores,
        tokens=total(TokenLedger, [sample.tokens for sample in good]),
        work=total(WorkLedger, [sample.work for sample in good]),
        timed_tokens=total(TokenLedger, [sample.tokens for sample in on_clock]),
        time=total_time([sample.time for sample in on_clock]),
        why=_counts([sample.why for sample in good]),
        stopped_by=_counts([sample.stopped_by for sample in good]),
        reasons=reasons(samples),
        blocked=blocked,
        warnings=(*_warnings(run, samples), *_slow_start(counted(as_run))),
    )


def follows_from(summary: Summary, samples: Sequence[SampleRecord]) -> bool:
    """Tell by counts and sums, which are quickly made, whether a stored summary is one of these samples."""
    good = counted(samples)
    figure = summary.metrics.get("accuracy")
    accuracy = None if why_blocked(samples) else METRICS["accuracy"].value(samples)
    stored = None if figure is None else figure.value
    return (
        (summary.n, summary.num_errors) == (len(good), len(samples) - len(good))
        and summary.tokens == total(TokenLedger, [sample.tokens for sample in good])
        and summary.work == total(WorkLedger, [sample.work for sample in good])
        and isclose(summary.time.total_s, sum(sample.time.total_s for sample in timed(samples)), abs_tol=1e-9)
        and (stored is None) == (accuracy is None)
        and isclose(stored or 0.0, accuracy or 0.0, abs_tol=1e-9)
    )


def why_blocked(samples: Sequence[SampleRecord]) -> str | None:
    """Return why `samples` have no score, or None: a single answer that the scorer failed on takes it away."""
    faults = [sample for sample in samples if sample.has_scorer_error]
    if not faults:
        return None
    return f"no score: the scorer failed on {_share(len(faults), len(samples))}: {_ids(faults)} ({faults[0].error})"


def _without_value(figure: MetricValue) -> MetricValue:
    return figure.model_copy(update={"value": None, "interval": None})


def end_status(summary: Summary) -> Status:
    """Return the status of a run that nobody is at: it may lack samples, or verdicts on some."""
    if summary.n + summary.num_errors < summary.num_expected:
        return "interrupted"
    return "finished with errors" if summary.num_errors else "finished"


def measure(metric: Metric, samples: Sequence[SampleRecord]) -> MetricValue:
    """Return the figure with its definition, the number of samples that went into it and, for some, an interval."""
    chosen = metric.select(samples)
    interval = None
    if metric.id == "accuracy":
        interval = score_interval([sample.correct or 0.0 for sample in chosen], clusters(chosen))
    elif metric.id == "tps_mean":
        interval = bootstrap_mean(sample_rates(chosen))
    elif metric.id in WITH_INTERVAL and metric.numerator and metric.denominator:
        interval = bootstrap_ratio(list(map(metric.numerator, chosen)), list(map(metric.denominator, chosen)))
    value = metric.function(chosen)
    return MetricValue(value=value, unit=metric.unit, version=metric.version, n=len(chosen), interval=interval)


def total(kind: type[LedgerT], ledgers: Sequence[LedgerT]) -> LedgerT:
    """Return the sum of ledgers of one kind, field by field."""
    return kind(**{name: sum(getattr(ledger, name) for ledger in ledgers) for name in kind.model_fields})


def total_time(ledgers: Sequence[TimeLedger]) -> TimeLedger:
    """Return the sum of time ledgers; one of what was not measured for each is None."""
    first_rounds = [ledger.first_round_s for ledger in ledgers if ledger.first_round_s is not None]
    return TimeLedger(
        prefill_s=sum(ledger.prefill_s for ledger in ledgers),
        decode_s=sum(ledger.decode_s for ledger in ledgers),
        comm_s=_known_sum([ledger.comm_s for ledger in ledgers]),
        rank_wait_s=_known_sum([ledger.rank_wait_s for ledger in ledgers]),
        wait_s=sum(ledger.wait_s for ledger in ledgers),
        first_round_s=sum(first_rounds) if first_rounds and len(first_rounds) == len(ledgers) else None,
    )


def _known_sum(seconds: Sequence[float | None]) -> float | None:
    known = [one for one in seconds if one is not None]
    return sum(known) if len(known) == len(seconds) else None


def _score(name: str, samples: Sequence[SampleRecord]) -> MetricValue:
    """Return the mean of one filter's score over the samples that have it."""
    having = [sample for sample in samples if name in sample.scores]
    values = [sample.scores[name] for sample in having]
    mean = sum(values) / len(values) if values else None
    return MetricValue(value=mean, unit="share", n=len(values), interval=score_interval(values, clusters(having)))


def _counts(words: Sequence[str | None]) -> dict[str, int]:
    """Count the words that are there, the most frequent first."""
    return dict(Counter(word for word in words if word is not None).most_common())


def _warnings(run: RunRecord, samples: Sequence[SampleRecord]) -> list[str]:
    """Return a line for each thing that a reader of the score must know."""
    good = counted(samples)
    bad = [sample for sample in samples if sample.status == "error"]
    expected, available = run.task.num_documents, run.task.num_available
    lines: list[str] = []
    if blocked := why_blocked(samples):
        lines.append(f"{blocked}; `lopa-bench rescore` judges the stored answers again")
    if warning := run.scoring.get("warning"):
        lines.append(str(warning))
    if not samples:
        lines.append("no samples: there is no score")
    if len(samples) < expected:
        lines.append(f"unfinished: {len(samples)} of {expected} samples")
    if mixed := mixture(run):
        lines.append(f"made in several sittings with {mixed}: speeds are a mixture")
    if run.task.partial:
        lines.append(f"partial: {expected} of {available or 'all'} problems, not the task's score")
    if bad:
        lines.append(f"errors={_share(len(bad), len(samples))}, not scored: {_ids(bad)}")
    for reason in reasons(good):
        if reason.word not in (Why.WRONG, PROMPT_CUT, UNSCORED) and reason.count >= WARN_SHARE * len(good):
            lines.append(reason.short)
    cut = [sample for sample in samples if sample.prompt_tokens_cut]
    if cut:
        lines.append(f"prompts cut={_share(len(cut), len(samples))} to fit the context: {_ids(cut)}")
    unscored = sum(sample.correct is None for sample in good)
    if unscored:
        lines.append(f"unscored={_share(unscored, len(good))}")
    return lines


def _slow_start(good: Sequence[SampleRecord]) -> list[str]:
    """Warn when the first sample in the statistics looks like one that should have been a warm-up."""
    rounds = [sample.time.total_s / sample.work.rounds for sample in timed(good) if sample.work.rounds]
    if len(rounds) < SLOW_START_MIN_SAMPLES or rounds[0] <= SLOW_START * median(rounds[1:]):
        return []
    ratio = rounds[0] / median(rounds[1:]) if median(rounds[1:]) else float("inf")
    return [f"suspect warm-up: the first timed sample took {ratio:.1f} times the usual time per round"]


def _share(count: int, n: int) -> str:
    """Return "4 (40%)"."""
    return f"{count} ({count / n:.0%})"


def _ids(samples: Sequence[SampleRecord]) -> str:
    """Name the first few samples."""
    more = ", ..." if len(samples) > IDS_SHOWN else ""
    return ", ".join(sample.id for sample in samples[:IDS_SHOWN]) + more
