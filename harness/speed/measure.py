"""Rounds of a network with random weights as they are, alone and shared by two processes, and what two find together.

The cost model is held against these rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed.mesh import RENDEZVOUS, MeshShape, World, joined, tensor_group
from lopa_bench.harness.speed.model import NUMBERS_A_ROW, Machine, RoundShape
from lopa_bench.harness.speed.rates import (
    MOST_REPEATS,
    Agree,
    link_rates,
    measure_device,
    projections,
    random_model,
    timed,
)
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.tensor_parallel import TensorGroup
from lopa_bench.models.tiny import tiny_config
from lopa_bench.models.visibility import block_causal

PROBE_TIMEOUT_S = 600
MOST_S = 5.0
"""Seconds of repeating one round."""
MID = {
    "hidden_size": 768, "num_layers": 8, "num_heads": 12, "num_kv_heads": 4, "head_dim": 64, "intermediate_size": 2048,
    "max_positions": 4096,
}  # fmt: skip
SEVEN_B = {
    "hidden_size": 3584, "num_layers": 28, "num_heads": 28, "num_kv_heads": 4, "head_dim": 128,
    "intermediate_size": 18944, "max_positions": 131072,
}  # fmt: skip


def mid_config() -> ModelConfig:
    """A network of about 60 million parameters."""
    return tiny_config("dream", 8192, **MID)


def dream_config() -> ModelConfig:
    """Dream 7B's shape."""
    return tiny_config("dream", 152064, **SEVEN_B)


@torch.inference_mode()
def time_round(
    model: LanguageModel,
    shape: RoundShape,
    branches: int,
    talk: Callable[[], None],
    device: str,
    agree: Agree = lambda own: own,
) -> float:
    """Fewest seconds of a round in which this process computes some branches; `talk` exchanges what rounds exchange."""
    from lopa_bench.decoders.confidence import host_scores

    cache = model.new_cache(shape.cached + shape.window)
    visibility = block_causal(shape.cached, shape.window)
    if shape.cached:
        prompt = torch.ones(1, shape.cached, dtype=torch.long)
        model.predict(prompt, (1, 2), cache=cache, num_commit=shape.cached, visibility=visibility)
        cache.commit()
    tokens = torch.ones(branches, shape.window, dtype=torch.long)
    rows = (shape.cached, shape.cached + shape.rows)

    def once() -> None:
        logits = model.predict(tokens, rows, start=shape.cached, cache=cache, visibility=visibility)
        host_scores(logits, rows[0], "neg_entropy", vocabulary=model.vocabulary)
        talk()

    return timed(once, device, MOST_REPEATS, MOST_S, agree)


def measure_round(config: ModelConfig, dtype: torch.dtype, device: str, shape: RoundShape) -> float:
    """Seconds of a whole round on one device."""
    return time_round(random_model(config, device, dtype, None), shape, shape.branches, lambda: None, device)


@dataclass(frozen=True, slots=True)
class Pair:
    """What two processes of this machine find when both are at work.

    Attributes:
        machine: the rates of one of them and their link; where they share a processor or memory, less than alone.
        rounds: "bp" and "tp" -> seconds of a round so shared.
    """

    machine: Machine
    rounds: Mapping[str, float]


def measure_pair(config: ModelConfig, dtype: str, device: str, shape: RoundShape, threads: int) -> Pair:
    """What two processes find.

    Raises:
        CommunicationError: one of them failed.
    """
    with tempfile.TemporaryDirectory(prefix="lopa-bench-") as scratch:
        task = {"config": asdict(config), "dtype": dtype, "device": device, "shape": asdict(shape), "threads": threads}
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "lopa_bench.harness.speed.measure", json.dumps(task)],
                env={**os.environ, **_place(rank, scratch)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            told = [process.communicate(timeout=PROBE_TIMEOUT_S) for process in started]
        except subprocess.TimeoutExpired:
            raise CommunicationError(f"two processes did not finish measuring within {PROBE_TIMEOUT_S} s") from None
        finally:
            for process in started:
                process.kill()
        for process, (_, said) in zip(started, told, strict=True):
            if process.returncode:
                last = (said.strip().splitlines() or ["no message"])[-1]
                raise CommunicationError(f"measuring with two processes failed: {last}")
        return _pair_of(json.loads(told[0][0].strip().splitlines()[-1]))


def _pair_of(found: Mapping[str, Any]) -> Pair:
    rates: dict[str, Any] = {
        name: {int(size): rate for size, rate in one.items()} if isinstance(one, dict) else one
        for name, one in found["machine"].items()
    }
    return Pair(Machine(**rates), found["rounds"])


def _place(rank: int, scratch: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"),
        RENDEZVOUS: (Path(scratch) / "rendezvous").as_uri(),
    }


def _told(group: TensorGroup, rows: torch.Tensor) -> None:
    group.all_gather(rows)


def main(text: str) -> None:
    """Be one of two processes: measure rates and the link, then a round shared by branches and one by tensors."""
    import torch.distributed as dist

    task = json.loads(text)
    torch.set_num_threads(task["threads"])
    config, shape = ModelConfig(**task["config"]), RoundShape(**task["shape"])
    dtype, kind = getattr(torch, task["dtype"]), task["device"].partition(":")[0]
    with joined(MeshShape(tensor=2), kind, PROBE_TIMEOUT_S) as world:
        group = tensor_group(world)
        if group is None:
            raise CommunicationError("two processes were to measure, but there is no group of them")
        machine = measure_device(config, dtype, world.device, shape, dist.barrier)
        layers, rows = projections(config, dtype, world.device), shape.branches * shape.window
        latency, rate = link_rates(layers, rows, world.device, dist.all_reduce, partial(_longest, world.device))
        machine = replace(machine, link_latency_s=latency, link_bytes_s=rate)
        rounds = _rounds_of_two(config, dtype, shape, world, group)
        if world.rank == 0:
            print(json.dumps({"machine": asdict(machine), "rounds": rounds}))


def _longest(device: str, seconds: float) -> float:
    import torch.distributed as dist

    held = torch.tensor([seconds], device=device)
    dist.all_reduce(held, op=dist.ReduceOp.MAX)
    return float(held[0])


def _rounds_of_two(
    config: ModelConfig, dtype: torch.dtype, shape: RoundShape, world: World, group: TensorGroup
) -> dict[str, float]:
    """Seconds of a round shared by branches, where there are several, and of one shared by tensors."""
    found, agree = {}, partial(_longest, world.device)
    rows = torch.zeros(-(-shape.branches // 2), NUMBERS_A_ROW, shape.rows, device=world.device)
    if shape.branches > 1:
        whole = random_model(config, world.device, dtype, None)
        own = -(-shape.branches // 2) if world.rank == 0 else shape.branches // 2
        found["bp"] = time_round(whole, shape, own, lambda: _told(group, rows), world.device, agree)
    part = random_model(config, world.device, dtype, group)
    found["tp"] = time_round(part, shape, shape.branches, lambda: None, world.device, agree)
    return found


if __name__ == "__main__":
    main(sys.argv[1])
