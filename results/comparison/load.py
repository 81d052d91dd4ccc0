"""How a machine's other work hindered a run: a speed from a busy machine says nothing against one from a quiet one.

Every answer keeps in `extra` the seconds that its process was ready to run and had no processor, of those that it was
watched, and the share of the machine's processors that other work had meanwhile. Of a batch the first keeps it all.
"""

from __future__ import annotations

from collections.abc import Sequence

from lopa_bench.results.metrics import METRICS, timed
from lopa_bench.results.schema import SampleRecord

LOAD, QUEUED, WATCHED = "load_of_others", "no_processor_s", "watched_s"
# Loads that differ by no more than this are taken for equal: a tenth of the machine's processors.
LIKE_LOAD = 0.1
# Shares of the time without a processor that differ by no more than this are not worth a word.
LIKE_QUEUE = 0.02
MOST = 0.999  # a process that runs at all


def _number(sample: SampleRecord, name: str) -> float | None:
    value = sample.extra.get(name)
    return float(value) if isinstance(value, int | float) else None


def load_of(samples: Sequence[SampleRecord]) -> float | None:
    """Return the mean share of the machine's processors that other work had, weighted by the seconds watched.

    None where no timed answer says so, as on systems that do not tell.
    """
    both = [(_number(one, WATCHED), _number(one, LOAD)) for one in timed(samples)]
    known = [(seconds, load) for seconds, load in both if seconds is not None and load is not None]
    watched = sum(seconds for seconds, _ in known)
    return round(sum(seconds * load for seconds, load in known) / watched, 4) if watched else None


def queued_share(samples: Sequence[SampleRecord]) -> float | None:
    """Return the share of the watched seconds in which the process was ready and had no processor.

    None where an answer does not say so.
    """
    both = [(_number(one, WATCHED), _number(one, QUEUED)) for one in timed(samples)]
    known = [(seconds, queued) for seconds, queued in both if seconds is not None and queued is not None]
    watched = sum(seconds for seconds, _ in known)
    if not watched or len(known) < len(both):
        return None
    return round(min(sum(queued for _, queued in known) / watched, MOST), 4)


def unhindered_speed(samples: Sequence[SampleRecord]) -> float | None:
    """Return useful tokens per second, the seconds without a processor left out; None where they are not known."""
    speed, share = METRICS["tps_e2e"].value(samples), queued_share(samples)
    return speed / (1 - share) if speed and share is not None else None


def is_busier(before: float | None, after: float | None) -> bool:
    """Whether other work had clearly more of the machine than before; False where either is not known."""
    return before is not None and after is not None and after > before + LIKE_LOAD


def load_words(before: float, after: float) -> str:
    """Say how the loads differ."""
    return f"other work had {after:.0%} of the processors, {before:.0%} before"


def queue_words(before: float, after: float) -> str:
    """Say how the shares of the time without a processor differ."""
    return f"it had no processor for {after:.0%} of the time, {before:.0%} before"


def hindrance_words(before: Sequence[SampleRecord], after: Sequence[SampleRecord]) -> str:
    """Say how differently two runs were hindered by other work, "" where they were not."""
    waits = [queued_share(side) for side in (before, after)]
    if waits[0] is not None and waits[1] is not None and abs(waits[1] - waits[0]) > LIKE_QUEUE:
        return queue_words(waits[0], waits[1])
    loads = [load_of(side) for side in (before, after)]
    if loads[0] is not None and loads[1] is not None and abs(loads[1] - loads[0]) > LIKE_LOAD:
        return load_words(loads[0], loads[1])
    return ""
