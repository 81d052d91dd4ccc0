"""How the settings of a run spread it over processes, and which spreads cannot be; nothing is started here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.harness.distributed.mesh import MeshShape, check_protocol, check_timeout, shape_of
from lopa_bench.harness.distributed.place import world_of
from lopa_bench.harness.servers.settings import SERVER
from lopa_bench.harness.settings import Settings

ONE_DEVICE_FLAGS = {"branch_parallel": "branch", "tensor_parallel": "tensor", "data_parallel": "data"}


@dataclass(frozen=True, slots=True)
class Spread:
    """Ranks along each axis, the cache protocol, how long one waits for another, and what the user should know."""

    shape: MeshShape
    cache_protocol: str
    timeout_s: float
    notes: tuple[str, ...] = ()


def settle(settings: Settings, device: str, environment: Mapping[str, str] = os.environ) -> Spread:
    """Return the spread that the settings ask for, in the job that the environment tells of, if any.

    Raises:
        ConfigError: sizes that do not fit each other, the job or the decoder.
        PrerequisiteError: fewer devices than ranks on this machine.
    """
    decoder = str(settings["decoder"])
    size = _size(settings, world_of(environment))
    asked = {word: _count(settings, name) for name, word in ONE_DEVICE_FLAGS.items()}
    shape = shape_of(size, decoder, **asked)
    check_protocol(str(settings["cache_protocol"]))
    timeout_s = float(settings["comm_timeout"])
    check_timeout(timeout_s)
    spread = Spread(shape, str(settings["cache_protocol"]), timeout_s, tuple(_notes(settings, shape)))
    if size == 1:
        return spread
    num_here = int(environment.get("LOCAL_WORLD_SIZE", size))
    _check(settings, spread, device, num_here)
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = num_here * int(settings["threads"] or 1)
    if device == "cpu" and threads > num_cores:
        of_each = "" if threads == num_here else f" of {settings['threads']} threads each"
        note = f"{num_here} processes{of_each} share {num_cores} processors here: no speed of so many devices"
        return replace(spread, notes=(*spread.notes, note))
    return spread


def is_head(shape: MeshShape, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is the one of its group that judges and stores."""
    rank = int(environment["RANK"]) if world_of(environment) else 0
    return rank % (shape.branch * shape.tensor) == 0


def _size(settings: Settings, world_size: int | None) -> int:
    devices = _count(settings, "devices")
    if world_size is not None and devices is not None and devices != world_size:
        raise ConfigError(
            f"--devices {devices} was given, but the environment (WORLD_SIZE) says that this job was started "
            f"with {world_size}; leave --devices out under torchrun, or unset RANK and WORLD_SIZE to run alone"
        )
    return world_size or devices or 1


def _count(settings: Settings, name: str) -> int | None:
    value = settings[name]
    if value is not None and int(value) < 1:
        raise ConfigError(f"--{name.replace('_', '-')} {value} is too small: it must be at least 1")
    return None if value is None else int(value)


def _check(settings: Settings, spread: Spread, device: str, num_here: int) -> None:
    """Refuse what several processes cannot do."""
    kind, _, index = device.partition(":")
    if settings["decoder"] == SERVER:
        raise ConfigError("a server spreads its own work: --devices is for decoders that run here; see --concurrency")
    if index:
        raise ConfigError(f"--device {device} names one device; several processes take one each: --device {kind}")
    options: dict[str, Any] = {name: one.value for name, one in settings.options.items()}
    has_keys = options.get("base") != "vanilla"
    if spread.cache_protocol == "single-phase" and spread.shape.branch > 1 and has_keys and options["full_attention"]:
        raise ConfigError(
            "--cache-protocol single-phase needs block-causal visibility, for under full attention every branch writes "
            "other keys: add --set full_attention=false or take two-phase"
        )
    if kind == "cpu":
        return
    from lopa_bench.harness.environment import backends

    count = next(len(one.names) for one in backends() if one.device == kind)
    if num_here > count:
        raise PrerequisiteError(f"{num_here} processes want a device each, but this machine has {count} of {kind}")


def _notes(settings: Settings, shape: MeshShape) -> list[str]:
    branches = settings.options.get("branches")
    if branches is None or int(str(branches.value)) >= shape.branch:
        return []
    idle = shape.branch - int(str(branches.value))
    return [
        f"{branches.value} branches for {shape.branch} processes: {idle} of these compute nothing; "
        "more --branches or fewer devices use them all"
    ]
