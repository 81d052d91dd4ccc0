"""Stored runs compared with the first of them, each with its machine's noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lopa_bench.errors import NotComparable
from lopa_bench.results.comparison.compare import compare
from lopa_bench.results.comparison.compare_tables import Outcome, Refusal
from lopa_bench.results.comparison.noise import find_noise
from lopa_bench.results.comparison.paired import Side
from lopa_bench.results.store import StoredRun


def compare_stored(runs: Sequence[StoredRun], runs_dir: Path, *, force: bool = False) -> list[Outcome]:
    """Return one outcome for every run but the first, which is the baseline; a pair that cannot be is a refusal."""
    baseline, *others = [Side(run.record, run.samples) for run in runs]
    outcomes: list[Outcome] = []
    for other in others:
        cells = [find_noise(runs_dir, side.record) for side in (baseline, other)]
        try:
            noise = [cell for cell in cells if cell is not None]
            outcomes.append(compare(baseline, other, noise=noise, force=force))
        except NotComparable as error:
            outcomes.append(Refusal(baseline, other, str(error)))
    return outcomes
