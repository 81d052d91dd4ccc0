"""The `lopa-bench` program: its commands, and how every error ends in one line and an exit code.

Nothing heavy is imported here or at the top of a command's file, so that help and mistakes answer at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from lopa_bench.cli.analyse import analyse
from lopa_bench.cli.baseline import app as baseline
from lopa_bench.cli.check import check
from lopa_bench.cli.compare import compare
from lopa_bench.cli.data import data
from lopa_bench.cli.demo import demo
from lopa_bench.cli.describe import describe
from lopa_bench.cli.doctor import doctor
from lopa_bench.cli.export import export
from lopa_bench.cli.frontier import frontier
from lopa_bench.cli.list import list_
from lopa_bench.cli.noise import noise
from lopa_bench.cli.ranks import is_full_output
from lopa_bench.cli.report import report
from lopa_bench.cli.reproduce import reproduce
from lopa_bench.cli.rescore import rescore
from lopa_bench.cli.run import run
from lopa_bench.cli.show import show
from lopa_bench.cli.speed import speed
from lopa_bench.cli.sweep import sweep
from lopa_bench.cli.trace import trace
from lopa_bench.cli.train import train
from lopa_bench.cli.verify import verify
from lopa_bench.errors import LopaBenchError

INTERRUPTED, TERMINATED = 130, 143
# What the authors' programs call some options; taken for ours on the command line.
ALIASES = {
    "block-length": "block-size",
    "block-add-threshold": "tau-add",
    "decoded-token-threshold": "tau-act",
    "skip-threshold": "tau-conf",
    "gen-length": "max-new-tokens",
}

app = typer.Typer(
    name="lopa-bench",
    no_args_is_help=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: ALIASES.get(name.replace("_", "-"), name),
    },
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from lopa_bench.harness.source_state import source_words

        typer.echo(f"lopa-bench {version('lopa-bench')} ({source_words()})")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Benchmark of decoders for diffusion language models: accuracy, tokens per round and tokens per second.

    Start with: lopa-bench demo
    """


COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "demo": demo,
    "sweep": sweep,
    "reproduce": reproduce,
    "show": show,
    "rescore": rescore,
    "export": export,
    "compare": compare,
    "noise": noise,
    "check": check,
    "frontier": frontier,
    "report": report,
    "analyse": analyse,
    "trace": trace,
    "list": list_,
    "describe": describe,
    "verify": verify,
    "speed": speed,
    "train": train,
    "doctor": doctor,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(baseline, name="baseline")
app.add_typer(data, name="data")


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit with its code: 0 ok, 1 failed, 2 usage or prerequisite, 3 not comparable."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a sign that the terminal lacks is no reason to fail
    with _Termination() as termination:
        code = _code(arguments)
    sys.exit(TERMINATED if code == INTERRUPTED and termination.came else code)


class _Termination:
    """Makes a signal to terminate stop the program as Ctrl-C does: what is in progress is dropped, nothing is damaged.

    A program that was started with the signal ignored goes on ignoring it.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_ours = False

    def __enter__(self) -> _Termination:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._stop)
            self._is_ours = True
        return self

    def _stop(self, number: int, frame: object) -> None:
        self.came = True
        raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _code(arguments: list[str] | None) -> int:
    code = 0
    try:
        returned = app(arguments, standalone_mode=False, prog_name="lopa-bench")
        code = returned if isinstance(returned, int) else 0
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if sys.stdout is not None:  # a caller may have closed it
            sys.stdout.flush()
        return code
    except LopaBenchError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped; what was finished is stored, the same command goes on from there", INTERRUPTED)
    except (BrokenPipeError, SystemExit):  # the latter is how the libraries below end where the reader left
        _silence()  # no more to say, nor at exit; what a command came to before is its code
        return code
    except OSError as error:
        if not is_full_output(error):
            raise
        _silence()
        return _fail(f"the output cannot be written: {error.strerror}", 2)
    except UnicodeEncodeError as error:
        around = error.object[max(error.start - 20, 0) : error.end + 20]
        return _fail(f"a text that was given is not UTF-8 and cannot be stored: ...{around!a}...", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        message = str(error.format_message())  # the option parser's own kind of error
        return _fail(message, int(getattr(error, "exit_code", 2))) if message else 2


def _silence() -> None:
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    one_line = " ".join(message.split())
    with suppress(OSError):  # what cannot be said either must not change the code
        typer.echo(f"lopa-bench: {one_line}", err=True)
    return code


if __name__ == "__main__":
    main()
