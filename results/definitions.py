"""Every figure that a table shows, defined once: those of a run's samples (`metrics.METRICS`) and all others.

The others are figures of two or more runs, of traces, counts by other programs' rules, and the counts and settings that
stand beside them in tables. `docs/metrics.md` lists both.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lopa_bench.results.metrics import METRICS, Definition, Direction


def _of(id: str, title: str, unit: str, direction: Direction, formula: str, version: int = 1) -> Definition:
    return Definition(id, version, title, unit, direction, formula)


_COUNTS = (
    _of("n", "n", "answers", "neither", "answers that the row rests on; of two runs, the problems scored in both"),
    _of("answers", "answers", "answers", "neither", "answers that the run holds"),
    _of("branches", "k", "branches/round", "neither", "setting: most branches of a round, the anchor included"),
    _of("devices", "devices", "processes", "neither", "setting: processes that worked together"),
    _of("data", "data", "processes", "neither", "setting: groups of processes that share the samples"),
    _of("branch", "branch", "processes", "neither", "setting: processes of a group that share a round's branches"),
    _of("threads", "threads", "threads/process", "neither", "setting: threads of each process"),
    _of("tensor", "tensor", "processes", "neither", "setting: processes that hold one network together"),
)
_PAIRS = (
    _of("tpf_ratio", "TPF ratio", "ratio", "higher", "tpf of the run / tpf of the base, over common problems"),
    _of("positions_ratio", "positions ratio", "ratio", "lower",
        "sum(positions) of the run / sum(positions) of the base, over common problems"),
    _of("tps_ratio", "tokens/s ratio", "ratio", "higher",
        "tps_e2e of the run / tps_e2e of the base, over common problems timed in both"),
    _of("accuracy_difference", "accuracy Δ", "points", "higher",
        "100 (accuracy of the run - accuracy of the base), over common problems"),
    _of("mcnemar_p", "McNemar p", "probability", "neither",
        "McNemar's exact test: two-sided binomial probability of so uneven a split of gained and lost problems"),
    _of("holm_p", "after Holm", "probability", "neither",
        "mcnemar_p after Holm's correction: the largest, over the p up to this one, of p times the tests not below it"),
    _of("same_answers", "same answers", "yes or no", "neither", "whether every compared answer has the base's tokens"),
)  # fmt: skip
_FRONTS = (
    _of("on_front", "on the front", "yes or no", "neither",
        "whether no other setting is better in accuracy or speed and no worse in the other"),
    _of("front_share", "in resamples", "share", "higher", "resamples of the problems with it on the front / resamples"),
    _of("aup", "AUP", "% x tokens/round", "higher",
        "rho_1 y_1 + sum over i >= 2 of (rho_i - rho_(i-1)) (y_i W(y_i) + y_(i-1) W(y_(i-1))) / 2, of tpf rho and "
        "accuracy y in percent, W(y) = min(exp(-3 (1 - y / y_max)), 1)"),
    _of("num_settings", "settings", "settings", "neither", "settings of the decoder that the AUP is made of"),
)  # fmt: skip
_FILLINGS = (
    _of("tau", "tau", "correlation", "neither",
        "mean over answers of Kendall's tau-b of position and round, useful slots"),
    _of("block_tau", "tau in blocks", "correlation", "neither",
        "mean over answers of the mean over their blocks of Kendall's tau-b of position and round, useful slots"),
    _of("slots_per_round", "slots per round", "slots/round", "higher", "sum(slots filled) / rounds"),
    _of("most_slots", "most", "slots", "neither", "maximum over rounds of slots filled"),
    _of("single_share", "of one slot", "share", "neither", "rounds that filled exactly one slot / rounds"),
    _of("forced_share", "forced", "share", "neither",
        "slots filled only because nothing passed the threshold / slots filled"),
    _of("revised_share", "revised", "share", "neither", "slots filled more than once / slots filled"),
    _of("eos_first_share", "EOS first", "share", "neither",
        "answers whose EOS was filled before some slot in front of it / answers with an EOS"),
    _of("after_eos_share", "filled after it", "share", "neither",
        "mean over answers with an EOS of useful slots filled later than it / useful slots"),
)  # fmt: skip
_LOOKAHEADS = (
    _of("contested_rounds", "contested rounds", "rounds", "neither", "rounds with more than one branch"),
    _of("branches_per_round", "branches", "branches/round", "neither",
        "branches of contested rounds / contested rounds"),
    _of("lookahead_won", "lookahead won", "share", "neither",
        "contested rounds in which another branch than the anchor was kept / contested rounds"),
    _of("part_won", "lookaheads that won", "share", "neither",
        "lookaheads tried in a tenth of the answer that won / lookaheads tried there; undefined below 5"),
    _of("part_gain", "gained there", "slots/round", "higher",
        "gain_when_won of the lookaheads that won in a tenth of the answer; undefined below 5"),
    _of("gain", "gain", "slots/round", "higher",
        "mean over contested rounds of slots the winner filled - slots the anchor would have filled"),
    _of("gain_when_won", "when won", "slots/round", "higher", "the mean of gain over rounds that a lookahead won"),
    _of("realised_share", "realised", "share", "higher",
        "rounds won by a lookahead with a gain above 0 / rounds so won"),
    _of("lost_share", "lost", "share", "lower", "rounds won by a lookahead with a gain below 0 / rounds so won"),
    _of("best_gain", "best possible", "slots/round", "neither",
        "mean over contested rounds of the largest gain of any branch"),
    _of("score_tells", "score tells", "correlation", "higher",
        "Spearman's correlation, over lookaheads, of score - anchor's score and gain"),
)  # fmt: skip
_COUNTED = (
    _of("counted_tokens", "tokens", "tokens", "neither", "sum over answers of what the row's convention calls tokens"),
    _of("counted_steps", "steps", "forwards", "neither",
        "sum over answers of what the row's convention calls forwards"),
    _of("counted_tpf", "TPF", "tokens/forward", "higher", "counted_tokens / counted_steps"),
    _of("counted_timed", "n timed", "answers", "neither", "answers that the convention's speeds rest on"),
    _of("counted_seconds", "seconds", "s", "lower", "sum over timed answers of the seconds that the convention counts"),
    _of("counted_tps", "tokens/s", "tokens/s", "higher", "counted_tokens of the timed answers / counted_seconds"),
    _of("counted_tps_mean", "mean", "tokens/s", "higher", "mean over timed answers of their own tokens / seconds"),
    _of("counted_tps_max", "best", "tokens/s", "higher", "maximum over timed answers of their own tokens / seconds"),
    _of("counted_tps_top10", "top 10", "tokens/s", "higher",
        "mean of the ten largest tokens / seconds of timed answers"),
    _of("counted_latency_s", "latency", "s/answer", "lower", "counted_seconds / timed answers"),
)  # fmt: skip
_DEVICES = (
    _of("speed_up", "speed-up", "ratio", "higher",
        "seconds of the run on the fewest devices / seconds of the run, slowest process each, same problems"),
    _of("efficiency", "efficiency", "share", "higher", "speed_up / (devices / the fewest devices)"),
    _of("compute_share", "compute", "share", "higher", "1 - comm_share - rank_wait_share, at least 0"),
    _of("idle_share", "done early", "share", "lower",
        "1 - sum(seconds of all groups) / (groups x seconds of the slowest group)"),
)  # fmt: skip
_PUBLISHED = (
    _of("published", "published", "as the row says", "neither", "printed by the paper, or read off its plot"),
    _of("measured", "measured", "as the row says", "neither", "the row's figure as the paper's program counts it"),
    _of("deviation", "deviation", "as the row says", "neither", "measured - published"),
)

DERIVED: Mapping[str, Definition] = MappingProxyType(
    {
        one.id: one
        for group in (_COUNTS, _PAIRS, _FRONTS, _FILLINGS, _LOOKAHEADS, _COUNTED, _DEVICES, _PUBLISHED)
        for one in group
    }
)
DEFINITIONS: Mapping[str, Definition] = MappingProxyType({**METRICS, **DERIVED})
