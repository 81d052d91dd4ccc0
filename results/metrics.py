"""Every figure of a run, defined once: formula, unit, direction, and the definition's version, stored with the number.

All are computed from a run's samples. Samples that ended in an error take no part; the times of warm-up samples and of
answers taken from another run take no part in time figures. A figure that is undefined, as a rate over no time, is None
and never 0. Figures of several runs or of traces are in `results.definitions`, which holds these too.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lopa_bench.results.schema import SampleRecord

Direction = Literal["higher", "lower", "neither"]
Quantity = Callable[[SampleRecord], float]
Samples = Sequence[SampleRecord]

TOP = 10


@dataclass(frozen=True)
class Definition:
    """What a figure means; `direction` says which way is better, `version` goes up when the formula changes."""

    id: str
    version: int
    title: str
    unit: str
    direction: Direction
    formula: str


@dataclass(frozen=True)
class Metric(Definition):
    """A figure that follows from a run's samples.

    `select` gives the samples that count. `function` computes the figure from those. A ratio of sums has its
    `numerator` and `denominator` per sample too, for intervals.
    """

    function: Callable[[Samples], float | None]
    select: Callable[[Samples], list[SampleRecord]]
    numerator: Quantity | None = None
    denominator: Quantity | None = None

    def value(self, samples: Samples) -> float | None:
        """Return the figure for `samples`, errors and warm-up among them or not; None where it is undefined."""
        return self.function(self.select(samples))


def scored(samples: Samples) -> list[SampleRecord]:
    """Return the samples that went well and have a score."""
    return [sample for sample in samples if sample.status == "ok" and sample.correct is not None]


def counted(samples: Samples) -> list[SampleRecord]:
    """Return the samples that went well: those of token and work figures."""
    return [sample for sample in samples if sample.status == "ok"]


def works(sample: SampleRecord) -> bool:
    """Whether the work that an answer took is known; a server's is not."""
    return bool(sample.work.model_calls or sample.work.rounds)


def worked(samples: Samples) -> list[SampleRecord]:
    """Return the samples of work figures: those that went well and whose work is known, unlike a server's."""
    return [sample for sample in counted(samples) if works(sample)]


def timed(samples: Samples) -> list[SampleRecord]:
    """Return the samples of time figures: those that went well, ran in this run, and were not for warming up."""
    return [sample for sample in counted(samples) if not sample.warmup and not sample.reused]


def started(samples: Samples) -> list[SampleRecord]:
    """Return the timed samples whose first tokens were timed too."""
    return [sample for sample in timed(samples) if sample.time.first_round_s is not None]


def talked(samples: Samples) -> list[SampleRecord]:
    """Return the timed samples of which communication between processes, if there was any, was timed too."""
    return [sample for sample in timed(samples) if sample.time.comm_s is not None]


def clusters(samples: Samples) -> list[str | None]:
    """Return the cluster of each sample, as its task gave it; None where a task has none."""
    names = [sample.extra.get("cluster") for sample in samples]
    return [None if name is None else str(name) for name in names]


def accuracy_by_cluster(samples: Samples) -> dict[str, tuple[float, int]]:
    """Return the mean headline score and the number of scored samples of each cluster, by name; empty without any."""
    found: dict[str, list[float]] = {}
    scored_samples = scored(samples)
    for name, sample in zip(clusters(scored_samples), scored_samples, strict=True):
        if name is not None:
            found.setdefault(name, []).append(sample.correct or 0.0)
    return {name: (sum(found[name]) / len(found[name]), len(found[name])) for name in sorted(found)}


def useful(sample: SampleRecord) -> float:
    """Return the generated tokens before the first EOS."""
    return sample.tokens.useful


def total_s(sample: SampleRecord) -> float:
    """Return prefill and decode seconds together."""
    return sample.time.total_s


def one(sample: SampleRecord) -> float:
    """Return 1: the denominator of a mean over samples."""
    return 1


def ratio_of_sums(numerator: Quantity, denominator: Quantity) -> Callable[[Samples], float | None]:
    """Return the function sum(numerator) / sum(denominator), None where the denominator's sum is 0."""

    def ratio(samples: Samples) -> float | None:
        below = sum(map(denominator, samples))
        return sum(map(numerator, samples)) / below if below else None

    return ratio


def sample_rates(samples: Samples) -> list[float]:
    """Return useful tokens per second of each sample that took any time."""
    return [useful(sample) / total_s(sample) for sample in samples if total_s(sample) > 0]


def mean_rate(samples: Samples) -> float | None:
    """Return the mean of the samples' own tokens per second."""
    rates = sample_rates(samples)
    return sum(rates) / len(rates) if rates else None


def max_rate(samples: Samples) -> float | None:
    """Return the best sample's tokens per second."""
    return max(sample_rates(samples), default=None)


def top_rate(samples: Samples) -> float | None:
    """Return the mean of the ten best samples' tokens per second, None with fewer than ten."""
    best = heapq.nlargest(TOP, sample_rates(samples))
    return sum(best) / TOP if len(best) == TOP else None


def wall_s(samples: Samples) -> float:
    """Return the seconds of the slowest data-parallel process, each process's seconds being its samples' sum."""
    by_rank: dict[int, float] = defaultdict(float)
    for sample in samples:
        by_rank[sample.rank] += total_s(sample)
    return max(by_rank.values(), default=0.0)


def throughput(samples: Samples) -> float | None:
    """Return useful tokens of all processes over the slowest one's seconds."""
    seconds = wall_s(samples)
    return sum(map(useful, samples)) / seconds if seconds else None


def _ratio(
    id: str,
    title: str,
    unit: str,
    direction: Direction,
    formula: str,
    select: Callable[[Samples], list[SampleRecord]],
    numerator: Quantity,
    denominator: Quantity = one,
    version: int = 1,
) -> Metric:
    """Define a ratio of sums; with no denominator, a mean over samples."""
    function = ratio_of_sums(numerator, denominator)
    return Metric(id, version, title, unit, direction, formula, function, select, numerator, denominator)


def _rate(id: str, title: str, formula: str, function: Callable[[Samples], float | None]) -> Metric:
    """Define a speed that is no ratio of sums."""
    return Metric(id, 1, title, "tokens/s", "higher", formula, function, timed)


_ALL = (
    _ratio(
        "accuracy", "accuracy", "share", "higher", "sum(correct) / samples", scored, lambda s: s.correct or 0.0,
    ),
    _ratio(
        "tpf", "TPF", "tokens/round", "higher", "sum(useful) / sum(rounds)", worked, useful, lambda s: s.work.rounds
    ),
    _ratio(
        "tpf_committed", "TPF committed", "tokens/round", "higher", "sum(committed) / sum(rounds)",
        worked, lambda s: s.tokens.committed, lambda s: s.work.rounds,
    ),
    _ratio(
        "tpf_branch", "TPF per branch", "tokens/branch forward", "higher", "sum(useful) / sum(branch_forwards)",
        worked, useful, lambda s: s.work.branch_forwards,
    ),
    _ratio(
        "tpf_call", "TPF per call", "tokens/model call", "higher", "sum(useful) / sum(model_calls)",
        worked, useful, lambda s: s.work.model_calls,
    ),
    _ratio(
        "amplification", "amplification", "positions/token", "lower", "sum(positions) / sum(useful)",
        worked, lambda s: s.work.positions, useful,
    ),
    _ratio(
        "tps_decode", "tokens/s (decode)", "tokens/s", "higher", "sum(useful) / sum(decode_s)",
        timed, useful, lambda s: s.time.decode_s,
    ),
    _ratio(
        "tps_e2e", "tokens/s", "tokens/s", "higher", "sum(useful) / sum(prefill_s + decode_s)", timed, useful, total_s
    ),
    _rate("tps_mean", "tokens/s (mean)", "mean over samples of useful / (prefill_s + decode_s)", mean_rate),
    _rate("tps_max", "tokens/s (best)", "maximum over samples of useful / (prefill_s + decode_s)", max_rate),
    _rate("tps_top10", "tokens/s (top 10)", "mean of the ten largest useful / (prefill_s + decode_s)", top_rate),
    _rate("throughput", "throughput", "sum(useful) / max over processes of sum(prefill_s + decode_s)", throughput),
    _ratio(
        "latency_s", "latency", "s/answer", "lower", "sum(prefill_s + decode_s + wait_s) / samples",
        timed, lambda s: s.time.latency_s, version=2,
    ),
    _ratio("prefill_s", "prefill", "s/answer", "lower", "sum(prefill_s) / samples", timed, lambda s: s.time.prefill_s),
    _ratio(
        "first_round_s", "first tokens", "s/answer", "lower", "sum(first_round_s) / samples that have it",
        started, lambda s: s.time.first_round_s or 0.0,
    ),
    _ratio("decode_s", "decode", "s/answer", "lower", "sum(decode_s) / samples", timed, lambda s: s.time.decode_s),
    _ratio(
        "round_s", "time per round", "s/round", "lower", "sum(prefill_s + decode_s) / sum(rounds)",
        timed, total_s, lambda s: s.work.rounds,
    ),
    _ratio(
        "comm_share", "communication", "share", "lower", "sum(comm_s) / sum(decode_s)",
        talked, lambda s: s.time.comm_s or 0.0, lambda s: s.time.decode_s,
    ),
    _ratio(
        "rank_wait_share", "waiting for processes", "share", "lower", "sum(rank_wait_s) / sum(decode_s)",
        talked, lambda s: s.time.rank_wait_s or 0.0, lambda s: s.time.decode_s,
    ),
    _ratio(
        "rounds_per_answer", "rounds", "rounds/answer", "lower", "sum(rounds) / samples",
        worked, lambda s: s.work.rounds,
    ),
    _ratio(
        "calls_per_answer", "model calls", "calls/answer", "lower", "sum(model_calls) / samples",
        worked, lambda s: s.work.model_calls,
    ),
    _ratio(
        "prefill_calls_per_answer", "prefill calls", "calls/answer", "lower", "sum(prefill_calls) / samples",
        worked, lambda s: s.work.prefill_calls,
    ),
    _ratio(
        "positions_per_answer", "positions", "positions/answer", "lower", "sum(positions) / samples",
        worked, lambda s: s.work.positions,
    ),
    _ratio(
        "prompt_tokens", "prompt length", "tokens/answer", "neither", "sum(prompt) / samples",
        counted, lambda s: s.tokens.prompt,
    ),
    _ratio("useful_tokens", "answer length", "tokens/answer", "neither", "sum(useful) / samples", counted, useful),
    _ratio(
        "committed_tokens", "committed", "tokens/answer", "neither", "sum(committed) / samples",
        counted, lambda s: s.tokens.committed,
    ),
    _ratio(
        "kept_tokens", "kept", "tokens/answer", "neither", "sum(kept) / samples", counted, lambda s: s.tokens.kept
    ),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.id: metric for metric in _ALL}
