"""How a command runs as one of several ranks: who speaks, and where its errors go."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

import typer

from lopa_bench.errors import CommunicationError, LopaBenchError, Stopped

FAILED = 1


def speaks() -> bool:
    """Whether this process is the one of its job that prints: rank 0, or the only one."""
    return os.environ.get("RANK", "0") == "0" or "WORLD_SIZE" not in os.environ


@contextmanager
def as_rank() -> Iterator[None]:
    """Run the body as a rank of our own launcher; under torchrun let errors name the rank; alone change nothing.

    What goes wrong is left for the launcher to tell, which hears of all ranks and knows the cause; a fault of the
    program leaves its traceback in a file beside it. A signal to terminate ends a rank at once.

    Raises:
        typer.Exit: with the error's exit code, nothing said.
        ConfigError: this is one of several tasks of Slurm that know nothing of each other.
        CommunicationError: under torchrun, a fault of the program; says on which rank and where.
    """
    from lopa_bench.harness.distributed.beats import FOLDER, READER_LEFT, VERDICT, die_with_parent, write_ending
    from lopa_bench.harness.distributed.place import check_not_one_of_many

    if FOLDER not in os.environ:
        check_not_one_of_many()
        with _named() if "RANK" in os.environ and "WORLD_SIZE" in os.environ else nullcontext():
            yield
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()
    try:
        yield
    except typer.Exit as end:
        write_ending(VERDICT, "", end.exit_code)
        raise
    except LopaBenchError as error:
        write_ending(type(error).__name__, str(error), error.exit_code)
        _leave(error.exit_code)
    except KeyboardInterrupt:
        write_ending(Stopped.__name__, "stopped; what was finished is stored, the same command goes on from there", 130)
        _leave(Stopped.exit_code)
    except BrokenPipeError:
        write_ending(READER_LEFT, "", 0)
        _leave(0)
    except Exception as error:
        if isinstance(error, OSError) and is_full_output(error):
            write_ending(OSError.__name__, f"the output cannot be written: {error.strerror}", 2)
            _leave(2)
        file = f"{os.environ[FOLDER]}/rank-{os.environ['RANK']}.traceback"
        with open(file, "w") as stream:  # noqa: PTH123
            traceback.print_exc(file=stream)
        first_line = str(error).partition("\n")[0]
        write_ending(type(error).__name__, f"{type(error).__name__}: {first_line} (traceback: {file})", FAILED)
        _leave(FAILED)


@contextmanager
def _named() -> Iterator[None]:
    """Let a rank that no launcher of ours looks after say which one it is and where it failed, in one sentence."""
    from lopa_bench.harness.distributed.beats import own_place

    rank = f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} failed"
    try:
        yield
    except CommunicationError as error:
        if str(error).startswith("rank "):
            raise
        raise CommunicationError(f"{rank} ({own_place() or 'starting'}): {error}") from error
    except (LopaBenchError, typer.Exit, BrokenPipeError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_full_output(error):
            raise
        with tempfile.NamedTemporaryFile("w", prefix="lopa-bench-", suffix=".traceback", delete=False) as stream:
            traceback.print_exc(file=stream)
        first_line = str(error).partition("\n")[0]
        raise CommunicationError(
            f"{rank} ({own_place() or 'starting'}): {type(error).__name__}: {first_line} (traceback: {stream.name})"
        ) from error


def _leave(code: int) -> None:
    """End at once: threads of a group whose others are gone may never end by themselves."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads
            stream.flush()
    os._exit(code)


def is_full_output(error: OSError) -> bool:
    """Whether it is the output that could not be written, not a file of a name."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
