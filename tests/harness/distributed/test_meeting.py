"""Waiting at a job's store: for those who come, not for those who cannot come any more."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch.distributed as dist

from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed.meeting import check_all_there, reason_of, tell_left, wait_for


@pytest.fixture
def store(tmp_path: Path) -> dist.Store:
    return dist.PrefixStore("job", dist.FileStore(str(tmp_path / "store"), 1))


def later(action: object) -> None:
    timer = threading.Timer(0.2, action)  # type: ignore[arg-type]
    timer.daemon = True
    timer.start()


def test_whoever_comes_late_is_waited_for(store: dist.Store) -> None:
    store.set("plan/0", "1")
    later(lambda: store.set("plan/1", "1"))
    wait_for(store, ["plan/0", "plan/1"], 60)


def test_a_process_that_failed_is_not_waited_for(store: dist.Store) -> None:
    check_all_there(store)
    later(lambda: tell_left(store, 1, ValueError("a fault\nwith details")))
    begin = time.monotonic()
    with pytest.raises(CommunicationError, match=r"^rank 1 has left: ValueError: a fault$"):
        wait_for(store, ["plan/0", "plan/1"], 60)
    assert time.monotonic() - begin < 30
    tell_left(store, 0, CommunicationError("what followed"))
    with pytest.raises(CommunicationError, match="rank 1 has left"):  # the first is the cause
        check_all_there(store)


def test_one_that_never_comes_is_named(store: dist.Store) -> None:
    store.set("here/0", "1")
    with pytest.raises(TimeoutError, match=r"rank 1 did not come within 0\.1 s"):
        wait_for(store, ["here/0", "here/1"], 0.1)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "[/a/gloo/transport/tcp/pair.cc:553] Connection closed by peer. This is typically caused by x",
            "Connection closed",
        ),
        (
            "[/a/b.cc:1] Timed out waiting 1ms for recv",
            "Timed out waiting 1ms for recv; a longer wait is allowed by --c",
        ),
        (
            "[enforce fail at d.cc:84] ifa. Unable to find address for: x",
            "ifa. Unable to find address for: x; GLOO_SOCKET",
        ),
        ("[rank 1] no such thing\nmore", "[rank 1] no such thing"),
    ],
)
def test_the_engines_words_are_made_a_sentence(said: str, words: str) -> None:
    found = reason_of(RuntimeError(said))
    assert found.startswith(words) and "typically" not in found and ".cc" not in found


def test_ctrl_c_is_heard_while_waiting(store: dist.Store) -> None:
    later(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        wait_for(store, ["plan/1"], 60)
