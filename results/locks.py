"""File locks between processes, held by the kernel: a killed process never leaves one behind."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from time import sleep
from types import TracebackType

from lopa_bench.errors import InUse, ResultsError
from lopa_bench.results.jsonl import sentence_on_os_error

PROBE_TRIES = 5
PROBE_PAUSE_S = 0.01


class FileLock:
    """An exclusive lock on a file, which holds the owner's name for messages. Use as a context manager or `release`.

    A second lock on the file, from this process too, waits (`wait=True`) or raises InUse "WHAT is in use".
    """

    def __init__(self, path: Path, what: str, *, wait: bool = False) -> None:
        with sentence_on_os_error("write to", path.parent, "make it writable or give another folder with --runs-dir"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._acquire(wait)
        except BlockingIOError as error:
            owner = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            self.release()
            raise InUse(f"{what} is in use by {owner or 'another process'}; wait for it or stop it") from error
        except OSError as error:
            self.release()
            raise ResultsError(f"cannot lock {path}: {error.strerror}; use a folder on another disk") from error
        with suppress(OSError):  # the owner's name is a courtesy, a full disk must not cost the lock
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _acquire(self, wait: bool) -> None:
        """Take the lock, with a few tries when not waiting: `is_locked` holds it for a moment as well."""
        for attempts_left in range(PROBE_TRIES, -1, -1):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                return
            except BlockingIOError:
                if not attempts_left:
                    raise
                sleep(PROBE_PAUSE_S)

    def release(self) -> None:
        """Give the lock up; doing so twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Tell whether some process holds the lock on `path` at this moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
