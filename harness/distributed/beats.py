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
from contextlib import suppress
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import ClassVar

FOLDER = "LOPA_BENCH_RANKS"
FOLDER_PREFIX = "lopa-bench-ranks-"
PARENT = "LOPA_BENCH_PARENT"
PR_SET_PDEATHSIG = 1
WIDTH = 1024
STARTING, READING, WARM_UP = "starting", "reading the weights", "warm-up"
COMPUTING, BETWEEN, JUDGING = "computing", "between answers", "judging"
OWN_WORK = (STARTING, READING, COMPUTING, BETWEEN, JUDGING)
PARENT_CHECK_S = 0.5
READER_LEFT = "reader left"
"""The kind of an ending that is none for the user: whoever read the output reads no more."""
VERDICT = "verdict"
"""The kind of an ending that is no error: the command's own exit code."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rank last wrote: `is_busy` while rounds must follow each other, `operation` what it was about.

    `collectives` counts those that it has begun: of ranks that hold a network together all begin as many.
    """

    count: int = 0
    is_busy: bool = False
    sample: str = ""
    round: int = -1
    operation: str = STARTING
    collectives: int = 0

    @property
    def is_waiting(self) -> bool:
        """Whether it was in a collective or at a meeting, where it waits for the others."""
        return self.operation not in OWN_WORK

    def __str__(self) -> str:
        what = self.sample if self.sample == WARM_UP else f"answer {self.sample}"
        return f"{what}, round {self.round}, {self.operation}" if self.sample else self.operation


FIELDS = tuple(field.name for field in dataclass_fields(Sign))


class Beat:
    """One rank's side; writes nothing where no launcher of ours looks at it.

    Args:
        rank: whose signs they are.
        environment: where the launcher says its folder.
        group_size: how many ranks, one after the other, make the same answers; 0 where that is not known.
    """

    of_this_process: ClassVar[Beat | None] = None

    def __init__(self, rank: int, environment: Mapping[str, str] = os.environ, group_size: int = 0) -> None:
        self.rank = rank
        folder = environment.get(FOLDER)
        self._descriptor = None
        if folder:
            self._descriptor = os.open(beat_file(Path(folder), rank), os.O_WRONLY | os.O_CREAT, 0o600)
            group_file(Path(folder), rank).write_text(str(group_size))
        self.sign = Sign()
        self._sample, self._round, self._may_be_long = "", -1, False
        self._num_collectives = 0
        Beat.of_this_process = self

    def begin(self, sample: str, *, may_be_long: bool = False) -> None:
        """An answer begins; one that `may_be_long`, as where the network is compiled, may be silent for longer."""
        self._sample, self._round, self._may_be_long = sample, 0, may_be_long
        self.tell(COMPUTING)

    def round_ended(self, index: int) -> None:
        """A round is over, the next one begins."""
        self._round = index + 1
        self.tell(COMPUTING)

    def end(self, work: str = BETWEEN) -> None:
        """The answer is there, or none has begun; the `work` that follows may take long."""
        self._sample, self._round = "", -1
        self.tell(work)

    def collective(self, operation: str) -> None:
        """A collective begins; they are counted, so that who did not come to one is seen among those who did."""
        self._num_collectives += 1
        self.tell(operation)

    def tell(self, operation: str) -> None:
        """Write down what comes now."""
        is_busy = bool(self._sample) and not self._may_be_long
        self.sign = Sign(self.sign.count + 1, is_busy, self._sample[:80], self._round, operation, self._num_collectives)
        if self._descriptor is None:
            return
        fields = [getattr(self.sign, name) for name in FIELDS]  # astuple takes three times as long, twice a collective
        os.pwrite(self._descriptor, json.dumps(fields).encode().ljust(WIDTH)[:WIDTH], 0)


def own_place() -> str:
    """Where this process is, in the words of its last sign; empty while it has given none."""
    return "" if Beat.of_this_process is None else str(Beat.of_this_process.sign)


def beat_file(folder: Path, rank: int) -> Path:
    """Where a rank's sign stands."""
    return folder / f"rank-{rank}.beat"


def group_file(folder: Path, rank: int) -> Path:
    """Where a rank says how many ranks make the same answers."""
    return folder / f"rank-{rank}.group"


def group_size_of(folder: Path, num_ranks: int) -> int:
    """How many ranks, one after the other, make the same answers; all of them while none has said it."""
    for rank in range(num_ranks):
        with suppress(OSError, ValueError):
            if size := int(group_file(folder, rank).read_text()):
                return size
    return num_ranks


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
