"""The gate of tokens per second, which cries only when noise cannot have done it.

A drop is a regression when all three hold:

1. the median over the new runs is below the baseline's median by more than the bound;
2. even the fastest new run is below the calibrated band: the lower prediction limit (99.9 %, one-sided) of Student's t
   for the logarithm of a speed, from the spread of the baseline's own repeats or of the machine's noise floor;
3. even the fastest new run is slower than every run of the baseline.

The band keeps ordinary spread from alarming; that the fastest run decides, a machine that was busy during the others.
Where the system tells how long a process was ready to run and had no processor, that time is left out of all speeds,
and a busy machine does not look like a slow program. Where other work had clearly more of the machine during all new
runs than during the baseline's, a regression is not comparable instead: what is left may still be caches and clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from lopa_bench.results.comparison.baseline import Cell
from lopa_bench.results.comparison.bounds import Bound
from lopa_bench.results.comparison.differences import speed_obstacle
from lopa_bench.results.comparison.gate_results import GateResult, Outcome
from lopa_bench.results.comparison.load import (
    LIKE_QUEUE,
    is_busier,
    load_of,
    load_words,
    queue_words,
    unhindered_speed,
)
from lopa_bench.results.comparison.noise import FEWEST_REPEATS, NoiseCell, SpeedBand, log_spread
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.store import StoredRun

GATE = "tokens/s"
TWO_SIDED_LEVEL = 0.998
# Of a process that had no processor for longer, too little is left to tell its speed by: caches are cold at every turn.
MOST_QUEUED = 0.9
# What caches and a core that two processes share leave of a speed at least; below it no neighbour explains a loss.
SHARED_CORE = 0.6


def check_speed(
    name: str, cell: Cell, runs: Sequence[StoredRun], bound: Bound | None, noise: NoiseCell | None = None
) -> GateResult:
    """Gate the speed of all runs of a cell together.

    Args:
        name: of the cell.
        cell: the baseline's.
        runs: one or more runs of it; fewer than three are reported and decide nothing.
        bound: how much slower they may be; None reports only.
        noise: the machine's noise floor for the cell, used when the baseline has fewer than three repeats.
    """
    listed = ", ".join(run.record.id.partition("-")[0] for run in runs)

    def result(outcome: Outcome, reason: str, after: float | None = None) -> GateResult:
        before = median(cell.speeds) if cell.speeds else None
        return GateResult(name, listed, GATE, outcome, before, after, str(bound or ""), reason)

    undecided = Outcome.NOT_GATED if bound is None else Outcome.NOT_COMPARABLE
    speeds = [speed for run in runs if (speed := METRICS["tps_e2e"].value(run.samples))]
    if len(speeds) < len(runs):
        reason = f"{len(runs) - len(speeds)} of {len(runs)} runs have no speed: it is missing"
        return result(Outcome.NOT_GATED if bound is None else Outcome.REGRESSED, reason)
    after = median(speeds)
    obstacles = [found for run in runs if (found := speed_obstacle(cell.run, run.record)) is not None]
    if obstacles:
        return result(undecided, obstacles[0].removeprefix("x not comparable: "), after)
    if not cell.speeds:
        return result(undecided, "the baseline has no speed", after)
    if bound is None:
        return result(Outcome.NOT_GATED, "no --tps bound was given", after)
    if any({sample.id for sample in run.samples} != set(cell.samples) for run in runs):
        reason = "reported only: a speed is that of all problems of a run, and the baseline's were others"
        return replace(result(Outcome.NOT_GATED, reason, after), is_notable=True)
    sides = _sides(cell, runs, noise)
    if sides.band is None or len(speeds) < FEWEST_REPEATS:
        undecided_for_now = result(Outcome.NOT_GATED, _lacking(len(speeds), sides.band is not None), after)
        return replace(undecided_for_now, is_notable=True)
    return _unless_busier(cell, runs, sides, _decide(sides, bound, result(Outcome.OK, "", after)))


def is_to_be_repeated(found: GateResult) -> bool:
    """Whether a speed should be measured again before it is called slow: it is, here and now."""
    return found.outcome == Outcome.REGRESSED or (found.outcome == Outcome.NOT_COMPARABLE and found.is_notable)


@dataclass(frozen=True)
class _Sides:
    """The speeds of both sides that decide, all with or all without the time in which there was no processor.

    `queued` are the shares of that time, the baseline's runs first; empty where they are not known.
    """

    before: Sequence[float]
    after: Sequence[float]
    band: SpeedBand | None
    queued: tuple[Sequence[float], Sequence[float]]
    is_unhindered: bool


def _sides(cell: Cell, runs: Sequence[StoredRun], noise: NoiseCell | None) -> _Sides:
    """Leave the time without a processor out where all runs know of it and had one for most of theirs."""
    speeds = [METRICS["tps_e2e"].value(run.samples) or 0.0 for run in runs]
    unhindered = [speed for run in runs if (speed := unhindered_speed(run.samples))]
    plain = _Sides(cell.speeds, speeds, calibrated(cell, noise), ((), ()), False)
    if len(unhindered) < len(runs) or len(cell.unhindered) < len(cell.speeds):
        return plain
    queued = tuple(
        [1 - one / other for one, other in zip(hindered, free, strict=True)]
        for hindered, free in ((cell.speeds, cell.unhindered), (speeds, unhindered))
    )
    band = calibrated(cell, noise, unhindered=True)
    if band is None or max(map(max, queued)) > MOST_QUEUED:
        return replace(plain, queued=(queued[0], queued[1]))
    return _Sides(cell.unhindered, unhindered, band, (queued[0], queued[1]), True)


def _unless_busier(cell: Cell, runs: Sequence[StoredRun], sides: _Sides, found: GateResult) -> GateResult:
    """Take a regression back where other work hindered every new run clearly more than any of the baseline's."""
    if found.outcome != Outcome.REGRESSED:
        return found
    loads = [load_of(run.samples) for run in runs]
    known = [load for load in loads if load is not None]
    before, after = max(cell.loads, default=None), min(known) if len(known) == len(runs) else None
    words = ""
    is_too_slow = sides.is_unhindered and median(sides.after) < SHARED_CORE * median(sides.before)
    if before is not None and after is not None and is_busier(before, after) and not is_too_slow:
        words = load_words(before, after)
    if not sides.is_unhindered and all(sides.queued) and min(sides.queued[1]) > max(sides.queued[0]) + LIKE_QUEUE:
        words = queue_words(max(sides.queued[0]), min(sides.queued[1]))
    if not words:
        return found
    reason = f"{found.reason}; but {words}: run it again when the machine is as quiet"
    return replace(found, outcome=Outcome.NOT_COMPARABLE, reason=reason, is_notable=True)


def calibrated(cell: Cell, noise: NoiseCell | None, *, unhindered: bool = False) -> SpeedBand | None:
    """Return the spread between equal runs: of the baseline's repeats, else of the noise floor; None without either."""
    speeds = cell.unhindered if unhindered else cell.speeds
    if len(speeds) >= FEWEST_REPEATS:
        return SpeedBand(log_spread(speeds) or 0.0, len(speeds))
    return noise.speed_band(cell.run, unhindered=unhindered) if noise is not None else None


def _lacking(num_runs: int, has_band: bool) -> str:
    """Say what it takes for a speed to gate."""
    wants = [] if has_band else [f"a baseline of {FEWEST_REPEATS} runs or a noise floor (`lopa-bench noise`)"]
    wants += [] if num_runs >= FEWEST_REPEATS else [f"{FEWEST_REPEATS} new runs, found {num_runs}"]
    return f"reported only: to gate, a speed needs {' and '.join(wants)}"


def _decide(sides: _Sides, bound: Bound, found: GateResult) -> GateResult:
    assert sides.band is not None
    before, after = median(sides.before), median(sides.after)
    limit = before / sides.band.factor(TWO_SIDED_LEVEL, len(sides.before))
    words = f"{after / before:.2f}x over {len(sides.after)} runs{_without(sides)}; "
    words += f"calibrated limit {limit:.1f} from {sides.band.num_runs} equal runs"
    bound.require_within(before, f"tokens/s of {found.cell}")
    allowed = bound.allows(before, after, "higher")
    fastest = max(sides.after)
    if not allowed and fastest < min(limit, *sides.before):
        outcome = Outcome.REGRESSED
    else:
        outcome = Outcome.OK
        words += (
            ""
            if allowed
            else f"; beyond the bound, but the fastest ({fastest:.1f}) is not beyond what equal runs differ by"
        )
    return GateResult(found.cell, found.run, GATE, outcome, before, after, str(bound), words)


def _without(sides: _Sides) -> str:
    """Say that time without a processor is left out, where there was any worth a word."""
    before, after = (max(side, default=0.0) for side in sides.queued)
    if not sides.is_unhindered or max(before, after) <= LIKE_QUEUE:
        return ""
    return f", without up to {after:.0%} of the time in which there was no processor ({before:.0%} before)"
