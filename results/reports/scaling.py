"""How runs of the same settings go with the number of devices: speed-up, efficiency, what went into talking.

Runs that belong together (see `device_families`) are set against the one on fewest devices over the samples that all of
them answered. A speed-up below 1 is shown as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lopa_bench.results.metrics import throughput, wall_s
from lopa_bench.results.reports.device_families import families, num_threads
from lopa_bench.results.schema import SampleRecord
from lopa_bench.results.sittings import mixture
from lopa_bench.results.store import StoredRun
from lopa_bench.results.tables import Column, Table

MOST_EFFICIENT = 1.1
"""An efficiency that is worth a word."""


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """One run among those of its settings.

    Attributes:
        run: its name.
        devices: processes that worked together; `data`, `branch`, `tensor` how they were arranged.
        threads: of each process; None on an accelerator, whose speed hardly hangs on them, and where not recorded.
        samples: answers compared.
        tokens_s: useful tokens of all processes over the slowest one's seconds.
        speed_up: how many times as fast as the run on fewest devices.
        efficiency: speed-up over how many times as many devices; 1 is perfect.
        comm_share: communication's part of the decoding seconds, `wait_share` that of waiting for slower processes;
            None where a device cannot time them.
        idle_share: the part of all groups' time in which one that was done had no problem left.
        num_different: compared answers whose tokens are not those of the run on fewest devices.
    """

    run: str
    devices: int
    data: int
    branch: int
    tensor: int
    threads: int | None
    samples: int
    tokens_s: float
    speed_up: float
    efficiency: float
    comm_share: float | None
    wait_share: float | None
    idle_share: float
    num_different: int

    @property
    def compute_share(self) -> float | None:
        """What is left of the decoding seconds; None where that is not known."""
        if self.comm_share is None or self.wait_share is None:
            return None
        return max(1.0 - self.comm_share - self.wait_share, 0.0)

    @property
    def same_answers(self) -> bool:
        """Whether every compared answer has the tokens of the run on fewest devices."""
        return self.num_different == 0

    @property
    def way(self) -> str:
        """What the devices share."""
        return " and ".join(name for name, size in self._axes if size > 1) or "one device"

    @property
    def label(self) -> str:
        """The arrangement in short, such as `branches 2 x network 2`."""
        return " x ".join(f"{name} {size}" for name, size in self._axes if size > 1) or "one device"

    @property
    def _axes(self) -> list[tuple[str, int]]:
        return [("samples", self.data), ("branches", self.branch), ("network", self.tensor)]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Runs of the same settings by their number of devices, and the runs that could not be placed, with the reason."""

    title: str
    points: tuple[ScalingPoint, ...]
    left_out: tuple[str, ...] = ()

    @property
    def threads_differ(self) -> bool:
        """Whether the processes of some run had more threads than those of another, as where cores are divided."""
        return len({point.threads for point in self.points}) > 1


def scaling(runs: Sequence[StoredRun]) -> list[Scaling]:
    """Set runs of the same settings on different numbers of devices against each other.

    A run that was made on several arrangements one after the other has no number of devices and is left out, as is one
    without a timed answer. Settings that were run on one arrangement only give nothing.
    """
    found = [_family(members) for members in families(runs)]
    return [one for one in found if len({(p.data, p.branch, p.tensor) for p in one.points}) > 1]


def _family(runs: Sequence[StoredRun]) -> Scaling:
    mixed = {run.path: words for run in runs if (words := mixture(run.record)) is not None}
    left_out = [f"{path.name}: made in several sittings with {words}" for path, words in mixed.items()]
    kept = [run for run in runs if run.path not in mixed]
    answered = [{one.id: one for one in run.samples if one.status == "ok"} for run in kept]
    common = set.intersection(*map(set, answered)) if answered else set()
    compared = [[one for id, one in sorted(samples.items()) if id in common] for samples in answered]
    timed = [(run, samples) for run, samples in zip(kept, compared, strict=True) if throughput(samples)]
    timed_runs = {run.path for run, _ in timed}
    left_out += [f"{run.path.name}: no timed answer in common" for run in kept if run.path not in timed_runs]
    # Of several runs on the fewest devices, the one that had most of the machine is what more must beat.
    timed.sort(key=lambda pair: (pair[0].record.environment.world_size, -num_threads(pair[0]), pair[0].path.name))
    points = tuple(_point(run, samples, timed[0]) for run, samples in timed)
    record = runs[0].record
    return Scaling(f"{record.task.name}, {record.decoder.name}, {record.model.name}", points, tuple(left_out))


def _point(
    run: StoredRun, samples: Sequence[SampleRecord], base: tuple[StoredRun, Sequence[SampleRecord]]
) -> ScalingPoint:
    place = run.record.environment
    times = wall_s(list(base[1])) / wall_s(list(samples))
    # By seconds for the same questions: where answers differ, so do their numbers of tokens.
    more = place.world_size / base[0].record.environment.world_size
    decoding = sum(one.time.decode_s for one in samples)
    groups = place.groups
    whole = wall_s(list(samples)) * groups.get("dp", 1)
    return ScalingPoint(
        run=run.path.name,
        devices=place.world_size,
        data=groups.get("dp", 1),
        branch=groups.get("bp", 1),
        tensor=groups.get("tp", 1),
        threads=(num_threads(run) or None) if place.device == "cpu" else None,
        samples=len(samples),
        tokens_s=throughput(list(samples)) or 0.0,
        speed_up=times,
        efficiency=times / more,
        comm_share=_share([one.time.comm_s for one in samples], decoding),
        wait_share=_share([one.time.rank_wait_s for one in samples], decoding),
        idle_share=max(1.0 - sum(one.time.total_s for one in samples) / whole, 0.0) if whole else 0.0,
        num_different=sum(a.token_ids != b.token_ids for a, b in zip(samples, base[1], strict=True)),
    )


def _share(seconds: Sequence[float | None], of: float) -> float | None:
    """Their sum's part of `of` seconds, None unless all are known."""
    known = [one for one in seconds if one is not None]
    if len(known) < len(seconds):
        return None
    return sum(known) / of if of else 0.0


def scaling_table(one: Scaling) -> Table:
    """The points of one setting as a table."""
    columns = [
        Column("devices", "devices"),
        Column("data", "data"),
        Column("branch", "branch"),
        Column("tensor", "tensor"),
        *([Column("threads", "threads")] if one.threads_differ else []),
        Column("samples", "n"),
        Column("tokens_s", "tokens/s", 1, direction="higher"),
        Column("speed_up", "speed-up", 2),
        Column("efficiency", "efficiency %", 0, 100),
        Column("compute_share", "compute %", 1, 100),
        Column("comm_share", "communication %", 1, 100),
        Column("wait_share", "waiting %", 1, 100),
        Column("idle_share", "done early %", 1, 100),
        Column("same_answers", "same answers"),
        Column("run", "run"),
    ]
    rows = [{column.key: getattr(point, column.key) for column in columns} for point in one.points]
    return Table(columns, rows, f"scaling: {one.title}", [*_told(one), *one.left_out])


def _told(one: Scaling) -> list[str]:
    """What must not be overlooked: threads and answers that differ, and devices that made it slower."""
    fewest = one.points[0]
    told = [threads_in_words(one)] if one.threads_differ else []
    told += [
        f"{point.label}: {point.num_different} of {point.samples} answers differ from those of {fewest.label}"
        for point in one.points
        if point.num_different
    ]
    told += [f"{point.label}: communication was not measured" for point in one.points if point.comm_share is None]
    slower = [point for point in one.points if point.devices > fewest.devices and point.speed_up < 1]
    told += [f"{point.label}: slower than {fewest.label}, {point.speed_up:.2f}x" for point in slower]
    return told + [
        f"{point.label}: {point.efficiency:.0%} of what perfect scaling gives; caches that hold a smaller share can do "
        f"that, and so can other work during the run on {fewest.label}"
        for point in one.points
        if point.efficiency > MOST_EFFICIENT
    ]


def threads_in_words(one: Scaling) -> str:
    """Return how many threads the processes of each arrangement had."""
    told = dict.fromkeys(f"{point.threads or 'unknown'} ({point.label})" for point in one.points)
    return f"threads a process differ: {', '.join(told)}; so many times the devices are not so many times the cores"
