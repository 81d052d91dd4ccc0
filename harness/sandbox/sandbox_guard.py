"""What stands in a program's way where there is no bubblewrap: the interpreter's own audit events, refused.

It keeps ordinary code from doing harm by accident or habit. It is no wall: a program that looks for a way around an
interpreter's hooks finds one, and a run judged this way says so in its record. Standard library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = frozenset((
    "ctypes.dlsym", "ctypes.call_function", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg",
    "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "pty.spawn", "resource.prlimit",
    "resource.setrlimit", "signal.pthread_kill", "subprocess.Popen",
))  # fmt: skip
CHANGES = frozenset((
    "os.chflags", "os.chmod", "os.chown", "os.link", "os.lockf", "os.mkdir", "os.remove", "os.removexattr",
    "os.rename", "os.rmdir", "os.setxattr", "os.symlink", "os.truncate", "os.utime",
))  # fmt: skip
TWO_PATHS = frozenset(("os.link", "os.rename", "os.symlink"))
READS = frozenset(("os.listdir", "os.scandir", "os.walk", "glob.glob"))


def install(scratch: str, readable: Sequence[str]) -> Callable[[Callable[[], None]], None]:
    """Refuse, from now on and for good, what a program has no business with.

    Args:
        scratch: the only folder in which it may write.
        readable: the folders in which it may read besides.

    Returns:
        A function that runs one function of the worker's own without refusals.
    """
    writable = [os.path.realpath(scratch)]
    allowed = writable + [os.path.realpath(path) for path in readable] + ["/dev/null", "/dev/urandom"]
    is_trusted = [False]

    def within(path: Any, folders: list[str]) -> bool:
        if isinstance(path, int):
            return True
        if path is None:
            path = "."
        real = os.path.realpath(os.fsdecode(path))
        return any(real == folder or real.startswith(folder + os.sep) for folder in folders)

    def is_refused(event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, _, flags = arguments
            is_writing = bool((flags or 0) & WRITING)
            return not within(path, [*writable, "/dev/null"] if is_writing else allowed)
        if event in REFUSED or event.startswith("socket."):
            return True
        if event in CHANGES:
            return not all(within(path, writable) for path in arguments[: 2 if event in TWO_PATHS else 1])
        if event in READS:
            return not within(arguments[0], allowed)
        return event == "ctypes.dlopen" and arguments[0] is not None

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_trusted[0] and is_refused(event, arguments):
            raise PermissionError(f"{event} is not allowed here")

    def trusted(act: Callable[[], None]) -> None:
        is_trusted[0] = True
        try:
            act()
        finally:
            is_trusted[0] = False

    sys.addaudithook(hook)
    return trusted
