"""Signs of life of the ranks that a launcher started, and the errors that ended them, as small files.

A rank writes down what it is about; its launcher sees who stopped writing, and where. No clocks are compared.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = "LOPA_BENCH_RANKS"
FOLDER_PREFIX = "lopa-bench-ranks-"
PARENT = "LOPA_BENCH_PARENT"
PR_SET_PDEATHSIG = 1
WIDTH = 240
COMPUTING, BETWEEN = "computing", "between answers"
PARENT_CHECK_S = 0.5
READER_LEFT = "reader left"
"""The kind of an ending that is none for the user: whoever read the output reads no more."""
VERDICT = "verdict"
"""The kind of an ending that is no error: the command's own exit code."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rank last wrote: `is_busy` while rounds must follow each other, `operation` what it was about."""

    count: int = 0
    is_busy: bool = False
    sample: str = ""
    round: int = -1
    operation: str = "starting"

    @property
    def is_waiting(self) -> bool:
        """Whether it was in a collective, where it waits for the others."""
        return self.operation not in (COMPUTING, BETWEEN, "starting")

    def __str__(self) -> str:
        place = f"answer {self.sample}, round {self.round}, " if self.sample else ""
        return f"{place}{self.operation}"


class Beat:
    """One rank's side; writes nothing where no launcher of ours looks at it."""

    def __init__(self, rank: int, environment: Mapping[str, str] = os.environ) -> None:
        folder = environment.get(FOLDER)
        self._descriptor = None
        if folder:
            self._descriptor = os.open(beat_file(Path(folder), rank), os.O_WRONLY | os.O_CREAT, 0o600)
        self._count = 0
        self._sample, self._round = "", -1

    def begin(self, sample: str) -> None:
        """An answer begins."""
        self._sample, self._round = sample, 0
        self.tell(COMPUTING)

    def round_ended(self, index: int) -> None:
        """A round is over, the next one begins."""
        self._round = index + 1
        self.tell(COMPUTING)

    def end(self) -> None:
        """The answer is there; what follows may take long."""
        self._sample, self._round = "", -1
        self.tell(BETWEEN)

    def tell(self, operation: str) -> None:
        """Write down what comes now."""
        self._count += 1
        if self._descriptor is None:
            return
        sign = [self._count, bool(self._sample), self._sample[:80], self._round, operation]
        os.pwrite(self._descriptor, json.dumps(sign).encode().ljust(WIDTH)[:WIDTH], 0)


def beat_file(folder: Path, rank: int) -> Path:
    """Where a rank's sign stands."""
    return folder / f"rank-{rank}.beat"


def last_sign(folder: Path, rank: int) -> Sign:
    """What a rank last wrote, an empty sign while there is none."""
    try:
        return Sign(*json.loads(beat_file(folder, rank).read_bytes()))
    except (OSError, ValueError, TypeError):
        return Sign()


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a rank ended: the error's kind and sentence and the exit code that it stands for; `seconds` for the order."""

    kind: str
    sentence: str
    code: int
    seconds: float


def write_ending(kind: str, sentence: str, code: int, environment: Mapping[str, str] = os.environ) -> None:
    """Leave word for the launcher."""
    folder, rank = Path(environment[FOLDER]), int(environment["RANK"])
    ending = Ending(kind, sentence, code, time.monotonic())
    file = folder / f"rank-{rank}.end"
    file.with_suffix(".tmp").write_text(json.dumps(asdict(ending)))
    file.with_suffix(".tmp").replace(file)


def ending_of(folder: Path, rank: int) -> Ending | None:
    """What a rank left word of, if it did."""
    try:
        return Ending(**json.loads((folder / f"rank-{rank}.end").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def die_with_parent(environment: Mapping[str, str] = os.environ) -> None:
    """End this process as soon as its launcher is gone, however that one ended and whatever this one does.

    What the launcher can no longer clear away, the ranks' folder, goes too.
    """
    parent, folder = int(environment[PARENT]), Path(environment[FOLDER])
    if sys.platform == "linux":
        # A stopped process would never see it: the launcher's end wakes it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        if folder.name.startswith(FOLDER_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()
