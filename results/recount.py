"""A stored run counted as another program would have: its ledgers and traces under one of `conventions.CONVENTIONS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lopa_bench.results.conventions import CONVENTIONS, Answer, Convention, Count, Unknown, convention_named
from lopa_bench.results.metrics import TOP
from lopa_bench.results.schema import RunRecord, SampleRecord
from lopa_bench.results.tables import Column, Row, Table
from lopa_bench.results.trace import TraceRecord

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun


@dataclass(frozen=True)
class Recount:
    """A run's figures under one convention.

    `tokens`, `steps` and `seconds` are the sums that the quotients were made of, None where the record lacks something;
    `timed_tokens` are those of the samples in `seconds`. A figure the program does not print is not in `figures`; one
    that is undefined or unknown is None there. `notes` say what is lacking and what else to know. `printed_nfe` is
    what the program prints as its forwards though it counts none, and no quotient is made of it; None for all others.
    """

    convention: Convention
    run_id: str
    n: int
    n_timed: int
    tokens: int | None
    steps: int | None
    timed_tokens: int | None
    seconds: float | None
    figures: dict[str, float | None]
    notes: tuple[str, ...] = field(default=())
    printed_nfe: int | None = None


def names_for(name: str) -> tuple[str, ...]:
    """Return the conventions that a user's word asks for: one, or `all`."""
    return tuple(CONVENTIONS) if name == "all" else (convention_named(name).name,)


def recount_table(runs: Sequence[StoredRun], name: str) -> Table:
    """Return a row for each run and each convention that `name` asks for, the notes saying what was counted."""
    names = names_for(name)
    counted = [recount_run(run, one) for run in runs for one in names]
    rows: list[Row] = [
        {
            "run": one.run_id,
            "convention": one.convention.name,
            "n": one.n,
            "tokens": one.tokens,
            "steps": one.steps,
            "printed_nfe": one.printed_nfe,
            "n_timed": one.n_timed,
            "timed_tokens": one.timed_tokens,
            "seconds": one.seconds,
            **one.figures,
        }
        for one in counted
    ]
    columns = [Column("run", "run")] if len(runs) > 1 else []
    columns += [Column(key, key) for key in ("convention", "n", "tokens", "steps")]
    columns.append(Column("tpf", "TPF", digits=2))
    if any(one.n_timed != one.n for one in counted):
        columns.append(Column("n_timed", "n timed"))
    columns.append(Column("seconds", "seconds", digits=2))
    columns += [Column("tps", "tokens/s", digits=1)]
    if any("tps_mean" in one.figures for one in counted):
        columns += [Column("tps_mean", "mean", 1), Column("tps_max", "best", 1), Column("tps_top10", "top 10", 1)]
    columns.append(Column("latency_s", "latency s/answer", digits=3))
    notes = [f"{one}: {CONVENTIONS[one].words}" for one in names]
    notes += list(dict.fromkeys(note for one in counted for note in one.notes))
    title = runs[0].record.id if len(runs) == 1 else ""
    return Table(columns, rows, title, notes)


def recount_run(run: StoredRun, name: str) -> Recount:
    """Count a stored run, its traces used where it kept them."""
    return recount(run.record, run.samples, {trace.id: trace for trace in run.traces()}, name)


def recount(run: RunRecord, samples: Sequence[SampleRecord], traces: Mapping[str, TraceRecord], name: str) -> Recount:
    """Count `samples` of `run` under the convention `name`; samples that ended in an error take no part."""
    convention = convention_named(name)
    good = [Answer(run, sample, traces.get(sample.id)) for sample in samples if sample.status == "ok"]
    timed = [one for one in good[convention.skip :] if not one.sample.reused]
    if not convention.warmup_counts:
        timed = [one for one in timed if not one.sample.warmup]
    lacking: dict[str, None] = {}
    if good and not timed:
        lacking["no answer is left whose seconds count"] = None
    tokens = _counts(good, convention.tokens, lacking)
    steps = _counts(good, convention.steps, lacking)
    timed_tokens = _counts(timed, convention.tokens, lacking)
    seconds = _counts(timed, convention.seconds, lacking)
    constant = _counts(good, convention.constant, lacking) if convention.constant else None
    printed = round(sum(constant)) if constant else None
    constants = [f"the NFE of {printed} that it prints is a constant for each answer"] if printed else []
    figures = {
        "tpf": _ratio(tokens, steps),
        "tps": _ratio(timed_tokens, seconds),
        "latency_s": sum(seconds) / len(seconds) if seconds else None,
    }
    if convention.sample_speeds:
        figures |= _sample_speeds(timed_tokens, seconds)
    return Recount(
        convention,
        run.id,
        len(good),
        len(timed),
        round(sum(tokens)) if tokens else None,
        round(sum(steps)) if steps else None,
        round(sum(timed_tokens)) if timed_tokens else None,
        sum(seconds) if seconds else None,
        figures,
        (*(f"{name} of {run.id}: {reason}" for reason in (*lacking, *constants)), *_caveats(run, convention)),
        printed,
    )


def _counts(answers: Sequence[Answer], count: Count, lacking: dict[str, None]) -> list[float] | None:
    """Return the count of each answer; None, with the reason added to `lacking`, where one cannot be counted."""
    try:
        return [count(one) for one in answers]
    except Unknown as reason:
        lacking[str(reason)] = None
        return None


def _ratio(above: Sequence[float] | None, below: Sequence[float] | None) -> float | None:
    if above is None or below is None or not sum(below):
        return None
    return sum(above) / sum(below)


def _sample_speeds(tokens: Sequence[float] | None, seconds: Sequence[float] | None) -> dict[str, float | None]:
    """Return the mean, the best and the mean of the ten best of the samples' own speeds."""
    rates: list[float] = []
    if tokens is not None and seconds is not None:
        rates = sorted((one / s for one, s in zip(tokens, seconds, strict=True) if s > 0), reverse=True)
    return {
        "tps_mean": sum(rates) / len(rates) if rates else None,
        "tps_max": rates[0] if rates else None,
        "tps_top10": sum(rates[:TOP]) / TOP if len(rates) >= TOP else None,
    }


def _caveats(run: RunRecord, convention: Convention) -> list[str]:
    """Say where the program would not only have counted but decoded differently."""
    if convention.decodes_past_eos and run.decoder.options.get("early_stop"):
        return [
            f"{run.id} stopped at the EOS, where the programs of LoPA, D2F and Fast-dLLM go on until all slots are "
            "filled: decode with early_stop=false to count the slots and rounds of that"
        ]
    return []
