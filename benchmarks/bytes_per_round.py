"""Bytes that the processes of a round exchange, measured on a network with the widths and the vocabulary of Dream-7B.

A random network of one layer with Dream-7B's hidden size, heads and vocabulary (152,064 ids) decodes a canvas of 64
open positions with 8 branches over several gloo processes; the tensors that the collectives carry are counted in each
of the first rounds. Depth changes what the winner's keys take, by layers, and nothing else. Exit 1 when a branch's
part of a round is more than 64 KiB.

    python benchmarks/bytes_per_round.py --ranks 4
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from datetime import timedelta
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist

from lopa_bench.decoders.communication import BranchGroup, Exchange
from lopa_bench.decoders.registry import create
from lopa_bench.harness.distributed.beats import Beat
from lopa_bench.harness.distributed.collectives import TorchCommunicator
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import Transformer
from lopa_bench.models.tiny import tiny_config
from lopa_bench.results.tables import Column, Row, Table

LIMIT = 64 << 10
DREAM = {
    "vocab_size": 152064, "hidden_size": 3584, "num_heads": 28, "num_kv_heads": 4, "head_dim": 128, "num_layers": 1,
    "intermediate_size": 1024, "tied_head": True,
}  # fmt: skip
DREAM_LAYERS = 28
POSITIONS = 64
OPTIONS = {
    "branches": 8, "max_new_tokens": POSITIONS, "block_size": 32, "tau_add": 0.0, "tau_act": 0.0, "early_stop": False,
}  # fmt: skip


def build() -> LanguageModel:
    """The network, which the processes inherit without a copy."""
    torch.manual_seed(1)
    network = Transformer(tiny_config("dream", **DREAM))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return LanguageModel(network)


def work(
    rank: int, size: int, file: str, model: LanguageModel, num_rounds: int, results: multiprocessing.Queue
) -> None:
    """Decode some rounds as one of several processes; rank 0 reports what they took."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = dist.FileStore(file, size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(minutes=10))
    communicator = TorchCommunicator(dist.group.WORLD, torch.device("cpu"), Beat(rank, {}))
    decoder = create("lopa", model, OPTIONS)
    decoder.group = BranchGroup(communicator)
    communicator.start()
    rounds = list(islice(decoder.decode(list(range(5, 37))), num_rounds))
    exchanges = communicator.finish()
    if rank == 0:
        masks = [max((branch.num_masks for branch in one.branches), default=0) for one in rounds]
        results.put([(one.branch_forwards, open_, *_bytes(exchange)) for one, open_, exchange in
                     zip(rounds, masks, exchanges, strict=False)])  # fmt: skip
    dist.destroy_process_group()


def _bytes(exchange: Exchange) -> tuple[int, int]:
    return exchange.gathered_bytes, exchange.sent_bytes


def measure(ranks: int, num_rounds: int) -> list[tuple[int, int, int, int]]:
    """Branches, open positions, bytes gathered over all processes, bytes of the winner's keys; of each round."""
    model = build()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "store")
        processes = [
            context.Process(target=work, args=(rank, ranks, file, model, num_rounds, results)) for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        found = results.get(timeout=900)
        for process in processes:
            process.join()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[Row] = []
    for index, (branches, masks, gathered, sent) in enumerate(measure(asked.ranks, asked.rounds)):
        rows.append(
            {
                "round": index, "branches": branches, "masks": masks, "gathered": gathered,
                "each": round(gathered / branches), "keys": sent, "whole": sent * DREAM_LAYERS,
            }
        )  # fmt: skip
    from lopa_bench.cli.options import print_table

    columns = [
        Column("round", "round"), Column("branches", "branches"), Column("masks", "masks of a branch"),
        Column("gathered", "bytes gathered"), Column("each", "bytes a branch"),
        Column("keys", "bytes of keys, 1 layer"), Column("whole", f"of {DREAM_LAYERS} layers"),
    ]  # fmt: skip
    vocabulary = DREAM["vocab_size"]
    print_table(Table(columns, rows, f"vocabulary {vocabulary}, {asked.ranks} processes"), "table")
    logits = POSITIONS * int(vocabulary) * 2
    print(f"limit {LIMIT} bytes a round and branch; a branch's logits in bfloat16 would be {logits} bytes")
    return 0 if all(float(str(row["each"])) <= LIMIT for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
