"""The load of a machine while a run was timed: a speed from a busy machine says nothing against one from a quiet one.

Every answer keeps the share of the machine's processors that other work had while it was made, in `extra`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lopa_bench.results.metrics import timed
from lopa_bench.results.schema import SampleRecord

LOAD = "load_of_others"
# Loads that differ by no more than this are taken for equal: a tenth of the machine's processors.
LIKE = 0.1


def load_of(samples: Sequence[SampleRecord]) -> float | None:
    """Return the mean share of the machine's processors that other work had, weighted by the answers' seconds.

    None where no timed answer says so, as on systems that do not tell.
    """
    known = [
        (one.time.total_s, float(load)) for one in timed(samples) if isinstance(load := one.extra.get(LOAD), float)
    ]
    total_s = sum(seconds for seconds, _ in known)
    return round(sum(seconds * load for seconds, load in known) / total_s, 4) if total_s else None


def is_busier(before: float | None, after: float | None) -> bool:
    """Whether other work had clearly more of the machine than before; False where either is not known."""
    return before is not None and after is not None and after > before + LIKE


def load_words(before: float, after: float) -> str:
    """Say how the loads differ."""
    return f"other work had {after:.0%} of the processors, {before:.0%} before"
