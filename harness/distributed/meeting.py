"""Waiting for other processes of a job at its store: open to signals, and told when one of them has failed."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from lopa_bench.errors import CommunicationError

if TYPE_CHECKING:
    from torch.distributed import Store

T = TypeVar("T")
LEFT = "left"
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.2


def wait_for(store: Store, keys: Sequence[str], timeout_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Wait until all keys are there; the engine's own wait would not hear Ctrl-C, nor that nobody is left to come.

    `meanwhile` is called again and again.

    Raises:
        CommunicationError: another process has failed.
        TimeoutError: some keys did not come; names one.
        RuntimeError: the store is gone.
    """
    deadline, pause = time.monotonic() + timeout_s, SHORTEST_PAUSE_S
    while not store.check(list(keys)):
        check_all_there(store)
        meanwhile()
        if time.monotonic() > deadline:
            late = next((key for key in keys if not store.check([key])), keys[-1])
            raise TimeoutError(f"rank {late.rpartition('/')[2]} did not come within {timeout_s:g} s")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def within(make: Callable[[], T], timeout_s: float, otherwise: str) -> T:
    """Return what `make` gives, off the main thread, so that a wait within the engine hears Ctrl-C and ends in time.

    Raises:
        RuntimeError: it took longer, in the words of `otherwise`; or whatever `make` raised.
    """
    found: Future[T] = Future()

    def work() -> None:
        try:
            found.set_result(make())
        except BaseException as problem:
            found.set_exception(problem)

    threading.Thread(target=work, name="engine", daemon=True).start()
    deadline = time.monotonic() + timeout_s
    while not found.done():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(SHORTEST_PAUSE_S)
    return found.result()


def reason_of(problem: BaseException) -> str:
    """The engine's sentence on what failed, without the place in its sources and its guesses."""
    first_line = str(problem).partition("\n")[0]
    words = re.sub(r"^\[[^]]*\.(cc|cpp|h):\d+\]\s*", "", first_line).partition(". This is typically caused")[0]
    if "Unable to find address for" in words:
        return f"{words}; GLOO_SOCKET_IFNAME names the network interface to use"
    return f"{words}; a longer wait is allowed by --comm-timeout" if "timed out" in words.lower() else words


def check_all_there(store: Store) -> None:
    """Hear of a process that has failed.

    Raises:
        CommunicationError: one has; says which and why.
    """
    if store.check([LEFT]):
        raise CommunicationError(bytes(store.get(LEFT)).decode(errors="replace"))


def tell_left(store: Store, rank: int, problem: BaseException, place: str = "") -> None:
    """Tell all others, unless one told before, that this process fails and where it was in its work.

    Where the store is gone they know already.
    """
    reason = str(problem).partition("\n")[0]
    who = f"rank {rank} has left ({place})" if place else f"rank {rank} has left"
    words = f"{who}: {type(problem).__name__}{': ' if reason else ''}{reason}"
    with suppress(RuntimeError):
        if not store.check([LEFT]):
            store.set(LEFT, words)
