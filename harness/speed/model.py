"""A cost model of one round: what a device computes, reads and says, and how long that takes on many devices.

A round sends B windows of T positions over C cached ones through the network. The branches are shared by bp devices,
the network is held together by tp of them. Everything here is arithmetic; the rates come from `measure`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from lopa_bench.models.config import ModelConfig

SCORE_BYTES = 4
SUM_BYTES = 4
"""At least, of a number in the sums behind row-split products: halves are not rounded to 16 bits before."""
NUMBERS_A_ROW = 3
"""Token, confidence and probability: what branches tell each other of a slot."""
VOCABULARY_NUMBERS = 6
"""What parts of the vocabulary tell each other of a row, in two exchanges."""
STATES = 2
"""Tiny gathers a call by which the holders of a network tell each other that memory sufficed."""

Rates = Mapping[int, float]
"""How large a piece of work is -> how much of it is done in a second."""


def at(rates: Rates, size: float) -> float:
    """The rate at any size: between measured ones on a line in logarithms, beyond them the nearest."""
    known = sorted(rates)
    for below, above in pairwise(known):
        if below <= size <= above:
            share = math.log(size / below) / math.log(above / below)
            return rates[below] ** (1 - share) * rates[above] ** share
    return rates[known[0] if size < known[0] else known[-1]]


@dataclass(frozen=True, slots=True)
class Machine:
    """What one device does in a second, and what a message costs; `measure` says how each is measured.

    Attributes:
        flops: rows -> floating-point operations per second of a layer's seven projections, their weights not in cache.
        head_flops: rows -> the same of the vocabulary's matrix.
        attention_flops: windows -> operations per second of their attention over the cache and themselves.
        hidden_numbers: rows -> numbers of the hidden state per second through a layer's norms and residual sums.
        inner_numbers: rows -> numbers inside the feed-forward per second, the rotation of queries and keys included.
        scored_logits: rows -> logits per second of which candidates are made, up to the host.
        layer_s: seconds below which no layer comes, however small.
        round_s: fixed seconds a round costs outside the layers.
        link_latency_s: seconds of a collective between two devices that carries next to nothing.
        link_bytes_s: bytes per second between two devices; None where nothing was measured.
    """

    flops: Rates
    head_flops: Rates
    attention_flops: Rates
    hidden_numbers: Rates
    inner_numbers: Rates
    scored_logits: Rates
    layer_s: float
    round_s: float
    link_latency_s: float | None = None
    link_bytes_s: float | None = None


@dataclass(frozen=True, slots=True)
class RoundShape:
    """One round: branches, positions of each, cached positions, rows of logits of each, positions it caches."""

    branches: int
    window: int
    cached: int
    rows: int
    committed: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a round on bp x tp devices, and tokens per second at a number of tokens per round."""

    branches: int
    bp: int
    tp: int
    compute_s: float
    comm_s: float
    tokens_per_round: float

    @property
    def devices(self) -> int:
        """Devices in all."""
        return self.bp * self.tp

    @property
    def seconds(self) -> float:
        """Of a round."""
        return self.compute_s + self.comm_s

    @property
    def tokens_s(self) -> float:
        """Tokens per second."""
        return self.tokens_per_round / self.seconds


def predict(
    machine: Machine, config: ModelConfig, size: int, shape: RoundShape, bp: int, tp: int, tokens_per_round: float
) -> Prediction:
    """What a round costs; `size` are bytes of a number. The device with most branches and the largest part decides."""
    own = -(-shape.branches // bp)
    compute = _compute(machine, config, shape, own, tp)
    comm = _branch_talk(machine, config, size, shape, bp, tp) + _tensor_talk(machine, config, size, shape, own, tp)
    return Prediction(shape.branches, bp, tp, compute, comm, tokens_per_round)


def product_flops(config: ModelConfig, rows: float) -> float:
    """Operations of a layer's projections."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    return 2.0 * rows * config.hidden_size * (2 * queries + 2 * keys + 3 * config.intermediate_size)


def attention_flops(config: ModelConfig, rows: float, seen: float) -> float:
    """Operations of the two products of a layer's attention, `rows` positions over `seen` ones."""
    return 4.0 * rows * config.num_heads * config.head_dim * seen


def layer_s(machine: Machine, config: ModelConfig, shape: RoundShape, own: int, tp: int) -> float:
    """Seconds of one layer for `own` branches: its products, its attention, and what only moves numbers.

    Projections, heads and the feed-forward's inside are divided by tp devices, the hidden state is whole on each.
    """
    rows = own * shape.window
    products = product_flops(config, rows) / tp / at(machine.flops, rows)
    seen = attention_flops(config, rows, shape.window + shape.cached)
    attention = seen / tp / at(machine.attention_flops, own / tp)
    hidden = rows * config.hidden_size / at(machine.hidden_numbers, rows)
    inner = rows * config.intermediate_size / tp / at(machine.inner_numbers, rows / tp)
    return max(products + attention + hidden + inner, machine.layer_s)


def _compute(machine: Machine, config: ModelConfig, shape: RoundShape, own: int, tp: int) -> float:
    """The layers, the head's product, the candidates, and what a round costs besides."""
    rows = own * shape.rows
    layers = config.num_layers * layer_s(machine, config, shape, own, tp)
    head = 2.0 * rows * config.hidden_size * config.vocab_size / tp / at(machine.head_flops, rows)
    scores = rows * config.vocab_size / tp / at(machine.scored_logits, rows / tp)
    return layers + head + scores + machine.round_s


def _message(machine: Machine, processes: int, sent: float) -> float:
    """Seconds of one collective: a latency for every doubling of the processes, and the bytes that each one sends."""
    if processes == 1:
        return 0.0
    if machine.link_latency_s is None or machine.link_bytes_s is None:
        raise ValueError("no link was measured")
    return machine.link_latency_s * math.ceil(math.log2(processes)) + sent / machine.link_bytes_s


def _branch_talk(machine: Machine, config: ModelConfig, size: int, shape: RoundShape, bp: int, tp: int) -> float:
    """One gather of all branches' rows, and the winner's keys for the positions that a round caches on average."""
    if bp == 1:
        return 0.0
    told = shape.branches * shape.rows * NUMBERS_A_ROW * SCORE_BYTES
    heads = max(1, config.num_kv_heads / tp)
    keys = 2 * config.num_layers * heads * config.head_dim * size * shape.committed
    gather = _message(machine, bp, told * (bp - 1) / bp)
    # The broadcast is due only in rounds that finish a block.
    share = min(1.0, shape.committed / max(1, shape.window))
    latency = _message(machine, bp, 0.0)
    return gather + share * latency + keys / (machine.link_bytes_s or 1.0)


def _tensor_talk(machine: Machine, config: ModelConfig, size: int, shape: RoundShape, own: int, tp: int) -> float:
    """Two sums a layer and one for the embedding, two small gathers over the vocabulary's parts, and the states."""
    if tp == 1:
        return 0.0
    hidden = own * shape.window * config.hidden_size
    sums = _message(machine, tp, 2 * hidden * size * (tp - 1) / tp)
    sums += 2 * config.num_layers * _message(machine, tp, 2 * hidden * max(size, SUM_BYTES) * (tp - 1) / tp)
    rows = own * shape.rows * VOCABULARY_NUMBERS * SCORE_BYTES * (tp - 1)
    return sums + 2 * _message(machine, tp, rows / 2) + STATES * _message(machine, tp, 0.0)


def speed_up(prediction: Prediction, alone: Prediction) -> float:
    """Times faster than one device; below 1 where the talking costs more than the sharing brings."""
    return alone.seconds / prediction.seconds
