"""Plain answers, made from a report's runs by rule: does LoPA pay, at which k, where, is it real, what to take.

Every sentence names the runs and figures it rests on. A difference is called one only where its paired interval leaves
out equality; accuracy by McNemar's exact test after Holm's correction over all tests of the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lopa_bench.errors import LopaBenchError
from lopa_bench.results.comparison.compare import Change
from lopa_bench.results.comparison.differences import device_words
from lopa_bench.results.comparison.paired import fewest_flips
from lopa_bench.results.fillings.branch_wins import FEWEST, BranchWins, PartRow, extremes
from lopa_bench.results.fillings.fill_order import PARTS
from lopa_bench.results.frontiers.frontier import Frontier, frontier
from lopa_bench.results.frontiers.frontier_tables import choice_lines
from lopa_bench.results.reports.runs import Group
from lopa_bench.results.reports.sameness import same_answers
from lopa_bench.results.reports.series import Series
from lopa_bench.results.reports.traces import Traced
from lopa_bench.results.schema import Interval

WITHIN = 1.0
"""Points of accuracy that the setting to take may lose."""


@dataclass(frozen=True)
class Sentence:
    """One statement, the short names of the runs and the ids of the figures that it rests on."""

    text: str
    refs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """A question and what the runs say to it; the first sentence is the short form."""

    question: str
    sentences: tuple[Sentence, ...]


def answers(
    groups: Sequence[Group], series: Sequence[Series], traced: Sequence[Traced], fronts: dict[str, Frontier | str]
) -> list[Answer]:
    """Return what the runs say, question by question; a question that they cannot speak to is left out."""
    found = [Answer("Does LoPA pay here?", tuple(_pays(series)))]
    if series:
        found.append(Answer("At which k?", tuple(_which(series))))
    real = (*(_real(series) if series else ()), *_same(groups))
    found.append(Answer("Is the difference real?", real))
    if series:
        found.append(Answer("Where does it pay, and what does it cost?", (*_where(series), *_parts(traced))))
    found.append(Answer("Which setting should one take?", tuple(_choices(groups, fronts))))
    return [one for one in found if one.sentences]


def fronts_of(groups: Sequence[Group]) -> dict[str, Frontier | str]:
    """Return the front of each task over TPF, or why there is none."""
    found: dict[str, Frontier | str] = {}
    for group in groups:
        try:
            found[group.task] = frontier([one.cut for one in group.main], within=WITHIN)
        except LopaBenchError as error:
            found[group.task] = str(error)
    return found


def _pays(series: Sequence[Series]) -> Iterator[Sentence]:
    if not series:
        yield Sentence("These runs cannot tell: none is LoPA beside the same setting without lookahead.")
        return
    refs = tuple(dict.fromkeys(one.base.ref for one in series))
    won = [one for one in series if one.best is not None]
    share = "in every" if len(won) == len(series) else f"in {len(won)} of {len(series)}"
    word = "yes" if len(won) == len(series) else "in part" if won else "no"
    yield Sentence(
        f"In rounds: {word}. More branches give more useful tokens per round {share} comparison"
        f"{'s' if 0 < len(won) < len(series) else ''} of one setting with and without lookahead.",
        (*refs, *(one.best.entry.ref for one in won if one.best)),
        ("tpf",),
    )
    yield _in_time(series)


def _in_time(series: Sequence[Series]) -> Sentence:
    timed = [one for one in series if one.fastest is not None]
    if not timed:
        reason = series[0].steps[0].change("tps_e2e").remark if series[0].steps else "nothing was timed"
        return Sentence(f"In time: these runs cannot tell ({reason}).", (), ("tps_e2e",))
    faster = [one for one in timed if one.fastest and one.fastest.speed == "more"]
    slower = [one for one in timed if all(step.speed == "less" for step in one.steps)]
    noise = all(step.is_noise_known for one in timed for step in one.steps)
    word = "yes" if len(faster) == len(series) else "in part" if faster else "no"
    place = timed[0].base.record.environment
    plural = "s" * (len(series) != 1)
    counted = f"some k is faster in {len(faster)} of {len(series)} comparison{plural}, every k slower in {len(slower)}"
    doubt = "; how far equal runs differ here was not measured (`lopa-bench noise`), so this may be chance"
    doubt = "" if noise or not (faster or slower) else doubt
    words = f"{device_words(place)}, {place.dtype}, {place.num_threads} thread{'s' * (place.num_threads != 1)}"
    refs = [ref for one in timed for ref in (one.base.ref, *(step.entry.ref for step in one.steps))]
    return Sentence(f"In time, on {words}: {word}; {counted}{doubt}.", tuple(refs), ("tps_e2e",))


def _which(series: Sequence[Series]) -> Iterator[Sentence]:
    for one in series:
        refs = (one.base.ref, *(step.entry.ref for step in one.steps))
        best, enough, fastest = one.best, one.enough(), one.fastest
        text = "no k gives more tokens per round beyond chance"
        if best is not None and enough is not None:
            text = f"k={best.branches} gives the most tokens per round, {_times(best.change('tpf'))}"
            if enough is not best:
                text += f"; k={enough.branches} is not behind it beyond chance"
        if fastest is not None:
            text += f". In tokens/s the best is k={fastest.branches}, {_times(fastest.change('tps_e2e'))}"
            text += {"more": "", "less": ": slower", "not told apart": ": not told from equal", "unknown": ""}[
                fastest.speed
            ]
        yield Sentence(f"{_name(one)}, against {one.base_words}: {text}.", refs, ("tpf", "tps_e2e"))


def _real(series: Sequence[Series]) -> Iterator[Sentence]:
    steps = [step for one in series for step in one.steps]
    tested = [step for step in steps if step.p_adjusted is not None]
    changed = [step for step in tested if step.accuracy in ("more", "less")]
    refs = tuple(step.entry.ref for step in (changed or tested))
    if not tested:
        yield Sentence("Accuracy: no pair has problems scored in both runs.", (), ("accuracy",))
    elif not changed:
        n = min(step.comparison.num_scored for step in tested)
        seen = f"below {100 * fewest_flips() / n:.0f} points" if n >= fewest_flips() else "at all"
        yield Sentence(
            f"Accuracy: {_none(len(tested))} a difference (McNemar's, after Holm's correction). "
            f"With n = {n} no difference {seen} can be seen, so this is no proof of equality.",
            refs,
            ("accuracy",),
        )
    for step in changed:
        change = step.change("accuracy")
        yield Sentence(
            f"Accuracy is {'higher' if step.accuracy == 'more' else 'lower'} at {step.entry.words} "
            f"({step.comparison.before.record.task.name}): {100 * (change.change or 0):+.1f} points, "
            f"p = {step.p_adjusted:.3g} after Holm.", (step.entry.ref,), ("accuracy",),
        )  # fmt: skip
    more = [step for step in steps if step.rounds == "more"]
    ratios = (
        f"{len(more)} of {len(steps)} ratios lie"
        if len(steps) > 1
        else f"the ratio {'lies' if more else 'does not lie'}"
    )
    yield Sentence(
        f"Tokens per round: {ratios} above 1 with the whole 95 % interval (paired bootstrap over problems). This says "
        "nothing of other seeds, models or tasks.",
        tuple(step.entry.ref for step in more), ("tpf",),
    )  # fmt: skip


def _same(groups: Sequence[Group]) -> Iterator[Sentence]:
    """Warn of runs whose settings differ and whose answers do not: equal figures of those show nothing."""
    for group in groups:
        for one in same_answers(group):
            yield Sentence(f"{group.task}: {one.words}.", one.refs, ("accuracy",))


def _none(count: int) -> str:
    return f"none of {count} paired tests finds" if count > 1 else "the one paired test does not find"


def _where(series: Sequence[Series]) -> Iterator[Sentence]:
    best = [(one, one.best) for one in series if one.best is not None]
    if not best:
        return
    top, low = (choose(best, key=lambda pair: pair[1].change("tpf").change or 0.0) for choose in (max, min))
    if top[0] is not low[0]:
        yield Sentence(
            f"The gain in tokens per round is largest on {_name(top[0])} ({_times(top[1].change('tpf'))}, "
            f"k={top[1].branches}) and smallest on {_name(low[0])} ({_times(low[1].change('tpf'))}, "
            f"k={low[1].branches}).", (top[1].entry.ref, low[1].entry.ref), ("tpf",),
        )  # fmt: skip
    costs = [step.change("positions").change for _, step in best]
    known = [cost for cost in costs if cost is not None]
    if known:
        spread = (
            f"{min(known):.1f}"
            if f"{min(known):.1f}" == f"{max(known):.1f}"
            else f"{min(known):.1f} to {max(known):.1f}"
        )
        yield Sentence(
            f"The price is computation: at those k {spread} times as many positions go through the network.",
            tuple(step.entry.ref for _, step in best), ("amplification",),
        )  # fmt: skip


def _parts(traced: Sequence[Traced]) -> Iterator[Sentence]:
    """Say in which part of the answer lookaheads win, for the run with the most branches of each task."""
    with_wins = [one for one in traced if one.analysis.wins is not None and one.analysis.wins.num_contested]
    for task in dict.fromkeys(one.task for one in with_wins):
        chosen = max((one for one in with_wins if one.task == task), key=lambda one: one.entry.branches or 0)
        wins = chosen.analysis.wins
        assert wins is not None
        metrics = ["lookahead_won", "part_won"]
        if wins.realised is not None and wins.num_lookahead_won >= FEWEST:
            metrics.append("realised_share")
        yield Sentence(f"{task}, {chosen.entry.words}: {_wins(wins)}.", (chosen.entry.ref,), tuple(metrics))


def _wins(wins: BranchWins) -> str:
    """Say how often lookaheads win, where, and whether it brings anything; no share of fewer than FEWEST."""
    contested = f"{wins.num_contested} contested round{'s' * (wins.num_contested != 1)}"
    if wins.num_contested < FEWEST:
        return f"{contested} are too few to say how often a lookahead is kept"
    text = f"a lookahead is kept in {_share(wins.share_lookahead_won, wins.lookahead_interval)} of the {contested}. "
    found = extremes(wins.parts)
    if found is None:
        text += "In which parts of the answer more of them win cannot be told from chance"
    else:
        most, least = found
        text += f"Of those tried {_place(most)} of the answer {_won(most)}, of those {_place(least)} only {_won(least)}"
    if wins.realised is not None and wins.num_lookahead_won >= FEWEST:
        wins_words = f"{wins.realised:.0%} of the {wins.num_lookahead_won} wins"
        text += f"; {wins_words} filled more slots at once than the anchor would have"
    return text


def _won(part: PartRow) -> str:
    return f"{_share(part.share_won, part.won_interval)} won (n = {part.num_tried})"


def _share(value: float | None, interval: Interval | None) -> str:
    bounds = "" if interval is None else f" [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"
    return f"{100 * (value or 0.0):.0f} %{bounds}"


def _place(part: PartRow) -> str:
    return f"between {(part.part or 0) / PARTS:.0%} and {((part.part or 0) + 1) / PARTS:.0%}"


def _choices(groups: Sequence[Group], fronts: dict[str, Frontier | str]) -> Iterator[Sentence]:
    for group in groups:
        found = fronts[group.task]
        if isinstance(found, str) or len(found.settings) < 2:
            continue
        names = {one.id: one for one in group.main}
        refs: tuple[str, ...] = ()
        first, *rest = choice_lines(found, WITHIN)
        text = ". ".join([first, *(line[0].upper() + line[1:] for line in rest)])
        if found.choice is not None and found.choice.setting is found.choice.reference:
            entry = names[found.choice.setting.run_id]
            text = (
                f"no faster setting keeps within {WITHIN:g} point of the most accurate one, {entry.words} "
                f"({entry.ref}), on the {found.choice.num_choose} problems that one chooses by"
            )
            refs = (entry.ref,)
        elif found.choice is not None:
            for setting in (found.choice.setting, found.choice.reference):
                entry = names[setting.run_id]
                refs = (*refs, entry.ref)
                text = text.replace(f"{setting.words} (run {entry.id})", f"{entry.words} ({entry.ref})")
                text = text.replace(setting.words, entry.words)
        yield Sentence(f"{group.task}: {text}.", refs, ("accuracy", "tpf"))


def _name(series: Series) -> str:
    return f"{series.task}, {series.words}"


def _times(change: Change) -> str:
    bounds = "" if change.interval is None else f" [{change.interval.low:.2f}, {change.interval.high:.2f}]"
    return "undefined" if change.change is None else f"{change.change:.2f} times{bounds}"
