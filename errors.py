"""Every error a user can meet, in one tree.

::

    LopaBenchError                  exit 2   a sentence for a person, never a traceback
    ├── ConfigError                          an option, preset or value that does not exist or does not fit
    ├── PrerequisiteError                    a package, device or consent that is missing
    ├── ModelError                           a checkpoint, adapter or tokenizer that cannot be used
    ├── TaskDataError                        a data file that is absent, damaged or of another kind
    ├── DecodeError                 exit 1   an answer that must not be scored: a mask left, no progress
    │   └── NaNLogits                        the model's output is not a number
    ├── CommunicationError          exit 1   processes that work together lost each other
    ├── ScorerError                 exit 1   the judge failed, not the answer: no process, a failed control
    ├── ResultsError                         a run record that cannot be read or written
    │   ├── SchemaTooNew                     written by a later version
    │   ├── InUse                            another process is at it
    │   └── NotComparable           exit 3   two results that must not be set side by side
    ├── RegressionFound             exit 1   a gate that failed
    └── Stopped                   exit 130   the user stopped it, or 143 for a signal to terminate

Exit codes of the command line: 0 ok, 1 regressed or failed, 2 usage or prerequisite, 3 not comparable.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LopaBenchError(Exception):
    """Root of all errors that end a command with one line and `exit_code`."""

    exit_code = 2


class ConfigError(LopaBenchError):
    """An option, preset, name or value that does not exist or does not fit."""


class PrerequisiteError(LopaBenchError):
    """A package, device, file or consent that must be there first."""


class ModelError(LopaBenchError):
    """A checkpoint, adapter or tokenizer that cannot be used as asked."""


class TaskDataError(LopaBenchError):
    """A data file that is absent, damaged or of another kind."""


class DecodeError(LopaBenchError):
    """A decoding that went wrong and whose answer must not be scored."""

    exit_code = 1


class NaNLogits(DecodeError):
    """The model returned logits that are not numbers."""


class CommunicationError(LopaBenchError):
    """Processes that work together lost each other: one failed, hung or was killed; the whole job ends."""

    exit_code = 1


class ProcessFailed(CommunicationError):
    """This process failed by itself where the others cannot be told and wait for it; it is the cause of what they say.

    The launcher takes it for that.
    """


class ScorerError(LopaBenchError):
    """The judge failed, not the answer: no process, impossible limits, a missing tool, a failed control."""

    exit_code = 1


class ResultsError(LopaBenchError):
    """A run record that cannot be read or written."""


class SchemaTooNew(ResultsError):
    """A run record written by a later version of the program."""


class InUse(ResultsError):
    """Another process is at it: it is there again when that has ended."""


class NotComparable(ResultsError):
    """Two results that must not be set side by side."""

    exit_code = 3


class RegressionFound(LopaBenchError):
    """A gate that failed."""

    exit_code = 1


class Stopped(LopaBenchError):
    """The user stopped it before it was done; says what is left of it."""

    exit_code = 130


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest of `choices`, or "" when none is close."""
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""
