"""A run's traces analysed, and the tables of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ResultsError
from lopa_bench.results.fillings.branch_wins import BranchWins, branch_wins
from lopa_bench.results.fillings.fill_order import PARTS, FillOrder, RoundRow, fill_order, round_rows
from lopa_bench.results.rows import short_runs, with_bounds
from lopa_bench.results.tables import Column, Row, Table, Value
from lopa_bench.results.trace import TraceRecord

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun

TABLES = ("order", "bursts", "rounds", "branches", "tenths")


@dataclass(frozen=True)
class Analysis:
    """What the traces of one run tell; `wins` is None for a decoder without branches."""

    run_id: str
    decoder: str
    order: FillOrder
    rounds: tuple[RoundRow, ...]
    wins: BranchWins | None
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return everything as JSON values, the shares and means among them."""
        order = asdict(self.order) | {"tau_interval": _interval(self.order.tau_interval)}
        order |= {name: getattr(self.order, name) for name in ("largest_burst", "mean_burst", "share_of_single")}
        wins = None
        if self.wins is not None:
            wins = asdict(self.wins) | {"lookahead_interval": _interval(self.wins.lookahead_interval)}
            wins |= {name: getattr(self.wins, name) for name in ("share_lookahead_won", "branches_per_round")}
        rounds = [asdict(row) for row in self.rounds]
        return {"run": self.run_id, "order": order, "branches": wins, "rounds": rounds, "notes": list(self.notes)}


def _interval(interval: Any) -> Any:
    return None if interval is None else interval.model_dump()


def traces_of(run: StoredRun) -> list[TraceRecord]:
    """Return the traces of a run's good answers.

    Raises:
        ResultsError: the run kept none.
    """
    good = {sample.id for sample in run.samples if sample.status == "ok"}
    traces = [trace for trace in run.traces() if trace.id in good]
    if not traces:
        raise ResultsError(f"run {run.record.id} kept no traces; give its command again with --trace --new")
    return traces


def analyse(run: StoredRun) -> Analysis:
    """Analyse the traces of a run; ResultsError when it kept none."""
    traces = traces_of(run)
    eos = run.record.model.eos_token_id
    wins = branch_wins(traces, eos)
    notes = []
    if len(traces) < len(run.samples):
        notes.append(f"{run.record.id}: {len(traces)} of {len(run.samples)} answers have a trace and no error")
    if eos is None:
        notes.append(f"{run.record.id}: its model names no EOS, so that an answer ends at its first unfilled slot")
    if wins is not None and wins.num_contested and wins.gain is None:
        notes.append(
            f"{run.record.id}: traces of schema version {run.version} do not say what the other branches would have "
            "filled; run it again for that"
        )
    rows = tuple(round_rows(traces))
    return Analysis(run.record.id, run.record.decoder.name, fill_order(traces, eos), rows, wins, tuple(notes))


def table(name: str, analyses: Sequence[Analysis]) -> Table:
    """Return one of TABLES, a row per run or several rows of each."""
    made = {
        "order": order_table,
        "bursts": bursts_table,
        "rounds": rounds_table,
        "branches": branches_table,
        "tenths": tenths_table,
    }[name](analyses)
    if len({row["run"] for row in made.rows}) > 1 or name in ("order", "branches"):
        return made
    columns = [column for column in made.columns if column.key != "run"]
    return Table(columns, made.rows, made.title, made.notes)


def overview(analyses: Sequence[Analysis]) -> list[Table]:
    """Return a row per run first, then what has several rows of each, of several runs side by side.

    Round by round there is no overview of several runs; that table is left out then.
    """
    found = [table("order", analyses), table("branches", analyses)]
    if len(analyses) < 2:
        found += [table(name, analyses) for name in ("tenths", "bursts", "rounds")]
    else:
        found.append(
            _side_by_side(tenths_table(analyses), "part", "share", "where lookaheads win, % of those tried", None)
        )
        found.append(
            _side_by_side(bursts_table(analyses), "size", "share", "slots filled by one round, % of rounds", 0.0)
        )
    return [one for one in found if one.rows]


def _side_by_side(long: Table, key: str, value: str, title: str, missing: float | None) -> Table:
    """Return a column for each run of a table that has several rows of each, named by the run's number.

    `missing` stands where a run has no row of a key that another has.
    """
    runs = [str(run) for run in dict.fromkeys(row["run"] for row in long.rows)]
    short = short_runs(runs)
    keys = dict.fromkeys(row[key] for row in long.rows)
    ordered = sorted(keys, key=lambda one: one if isinstance(one, int) else 0)  # words keep their order
    rows: list[dict[str, Value]] = [{key: one, **dict.fromkeys(runs, missing)} for one in ordered]
    places = {one: rows[index] for index, one in enumerate(ordered)}
    for row in long.rows:
        places[row[key]][str(row["run"])] = row[value]
    first = next(column for column in long.columns if column.key == key)
    columns = [first, *(Column(run, short[run], digits=1, scale=100.0) for run in runs)]
    return Table(columns, rows, title)


def order_table(analyses: Sequence[Analysis]) -> Table:
    """Return a row per run: order, bursts and when the EOS came."""
    rows: list[Row] = []
    for one in analyses:
        order = one.order
        row: dict[str, Value] = {
            "run": one.run_id,
            "decoder": one.decoder,
            "n": order.n,
            **with_bounds("tau", order.tau, order.tau_interval),
            "mean_burst": order.mean_burst,
            "largest_burst": order.largest_burst,
            "single": order.share_of_single,
            "forced": order.forced,
            "eos_first": order.eos_first,
            "after_eos": order.filled_after_eos,
        }
        rows.append(row)
    columns = [
        Column("run", "run"),
        Column("decoder", "decoder"),
        Column("n", "n"),
        Column("tau", "tau", digits=2, interval=True),
        Column("mean_burst", "slots per round", digits=2),
        Column("largest_burst", "most"),
        _percent("single", "of one slot"),
        _percent("forced", "forced"),
        _percent("eos_first", "EOS first"),
        _percent("after_eos", "filled after it"),
    ]
    notes = ["tau: Kendall's tau-b of position and round over the useful slots, 1 is left to right"]
    return Table(columns, rows, "order of filling", [*notes, *_notes(analyses)])


def bursts_table(analyses: Sequence[Analysis]) -> Table:
    """Return a row per size of a round's harvest: how many rounds, and what share of rounds and slots."""
    rows: list[Row] = []
    for one in analyses:
        num_rounds = sum(one.order.bursts.values())
        num_slots = sum(size * count for size, count in one.order.bursts.items())
        for size, count in one.order.bursts.items():
            slots = size * count / num_slots if num_slots else None
            rows.append({"run": one.run_id, "size": size, "count": count, "share": count / num_rounds, "slots": slots})
    columns = [Column("run", "run"), Column("size", "slots filled"), Column("count", "rounds")]
    columns += [_percent("share", "of rounds"), _percent("slots", "of slots")]
    return Table(columns, rows, "slots filled by one round")


def rounds_table(analyses: Sequence[Analysis]) -> Table:
    """Return a row per round index: how many answers reached it, what they filled in it, and where."""
    rows: list[Row] = [{"run": one.run_id, **asdict(row)} for one in analyses for row in one.rounds]
    columns = [
        Column("run", "run"),
        Column("index", "round"),
        Column("n", "answers"),
        Column("filled_mean", "slots", digits=2),
        Column("filled_low", "lower quartile", digits=1),
        Column("filled_median", "median", digits=1),
        Column("filled_high", "upper quartile", digits=1),
        _percent("place", "place"),
    ]
    return Table(
        columns, rows, "round by round", ["place: mean place of the slots filled, 0 % the first of the answer"]
    )


def branches_table(analyses: Sequence[Analysis]) -> Table:
    """Return a row per run that has branches: who won and what it brought."""
    rows: list[Row] = []
    for one in analyses:
        wins = one.wins
        if wins is None:
            continue
        row: dict[str, Value] = {
            "run": one.run_id,
            "contested": wins.num_contested,
            "rounds": wins.num_rounds,
            "branches": wins.branches_per_round,
            **with_bounds("won", wins.share_lookahead_won, wins.lookahead_interval),
            "gain": wins.gain,
            "gain_when_won": wins.gain_when_won,
            "realised": wins.realised,
            "lost": wins.lost,
            "best_gain": wins.best_gain,
            "score_tells": wins.score_tells,
        }
        rows.append(row)
    columns = [
        Column("run", "run"),
        Column("contested", "contested rounds"),
        Column("branches", "branches", digits=1),
        Column("won", "lookahead won %", digits=1, scale=100.0, interval=True),
        Column("gain", "gain", digits=2, signed=True),
        Column("gain_when_won", "when won", digits=2, signed=True),
        _percent("realised", "realised"),
        _percent("lost", "lost"),
        Column("best_gain", "best possible", digits=2, signed=True),
        Column("score_tells", "score tells", digits=2),
    ]
    notes = [
        "gain: slots that the winner filled in its round more than the anchor would have, its lookahead among them; "
        "realised: wins with a gain above 0, lost: below",
        "best possible: by always taking the branch that fills most; score tells: rank correlation of score and gain",
    ]
    return Table(columns, rows, "branches", notes)


def tenths_table(analyses: Sequence[Analysis]) -> Table:
    """Return a row per tenth of the answer, for runs in which there was more than one branch to choose from."""
    rows: list[Row] = []
    for one in analyses:
        for part in one.wins.parts if one.wins and one.wins.num_contested else ():
            place = "behind the end" if part.part is None else f"{part.part / PARTS:.0%}-{(part.part + 1) / PARTS:.0%}"
            row: dict[str, Value] = {"run": one.run_id, "part": place, "tried": part.num_tried, "won": part.num_won}
            rows.append(row | {"share": part.share_won, "gain": part.gain})
    columns = [Column("run", "run"), Column("part", "part of the answer"), Column("tried", "lookaheads")]
    columns += [Column("won", "won"), _percent("share", "won"), Column("gain", "gain when won", digits=2, signed=True)]
    return Table(columns, rows, "where lookaheads win")


def _percent(key: str, title: str) -> Column:
    return Column(key, f"{title} %", digits=1, scale=100.0)


def _notes(analyses: Iterable[Analysis]) -> list[str]:
    return [note for one in analyses for note in one.notes]
