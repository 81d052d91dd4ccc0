"""What carries messages between processes on each kind of device."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field

from lopa_bench.errors import PrerequisiteError

HCCL_TIMEOUTS = {"HCCL_CONNECT_TIMEOUT": range(120, 7201), "HCCL_EXEC_TIMEOUT": range(68, 17341, 68)}
"""Seconds that HCCL waits for a connection and for an operation: variables of its own, beside the group's timeout.

The values are what every generation of Atlas takes (CANN 8.5, environment variables): the oldest counts operations in
steps of 68 seconds, and none allows less than 120 for a connection.
"""


@dataclass(frozen=True, slots=True)
class CommBackend:
    """A backend of torch.distributed. Only collectives over plain tensors are asked of it: all_gather and broadcast.

    Attributes:
        device: the kind of device whose memory it reads.
        name: as torch.distributed knows it.
        package: what must be imported first, None for what torch has itself.
        timeouts: environment variables that bound its waiting, which must be set before its first use, with the
            seconds that each can have.
    """

    device: str
    name: str
    package: str | None = None
    timeouts: Mapping[str, range] = field(default_factory=dict)

    def prepare(self, timeout_s: float, environment: MutableMapping[str, str] = os.environ) -> None:
        """Import what it needs and bound its waiting; a timeout that the user has set stays.

        Each becomes the shortest that it can have and that is no shorter than `timeout_s`, so that the group's own
        timeout and the launcher, who say more, come first.

        Raises:
            PrerequisiteError: its package is missing.
        """
        environment.update(self.bounds(timeout_s, environment))
        if self.package is None:
            return
        try:
            importlib.import_module(self.package)
        except ImportError as problem:
            raise PrerequisiteError(f"{self.name} needs the package {self.package}: {problem}") from None

    def take_device(self, local_rank: int) -> str:
        """Make the device of this rank the current one, which must happen before the group is made.

        Raises:
            PrerequisiteError: there are fewer devices.
        """
        if self.device == "cpu":
            return "cpu"
        import torch

        count = torch.accelerator.device_count()
        if local_rank >= count:
            raise PrerequisiteError(
                f"local rank {local_rank} wants {self.device}:{local_rank}, but {count} are visible"
            )
        torch.accelerator.set_device_index(local_rank)
        return f"{self.device}:{local_rank}"

    def bounds(self, timeout_s: float, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Each of its own timeouts in a run with that --comm-timeout: what the user set, or the shortest allowed."""
        found = {}
        for variable, allowed in self.timeouts.items():
            long_enough = (seconds for seconds in allowed if seconds >= timeout_s)
            found[variable] = environment.get(variable, str(next(long_enough, allowed[-1])))
        return found

    def timeout_words(self, timeout_s: float, environment: Mapping[str, str] = os.environ) -> str:
        """Its own timeouts, in seconds, and where they come from."""
        return ", ".join(
            f"{name}={value} ({'from the environment' if name in environment else f'for --comm-timeout {timeout_s:g}'})"
            for name, value in self.bounds(timeout_s, environment).items()
        )


BACKENDS = {
    one.device: one
    for one in (
        CommBackend("cuda", "nccl"),
        CommBackend("npu", "hccl", package="torch_npu", timeouts=HCCL_TIMEOUTS),
        CommBackend("cpu", "gloo"),
    )
}
