"""What a command of several runs says when the user stops it: what is kept, and what goes on with it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lopa_bench.errors import Stopped

if TYPE_CHECKING:
    from lopa_bench.cli.execute import Terminal


class Course:
    """How far a command of several runs is.

    Args:
        runs_dir: where they are stored.
        what: what each is called.
    """

    def __init__(self, runs_dir: Path, what: str = "run") -> None:
        self.runs_dir = runs_dir
        self.what = what
        self._begun: list[Terminal] = []
        self._total = 0

    def begins(self, terminal: Terminal, total: int) -> Terminal:
        """The next of `total` begins, told by this terminal."""
        self._begun.append(terminal)
        self._total = total
        return terminal

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let an interruption of the body end in a sentence.

        Raises:
            Stopped: in place of KeyboardInterrupt.
        """
        try:
            yield
        except KeyboardInterrupt:
            raise Stopped(f"stopped: {self._kept()}; `{_command()}` goes on from there") from None

    def _kept(self) -> str:
        if not self._begun:
            return "nothing was generated yet"
        done, total = self._begun[-1].progress
        answers = f", and {done} of {total} answers of the next" if done > 0 else ""
        return f"{len(self._begun) - 1} of {self._total} {self.what}s{answers} are stored in {self.runs_dir}"


def _command() -> str:
    return shlex.join(["lopa-bench", *sys.argv[1:]])
