"""`lopa-bench` as one of several ranks, with a fault built in: the program that failure_table.py has launched.

FAULT in the environment is "KIND RANK CALL": what goes wrong, on which rank, in or after which call of the network, or
while the weights are read (`weights`), an answer is judged (`judging`) or the processes meet (`start`). `memory` goes
wrong inside the network, `memory-scores` in the candidates of a part of the vocabulary, `memory-between` between two
forwards, where nobody expects it; the other kinds just after the call. FAULT_FOLDER gets a file `RANK.pid` from every
rank and, just before the fault, `fault` with the time of the monotonic clock.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lopa_bench.cli.app import main
from lopa_bench.decoders import vocabulary_parallel
from lopa_bench.harness import generation
from lopa_bench.harness.distributed import mesh
from lopa_bench.harness.model_source import ModelSource
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import MLP

KIND, FAULTY_RANK, CALL = os.environ["FAULT"].split()
ARMED: list[str] = []
FOLDER, RANK = Path(os.environ["FAULT_FOLDER"]), os.environ["RANK"]


def go_wrong(logits: Tensor) -> Tensor:
    """Do what KIND says."""
    (FOLDER / "fault").write_text(str(time.monotonic()))
    if KIND == "raise":
        raise ValueError("a fault of the program")
    if KIND.startswith("memory"):
        raise torch.OutOfMemoryError("out of memory, for a test")
    if KIND == "nan":
        return torch.full_like(logits, float("nan"))
    if KIND in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if KIND == "kill" else signal.SIGSTOP)
    while KIND == "loop":
        pass
    if KIND == "sleep":
        time.sleep(3600)
    if KIND == "slow":  # no fault at all, as long as nobody waits for a message
        time.sleep(8)
    if KIND == "orphan":  # the launcher dies, and nobody tells the ranks
        os.kill(os.getppid(), signal.SIGKILL)
    return logits


def go_wrong_in(owner: Any, name: str) -> None:
    """Go wrong in a function as soon as it is called after the call of the network has been armed."""
    whole = getattr(owner, name)

    def guarded(*arguments: Any, **more: Any) -> Any:
        if ARMED:
            ARMED.clear()
            go_wrong(torch.empty(0))
        return whole(*arguments, **more)

    setattr(owner, name, guarded)


def install() -> None:
    """Count the calls of the network and go wrong in the one that was named, or elsewhere."""
    elsewhere = {"weights": (ModelSource, "load"), "judging": (generation, "sample_record"), "start": (mesh, "join")}
    if CALL in elsewhere:
        ARMED.extend([KIND] * (RANK == FAULTY_RANK))
        return go_wrong_in(*elsewhere[CALL])
    predict, num_calls = LanguageModel.predict, 0
    inside = {"memory": (MLP, "forward"), "memory-scores": (vocabulary_parallel, "_softmax")}.get(KIND)
    if inside is not None:
        go_wrong_in(*inside)

    def counted(self: LanguageModel, *rest: Any, **more: Any) -> Tensor:
        nonlocal num_calls
        num_calls += 1
        is_due = num_calls == int(CALL) and RANK == FAULTY_RANK
        ARMED.extend([KIND] * (is_due and inside is not None))
        logits = predict(self, *rest, **more)
        return go_wrong(logits) if is_due and inside is None else logits

    LanguageModel.predict = counted  # type: ignore[method-assign]
    return None


if __name__ == "__main__":
    (FOLDER / f"{RANK}.pid").write_text(str(os.getpid()))
    install()
    main()
