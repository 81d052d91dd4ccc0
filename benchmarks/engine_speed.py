"""How close each decoder's rounds come to the bare matrix products that they cannot do without.

A network with random weights decodes one prompt with every decoder. After each round the matrix products of that very
round (projections, feed-forward, head, and the two products of attention, with the same shapes and weights) are run
alone and timed, so that both figures come from the same moment of the same machine. Printed per decoder:
milliseconds per round, of the products, their ratio, and the share of decoding time spent outside the network.

    python benchmarks/engine_speed.py                    # CPU: about 50 M parameters, float32 and bfloat16
    python benchmarks/engine_speed.py --device cuda      # a 7B shape, bfloat16
    python benchmarks/engine_speed.py --decoder "lopa 8" --dtype bfloat16 --json
    python benchmarks/engine_speed.py --merge-qkv        # or --quantize w8a8, --compile: what each of them brings
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lopa_bench.decoders.registry import create
from lopa_bench.models.acceleration import Acceleration
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import Transformer
from lopa_bench.models.quantize import METHODS

PROMPT_LENGTH, NUM_NEW, BLOCK = 200, 128, 32
SMALL = {
    "vocab_size": 8192, "hidden_size": 512, "num_layers": 14, "num_heads": 8, "num_kv_heads": 8, "head_dim": 64,
    "intermediate_size": 1536,
}  # fmt: skip
LARGE = {
    "vocab_size": 152064, "hidden_size": 3584, "num_layers": 28, "num_heads": 28, "num_kv_heads": 4, "head_dim": 128,
    "intermediate_size": 18944,
}  # fmt: skip
TINY = {
    "vocab_size": 512, "hidden_size": 64, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "head_dim": 16,
    "intermediate_size": 128,
}  # fmt: skip
SHAPES = {"tiny": TINY, "small": SMALL, "large": LARGE}
DECODERS: dict[str, dict[str, Any]] = {
    "ar": {},
    "vanilla": {"block_size": BLOCK},
    "fast-dllm": {"block_size": BLOCK, "cache": "none"},
    "fast-dllm prefix": {"block_size": BLOCK, "cache": "prefix"},
    "fast-dllm dual": {"block_size": BLOCK, "cache": "dual"},
    "d2f": {"block_size": BLOCK},
    "lopa 8": {"block_size": BLOCK, "branches": 8},
}
LIMITS = {"lopa 8": 1.3}
OTHERS_LIMIT, OUTSIDE_LIMIT = 1.5, 0.10


@dataclass
class Shape:
    """What one forward computes: B windows of T positions over C cached ones, logits for R rows each."""

    branches: int
    window: int
    cached: int
    rows: int


class TimedModel(LanguageModel):
    """A model that notes the shape and the time of its last forward."""

    def __init__(self, network: Transformer) -> None:
        super().__init__(network, "random")
        self.network_s = 0.0
        self.shape = Shape(0, 0, 0, 0)

    def predict(self, tokens: Tensor, predict: tuple[int, int], **options: Any) -> Tensor:
        """As the parent's, timed."""
        cache = options.get("cache")
        start = options.get("start", 0)
        batch, window = tokens.shape
        seen = max(start, cache.extent) if cache is not None else 0
        held = seen - window if cache is not None and seen > start else seen
        self.shape = Shape(batch, window, max(held, start if cache is not None else 0), predict[1] - predict[0])
        begin = now(self.device)
        logits = super().predict(tokens, predict, **options)
        self.network_s += now(self.device) - begin
        return logits


def now(device: torch.device) -> float:
    """Seconds, after the device has finished what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def build(shape: dict[str, int], causal: bool, device: str, dtype: torch.dtype) -> TimedModel:
    """A network with random weights."""
    config = ModelConfig(
        family="random", norm_eps=1e-6, rope_theta=10000.0, max_positions=4096, logit_shift=True, causal=causal,
        mask_token_id=None if causal else 1, tied_head=True, **shape,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        network = Transformer(config)
    # Small embeddings, which are the head too, make every prediction unsure: few slots pass a threshold, so that rounds
    # are many and LoPA has slots left to look ahead at.
    torch.nn.init.normal_(network.embed.weight, std=0.02)
    return TimedModel(network.to(dtype))


@torch.inference_mode()
def bare_products(model: LanguageModel, shape: Shape) -> float:
    """Seconds that the matrix products of one forward take, with the model's own weights."""
    config, network = model.config, model.network
    like = {"device": model.device, "dtype": model.dtype}
    hidden = torch.randn(shape.branches * shape.window, config.hidden_size, **like)
    wide = torch.randn(shape.branches * shape.window, config.intermediate_size, **like)
    mixed = torch.randn(shape.branches * shape.window, config.num_heads * config.head_dim, **like)
    picked = torch.randn(shape.branches * shape.rows, config.hidden_size, **like)
    grouped = config.num_query_groups * shape.window
    query = torch.randn(shape.branches, config.num_kv_heads, grouped, config.head_dim, **like)
    near = torch.randn(shape.branches, config.num_kv_heads, shape.window, config.head_dim, **like)
    near_scores = torch.randn(shape.branches, config.num_kv_heads, grouped, shape.window, **like)
    together = torch.randn(1, config.num_kv_heads, shape.branches * grouped, config.head_dim, **like)
    far = torch.randn(1, config.num_kv_heads, shape.cached, config.head_dim, **like)
    far_scores = torch.randn(1, config.num_kv_heads, shape.branches * grouped, shape.cached, **like)
    begin = now(model.device)
    for layer in network.layers:
        for projection in (layer.attention.q_proj, layer.attention.k_proj, layer.attention.v_proj):
            F.linear(hidden, projection.weight)
        query @ near.transpose(-1, -2)
        near_scores @ near
        if shape.cached:
            together @ far.transpose(-1, -2)
            far_scores @ far
        F.linear(mixed, layer.attention.o_proj.weight)
        F.linear(hidden, layer.mlp.gate_proj.weight)
        F.linear(hidden, layer.mlp.up_proj.weight)
        F.linear(wide, layer.mlp.down_proj.weight)
    if shape.rows:
        network.logits(picked)
    return now(model.device) - begin


@torch.inference_mode()
def logits_error(model: LanguageModel, plain: LanguageModel) -> float | None:
    """Norm of the difference of two networks' logits over that of the plain one's; None where they are one network."""
    if model is plain:
        return None
    ids = torch.arange(PROMPT_LENGTH)[None] % model.config.vocab_size
    found, wanted = (one.predict(ids, (1, PROMPT_LENGTH)).float() for one in (model, plain))
    return float((found - wanted).norm() / wanted.norm())


def measure(name: str, model: TimedModel, plain: LanguageModel, most_rounds: int) -> dict[str, Any]:
    """Decode one prompt, each round timed against its products in a plain network; the first rounds warm up."""
    options = {"max_new_tokens": NUM_NEW, "early_stop": False, **DECODERS[name]}
    decoder = create(name.split()[0], model, options)
    prompt = torch.randint(2, model.config.vocab_size, (PROMPT_LENGTH,), generator=torch.Generator().manual_seed(1))
    rounds = iter(decoder.decode(prompt.tolist()))
    total, network, products, counted = 0.0, 0.0, 0.0, 0
    shapes: list[Shape] = []
    for index in range(most_rounds):
        model.network_s = 0.0
        begin = now(model.device)
        if next(rounds, None) is None:
            break
        spent = now(model.device) - begin
        bare = bare_products(plain, model.shape)
        if index >= 3:
            total, network, products, counted = total + spent, network + model.network_s, products + bare, counted + 1
            shapes.append(model.shape)
    if not counted:
        raise SystemExit(f"{name}: no round was left to measure after the three that warm up")
    return {
        "decoder": name,
        "rounds": counted,
        "branches": sum(shape.branches for shape in shapes) / counted,
        "window": sum(shape.window for shape in shapes) / counted,
        "ms_per_round": 1000 * total / counted,
        "ms_products": 1000 * products / counted,
        "ratio": total / products,
        "ratio_limit": LIMITS.get(name, OTHERS_LIMIT),
        "outside_network": 1 - network / total,
        "outside_limit": OUTSIDE_LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", action="append", choices=["float32", "bfloat16"])
    parser.add_argument("--decoder", action="append", choices=list(DECODERS))
    parser.add_argument("--shape", choices=list(SHAPES), help="large, a 7B one, on a CUDA device, else small")
    parser.add_argument("--most-rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--quantize", choices=METHODS)
    parser.add_argument("--merge-qkv", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    on_gpu = arguments.device.startswith("cuda")
    acceleration = Acceleration(arguments.quantize, arguments.merge_qkv, arguments.compile)
    rows = []
    for dtype in arguments.dtype or (["bfloat16"] if on_gpu else ["float32", "bfloat16"]):
        for name in arguments.decoder or DECODERS:
            sizes = SHAPES[arguments.shape or ("large" if on_gpu else "small")]
            shape = (sizes, name == "ar", arguments.device, getattr(torch, dtype))
            model = plain = build(*shape)
            if acceleration != Acceleration():
                plain = build(*shape)
                acceleration.check(arguments.device)
                model.accelerations = tuple(acceleration.apply(model.network))
            row = {"dtype": dtype, "accelerations": model.accelerations, "logits_error": logits_error(model, plain)}
            row |= measure(name, model, plain, arguments.most_rounds)
            rows.append(row)
            if not arguments.json:
                print(
                    f"{dtype:9} {name:17} {row['branches']:4.1f} x {row['window']:5.1f} positions, "
                    f"{row['ms_per_round']:8.2f} ms/round, products {row['ms_products']:8.2f} ms, "
                    f"ratio {row['ratio']:.2f} (limit {row['ratio_limit']}), outside {row['outside_network']:.1%}",
                    flush=True,
                )
    chip = torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine()
    if arguments.json:
        print(json.dumps({"device": chip, "torch": torch.__version__, "threads": arguments.threads, "rows": rows}))


if __name__ == "__main__":
    main()
