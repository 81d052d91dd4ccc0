"""A run's traces analysed, and the tables of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lopa_bench.errors import ResultsError
from lopa_bench.results.fillings.branch_wins import BranchWins, branch_wins
from lopa_bench.results.fillings.fill_order import PARTS, FillOrder, RoundRow, fill_order, round_rows
from lopa_bench.results.fillings.lengths import FEWEST
from lopa_bench.results.fillings.places import PlaceRow, place_rows
from lopa_bench.results.fillings.ranks import RankRow, rank_rows
from lopa_bench.results.rows import with_bounds
from lopa_bench.results.tables import Column, Row, Table, Value
from lopa_bench.results.trace import TraceRecord

if TYPE_CHECKING:
    from lopa_bench.results.store import StoredRun


@dataclass(frozen=True)
class Analysis:
    """What the traces of one run tell; `wins` is None for a decoder without branches."""

    run_id: str
    decoder: str
    order: FillOrder
    rounds: tuple[RoundRow, ...]
    wins: BranchWins | None
    places: tuple[PlaceRow, ...]
    ranks: tuple[RankRow, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return everything as JSON values, the shares and means among them."""
        order = asdict(self.order) | {
            name: _interval(getattr(self.order, name)) for name in ("tau_interval", "block_interval")
        }
        order |= {name: getattr(self.order, name) for name in ("largest_burst", "mean_burst", "share_of_single")}
        wins = None
        if self.wins is not None:
            wins = asdict(self.wins) | {"lookahead_interval": _interval(self.wins.lookahead_interval)}
            wins |= {name: getattr(self.wins, name) for name in ("share_lookahead_won", "branches_per_round")}
        places = [asdict(row) | {"interval": _interval(row.interval)} for row in self.places]
        ranks = [asdict(row) | {"interval": _interval(row.interval)} for row in self.ranks]
        rounds = [asdict(row) for row in self.rounds]
        return {"order": order, "branches": wins, "ranks": ranks, "places": places, "rounds": rounds}


def _interval(interval: Any) -> Any:
    return None if interval is None else interval.model_dump()


def good_traces(run: StoredRun) -> list[TraceRecord]:
    """Return the traces of a run's good answers; none where it kept none."""
    good = {sample.id for sample in run.samples if sample.status == "ok"}
    return [trace for trace in run.traces() if trace.id in good]


def traces_of(run: StoredRun) -> list[TraceRecord]:
    """Return the traces of a run's good answers.

    Raises:
        ResultsError: the run kept none.
    """
    traces = good_traces(run)
    if not traces:
        raise ResultsError(no_traces(run))
    return traces


def no_traces(run: StoredRun) -> str:
    """Return what to say of a run without traces."""
    return f"run {run.record.id} kept no traces; give its command again with --trace --new"


def analyse(run: StoredRun, traces: Sequence[TraceRecord] | None = None) -> Analysis:
    """Analyse the traces of a run, read from it unless they are given; ResultsError when it kept none."""
    traces = traces_of(run) if traces is None else traces
    eos = run.record.model.eos_token_id
    wins = branch_wins(traces, eos)
    return Analysis(
        run.record.id,
        run.record.decoder.name,
        fill_order(traces, eos, _block_size(run)),
        tuple(round_rows(traces)),
        wins,
        place_rows(traces, eos),
        rank_rows(traces),
        tuple(_what_to_know(run, traces, wins)),
    )


def _block_size(run: StoredRun) -> int | None:
    """Return the slots of the decoder's blocks; None for one that has no blocks."""
    stated = run.record.decoder.options.get("block_size")
    return stated if isinstance(stated, int) and stated > 0 else None


def _what_to_know(run: StoredRun, traces: Sequence[TraceRecord], wins: BranchWins | None) -> Iterator[str]:
    """Yield what the traces of a run lack."""
    name = run.record.id
    if len(traces) < len(run.samples):
        yield f"{name}: {len(traces)} of {len(run.samples)} answers have a trace and no error"
    if run.record.model.eos_token_id is None:
        yield f"{name}: its model names no EOS, so that an answer ends at its first unfilled slot"
    if wins is not None and wins.num_contested and wins.gain is None:
        yield (
            f"{name}: traces of schema version {run.version} do not say what the other branches would have "
            "filled; run it again for that"
        )


def order_table(analyses: Sequence[Analysis], *, locally: bool = False) -> Table:
    """Return a row per run: order, bursts and when the EOS came; `locally` also order within blocks and revisions."""
    rows: list[Row] = []
    for one in analyses:
        order = one.order
        row: dict[str, Value] = {
            "run": one.run_id,
            "decoder": one.decoder,
            "n": order.n,
            **with_bounds("tau", order.tau, order.tau_interval),
            **with_bounds("block_tau", order.block_tau, order.block_interval),
            "mean_burst": order.mean_burst,
            "largest_burst": order.largest_burst,
            "single": order.share_of_single,
            "forced": order.forced,
            "eos_first": order.eos_first,
            "after_eos": order.filled_after_eos,
            "revised": order.revised,
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
    if locally:
        columns.insert(4, Column("block_tau", "tau in blocks", digits=2, interval=True))
        columns.append(_percent("revised", "revised"))
        notes.append("tau in blocks: the same within each block of the decoder; revised: slots filled more than once")
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
            row |= with_bounds("share", part.share_won, part.won_interval)
            rows.append(row | with_bounds("gain", part.gain, part.gain_interval))
    columns = [Column("run", "run"), Column("part", "part of the answer"), Column("tried", "lookaheads")]
    columns += [Column("won", "won"), Column("share", "won %", digits=1, scale=100.0, interval=True)]
    columns.append(Column("gain", "gain when won", digits=2, signed=True, interval=True))
    notes = [f"the share of fewer than {FEWEST} lookaheads is n/a, and so is the gain of fewer than {FEWEST} that won"]
    return Table(columns, rows, "where lookaheads win", notes)


def places_table(analyses: Sequence[Analysis]) -> Table:
    """Return a row per tenth of the answer: how fast it was filled."""
    rows: list[Row] = []
    for one in analyses:
        for row in one.places:
            values: dict[str, Value] = {"run": one.run_id, "part": row.words, "n": row.n, "slots": row.num_slots}
            rows.append(values | {"rounds": row.num_rounds} | with_bounds("tpf", row.tpf, row.interval))
    columns = [Column("run", "run"), Column("part", "part of the answer"), Column("n", "n"), Column("slots", "slots")]
    columns += [Column("rounds", "rounds", digits=1), Column("tpf", "TPF", digits=2, interval=True)]
    notes = [
        f"a round is shared out over the useful slots it filled; the TPF of fewer than {FEWEST} answers is n/a",
    ]
    return Table(columns, rows, "TPF by part of the answer", notes)


def ranks_table(analyses: Sequence[Analysis]) -> Table:
    """Return a row for the anchor and for each rank of lookaheads, 1 for the most confident: tried and won."""
    rows: list[Row] = []
    for one in analyses:
        for row in one.ranks:
            values: dict[str, Value] = {"run": one.run_id, "rank": row.words, "tried": row.num_tried}
            values |= {"won": row.num_won, **with_bounds("share", row.share, row.interval), "margin": row.margin}
            rows.append(values)
    columns = [Column("run", "run"), Column("rank", "rank"), Column("tried", "tried"), Column("won", "won")]
    columns.append(Column("share", "won %", digits=1, scale=100.0, interval=True))
    columns.append(Column("margin", "score above the anchor's", digits=3, signed=True))
    notes = [
        "rank 1 looks ahead to the masked slot of highest confidence; score above the anchor's: mean where it won; "
        f"the share of fewer than {FEWEST} tried is n/a",
    ]
    return Table(columns, rows, "lookaheads by rank", notes)


def _percent(key: str, title: str) -> Column:
    return Column(key, f"{title} %", digits=1, scale=100.0)


def _notes(analyses: Iterable[Analysis]) -> list[str]:
    return [note for one in analyses for note in one.notes]
