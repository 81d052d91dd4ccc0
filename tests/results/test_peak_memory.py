"""The most memory that a run's processes held, from what its answers tell."""

from __future__ import annotations

import pytest
from stored import sample

from lopa_bench.results.peak_memory import GIB, PEAK_MEMORY, peak_by_rank, peak_line


def test_the_most_of_every_group_is_told() -> None:
    peaks = [(0, 1.5), (1, 0.25), (0, 1.0), (1, 0.5)]
    samples = [sample(i, rank=rank, extra={PEAK_MEMORY: int(p * GIB)}) for i, (rank, p) in enumerate(peaks)]
    assert peak_by_rank(samples) == {0: 3 * GIB // 2, 1: GIB // 2}
    assert peak_line(samples, "cuda") == "peak memory of a device: 1.50 GiB (group 0), 0.50 GiB (group 1)"
    assert peak_line(samples[:1], "cpu") == "peak memory of a process: 1.50 GiB"


@pytest.mark.parametrize("extra", [{}, {PEAK_MEMORY: None}])
def test_runs_that_do_not_know_say_nothing(extra: dict[str, None]) -> None:
    assert peak_line([sample(0, extra=extra)], "cpu") is None
