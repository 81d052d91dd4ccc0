"""A noise floor as a table and a few sentences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from lopa_bench.results.comparison.compare import NOISE_LEVEL
from lopa_bench.results.comparison.load import LIKE_QUEUE
from lopa_bench.results.comparison.noise import FEWEST_REPEATS, Agreement, NoiseCell, SpeedBand, log_spread
from lopa_bench.results.rows import metric_column
from lopa_bench.results.tables import Column, Row, Table

ENOUGH_REPEATS = 5  # with fewer the band is so wide that more of them are advised


def noise_table(cell: NoiseCell, stored: Agreement | None = None) -> Table:
    """Return one row per run; a stored run's answers, where they were looked at, come first."""
    found = [*([stored] if stored else []), *cell.repeats, *cell.variants]
    columns = [
        Column("setting", "setting"), Column("run", "run"), Column("tokens", "same tokens %", digits=2, scale=100.0),
        Column("identical", "same answers"), Column("first_divergence", "first difference"),
        Column("median_divergence", "median", digits=0), metric_column("accuracy"), Column("gained", "gained"),
        Column("lost", "lost"), metric_column("tpf"), metric_column("tps_e2e"),
        Column("queued", "no processor %", digits=0, scale=100.0),
    ]  # fmt: skip
    plain = [Column(**{**vars(column), "direction": "neither"}) for column in columns]
    return Table(plain, [_row(one) for one in found], cell.cell, sentences(cell))


def _row(one: Agreement) -> Row:
    return {
        "setting": one.repeat.setting,
        "run": one.repeat.run.partition("-")[0],
        "tokens": one.tokens,
        "identical": f"{one.identical} of {one.samples}",
        "first_divergence": one.first_divergence,
        "median_divergence": one.median_divergence,
        "accuracy": one.repeat.accuracy,
        "gained": one.gained,
        "lost": one.lost,
        "tpf": one.repeat.tpf,
        "tps_e2e": one.repeat.tokens_per_second,
        "queued": one.repeat.queued,
    }


def sentences(cell: NoiseCell) -> tuple[str, ...]:
    """Say what the floor means for comparisons and gates."""
    lines = ["answers are set beside those of the first repeat; positions are counted from 0"]
    changed = sum(one.identical < one.samples for one in cell.repeats)
    if changed:
        lines.append(
            f"{changed} of {len(cell.repeats)} repeats gave other answers: this cell is not deterministic here"
        )
    if cell.accuracy_spread is not None:
        lines.append(f"accuracy: {min(cell.accuracies):.1%} to {max(cell.accuracies):.1%} over all runs")
    lines += _speed(cell.speeds)
    if max((one.repeat.queued or 0.0 for one in cell.repeats), default=0.0) > LIKE_QUEUE:
        lines += _speed(cell.unhindered, "without the time in which there was no processor, tokens/s")
    return tuple(lines)


def _speed(speeds: Sequence[float], what: str = "tokens/s") -> list[str]:
    spread = log_spread(speeds)
    if spread is None:
        return []
    line = f"{what}: median {median(speeds):.1f}, {min(speeds):.1f} to {max(speeds):.1f} in {len(speeds)} repeats"
    if len(speeds) < FEWEST_REPEATS:
        return [f"{line}; it takes {FEWEST_REPEATS} repeats to say what two equal runs may differ by"]
    factor = SpeedBand(spread, len(speeds)).factor(NOISE_LEVEL)
    more = "" if len(speeds) >= ENOUGH_REPEATS else f"; {ENOUGH_REPEATS} repeats would narrow that down"
    return [f"{line}; two equal runs may differ {factor:.2f}-fold ({NOISE_LEVEL:.0%} of such pairs){more}"]
