"""TPF and speed by length: short and long answers, short and long prompts, of any stored run.

Buckets are powers of two of tokens, so that those of different runs, tasks and models are the same. One with fewer than
`FEWEST` answers behind a figure shows none: a rate of two answers is an anecdote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lopa_bench.results.metrics import METRICS, counted
from lopa_bench.results.rows import metric_column, with_bounds
from lopa_bench.results.schema import MetricValue, SampleRecord
from lopa_bench.results.summary import measure
from lopa_bench.results.tables import Column, Row, Table

FEWEST = 5
FIRST_END = 16
FIGURES = ("accuracy", "tpf", "tps_e2e")
LENGTHS: dict[str, Callable[[SampleRecord], int]] = {
    "answer": lambda sample: sample.tokens.useful,
    "prompt": lambda sample: sample.tokens.prompt,
}
TITLES = {"answer": "by length of the answer", "prompt": "by length of the prompt"}
TOKENS = {"answer": "useful tokens", "prompt": "prompt tokens"}


@dataclass(frozen=True)
class LengthRow:
    """The answers of a run whose length is from `low` to `high` tokens, both included.

    `n` are those that ended without an error, whether they could be timed or not. `figures` has accuracy, TPF and
    tokens/s as docs/metrics.md defines them, each with its own n; no value where that n is below `FEWEST`.
    """

    low: int
    high: int
    n: int
    figures: dict[str, MetricValue]

    @property
    def words(self) -> str:
        """The bucket in words, as `32-63`."""
        return f"{self.low}-{self.high}" if self.low else f"below {self.high + 1}"

    def document(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"figures": {name: one.model_dump() for name, one in self.figures.items()}}


def bucket_of(length: int) -> tuple[int, int]:
    """Return the bucket of a length as (first, last): 0 to 15, then from each power of two to below the next."""
    if length < FIRST_END:
        return 0, FIRST_END - 1
    low = 1 << (length.bit_length() - 1)
    return low, 2 * low - 1


def length_rows(samples: Sequence[SampleRecord], of: str) -> tuple[LengthRow, ...]:
    """Return the buckets that hold any answer, shortest first; `of` is "answer" (its useful tokens) or "prompt"."""
    buckets: dict[tuple[int, int], list[SampleRecord]] = {}
    for sample in counted(samples):
        buckets.setdefault(bucket_of(LENGTHS[of](sample)), []).append(sample)
    return tuple(
        LengthRow(low, high, len(held), {name: _figure(name, held) for name in FIGURES})
        for (low, high), held in sorted(buckets.items())
    )


def _figure(name: str, samples: Sequence[SampleRecord]) -> MetricValue:
    """Return a figure of some answers, without a value where too few of them take part in it."""
    figure = measure(METRICS[name], samples)
    return figure if figure.n >= FEWEST else figure.model_copy(update={"value": None, "interval": None})


def lengths_table(runs: Sequence[tuple[str, Sequence[LengthRow]]], of: str) -> Table:
    """Return a row per bucket and run, the runs of one bucket beneath each other; `runs` are (name, buckets)."""
    rows: list[Row] = []
    for low in sorted({row.low for _, found in runs for row in found}):
        rows += [_row(name, row) for name, found in runs for row in found if row.low == low]
    columns = [Column("run", "run"), Column("bucket", TOKENS[of]), Column("n", "n")]
    # No best is marked: answers of different lengths are no rivals.
    columns += [replace(metric_column(name, interval=True), direction="neither") for name in FIGURES]
    columns.append(Column("tps_e2e_n", "n timed"))
    notes = [f"a figure of fewer than {FEWEST} answers is n/a; buckets are powers of two, the same for all runs"]
    return Table(columns, rows, TITLES[of], notes)


def _row(name: str, row: LengthRow) -> Row:
    values: dict[str, Any] = {"run": name, "bucket": row.words, "low": row.low, "high": row.high, "n": row.n}
    for key, figure in row.figures.items():
        values |= {**with_bounds(key, figure.value, figure.interval), f"{key}_n": figure.n}
    return values
