"""What several answers at once gain, and whether they stay the answers that one at a time gives.

The same prompts are answered in batches of each size; the speed of every size stands beside that of size 1, measured
in turn so that both see the same machine. Exit code 1 when an answer of a float32 or float64 run is not the same, or
takes another number of rounds.

    python benchmarks/batching.py                                   # the bundled models on their own problems
    python benchmarks/batching.py --shape large --device cuda       # random weights in a 7B shape, bfloat16
    python benchmarks/batching.py --decoder ar --size 8 --limit 64 --json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from engine_speed import LARGE, build

from lopa_bench.decoders.base import Decoder
from lopa_bench.decoders.registry import create
from lopa_bench.harness.batching import Batcher
from lopa_bench.harness.bundled_defaults import MODEL_OF, OPTIONS
from lopa_bench.harness.driver import Outcome
from lopa_bench.models.loading import load_model, load_tokenizer
from lopa_bench.results.tables import Column, Table, render
from lopa_bench.tasks.registry import get_task

DECODERS: dict[str, dict[str, Any]] = {
    "ar": {},
    "vanilla": {},
    "fast-dllm none": {"cache": "none"},
    "fast-dllm prefix": {"cache": "prefix"},
    "fast-dllm dual": {"cache": "dual"},
}
EXACT = ("float32", "float64")
REPEATS = 3


def bundled(name: str, arguments: argparse.Namespace) -> tuple[Decoder, list[list[int]]]:
    """A bundled model and the first problems of its own task."""
    kind = name.split()[0]
    model = load_model(MODEL_OF[kind], device=arguments.device, dtype=arguments.dtype or "float32")
    tokenizer = load_tokenizer(MODEL_OF[kind])
    task = get_task("mini-maths")
    prompts = [tokenizer(one.prompt)["input_ids"] for one in task.documents()[: arguments.limit]]
    options = {"max_new_tokens": task.max_new_tokens, **OPTIONS[kind], **DECODERS[name]}
    return create(kind, model, options), prompts


def random(name: str, arguments: argparse.Namespace) -> tuple[Decoder, list[list[int]]]:
    """Random weights in the shape of a 7B model, prompts of 100 to 300 tokens, answers of 64."""
    kind = name.split()[0]
    model = build(LARGE, kind == "ar", arguments.device, getattr(torch, arguments.dtype or "bfloat16"))
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(100, 300, (arguments.limit,), generator=generator).tolist()
    prompts = [torch.randint(2, LARGE["vocab_size"], (length,), generator=generator).tolist() for length in lengths]
    blocks = {} if kind == "ar" else {"block_size": 32}
    return create(kind, model, {"max_new_tokens": 64, **blocks, **DECODERS[name]}), prompts


def answer(decoder: Decoder, prompts: Sequence[Sequence[int]], size: int) -> tuple[list[Outcome], float]:
    """The answers in batches of `size`, and the seconds they took."""
    batcher = Batcher(decoder)
    batcher.clock.synchronise()
    start = time.perf_counter()
    outcomes: list[Outcome] = []
    for first in range(0, len(prompts), size):
        group = prompts[first : first + size]
        outcomes += batcher.generate(group, list(range(first, first + len(group))))
    batcher.clock.synchronise()
    return outcomes, time.perf_counter() - start


def measure(
    name: str, decoder: Decoder, prompts: Sequence[Sequence[int]], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """One row per size: its best time of three beside the best of size 1, each repeat of all sizes in turn."""
    found: dict[int, list[Outcome]] = {}
    seconds: dict[int, list[float]] = {size: [] for size in (1, *sizes)}
    for repeat in range(REPEATS + 1):
        for size in seconds:
            found[size], spent = answer(decoder, prompts, size)
            if repeat:  # the first one warms up
                seconds[size].append(spent)
    useful = sum(len(outcome.useful) for outcome in found[1])
    best = {size: min(spent) for size, spent in seconds.items()}
    return [
        {
            "decoder": name,
            "size": size,
            "answers": len(prompts),
            "same": sum(one.answer == other.answer for one, other in zip(found[1], found[size], strict=True)),
            "same_rounds": sum(one.work == other.work for one, other in zip(found[1], found[size], strict=True)),
            "tokens_per_second": useful / best[size],
            "ratio": best[1] / best[size],
        }
        for size in seconds
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["bundled", "large"], default="bundled")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--decoder", action="append", choices=list(DECODERS))
    parser.add_argument("--size", action="append", type=int, help="batch size; 2, 4 and 8 when not given")
    parser.add_argument("--limit", type=int, default=32, help="prompts")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Any]] = []
    for name in arguments.decoder or DECODERS:
        decoder, prompts = (bundled if arguments.shape == "bundled" else random)(name, arguments)
        rows += measure(name, decoder, prompts, arguments.size or [2, 4, 8])
    columns = [
        Column("decoder", "decoder"), Column("size", "batch"), Column("answers", "answers"),
        Column("same", "same tokens"), Column("same_rounds", "same work"),
        Column("tokens_per_second", "tokens/s", digits=1), Column("ratio", "times batch 1", digits=2),
    ]  # fmt: skip
    print(json.dumps(rows) if arguments.json else render(Table(columns, rows), "markdown"))
    exact = arguments.dtype in EXACT or (arguments.dtype is None and arguments.shape == "bundled")
    sys.exit(exact and any(row["same"] < row["answers"] or row["same_rounds"] < row["answers"] for row in rows))


if __name__ == "__main__":
    main()
