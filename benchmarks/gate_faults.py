"""The faults that `gate_check.py` puts into a decoder, the machine and what is stored; the program called."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import typer.main

from lopa_bench.cli import app as program
from lopa_bench.cli.app import INTERRUPTED, TERMINATED
from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.registry import decoder_type
from lopa_bench.decoders.rounds import Round
from lopa_bench.errors import DecodeError
from lopa_bench.results.schema import SampleRecord

Wrapper = Callable[[Iterator[Any], Canvas], Iterator[Any]]
typer.main.get_command = functools.cache(typer.main.get_command)  # built once, not at each of hundreds of calls


def call(*words: str) -> tuple[int, str, str]:
    """Run a command of the program in this process; its exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            program.main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
            if code in (INTERRUPTED, TERMINATED):
                raise KeyboardInterrupt from None
            return code, out.getvalue(), err.getvalue()
    raise AssertionError("a command always ends by an exit code")


@contextlib.contextmanager
def wrapped(decoder: str, wrapper: Wrapper) -> Iterator[None]:
    """Let every answer of a decoder go through `wrapper(rounds, canvas)` while the body runs."""
    kind: Any = decoder_type(decoder)
    plain = kind._rounds
    kind._rounds = lambda self, canvas, generator: wrapper(plain(self, canvas, generator), canvas)
    try:
        yield
    finally:
        kind._rounds = plain


def slower(seconds: float) -> Wrapper:
    def rounds(steps: Iterator[Any], canvas: Canvas) -> Iterator[Any]:
        for step in steps:
            if isinstance(step, Round):
                end = time.thread_time() + seconds
                while time.thread_time() < end:
                    pass
            yield step

    return rounds


def more_rounds(every: int = 9) -> Wrapper:
    count = itertools.count(1)

    def rounds(steps: Iterator[Any], canvas: Canvas) -> Iterator[Any]:
        for step in steps:
            yield step
            if isinstance(step, Round) and next(count) % every == 0:
                yield Round(step.index, (), (), step.num_positions, step.input_length)

    return rounds


def damaged() -> Wrapper:
    count = itertools.count()

    def rounds(steps: Iterator[Any], canvas: Canvas) -> Iterator[Any]:
        is_hit = next(count) % 2 == 0
        yield from steps
        start, stop = canvas.prompt_length, canvas.eos_position
        if is_hit:
            canvas.tokens[start:stop] = canvas.tokens[start:stop][::-1]

    return rounds


def failing() -> Wrapper:
    count = itertools.count()

    def rounds(steps: Iterator[Any], canvas: Canvas) -> Iterator[Any]:
        if next(count) == 2:  # the warm-up was the first
            raise DecodeError("an injected fault")
        yield from steps

    return rounds


@contextlib.contextmanager
def busy_machine() -> Iterator[None]:
    """Keep every processor busy twice over with other processes while the body runs."""
    words = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(words) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def lost(most: int) -> Callable[[SampleRecord], dict[str, Any]]:
    """Other tokens and no score for the first `most` right answers, as a near tie or a broken decoder leaves them."""
    count = itertools.count()

    def change(one: SampleRecord) -> dict[str, Any]:
        if not one.correct or next(count) >= most:
            return {}
        return {"correct": 0.0, "scores": dict.fromkeys(one.scores, 0.0), "token_ids": (*one.token_ids, 0)}

    return change


def scored_lower(one: SampleRecord) -> dict[str, Any]:
    """The same tokens without a score."""
    return {"correct": 0.0, "scores": dict.fromkeys(one.scores, 0.0)}


def elsewhere(
    num_problems: int,
) -> Iterator[tuple[str, int, Callable[[SampleRecord], dict[str, Any]], tuple[str, ...]]]:
    """Yield what became of answers on another processor, where rounding has a part: kind, exit due, change, words.

    All lost are no pass; of six and more McNemar's test can say that they are no chance either.
    """
    collapse = 3 if num_problems < 6 else 1
    yield "elsewhere: the same", 0, lambda one: {}, ()
    yield "elsewhere: one lost", 0 if num_problems > 1 else 3, lost(1), ()
    yield "elsewhere: all lost", collapse, lost(num_problems), ("accuracy: ", "McNemar p")
    yield "elsewhere: scored lower", 1, scored_lower, ("accuracy: ", "it is the scoring that changed")


def lucky(one: SampleRecord) -> dict[str, Any]:
    """What changes in a sample that is right now, in one round less and half the time."""
    fewer = {name: max(value - 1, 1) for name, value in one.work.model_dump().items()}
    times = {name: None if value is None else value / 2 for name, value in one.time.model_dump().items()}
    return {
        "correct": 1.0,
        "work": one.work.model_copy(update=fewer),
        "time": one.time.model_copy(update=times),
    }
