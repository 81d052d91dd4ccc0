"""Comparisons as tables: figures, flips, settings and the flipped answers; and flat rows for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lopa_bench.results.comparison.compare import Change, Comparison
from lopa_bench.results.comparison.paired import Pair, Side
from lopa_bench.results.tables import UNDEFINED, Column, Row, Table, Value

LEAD = 12  # characters shown before the first difference of two answers
SHORT = 24  # characters up to which a target stands beside the answers, and a remark beside its figure
DIGITS = {"accuracy": 1, "tpf": 2, "tps_e2e": 1}


@dataclass(frozen=True)
class Refusal:
    """A pair that cannot be compared, and why."""

    before: Side
    after: Side
    reason: str


Outcome = Comparison | Refusal


def short_name(outcome: Outcome, outcomes: Sequence[Outcome]) -> str:
    """Return the number of the outcome's run, or its whole id where that would not tell it from another."""
    ids = [one.record.id for each in outcomes for one in (each.before, each.after)]
    name = outcome.after.record.id
    number = name.partition("-")[0]
    return number if number.isdigit() and {one for one in ids if one.partition("-")[0] == number} == {name} else name


def legend(outcomes: Sequence[Outcome]) -> list[str]:
    """Say which runs the short names and "baseline" stand for."""
    if not outcomes:
        return []
    names = {short_name(one, outcomes): one.after.record.id for one in outcomes}
    lines = [f"baseline: {outcomes[0].before.record.id}"]
    return lines + [f"{short}: {name}" for short, name in names.items() if short != name]


def figures_table(outcomes: Sequence[Outcome]) -> Table:
    """Return one row per run and figure: both values and the change; long remarks stand below."""
    rows: list[Row] = []
    notes: list[str] = []
    for outcome in outcomes:
        name = short_name(outcome, outcomes)
        if isinstance(outcome, Refusal):
            rows.append({"run": name, "figure": "all", "remark": f"x not comparable: {outcome.reason}"})
        else:
            rows += [{"run": name, **_figure_cells(change)} for change in outcome.changes]
            notes += [f"{name}, {one.title}: {one.remark}" for one in outcome.changes if len(one.remark) > SHORT]
    titles = {
        "run": "run",
        "figure": "figure",
        "before": "baseline",
        "after": "run",
        "change": "change",
        "interval": "95 %",
        "remark": "remark",
    }
    columns = [Column(key, title) for key, title in titles.items()]
    return Table(columns, rows, "figures over common problems", [*notes, *legend(outcomes)])


def _figure_cells(change: Change) -> dict[str, Value]:
    low, high = (change.interval.low, change.interval.high) if change.interval else (None, None)
    interval = "" if low is None or high is None else f"{_change(change, low)} to {_change(change, high)}"
    return {
        "figure": change.title,
        "before": _value(change, change.before),
        "after": _value(change, change.after),
        "change": UNDEFINED if change.change is None else _change(change, change.change),
        "interval": interval or UNDEFINED,
        "remark": change.remark if len(change.remark) <= SHORT else "see below",
    }


def _value(change: Change, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    digits = DIGITS.get(change.figure, 0)
    return f"{value:.{digits}f}" if change.is_ratio else f"{value:.{digits}%}"


def _change(change: Change, value: float) -> str:
    return f"{value:.3f}x" if change.is_ratio else f"{100 * value:+.1f} pt"


def flips_table(outcomes: Sequence[Outcome]) -> Table:
    """Return one row per comparable run: what became of the problems, and McNemar's exact test."""
    rows: list[Row] = []
    for one in outcomes:
        if isinstance(one, Refusal):
            continue
        rows.append(
            {
                "run": short_name(one, outcomes),
                "n": one.num_scored,
                "both_right": one.flips.both_right,
                "gained": one.flips.gained,
                "lost": one.flips.lost,
                "both_wrong": one.flips.both_wrong,
                "p_value": None if one.is_withheld else one.flips.p_value,
                "identical": f"{one.num_identical} of {len(one.pairs)}",
                "verdict": one.verdict,
            }
        )
    columns = [
        Column("run", "run"), Column("n", "n"), Column("both_right", "both right"), Column("gained", "gained"),
        Column("lost", "lost"), Column("both_wrong", "both wrong"), Column("p_value", "McNemar p", digits=4),
        Column("identical", "same tokens"), Column("verdict", "accuracy"),
    ]  # fmt: skip
    return Table(columns, rows, "problems")


def settings_table(outcomes: Sequence[Outcome]) -> Table:
    """Return every setting that differs, the semantic ones first."""
    rows: list[Row] = [
        {
            "run": short_name(one, outcomes),
            "kind": difference.kind,
            "setting": difference.name,
            "before": difference.before,
            "after": difference.after,
            "remark": difference.remark,
        }
        for one in outcomes
        if isinstance(one, Comparison)
        for difference in one.differences
    ]
    titles = {"run": "run", "kind": "kind", "setting": "setting", "before": "baseline", "after": "run"}
    columns = [Column(key, title) for key, title in {**titles, "remark": "remark"}.items()]
    return Table(columns, rows, "settings that differ")


def flipped_table(outcomes: Sequence[Outcome], width: int = 60) -> Table:
    """Return one row per problem whose score changed, both answers from a little before where they part."""
    rows: list[Row] = []
    for one in outcomes:
        if isinstance(one, Comparison):
            name = short_name(one, outcomes)
            rows += [{"run": name, **_flipped_cells(pair, width)} for pair in one.flipped]
    titles = {
        "run": "run",
        "id": "id",
        "change": "change",
        "target": "target",
        "extracted": "extracted",
        "before": "baseline",
        "after": "run",
        "why": "why wrong",
    }
    shown = {key for row in rows for key in row} | {"before", "after"} if rows else set(titles)
    return Table([Column(key, title) for key, title in titles.items() if key in shown], rows, "flipped problems")


def _flipped_cells(pair: Pair, width: int) -> dict[str, Value]:
    wrong = pair.before if pair.change > 0 else pair.after
    before, after = cut_at_difference(pair.before.text_kept, pair.after.text_kept, width)
    return {
        "id": pair.before.id,
        "change": "gained" if pair.change > 0 else "lost",
        **_short_answers(pair),
        "before": before,
        "after": after,
        "why": wrong.why or UNDEFINED,
    }


def _short_answers(pair: Pair) -> dict[str, Value]:
    """Return the target and what was taken from both answers, where these are a word and not a program."""
    target = pair.before.target
    taken = [one.extracted or "none" for one in (pair.before, pair.after)]
    if not target or any(len(text) > SHORT or "\n" in text for text in (target, *taken)):
        return {}
    return {"target": target, "extracted": " → ".join(taken)}


def cut_at_difference(before: str, after: str, width: int) -> tuple[str, str]:
    """Return at most `width` characters of two texts from a little before the first at which they differ."""
    same = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        same += 1
    start = max(same - LEAD, 0)
    return _cut(before, start, width), _cut(after, start, width)


def _cut(text: str, start: int, width: int) -> str:
    part = ("…" if start else "") + text[start:]
    part = part.replace("\n", "⏎")
    return part if len(part) <= width else part[: width - 1] + "…"


def flat_row(outcome: Outcome) -> dict[str, Value]:
    """Return a pair's numbers under plain keys: `accuracy_before`, `accuracy_after`, `accuracy_change`, and so on."""
    names: dict[str, Value] = {"baseline": outcome.before.record.id, "run": outcome.after.record.id}
    if isinstance(outcome, Refusal):
        return {**names, "comparable": False, "remark": outcome.reason}
    row: dict[str, Value] = {
        **names,
        "comparable": True,
        "confounded": outcome.is_confounded,
        "verdict": outcome.verdict,
        "n": outcome.num_scored,
        "common": len(outcome.pairs),
        "identical": outcome.num_identical,
        "both_right": outcome.flips.both_right,
        "gained": outcome.flips.gained,
        "lost": outcome.flips.lost,
        "both_wrong": outcome.flips.both_wrong,
        "p_value": None if outcome.is_withheld else outcome.flips.p_value,
        "accuracy_noise": outcome.accuracy_noise,
    }
    for change in outcome.changes:
        interval = change.interval
        row |= {
            f"{change.figure}_before": change.before,
            f"{change.figure}_after": change.after,
            f"{change.figure}_change": change.change,
            f"{change.figure}_low": interval.low if interval else None,
            f"{change.figure}_high": interval.high if interval else None,
        }
    speed = outcome.changes[-1]
    return {**row, "remark": speed.remark}


def flat_table(outcomes: Sequence[Outcome]) -> Table:
    """Return `flat_row` of every pair as a table, for CSV."""
    rows = [flat_row(one) for one in outcomes]
    keys = dict.fromkeys(key for row in sorted(rows, key=len, reverse=True) for key in row)
    return Table([Column(key, key) for key in keys], rows, "comparison")


def document(outcomes: Sequence[Outcome], *, with_flips: bool = False) -> dict[str, Any]:
    """Return everything as JSON values; the flipped problems when asked for."""
    pairs = []
    for one in outcomes:
        entry: dict[str, Any] = flat_row(one)
        if isinstance(one, Comparison):
            entry["differences"] = [vars(difference) for difference in one.differences]
            entry["warnings"] = list(one.warnings)
            if with_flips:
                entry["flipped"] = [_flipped_cells(pair, 10_000) for pair in one.flipped]
        pairs.append(entry)
    return {"pairs": pairs}
