"""The gate of accuracy: a drop beyond the bound fails, unless chance has a part in it and may explain it.

Where answers are not drawn, equal runs are equal, and nothing numeric has changed, chance has no part: the same program
gives the same tokens, and a lost problem is a changed program. Elsewhere, in this order:

1. answers whose tokens are the baseline's, yet which are scored lower, are a changed scorer: regressed;
2. a drop no larger than between equal runs, where the noise floor has measured that, is ok;
3. a drop that McNemar's exact test tells from chance is regressed, over the cell or over all cells of a check together;
4. any other is undecided: ok where rounding, or another draw, may plausibly have done it, else not comparable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lopa_bench.results.comparison.baseline import Line, figures_of
from lopa_bench.results.comparison.bounds import ROUNDING, Bounds
from lopa_bench.results.comparison.chance import equal_runs_differ_by
from lopa_bench.results.comparison.gate_inputs import Checked
from lopa_bench.results.comparison.gate_results import Evidence, GateResult, Outcome
from lopa_bench.results.comparison.noise import NoiseCell
from lopa_bench.results.comparison.tolerance import SCORE_ALLOWANCE
from lopa_bench.results.statistics import LEVEL, mcnemar_exact

GATE = "accuracy"
ALPHA = 1 - LEVEL
# The share of answers that rounding alone may cost: what users saw between two GPUs (docs/reproducing.md).
LOST_TO_ROUNDING = SCORE_ALLOWANCE["another device"] / 100
MOST_PROBLEMS = 10**7  # no task has more; a drop that would take more to decide is none


def check_accuracy(checked: Checked, bounds: Bounds, noise: Sequence[NoiseCell] = ()) -> GateResult:
    """Gate the accuracy of one run over the problems that it has in common with its cell.

    Args:
        checked: both sides.
        bounds: of which `max_drop` counts; None reports only.
        noise: the noise floors of the run's and the baseline's cell, as far as they were measured.
    """
    before, after = (figures_of(side)["accuracy"] or 0.0 for side in (checked.before, checked.after))
    changes = _changes(checked.before, checked.after)
    gained, lost = sum(change > 0 for change in changes.values()), sum(change < 0 for change in changes.values())
    words = f"{gained} gained, {lost} lost of {len(changes)}"
    if bounds.max_drop is None:
        return GateResult(checked.cell, checked.run, GATE, Outcome.NOT_GATED, before, after, "", words)
    bound = f"{-100 * bounds.max_drop or 0:g} pt"
    found = GateResult(checked.cell, checked.run, GATE, Outcome.OK, before, after, bound, words)
    causes = _causes(checked, noise)
    evidence = Evidence(gained, lost, len(changes), before - after, bounds.max_drop)
    if before - after <= bounds.max_drop + ROUNDING:
        return replace(found, evidence=evidence if causes else None)
    rescored = _scored_lower(checked, changes, bounds.max_drop)
    if rescored:
        return _with(found, Outcome.REGRESSED, rescored)
    spread = equal_runs_differ_by(noise, len(changes))
    if spread and before - after <= spread + ROUNDING:
        reason = f"within the noise floor: equal runs differ by up to {100 * spread:.1f} pt here"
        return replace(_with(found, Outcome.OK, reason), is_notable=True)
    if not causes:
        return _with(found, Outcome.REGRESSED, "nothing but the program has changed")
    return _by_chance(found, evidence, causes, checked.is_drawn)


def _with(found: GateResult, outcome: Outcome, reason: str) -> GateResult:
    return replace(found, outcome=outcome, reason=f"{found.reason}; {reason}")


def _changes(before: Mapping[str, Line], after: Mapping[str, Line]) -> dict[str, float]:
    """Return by how much each problem's score grew."""
    return {key: after[key].correct - line.correct for key, line in before.items()}


def _causes(checked: Checked, noise: Sequence[NoiseCell]) -> list[str]:
    """Return through what chance has a part in the scores, empty where it has none."""
    causes = [str(one) for one in checked.numeric]
    causes += ["answers are drawn"] if checked.is_drawn else []
    return causes + (["equal runs are not equal here"] if any(cell.is_unsteady for cell in noise) else [])


def _scored_lower(checked: Checked, changes: Mapping[str, float], max_drop: float) -> str:
    """Say that answers of the same tokens are scored lower, "" where these alone do not exceed the bound."""
    same = [key for key, line in checked.before.items() if line.answer == checked.after[key].answer]
    drop = -sum(changes[key] for key in same) / len(changes)
    lower = [key for key in same if changes[key] < 0]
    if drop <= max_drop + ROUNDING:
        return ""
    return f"{len(lower)} with the same tokens as before, {lower[0]} first: it is the scoring that changed"


def _by_chance(found: GateResult, evidence: Evidence, causes: Sequence[str], is_drawn: bool) -> GateResult:
    """Say whether chance can have done a drop beyond the bound, and whether so few problems could tell at all."""
    p_value = mcnemar_exact(evidence.gained, evidence.lost)
    part = f"McNemar p = {p_value:.3g}; chance has a part ({'; '.join(causes)})"
    if p_value < ALPHA:
        return _with(found, Outcome.REGRESSED, part)
    needed = problems_to_decide(evidence)
    advice = "" if needed is None else f"; about {needed} problems with the same shares gained and lost would decide"
    chance = max(
        by_rounding(evidence), by_another_draw(evidence.num_problems, found.before, found.after) if is_drawn else 0.0
    )
    outcome = Outcome.OK if chance >= ALPHA else Outcome.NOT_COMPARABLE
    words = "may have done it" if outcome == Outcome.OK else f"would do it once in {1 / max(chance, 1e-6):.0f} times"
    what = "rounding or another draw" if is_drawn else "rounding"
    reason = f"undecided: {part}, and {what} {words}{advice}"
    return replace(_with(found, outcome, reason), is_notable=True, evidence=replace(evidence, is_undecided=True))


def by_rounding(evidence: Evidence) -> float:
    """Return how probable so large a net loss is where rounding costs `LOST_TO_ROUNDING` of the answers."""
    from scipy.stats import binom

    net = math.ceil(evidence.drop * evidence.num_problems - ROUNDING)
    return float(binom.sf(net - 1, evidence.num_problems, LOST_TO_ROUNDING))


def by_another_draw(num_problems: int, before: float | None, after: float | None) -> float:
    """Return how probable a count of right answers as low is, were both runs drawn from one: Fisher's exact test."""
    from scipy.stats import hypergeom

    old, new = (round((share or 0.0) * num_problems) for share in (before, after))
    return float(hypergeom.cdf(new, 2 * num_problems, old + new, num_problems))


def problems_to_decide(evidence: Evidence) -> int | None:
    """Return over about how many problems the same shares gained and lost would be more than chance.

    None where as many were gained as lost, or no task has so many problems.
    """
    gained, lost, n = evidence.gained, evidence.lost, evidence.num_problems
    if lost <= gained:
        return None

    def decides(count: int) -> bool:
        return mcnemar_exact(gained * count // n, lost * count // n) < ALPHA

    high = n
    while not decides(high):
        high *= 2
        if high > MOST_PROBLEMS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def judged_together(results: Sequence[GateResult]) -> list[GateResult]:
    """Return a check's results, undecided drops regressed where all cells together tell them from chance.

    All cells in which chance has a part count, those that gained too, but none that regressed by itself; of several
    runs of a cell the one that lost least. The drop over all of them must be beyond the cell's bound as well.
    """
    best: dict[str, Evidence] = {}
    for one in results:
        if one.evidence is not None and (one.cell not in best or one.evidence.drop < best[one.cell].drop):
            best[one.cell] = one.evidence
    gained, lost = sum(one.gained for one in best.values()), sum(one.lost for one in best.values())
    p_value = mcnemar_exact(gained, lost)
    if len(best) < 2 or p_value >= ALPHA:
        return list(results)
    total = sum(one.num_problems for one in best.values())
    drop = sum(one.drop * one.num_problems for one in best.values()) / total
    words = f"{gained} gained, {lost} lost of {total} over the {len(best)} cells together, McNemar p = {p_value:.3g}"

    def judged(one: GateResult) -> GateResult:
        if one.evidence is None or not one.evidence.is_undecided or drop <= one.evidence.max_drop + ROUNDING:
            return one
        return replace(one, outcome=Outcome.REGRESSED, reason=f"{one.reason}; yet {words}")

    return [judged(one) for one in results]
