"""The tables of a report. In all of them `run` is a run's short name there; CSV and JSON name it whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lopa_bench.results.fillings.analysis import branches_table, order_table
from lopa_bench.results.frontiers.frontier import Frontier
from lopa_bench.results.frontiers.frontier_tables import aup_table, settings_table
from lopa_bench.results.published_figures import PublishedRow
from lopa_bench.results.reports.report_table import ALL_ROWS, ReportTable, by_metric, joined
from lopa_bench.results.reports.runs import Entry, Group
from lopa_bench.results.reports.sameness import same_answers
from lopa_bench.results.reports.series import Series, Step
from lopa_bench.results.reports.traces import Traced
from lopa_bench.results.rows import metric_column, summary_row, with_bounds
from lopa_bench.results.tables import Column, Row, Table, Value

FIGURES = ("tpf", "tpf_branch", "amplification", "tps_e2e", "latency_s")
WITH_INTERVAL = ("tpf", "tps_e2e")
SPEEDS = ("tps_e2e", "latency_s")
ACROSS = ("accuracy", "tpf")


PAIRED = {
    "tpf_change": "tpf_ratio", "positions_change": "positions_ratio", "accuracy_change": "accuracy_difference",
    "p_value": "mcnemar_p", "p_adjusted": "holm_p", "tps_change": "tps_ratio",
}  # fmt: skip
FROM_TRACES = {
    "tau": "tau", "block_tau": "block_tau", "mean_burst": "slots_per_round", "largest_burst": "most_slots",
    "single": "single_share", "forced": "forced_share", "revised": "revised_share", "eos_first": "eos_first_share",
    "after_eos": "after_eos_share",
    "contested": "contested_rounds", "branches": "branches_per_round", "won": "lookahead_won", "gain": "gain",
    "gain_when_won": "gain_when_won", "realised": "realised_share", "lost": "lost_share", "best_gain": "best_gain",
    "score_tells": "score_tells",
}  # fmt: skip
"""The definitions behind the columns of `results.fillings.analysis`."""


@dataclass(frozen=True)
class Quote:
    """A published figure, and the run that was made to be set beside it, as the paper's program counts."""

    published: PublishedRow
    run_id: str | None = None
    measured: float | None = None
    n: int | None = None
    remark: str = ""


def results(group: Group) -> ReportTable:
    """Return a row for each comparable run of a task, the best marked; runs set aside have a table of their own."""
    columns = _figure_columns()
    if group.speed_obstacle:
        columns = [replace(one, direction="neither") if one.key in SPEEDS else one for one in columns]
    rows = [_entry_row(one) for one in group.main]
    columns = [Column("setting", "setting"), Column("model", "model"), Column("n", "n"), *columns, Column("run", "run")]
    notes = (*group.notes, *(one.words for one in same_answers(group)))
    table = Table(columns, rows, f"{group.task}: all settings", notes)
    return ReportTable(f"results-{group.task}", f"{group.task}: all settings", table, by_metric(columns))


def _figure_columns() -> list[Column]:
    figures = [metric_column(name, interval=name in WITH_INTERVAL) for name in FIGURES]
    return [metric_column("accuracy", interval=True), *figures]


def _entry_row(entry: Entry) -> Row:
    row = summary_row(entry.summary, setting=entry.words, model=entry.record.model.name)
    return row | {"run": entry.ref, "run_id": entry.id}


def set_aside(groups: Sequence[Group]) -> ReportTable | None:
    """Return the runs that are not set beside the others, with the reason; None where there are none."""
    rows = [
        {"task": group.task, **_entry_row(one), "reason": one.aside, "problems": len(one.samples)}
        for group in groups
        for one in group.aside
    ]
    if not rows:
        return None
    figures = [replace(metric_column(name), direction="neither") for name in ("accuracy", "tpf")]
    columns = [Column("task", "task"), Column("setting", "setting"), Column("reason", "why it stands apart")]
    columns += [Column("problems", "answers"), *figures, Column("run", "run")]
    notes = ("These runs are in no other table, figure or answer.",)
    table = Table(columns, rows, "runs set aside", notes)
    return ReportTable("set-aside", "Runs set aside", table, by_metric(columns, {"problems": "answers"}))


def overview(groups: Sequence[Group]) -> ReportTable:
    """Return settings by tasks, TPF and accuracy of each, after Tables 1 and 2 of the LoPA paper."""
    rows: dict[tuple[str, str], dict[str, Value]] = {}
    columns = [Column("setting", "setting"), Column("model", "model")]
    metrics: dict[str, str] = {}
    run_keys: dict[str, str] = {}
    for group in groups:
        for name in ACROSS:
            column = metric_column(name)
            key = f"{group.task}:{name}"
            columns.append(replace(column, key=key, title=f"{group.task} {column.title}"))
            metrics[key], run_keys[key] = name, f"{group.task}:run"
        columns.append(Column(f"{group.task}:run", "run"))
        run_keys[f"{group.task}:run"] = f"{group.task}:run"
        for entry in group.main:
            row = rows.setdefault((entry.words, entry.record.model.name), {})  # words tell settings of all tasks apart
            row |= {"setting": entry.words, "model": entry.record.model.name}
            row |= {f"{group.task}:{name}": entry.summary.metrics[name].value for name in ACROSS}
            row |= {
                f"{group.task}:run": entry.ref,
                f"{group.task}:run_id": entry.id,
                f"{group.task}:n": entry.summary.n,
            }
    notes = ("After Tables 1 and 2 of the LoPA paper; intervals stand in the tables of single tasks.",)
    table = Table(columns, list(rows.values()), "all tasks", notes)
    return ReportTable("overview", "All tasks", table, metrics, run_keys)


def branches(series: Sequence[Series]) -> ReportTable | None:
    """Return a row for each k of each series: what it changes against the base, with tests; None without series."""
    rows = [row for one in series for row in _series_rows(one)]
    if not rows:
        return None
    columns = [
        Column("task", "task"), Column("setting", "setting"), Column("base", "against"), Column("branches", "k"),
        metric_column("tpf"), Column("tpf_change", "TPF ratio", 2, interval=True),
        Column("positions_change", "positions ratio", 2),
        metric_column("accuracy"), Column("accuracy_change", "accuracy Δ points", 1, 100.0, signed=True, interval=True),
        Column("p_value", "McNemar p", 3), Column("p_adjusted", "after Holm", 3),
        metric_column("tps_e2e"), Column("tps_change", "tokens/s ratio", 2, interval=True), Column("n", "n"),
        Column("runs", "run, base"),
    ]  # fmt: skip
    columns = [replace(one, direction="neither") for one in columns]
    remarks = dict.fromkeys(step.change("tps_e2e").remark for one in series for step in one.steps)
    notes = [
        "ratio: the run's figure over the base's, Δ: less the base's, over their common problems, with paired 95 % "
        "intervals",
        "McNemar's exact test, then Holm's correction over all rows of this table",
        *(f"tokens/s: {remark}" for remark in remarks if remark),
    ]
    table = Table(columns, rows, "branches against the same setting without lookahead", notes)
    definitions = by_metric(columns, {"branches": "branches", **PAIRED})
    run_keys = {**dict.fromkeys((*PAIRED, "n", "runs"), "runs"), "p_adjusted": ALL_ROWS}
    heading = "Branches against the same setting without lookahead"
    return ReportTable("branches", heading, table, definitions, run_keys)


def _series_rows(series: Series) -> Iterator[Row]:
    for step in series.steps:
        yield _step_row(series, step)


def _step_row(series: Series, step: Step) -> Row:
    row: dict[str, Value] = {
        "task": series.task, "setting": series.words, "base": f"{series.base_words} ({series.base.ref})",
        "branches": step.branches, "n": step.comparison.num_scored, "run": step.entry.ref, "run_id": step.entry.id,
        "runs": joined((step.entry.ref, series.base.ref)), "base_run_id": series.base.id,
        "p_value": step.comparison.flips.p_value if step.comparison.num_scored else None,
        "p_adjusted": step.p_adjusted,
    }  # fmt: skip
    for figure, key in (("tpf", "tpf"), ("positions", "positions"), ("accuracy", "accuracy"), ("tps_e2e", "tps")):
        change = step.change(figure)
        row |= {figure: change.after, **with_bounds(f"{key}_change", change.change, change.interval)}
    return row


def front(group: Group, found: Frontier) -> list[ReportTable]:
    """Return the front of a task and the AUP of its decoders."""
    names = {one.id: one for one in group.main}
    settings = settings_table(found)
    rows = [
        {**row, "setting": names[str(row["run"])].words, "run": names[str(row["run"])].ref, "run_id": row["run"]}
        for row in settings.rows
    ]
    table = replace(settings, rows=rows, title=f"{group.task}: all settings and the Pareto front")
    definitions = by_metric(table.columns, {"front": "on_front", "front_share": "front_share"})
    front_name = f"front-{group.task}"
    return [
        ReportTable(front_name, table.title, table, definitions, dict.fromkeys(("front", "front_share"), ALL_ROWS)),
        _aup(group, found),
    ]


def _aup(group: Group, found: Frontier) -> ReportTable:
    """Return the AUP of a task's decoders, each with the runs that it is made of."""
    own = aup_table(found)
    made_of = {row["decoder"]: [one for one in group.main if one.decoder == row["decoder"]] for row in own.rows}
    rows: list[Row] = [
        {
            **row,
            "runs": joined([one.ref for one in made_of[row["decoder"]]]),
            "run_ids": joined([one.id for one in made_of[row["decoder"]]]),
        }
        for row in own.rows
    ]
    title = f"{group.task}: accuracy under parallelism (AUP)"
    table = replace(own, columns=[*own.columns, Column("runs", "runs")], rows=rows, title=title)
    definitions = {"settings": "num_settings", "n": "n", "aup": "aup"}
    return ReportTable(f"aup-{group.task}", title, table, definitions, dict.fromkeys((*definitions, "runs"), "runs"))


def from_traces(traced: Sequence[Traced]) -> list[ReportTable]:
    """Return order of filling and branch wins for every traced run."""
    analyses = [one.analysis for one in traced]
    contested = [one for one in analyses if one.wins is not None and one.wins.num_contested]
    made = [
        ("fill-order", "Order of filling, in numbers", order_table(analyses)),
        ("branch-wins", "What lookaheads brought", branches_table(contested)),
    ]
    labels = {one.entry.ref: (one.task, one.entry.words, one.entry.id) for one in traced}
    found = []
    for name, heading, table in made:
        if not table.rows:
            continue
        rows = [
            {**row, **dict(zip(("task", "setting", "run_id"), labels[str(row["run"])], strict=True))}
            for row in table.rows
        ]
        columns = [Column("task", "task"), Column("setting", "setting")]
        columns += [one for one in table.columns if one.key not in ("run", "decoder")]
        table = replace(table, columns=[*columns, Column("run", "run")], rows=rows)
        found.append(ReportTable(name, heading, table, by_metric(columns, FROM_TRACES)))
    return found


def quoted(quotes: Sequence[Quote], groups: Sequence[Group]) -> ReportTable | None:
    """Return published figures beside what was measured; None without any."""
    if not quotes:
        return None
    refs = {one.id: one.ref for group in groups for one in (*group.main, *group.aside)}
    rows: list[Row] = []
    for one in quotes:
        row: dict[str, Value] = {
            "source": one.published.source, "task": one.published.task, "metric": one.published.metric,
            "unit": one.published.unit, "published": one.published.value, "kind": one.published.kind,
        }  # fmt: skip
        if one.run_id is not None:
            deviation = None if one.measured is None else one.measured - one.published.value
            row |= {"measured": one.measured, "deviation": deviation, "n": one.n, "run": refs[one.run_id]}
            row["run_id"] = one.run_id
        rows.append(row | ({"remark": one.remark} if one.remark else {}))
    columns = [
        Column("source", "source"), Column("task", "task"), Column("metric", "figure"), Column("unit", "unit"),
        Column("published", "published", quoted=True), Column("kind", "kind"), Column("measured", "measured", 2),
        Column("deviation", "deviation", 2, signed=True), Column("n", "n"), Column("run", "run"),
    ]  # fmt: skip
    if any("remark" in row for row in rows):
        columns.append(Column("remark", "remark"))
    notes = (
        "published: quoted from the paper, or digitised where it was read off a plot, and not measured here. measured: "
        "as that paper's program counts. —: no run of this report was made by that row's preset.",
    )
    definitions = {one: one for one in ("published", "measured", "deviation", "n")}
    return ReportTable("published", "Published figures", Table(columns, rows, "published figures", notes), definitions)
