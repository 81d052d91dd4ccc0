"""Runs one program in a fresh, small and short-lived process tree and tells what its calls gave.

The program returns values and nothing else: what they should have been is not known in there. Whatever it does, its
process is gone after `close`, with all it started and wrote.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lopa_bench.errors import PrerequisiteError, ScorerError
from lopa_bench.harness.sandbox import isolation as isolations
from lopa_bench.harness.sandbox.isolation import SCRATCH, WORKER, Isolation, Kind, Limits
from lopa_bench.harness.sandbox.program import START_S, Program, ProgramGone


class Sandbox:
    """Starts programs. May be shared by threads; each program belongs to the thread that opened it.

    Args:
        limits: what one program may use.
        kind: "bubblewrap" or "limits" to insist on one; None takes the best that works here.
        import_from: folders of installed packages; None takes this environment's.

    Raises:
        PrerequisiteError: the kind asked for does not work here.
    """

    def __init__(
        self, limits: Limits | None = None, kind: Kind | None = None, import_from: Sequence[str] | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.isolation = choose_isolation(kind)
        self._import_from = list(isolations.package_folders() if import_from is None else import_from)

    def describe(self) -> dict[str, Any]:
        """Return what a run record says about how its programs were run."""
        return {
            "isolation": self.isolation.name,
            "warning": self.isolation.warning,
            "limits": self.limits.by_resource() | {"wall_s": self.limits.wall_s},
        }

    def open(self, script: Path = WORKER) -> Program:
        """Start a child and wait until it has set its limits.

        Raises:
            ScorerError: it does not start, or cannot set them.
        """
        is_wrapped = self.isolation.kind == "bubblewrap"
        scratch = None if is_wrapped else Path(tempfile.mkdtemp(prefix="lopa-bench-"))
        inside = SCRATCH if scratch is None else str(scratch)
        if scratch is not None and self.isolation.user is not None:
            os.chown(scratch, self.isolation.user, self.isolation.user)
        process, told = self._start(script, inside)
        program = Program(process, scratch, self.limits.wall_s)
        config = {
            "limits": self.limits.by_resource(),
            "user": self.isolation.user,
            "writable": self.isolation.writable(script) if is_wrapped else [inside],
            "import_from": self._import_from,
            "guard": not is_wrapped,
            "readable": isolations.readable_folders(self.isolation.kind),
        }
        try:
            program.send(config)
            greeting = program.receive(START_S)
            if "ready" not in greeting:
                raise ScorerError(f"programs cannot be judged: the child could not set up: {greeting.get('fault')}")
            program.first_process = json.loads(os.read(told, 4096))["child-pid"] if is_wrapped else None
        except ProgramGone as gone:
            reason = program.complaint() or gone.why
            program.close()
            raise ScorerError(f"programs cannot be judged: the child did not start ({reason})") from None
        except BaseException:
            program.close()
            raise
        finally:
            os.close(told)
        program.limits = greeting["ready"]
        return program

    def _start(self, script: Path, scratch: str) -> tuple[subprocess.Popen[bytes], int]:
        """Return the process and a pipe on which bubblewrap tells its first process."""
        told, tell = os.pipe()
        command = self.isolation.command(script, self.limits, scratch, tell)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=os.sep,
                env=isolations.environment(scratch),
                start_new_session=True,
                bufsize=0,
                pass_fds=[tell] if self.isolation.kind == "bubblewrap" else [],
            )
        except OSError as error:
            os.close(told)
            if self.isolation.kind == "limits":
                shutil.rmtree(scratch, ignore_errors=True)
            raise ScorerError(f"programs cannot be judged: {command[0]} does not start: {error}") from error
        finally:
            os.close(tell)
        return process, told


_PROBING = threading.Lock()


@lru_cache(maxsize=1)
def _best() -> tuple[Isolation | None, str]:
    """Return isolation by bubblewrap that has started a child here, or None and the reason."""
    found = isolations.bubblewrap()
    if isinstance(found, str):
        return None, found
    sandbox = Sandbox.__new__(Sandbox)
    sandbox.limits, sandbox.isolation, sandbox._import_from = Limits(), found, []
    try:
        sandbox.open().close()
    except ScorerError as error:
        return None, f"bubblewrap starts no interpreter here: {error}"
    return found, ""


def choose_isolation(kind: Kind | None = None) -> Isolation:
    """Return the isolation asked for, or the best that works on this machine; it is tried once per process."""
    if kind == "limits":
        return isolations.limits_only("asked for")
    with _PROBING:
        best, reason = _best()
    if best is not None:
        return best
    if kind == "bubblewrap":
        raise PrerequisiteError(f"isolation by bubblewrap was asked for, but {reason}")
    return isolations.limits_only(reason)


@dataclass(frozen=True)
class Way:
    """One way of keeping programs apart: whether it works on this machine, whether it is the one taken, and why not."""

    kind: Kind
    name: str
    works: bool
    is_taken: bool
    remark: str


def ways() -> list[Way]:
    """Return every way of keeping programs apart, each tried here by starting a child."""
    with _PROBING:
        best, reason = _best()
    first = Way("bubblewrap", best.name if best else "bubblewrap", best is not None, best is not None, reason)
    fallback = isolations.limits_only("the way taken where bubblewrap does not work" if best else reason)
    try:
        Sandbox(kind="limits", import_from=[]).open().close()
    except ScorerError as error:
        return [first, Way("limits", fallback.name, False, False, str(error))]
    return [first, Way("limits", fallback.name, True, best is None, fallback.warning or "")]
