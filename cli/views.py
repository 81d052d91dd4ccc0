"""Runs, plans and listings as tables and lines for a reader."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ResultsError

if TYPE_CHECKING:
    from lopa_bench.harness.plan import Plan
    from lopa_bench.results.schema import Environment, Reason, Setting, Summary, TimeLedger
    from lopa_bench.results.store import StoredRun
    from lopa_bench.results.tables import Column, Table

SHOWN_METRICS = ("tpf", "tpf_committed", "tps_e2e", "latency_s")
WITH_INTERVAL = ("tpf", "tps_e2e")
logger = logging.getLogger(__name__)

GIB, MIB = 1 << 30, 1 << 20
LINE_WIDTH = 116


def run_table(runs: Sequence[StoredRun], title: str = "") -> Table:
    """Return one row per run: accuracy, every other score, TPF, speed, the three of them with their intervals."""
    from lopa_bench.results.rows import metric_column, summary_row
    from lopa_bench.results.tables import Column, Row, Table, Value

    rows: list[Row] = []
    scores: dict[str, str] = {}  # by name, the headline beside which it stands
    for one in runs:
        summary, record = summary_of(one), one.record
        labels: dict[str, Value] = {"task": record.task.name, "decoder": decoder_words(one), "model": record.model.name}
        labels["at once"] = record.environment.batch_size
        rows.append(summary_row(summary, **labels))
        for name in summary.scores:
            if name != record.task.metric:
                scores.setdefault(name, record.task.metric)
    columns = [Column("task", "task"), Column("decoder", "decoder"), Column("model", "model"), Column("n", "n")]
    if any(one.record.environment.batch_size > 1 for one in runs):
        columns.append(Column("at once", "at once"))
    columns.append(metric_column("accuracy", interval=True))
    columns += [_score_column(name, metric) for name, metric in scores.items()]
    columns += [metric_column(name, interval=name in WITH_INTERVAL) for name in SHOWN_METRICS]
    metrics = sorted({_accuracy_is(one) for one in runs})
    return Table(columns, rows, title, metrics)


def _accuracy_is(run: StoredRun) -> str:
    """Say which score is called accuracy, and for programs how answers became programs and who judged them."""
    task, scoring = run.record.task, run.record.scoring
    how = f" (clean-up {scoring['cleanup']}, judged by {scoring['scorer']})" if "cleanup" in scoring else ""
    return f"{task.name}: accuracy is {task.metric}{how}"


def _score_column(name: str, metric: str) -> Column:
    """Return the column of a score, named by what sets it apart from the headline: its filter, for most."""
    from lopa_bench.results.rows import score_column

    plain = name.removesuffix(",none")  # lm-eval's word for a score without a filter
    words = plain.removeprefix(metric.partition(",")[0]).replace(",", " ").strip()
    return replace(score_column(name), title=f"{words or name} %")


def decoder_words(run: StoredRun) -> str:
    """Return a decoder's name with its number of branches, where it has branches."""
    return run.record.decoder.words


def reasons(run: StoredRun) -> Iterator[str]:
    """Yield a line for each thing that explains the score: what went wrong, how answers ended, what to be wary of."""
    summary = summary_of(run)
    if summary.reasons:
        wrong = sum(summary.why.values())
        unjudged = f", {summary.num_errors} more without a verdict" if summary.num_errors else ""
        yield f"not right: {wrong} of {summary.n} answers{unjudged}; one may have several reasons"
        yield from map(_reason_line, summary.reasons)
    if summary.stopped_by:
        yield "answers ended by: " + _counts(summary.stopped_by, summary.n)
    strict, flexible = (
        next((value for name, value in summary.scores.items() if word in name), None) for word in ("strict", "flexible")
    )
    if strict is not None and flexible is not None and (flexible.value or 0) > (strict.value or 0):
        yield (
            f"strict {strict.value or 0:.1%} is below flexible {flexible.value:.1%}: "
            "some right numbers were not written in the task's own form"
        )
    told = {reason.short for reason in summary.reasons}
    for warning in summary.warnings:
        if warning not in told:
            yield f"note: {warning}"
    if (time := summary.time).decode_s and run.record.environment.num_devices > 1:
        yield _talk_line(time)


def _talk_line(time: TimeLedger) -> str:
    """Return what part of decoding went into communication, or that this device cannot tell."""
    if time.comm_s is None or time.rank_wait_s is None:
        return "of decoding: communication between processes was not measured, this device cannot time it"
    comm, wait = time.comm_s / time.decode_s, time.rank_wait_s / time.decode_s
    computing = max(1 - comm - wait, 0.0)
    return f"of decoding: computing {computing:.0%}, communication {comm:.0%}, waiting for processes {wait:.0%}"


def _reason_line(reason: Reason) -> str:
    """Return "  empty 4 (40%): a-0001, a-0002, a-0003, ... (the answer has no text)"."""
    share = f" ({reason.count / reason.of:.0%})" if reason.of else ""
    more = ", ..." if reason.count > len(reason.ids) else ""
    meaning = f" ({reason.meaning})" if reason.meaning else ""
    return f"  {reason.word} {reason.count}{share}: {', '.join(reason.ids)}{more}{meaning}"


def _counts(counts: dict[str, int], n: int) -> str:
    return ", ".join(f"{word} {count} ({count / n:.0%})" if n else f"{word} {count}" for word, count in counts.items())


def setting_lines(settings: dict[str, Setting], names: Iterable[str] | None = None) -> Iterator[str]:
    """Yield "name = value (origin)" for each setting; those left at a default of nothing are not shown."""
    for name in names if names is not None else settings:
        setting = settings[name]
        if setting.value is None and setting.origin == "default":
            continue
        yield f"  {name} = {_plain(setting.value)}  ({setting.origin})"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def settings_by_origin(settings: Mapping[str, Setting], names: Iterable[str]) -> Iterator[str]:
    """Yield a paragraph per origin with all its settings, defaults of nothing left out."""
    groups: dict[str, list[str]] = {}
    for name in names:
        setting = settings[name]
        if setting.value is not None or setting.origin != "default":
            groups.setdefault(setting.origin, []).append(f"{name} = {_plain(setting.value)}")
    for origin, told in sorted(groups.items(), key=lambda group: group[0] == "default"):
        yield from _paragraph([f"  {origin}: {told[0]}", *told[1:]])


def _paragraph(parts: Sequence[str]) -> Iterator[str]:
    """Yield parts after one another with commas between them, in lines that break between two of them."""
    line = ""
    for part in parts:
        if line and len(line) + len(part) > LINE_WIDTH:
            yield f"{line},"
            line = f"    {part}"
        else:
            line = f"{line}, {part}" if line else part
    yield line


def plan_lines(plan: Plan, *, compact: bool = False) -> Iterator[str]:
    """Yield the plan, line by line; `compact` puts settings of one origin into one paragraph."""
    names = [name for name in plan.settings if name != "problems"]
    yield "settings, by where they come from:" if compact else "settings:"
    yield from settings_by_origin(plan.settings, names) if compact else setting_lines(plan.settings, names)
    low, high = plan.rounds
    all_low, all_high = plan.total_rounds
    if plan.is_remote:
        yield f"samples: {plan.problems or f'{plan.num_samples} of {plan.num_available}'}"
        yield "rounds and memory: the server's own, not known here"
        return
    yield f"samples: {plan.problems or f'{plan.num_samples} of {plan.num_available}'}"
    yield (
        f"rounds: {low} to {high} for a full answer{_slots(plan)}, {all_low} to {all_high} in all; "
        "fewer where answers end early"
    )
    cut = " (too long: its beginning will be cut)" if plan.prompts_too_long else ""
    yield f"longest prompt: {plan.longest_prompt} tokens{cut}"
    each = ""
    if (mesh := plan.mesh).size > 1:
        yield f"processes: {mesh.size}, {mesh.data} (data) x {mesh.branch} (branch) x {mesh.tensor} (tensor)"
        each = " in each"
    memory = plan.memory
    yield (
        f"memory: about {size(memory.total)}{each} on {plan.device} in {plan.dtype}: weights {size(memory.weights)} "
        f"({plan.num_parameters:,} parameters), cache {size(memory.cache)}, logits {size(memory.logits)}"
    )


def _slots(plan: Plan) -> str:
    """Return " (256 slots, 8 blocks of 32)", as far as the decoder has blocks."""
    slots, block = plan.settings.get("max_new_tokens"), plan.settings.get("block_size")
    if slots is None or not isinstance(slots.value, int):
        return ""
    if block is None or not isinstance(block.value, int) or not block.value:
        return f" ({slots.value} slots)"
    return f" ({slots.value} slots, {-(-slots.value // block.value)} blocks of {block.value})"


def size(num_bytes: int) -> str:
    """Return a number of bytes in MiB or GiB."""
    return f"{num_bytes / GIB:.1f} GiB" if num_bytes >= GIB else f"{num_bytes / MIB:.1f} MiB"


def environment_line(place: Environment) -> str:
    """Return where a run ran, in one line."""
    packages = ", ".join(f"{name} {version}" for name, version in place.packages.items())
    commit = f", commit {place.git_commit[:10]}{' with changes' if place.git_dirty else ''}" if place.git_commit else ""
    words = ", ".join(f"{name} {count}" for name, count in place.groups.items() if count > 1)
    processes = f", {place.world_size} processes ({words}; {place.communication})" if words else ""
    return (
        f"{place.device} ({place.device_name}), {place.dtype}, {place.num_threads} threads{processes}, "
        f"{packages}{commit}"
    )


def summary_of(run: StoredRun) -> Summary:
    """Return the stored summary, or one made of what the run holds.

    The latter for an unfinished run, one of an older schema version, and one whose summary is not of these samples.
    """
    from lopa_bench.results.schema import SCHEMA_VERSION
    from lopa_bench.results.summary import follows_from, summarise

    try:
        stored = run.summary if run.version == SCHEMA_VERSION else None
    except ResultsError as error:
        logger.warning("%s; the figures were made anew from the samples", error)
        return summarise(run.record, run.samples)
    if stored is None or follows_from(stored, run.samples):
        return stored or summarise(run.record, run.samples)
    logger.warning("run %s: its summary is not of its samples; the figures were made anew from these", run.record.id)
    return summarise(run.record, run.samples)


def run_lines(run: StoredRun, *, all_settings: bool) -> Iterator[str]:
    """Yield what stands under a run's table: reasons, status, where it ran, its settings."""
    from lopa_bench.results.metrics import accuracy_by_cluster
    from lopa_bench.results.peak_memory import peak_line

    yield from reasons(run)
    record = run.record
    if parts := accuracy_by_cluster(run.samples):
        yield "accuracy by part: " + ", ".join(f"{part} {percent(mean)} of {n}" for part, (mean, n) in parts.items())
    yield f"status: {run.status}" + (f" ({record.error})" if record.error else "")
    yield f"task: {record.task.name} {record.task.version}, {record.task.source}"
    if record.scoring:
        yield f"judged by: {scoring_line(record.scoring)}"
    for earlier in record.rescored:
        yield (
            f"judged again: {earlier.time:%Y-%m-%d %H:%M}, {len(earlier.changed)} verdicts changed; "
            f"before that by {scoring_line(earlier.scoring)}: {earlier.metric} {percent(earlier.accuracy)}"
        )
    yield f"model: {record.model.name} {record.model.hash}"
    for sitting in record.earlier_sittings:
        yield f"up to answer {sitting.num_answers} on: {environment_line(sitting.place)}"
    yield f"ran on: {environment_line(record.environment)}"
    if peak := peak_line(run.samples, record.environment.device):
        yield peak
    chosen = [name for name, one in record.configuration.items() if all_settings or one.origin != "default"]
    yield "settings:" if all_settings else "settings that were given (--config shows all):"
    yield from setting_lines(record.configuration, chosen)


def scoring_line(scoring: Mapping[str, Any]) -> str:
    """Return how answers were judged, in one line."""
    words = [str(scoring.get("scorer", "unknown"))]
    words += [
        f"{name} {scoring[key]}" for name, key in (("clean-up", "cleanup"), ("in", "isolation")) if key in scoring
    ]
    if isinstance(controls := scoring.get("controls"), dict):
        words.append(f"controls: right program {controls['right program']}, wrong program {controls['wrong program']}")
    return ", ".join(words)


def percent(share: float | None) -> str:
    """Return a share in percent, n/a where there is none."""
    return "n/a" if share is None else f"{share:.1%}"


def samples_table(run: StoredRun) -> Table:
    """Return one row per sample."""
    from lopa_bench.results.reasons import words_of
    from lopa_bench.results.tables import Column, Row, Table

    rows: list[Row] = [
        {
            "id": sample.id,
            "correct": sample.correct,
            "why": ", ".join(sorted(words_of(sample))) or "-",
            "extracted": sample.extracted or "-",
            "ended by": sample.stopped_by or "-",
            "useful": sample.tokens.useful,
            "rounds": sample.work.rounds if sample.work.model_calls else None,
            "tpf": sample.tokens.useful / sample.work.rounds if sample.work.rounds else None,
            "seconds": sample.time.total_s,
        }
        for sample in run.samples
    ]
    columns = [Column(key, key) for key in ("id", "correct", "why", "extracted", "ended by", "useful", "rounds")]
    columns += [Column("tpf", "TPF", digits=2), Column("seconds", "seconds", digits=2)]
    return Table(columns, rows, run.record.id)
