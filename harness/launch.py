"""Starts the ranks of a job on this machine, through torch elastic's process machinery, and ends them together.

A rank is the very command that the user gave, started again with its place in the environment, just as torchrun would.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lopa_bench.errors import CommunicationError
from lopa_bench.harness.mesh import RENDEZVOUS

GRACE_S = 2
PREFIX = "lopa-bench: "


def launch(arguments: Sequence[str], num_ranks: int) -> int:
    """Run `lopa-bench ARGUMENTS` in `num_ranks` processes; rank 0 speaks for all.

    As soon as one fails the others are killed: what they finished is on the disk, and they would only wait.

    Returns:
        The exit code that all ranks agreed on.

    Raises:
        CommunicationError: a rank failed or was killed; says which and what it said last.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, start_processes

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="lopa-bench-") as scratch:
        quiet = dict.fromkeys(range(1, num_ranks), Std.ALL)
        context = start_processes(
            name="lopa-bench",
            entrypoint=sys.executable,
            args=dict.fromkeys(range(num_ranks), ("-m", "lopa_bench.cli.app", *arguments)),
            envs={rank: _environment(rank, num_ranks, scratch) for rank in range(num_ranks)},
            logs_specs=DefaultLogsSpecs(log_dir=scratch, redirects={0: Std.NONE, **quiet}),
        )
        # A stopped process obeys nothing but a kill, and the engine would give it half a minute.
        context.close = partial(context.close, death_sig=signal.SIGKILL, timeout=GRACE_S)  # type: ignore[method-assign]
        try:
            result = context.wait(period=0.1)
        finally:
            context.close()
        if result is None or not result.is_failed():
            return 0
        first = min(result.failures.values(), key=lambda one: one.timestamp)
        return _verdict(first.local_rank, first.exitcode, num_ranks, result.stderrs.get(first.local_rank))


def _environment(rank: int, num_ranks: int, scratch: str) -> dict[str, str]:
    """A rank's place; the ranks of one machine find each other through a file, so that no port can be taken."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks, "LOCAL_WORLD_SIZE": num_ranks}
    own = {name: str(value) for name, value in place.items()}
    own[RENDEZVOUS] = (Path(scratch) / "rendezvous").as_uri()
    own["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    own["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // num_ranks)))
    return own


def _verdict(rank: int, code: int, num_ranks: int, log: str | None) -> int:
    """What the first failure means: rank 0 has said its own sentence; for another rank it is said here."""
    if rank == 0 and code > 0:
        return code
    if code < 0:
        raise CommunicationError(f"rank {rank} of {num_ranks} was ended by {signal.Signals(-code).name}; {GO_ON}")
    said = _last_line(log)
    raise CommunicationError(f"rank {rank} of {num_ranks} failed: {said or f'exit code {code}'}; {GO_ON}")


GO_ON = "what was finished is stored, the same command goes on from there"


def _last_line(log: str | None) -> str:
    try:
        lines = Path(log or "").read_text(errors="replace").split("\n") if log else []
    except OSError:
        lines = []
    told = [line.strip() for line in lines if line.strip()]
    return told[-1].removeprefix(PREFIX) if told else ""
