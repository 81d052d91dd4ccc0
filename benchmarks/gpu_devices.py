"""What the scripts for accelerators share: how many devices are asked for, and the ways to arrange them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lopa_bench.errors import LopaBenchError
from lopa_bench.harness.environment import backends
from lopa_bench.harness.speed.speed import config_of

USUAL = (1, 2, 4, 8)


@dataclass(frozen=True)
class Way:
    """An arrangement of devices: its name, how many there are, and the flags that ask for it."""

    label: str
    devices: int
    flags: tuple[str, ...]

    @property
    def shares_network(self) -> bool:
        """Whether the devices hold one network together."""
        return "--tensor-parallel" in self.flags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda", help="cuda, npu, or cpu for a trial on any machine")
    parser.add_argument("--devices", help="numbers of devices such as 1,2; those of 1,2,4,8 that are here by default")


def sizes_here(arguments: argparse.Namespace) -> list[int]:
    """The numbers of devices that can be taken; what is left out is printed, and a machine without any ends it all."""
    kind = arguments.device.partition(":")[0]
    there = next((len(one.names) for one in backends() if one.device == kind and one.available), 0)
    if not there:
        raise SystemExit(f"there is no {arguments.device} here; --device cpu --devices 1,2 is a trial on any machine")
    asked = [int(word) for word in arguments.devices.split(",")] if arguments.devices else list(USUAL)
    most = max(asked) if kind == "cpu" else there
    if arguments.devices and max(asked) > most:
        print(f"left out: more than {most} devices, for this machine has no more of {kind}", flush=True)
    return [size for size in asked if size <= most]


def heads_of(model: str) -> int | None:
    """Attention heads of a checkpoint, None where its config.json cannot be read yet."""
    try:
        return config_of(model).num_heads
    except LopaBenchError:
        return None


def ways(sizes: Sequence[int], heads: int | None = None) -> Iterator[Way]:
    """One device, then for each larger number all branches, all of the network, and half and half.

    A network of fewer heads than devices cannot be dealt out; that is printed and left out.
    """
    for size in sizes:
        devices = ("--devices", str(size))
        if size == 1:
            yield Way("one device", 1, ())
            continue
        yield Way(f"branches {size}", size, devices)
        if heads is None or size <= heads:
            yield Way(f"network {size}", size, (*devices, "--tensor-parallel", str(size)))
        else:
            print(f"left out: network {size}, for the model has {heads} attention heads", flush=True)
        if size >= 4:
            yield Way(f"branches {size // 2} x network 2", size, (*devices, "--tensor-parallel", "2"))
