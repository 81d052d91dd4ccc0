"""Short measurements of this machine for the cost model: products, memory, fixed costs, the link of two processes.

The model is held against a synthetic round of a network with random weights, alone and shared by two processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name

from lopa_bench.errors import CommunicationError
from lopa_bench.harness.distributed.mesh import RENDEZVOUS, MeshShape, joined, tensor_group
from lopa_bench.harness.speed.model import NUMBERS_A_ROW, Machine, RoundShape
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.tensor_parallel import TensorGroup, split
from lopa_bench.models.tiny import tiny_config
from lopa_bench.models.visibility import block_causal

ROWS = (1, 8, 64, 256, 1024)
SHARED_ROWS = 256
COPY_BYTES = 64 << 20
MOST_WEIGHTS = 64 << 20
PROBE_TIMEOUT_S = 300
MOST_ROUNDS = 25
MOST_S = 3.0
"""Seconds of repeating one measurement."""
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


def timed(work: Callable[[], object], device: str, repeats: int = 7) -> float:
    """Fewest seconds of some calls, after one that does not count; what else runs on the machine only adds to them."""
    work()
    found: list[float] = []
    while len(found) < repeats and sum(found) < MOST_S:
        begin = _now(device)
        work()
        found.append(_now(device) - begin)
    return min(found)


def _now(device: str) -> float:
    if not device.startswith("cpu"):
        torch.accelerator.synchronize()
    return time.perf_counter()


@torch.inference_mode()
def measure_device(config: ModelConfig, dtype: torch.dtype, device: str) -> Machine:
    """Rates of one device for products of a network's width, and what a layer and a round cost besides."""
    weights = _weights(config, dtype, device)
    flops = {rows: _rate(weights, rows, device) for rows in ROWS}
    block = torch.zeros(COPY_BYTES // 4, device=device)
    # A sum reads everything once and writes next to nothing, as a product with few rows does.
    read_bytes_s = COPY_BYTES / timed(block.sum, device)
    layer_s, round_s = _fixed_costs(device, dtype)
    return Machine(flops, read_bytes_s, layer_s, round_s)


def _weights(config: ModelConfig, dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    """Matrices of the network's feed-forward, more than a processor's caches hold, as a network's weights are."""
    shape = (config.intermediate_size, config.hidden_size)
    count = max(1, min(4, MOST_WEIGHTS // (shape[0] * shape[1])))
    return [torch.randn(shape, device=device, dtype=dtype) for _ in range(count)]


def _rate(weights: list[torch.Tensor], rows: int, device: str) -> float:
    """Operations per second of products with so many rows."""
    hidden = torch.randn(rows, weights[0].shape[1], device=device, dtype=weights[0].dtype)
    seconds = timed(lambda: [F.linear(hidden, one) for one in weights], device, MOST_ROUNDS)
    return 2.0 * rows * sum(one.numel() for one in weights) / seconds


def _fixed_costs(device: str, dtype: torch.dtype) -> tuple[float, float]:
    """Seconds per layer and per round of networks so small that nothing else costs anything."""
    shallow, deep = (random_model(tiny_config("dream", num_layers=layers), device, dtype, None) for layers in (2, 12))
    tokens = torch.ones(1, 8, dtype=torch.long)
    few, many = (timed(lambda model=model: model.predict(tokens, (0, 8)), device, 15) for model in (shallow, deep))  # type: ignore[misc]
    layer_s = max(0.0, (many - few) / 10)
    return layer_s, max(0.0, few - 2 * layer_s)


def random_model(config: ModelConfig, device: str, dtype: torch.dtype, group: TensorGroup | None) -> LanguageModel:
    """A network, or this process's part of one, with small random weights."""
    network = skeleton(config)
    if group is not None:
        split(network, group)
    generator = torch.Generator(device).manual_seed(0)
    state = {}
    for name, parameter in network.named_parameters():
        value = torch.empty(parameter.shape, device=device, dtype=torch.float32)
        state[name] = value.normal_(0.0, 0.02, generator=generator).to(dtype)
    network.load_state_dict(state, assign=True)
    return LanguageModel(network, "random")


@torch.inference_mode()
def time_round(model: LanguageModel, shape: RoundShape, branches: int, talk: Callable[[], None], device: str) -> float:
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

    return timed(once, device, MOST_ROUNDS)


def measure_round(config: ModelConfig, dtype: torch.dtype, device: str, shape: RoundShape) -> float:
    """Seconds of a whole round on one device."""
    return time_round(random_model(config, device, dtype, None), shape, shape.branches, lambda: None, device)


def measure_pair(config: ModelConfig, dtype: str, device: str, shape: RoundShape, threads: int) -> dict[str, float]:
    """What two processes find: `latency_s`, `bytes_s`, `flops` of both at work, seconds of a round as `bp` and `tp`.

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
        found: dict[str, float] = json.loads(told[0][0].strip().splitlines()[-1])
        return found


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


def with_link(machine: Machine, pair: dict[str, float]) -> Machine:
    """The machine with what two processes found of the link."""
    return replace(machine, link_latency_s=pair["latency_s"], link_bytes_s=pair["bytes_s"])


def main(text: str) -> None:
    """Be one of two processes: measure the link, then a round shared by branches and one shared by tensors."""
    import torch.distributed as dist

    task = json.loads(text)
    torch.set_num_threads(task["threads"])
    config, shape = ModelConfig(**task["config"]), RoundShape(**task["shape"])
    dtype, kind = getattr(torch, task["dtype"]), task["device"].partition(":")[0]
    with joined(MeshShape(tensor=2), kind, PROBE_TIMEOUT_S) as world:
        group = tensor_group(world)
        if group is None:
            raise CommunicationError("two processes were to measure, but there is no group of them")
        small, large = torch.zeros(64, device=world.device), torch.zeros(1 << 20, device=world.device)
        latency = timed(lambda: dist.all_reduce(small), world.device, 50)
        bulk = timed(lambda: dist.all_reduce(large), world.device, 15)
        # Of two processes each sends what it holds once: half of it in every of the two phases of a sum.
        sent = large.numel() * large.element_size()
        found = {"latency_s": latency, "bytes_s": sent / max(bulk - latency, 1e-9)}
        found["flops"] = _rate(_weights(config, dtype, world.device), SHARED_ROWS, world.device)
        rows = torch.zeros(-(-shape.branches // 2), NUMBERS_A_ROW, shape.rows, device=world.device)
        if shape.branches > 1:
            whole = random_model(config, world.device, dtype, None)
            own = -(-shape.branches // 2) if world.rank == 0 else shape.branches // 2
            found["bp"] = time_round(whole, shape, own, lambda: _told(group, rows), world.device)
        part = random_model(config, world.device, dtype, group)
        found["tp"] = time_round(part, shape, shape.branches, lambda: None, world.device)
        if world.rank == 0:
            print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
