"""The most memory that a run's processes held, as their answers tell it.

Every answer keeps in `extra` the peak up to its end, of the process that stored it: of its device's memory on an
accelerator, of the process's own on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from lopa_bench.results.schema import SampleRecord

PEAK_MEMORY = "peak_memory_bytes"
GIB = 1 << 30


def peak_by_rank(samples: Sequence[SampleRecord]) -> dict[int, int]:
    """Bytes by the number of the group that made the answers; empty where none says so."""
    found: dict[int, int] = {}
    for one in samples:
        peak = one.extra.get(PEAK_MEMORY)
        if isinstance(peak, int | float):
            found[one.rank] = max(found.get(one.rank, 0), int(peak))
    return dict(sorted(found.items()))


def peak_line(samples: Sequence[SampleRecord], device: str) -> str | None:
    """The peaks in words, None where nothing is known of them."""
    peaks = peak_by_rank(samples)
    if not peaks:
        return None
    whose = "process" if device.startswith("cpu") else "device"
    words = [f"{peak / GIB:.2f} GiB" + (f" (group {rank})" if len(peaks) > 1 else "") for rank, peak in peaks.items()]
    return f"peak memory of a {whose}: {', '.join(words)}"
