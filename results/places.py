"""Where a run ran, as it is recorded."""

from __future__ import annotations

from pydantic import NonNegativeInt

from lopa_bench.results.ledgers import Record


class Environment(Record):
    """Where a run ran. Speeds are comparable only where device, dtype, packages and batch agree.

    `code` is a sha256 of this program's sources that decide answers, empty where that was not recorded. `world_size`
    are the processes that worked together, `groups` the sizes of the groups that they really made: dp (samples), bp
    (branches of a round), tp (parts of the network); `num_devices` those that make one answer. `communication` is the
    backend and the cache protocol. `accelerations` is what was done to the loaded network: which kernel multiplies
    8-bit numbers, what was merged and compiled.
    """

    python: str = ""
    platform: str = ""
    packages: dict[str, str] = {}
    device: str = ""
    device_name: str = ""
    num_devices: NonNegativeInt = 1
    dtype: str = ""
    num_threads: NonNegativeInt = 0
    batch_size: NonNegativeInt = 1
    world_size: NonNegativeInt = 1
    groups: dict[str, int] = {}
    communication: str = ""
    accelerations: tuple[str, ...] = ()
    code: str = ""
    git_commit: str | None = None
    git_dirty: bool | None = None
