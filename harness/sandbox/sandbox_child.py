"""What the children of the sandbox do first: take the channel away from what they run, give up rights, set limits.

Loaded by path, standard library only.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any, TextIO


class Channel:
    """The lines to and from the parent; standard input, output and error lead nowhere from now on."""

    def __init__(self) -> None:
        self.requests: TextIO = os.fdopen(os.dup(0), "r", encoding="ascii")
        self._replies: TextIO = os.fdopen(os.dup(1), "w", encoding="ascii")
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.register_at_fork(after_in_child=self._close)  # a copy of this process must not speak for it

    def _close(self) -> None:
        for stream in (self.requests, self._replies):
            os.close(stream.fileno())

    def receive(self) -> Any:
        """Return the next line's content, None when there are no more."""
        line = self.requests.readline()
        return json.loads(line) if line else None

    def send(self, message: dict[str, Any]) -> None:
        """Write one line."""
        self._replies.write(json.dumps(message) + "\n")
        self._replies.flush()


def lower_limit(kind: int, value: int) -> int:
    """Set a hard limit, or keep a lower one that is in force already; return what holds now."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
    return value


def set_up(config: dict[str, Any]) -> dict[str, int]:
    """Give up rights and set limits; return the limits in force. Raises OSError or ValueError where that fails."""
    limits = {}
    for name, value in config["limits"].items():
        limits[name] = lower_limit(getattr(resource, "RLIMIT_" + name.upper()), value)
    user = config["user"]
    if user is not None:
        for folder in config["writable"]:
            os.chmod(folder, 0o777)  # noqa: PTH101
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    os.chdir(config["writable"][0])
    sys.path.extend(config["import_from"])
    for folder in (os.path.dirname(os.__file__), *config["import_from"]):  # noqa: PTH120
        os.listdir(folder)  # noqa: PTH208 - a program that cannot import would fail through no fault of its own
    sys.argv[:] = [""]
    return limits


def start() -> tuple[Channel, dict[str, Any]] | None:
    """Set this child up as its first line says and tell the parent; None when that failed and it was told."""
    channel = Channel()
    try:
        config = channel.receive()
        limits = set_up(config)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        channel.send({"fault": f"{type(error).__name__}: {error}"})
        return None
    channel.send({"ready": limits})
    return channel, config
