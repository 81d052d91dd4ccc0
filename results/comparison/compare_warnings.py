"""What a reader of a comparison should know before its figures are believed, a sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from lopa_bench.results.comparison.chance import numeric
from lopa_bench.results.comparison.differences import Difference, scope_warning, semantic
from lopa_bench.results.comparison.noise import NoiseCell
from lopa_bench.results.comparison.paired import Pair, Side, fewest_flips
from lopa_bench.results.schema import FINISHED


def warnings_of(
    before: Side,
    after: Side,
    pairs: Sequence[Pair],
    found: list[Difference],
    noise: Sequence[NoiseCell],
    *,
    force: bool = False,
) -> list[str]:
    """Return the warnings of a pair; `force` says that the differences of a confounded one are shown."""
    warnings = [*_itself(before, after), *_confounding(found, force), *_coverage(before, after, pairs), *_small(pairs)]
    if (scopes := scope_warning(before.record, after.record)) is not None:
        warnings.append(scopes)
    return warnings + _numeric(found, noise) + _unsteady(noise) + _same_answers(before, after, pairs, found)


def _itself(before: Side, after: Side) -> list[str]:
    """Say that a run was set beside itself, which tells nothing."""
    one, other = before.record, after.record
    return [f"{one.id} is compared with itself"] if (one.id, one.created) == (other.id, other.created) else []


def _confounding(found: list[Difference], force: bool) -> list[str]:
    names = [str(one) for one in semantic(found)]
    if len(names) < 2:
        return []
    ending = "the differences shown cannot be laid to one of them" if force else "--force shows the differences"
    return [f"confounded: {len(names)} settings differ ({'; '.join(names)}); {ending}"]


def _coverage(before: Side, after: Side, pairs: Sequence[Pair]) -> list[str]:
    """Say how many problems were left out, and why."""
    lines = [
        f"{one.record.id} is not finished ({one.record.status}): only what it holds so far is compared"
        for one in (before, after)
        if one.record.status not in FINISHED
    ]
    counts = len(before.samples), len(after.samples)
    if set(counts) != {len(pairs)}:
        lines.append(f"only the {len(pairs)} common problems of {counts[0]} and {counts[1]} are compared")
    failed = sum("error" in (pair.before.status, pair.after.status) for pair in pairs)
    if failed:
        lines.append(f"{failed} of {len(pairs)} problems ended in an error in one of the runs and are left out")
    unscored = sum(not pair.is_scored for pair in pairs) - failed
    if unscored > 0:
        lines.append(f"{unscored} of {len(pairs)} problems have no score in one of the runs: accuracy leaves them out")
    return lines


def _small(pairs: Sequence[Pair]) -> list[str]:
    """Say what McNemar's test can see at all."""
    n, needed = sum(pair.is_scored for pair in pairs), fewest_flips()
    if not n:
        return []
    if n < needed:
        return [f"n = {n}: too few problems for any difference in accuracy to be told from chance (it takes {needed})"]
    return [f"n = {n}: no difference in accuracy below {100 * needed / n:.1f} points can be told from chance here"]


def _numeric(found: list[Difference], noise: Sequence[NoiseCell]) -> list[str]:
    """Say that the device or number format alone can move answers, and by how much where that was measured."""
    moved = [str(one) for one in numeric(found)]
    if not moved:
        return []
    spreads = [cell.accuracy_spread for cell in noise if cell.accuracy_spread is not None]
    known = f"the noise floor has accuracy within {max(spreads):.1%}" if spreads else "`lopa-bench noise` measures that"
    return [f"answers may differ by these alone: {'; '.join(moved)} ({known})"]


def _unsteady(noise: Sequence[NoiseCell]) -> list[str]:
    """Say that equal runs of a cell gave unequal answers when its noise was measured, and how far accuracy moved."""
    lines = []
    for cell in noise:
        changed = sum(one.identical < one.samples for one in cell.repeats)
        if changed:
            spread = f", accuracy within {cell.accuracy_spread:.1%}" if cell.accuracy_spread is not None else ""
            lines.append(f"equal runs are not equal here: {changed} of {len(cell.repeats)} repeats differ{spread}")
    return lines


def _same_answers(before: Side, after: Side, pairs: Sequence[Pair], found: list[Difference]) -> list[str]:
    """Warn when a setting that should matter changed no token: is it one run under two names, or a dead option?"""
    if not semantic(found) or not all(pair.is_identical for pair in pairs):
        return []
    return [
        f"all {len(pairs)} answers of {before.record.id} and {after.record.id} are the same tokens though settings "
        "differ: was the right run compared?"
    ]
