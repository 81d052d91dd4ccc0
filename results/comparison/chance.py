"""What may move an answer though nothing that matters has changed, and how far that was measured to move accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from lopa_bench.results.comparison.differences import Difference
from lopa_bench.results.comparison.noise import NoiseCell

# What may move a token by rounding alone; where one of these differs, a drop must be more than chance.
NUMERIC = frozenset(
    {"device", "dtype", "threads", "batch_size", "world_size", "communication", "accelerations", "torch",
     "transformers", "tokenizers", "numpy"}
)  # fmt: skip


def numeric(found: Sequence[Difference]) -> list[Difference]:
    """Return the differences by which rounding, and so a token, may have moved."""
    return [one for one in found if one.name in NUMERIC]


def equal_runs_differ_by(noise: Sequence[NoiseCell], num_problems: int, *, with_variants: bool = False) -> float | None:
    """Return the largest difference of accuracy between equal runs over so many problems, a share.

    None where none was measured over as many. `with_variants` counts settings that ought not to matter as equal.
    """
    like = [cell for cell in noise if cell.samples == num_problems]
    spreads = [cell.accuracy_spread if with_variants else cell.repeat_spread for cell in like]
    return max((spread for spread in spreads if spread is not None), default=None)
