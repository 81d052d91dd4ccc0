"""Runs one command and leaves nothing of it behind, where there is no process namespace to do so.

`python sandbox_keeper.py FOLDER COMMAND...`: whatever the command starts, and however far it detaches itself, becomes
this process's child when its own parent ends, and is killed when the command ends, when this process is told to stop,
or when the process that started it dies. Then FOLDER is removed. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 5.0


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends, and end when our own parent does."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def children() -> list[int]:
    """Return the ids of this process's children, the ones adopted included."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found.append(int(entry.parent.name))
    return found


def kill_all(worker: int) -> None:
    """Kill children, and the children that this makes ours, until there are none."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for child in children() if sys.platform == "linux" else [worker]:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def main() -> int:
    """Run the command, clean up, and return its exit status as a shell would tell it."""
    adopt_orphans()

    folder, *command = sys.argv[1:]
    worker = subprocess.Popen(command)

    def stop(*_: object) -> None:
        kill_all(worker.pid)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    for stream in (0, 1):
        os.close(stream)  # the command's own: their ends must be seen at the other side when it is gone
    status = worker.wait()
    if sys.platform == "linux":
        kill_all(worker.pid)
    shutil.rmtree(folder, ignore_errors=True)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
