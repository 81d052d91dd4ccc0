"""The gate of tokens per second, which cries only when noise cannot have done it.

A drop is a regression when all three hold:

1. the median over the new runs is below the baseline's median by more than the bound;
2. even the fastest new run is below the calibrated band: the lower prediction limit (99.9 %, one-sided) of Student's t
   for the logarithm of a speed, from the spread of the baseline's own repeats or of the machine's noise floor;
3. even the fastest new run is slower than every run of the baseline.

The band keeps ordinary spread from alarming; that the fastest run decides, a machine that was busy during the others.
A machine that was busier during all of them than during the baseline's makes it not comparable, not a regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from lopa_bench.results.comparison.baseline import Cell
from lopa_bench.results.comparison.bounds import Bound
from lopa_bench.results.comparison.differences import speed_obstacle
from lopa_bench.results.comparison.gates import GateResult, Outcome
from lopa_bench.results.comparison.load import is_busier, load_of, load_words
from lopa_bench.results.comparison.noise import FEWEST_REPEATS, NoiseCell, SpeedBand, log_spread
from lopa_bench.results.metrics import METRICS
from lopa_bench.results.store import StoredRun

GATE = "tokens/s"
TWO_SIDED_LEVEL = 0.998


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
    band = calibrated(cell, noise)
    if band is None or len(speeds) < FEWEST_REPEATS:
        undecided_for_now = result(Outcome.NOT_GATED, _lacking(len(speeds), band is not None), after)
        return replace(undecided_for_now, is_notable=True)
    return _unless_busier(cell, runs, _decide(cell, speeds, bound, band, result(Outcome.OK, "", after)))


def is_to_be_repeated(found: GateResult) -> bool:
    """Whether a speed should be measured again before it is called slow: it is, here and now."""
    return found.outcome == Outcome.REGRESSED or (found.outcome == Outcome.NOT_COMPARABLE and found.is_notable)


def _unless_busier(cell: Cell, runs: Sequence[StoredRun], found: GateResult) -> GateResult:
    """Take a regression back where every new run had clearly busier neighbours than any of the baseline's."""
    before = max(cell.loads, default=None)
    loads = [load_of(run.samples) for run in runs]
    known = [load for load in loads if load is not None]
    after = min(known) if len(known) == len(runs) else None
    if found.outcome != Outcome.REGRESSED or before is None or after is None or not is_busier(before, after):
        return found
    words = f"{found.reason}; but {load_words(before, after)}: run it again when the machine is as quiet"
    return replace(found, outcome=Outcome.NOT_COMPARABLE, reason=words, is_notable=True)


def calibrated(cell: Cell, noise: NoiseCell | None) -> SpeedBand | None:
    """Return the spread between equal runs: of the baseline's repeats, else of the noise floor; None without either."""
    if len(cell.speeds) >= FEWEST_REPEATS:
        return SpeedBand(log_spread(cell.speeds) or 0.0, len(cell.speeds))
    return noise.speed_band(cell.run) if noise is not None else None


def _lacking(num_runs: int, has_band: bool) -> str:
    """Say what it takes for a speed to gate."""
    wants = [] if has_band else [f"a baseline of {FEWEST_REPEATS} runs or a noise floor (`lopa-bench noise`)"]
    wants += [] if num_runs >= FEWEST_REPEATS else [f"{FEWEST_REPEATS} new runs, found {num_runs}"]
    return f"reported only: to gate, a speed needs {' and '.join(wants)}"


def _decide(cell: Cell, speeds: Sequence[float], bound: Bound, band: SpeedBand, found: GateResult) -> GateResult:
    before, after = median(cell.speeds), median(speeds)
    limit = before / band.factor(TWO_SIDED_LEVEL, len(cell.speeds))
    words = (
        f"{after / before:.2f}x over {len(speeds)} runs; calibrated limit {limit:.1f} from {band.num_runs} equal runs"
    )
    bound.require_within(before, f"tokens/s of {found.cell}")
    allowed = bound.allows(before, after, "higher")
    slower = max(speeds) < min(limit, *cell.speeds)
    if not allowed and slower:
        outcome = Outcome.REGRESSED
    else:
        outcome = Outcome.OK
        words += (
            ""
            if allowed
            else f"; beyond the bound, but the fastest ({max(speeds):.1f}) is not beyond what equal runs differ by"
        )
    return GateResult(found.cell, found.run, GATE, outcome, before, after, str(bound), words)
