"""Which runs are set against each other over devices: those that would give the same answers on one kind of device.

A CPU's cores are divided among the processes of a machine, so that runs on 1 and 2 devices seldom have the same number
of threads a process. A run is set against fewer devices with as many threads a process where there are such; the
others are set against each other, whatever their threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from lopa_bench.results.store import StoredRun


def families(runs: Sequence[StoredRun]) -> list[list[StoredRun]]:
    """Return the runs that belong together, each once; threads tell them apart on a CPU alone."""
    found = []
    for alike in _by(runs, lambda run: (run.record.fingerprint, run.record.environment.device_name)):
        found += _by_threads(alike) if alike[0].record.environment.device == "cpu" else [alike]
    return found


def num_threads(run: StoredRun) -> int:
    """Return the threads of one of a run's processes, 0 where that is not recorded."""
    return run.record.environment.num_threads


def _by_threads(alike: Sequence[StoredRun]) -> list[list[StoredRun]]:
    """Part the runs whose threads some run on the fewest devices had too; the others are one family, base and all."""
    fewest = min(map(_devices, alike))
    own: list[list[StoredRun]] = []
    rest: list[StoredRun] = []
    for same in _by(alike, num_threads):
        sizes = set(map(_devices, same))
        if fewest in sizes and len(sizes) > 1:
            own.append(same)
        else:
            rest += same
    return [*own, *([rest] if rest else [])]


def _devices(run: StoredRun) -> int:
    return run.record.environment.world_size


def _by(runs: Sequence[StoredRun], key: Callable[[StoredRun], Hashable]) -> list[list[StoredRun]]:
    groups: dict[Hashable, list[StoredRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return list(groups.values())
