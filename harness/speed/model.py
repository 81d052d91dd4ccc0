"""A cost model of one round: what a device computes, reads and says, and how long that takes on many devices.

A round sends B windows of T positions over C cached ones through the network. The branches are shared by bp devices,
the network is held together by tp of them. Everything here is arithmetic; the rates come from `speed_measure`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.memory import weight_bytes

SCORE_BYTES = 4
NUMBERS_A_ROW = 3
"""Token, confidence and probability: what branches tell each other of a slot."""
VOCABULARY_NUMBERS = 6
"""What parts of the vocabulary tell each other of a row, in two exchanges."""

# How often a layer's small operations pass over the hidden state and the feed-forward's inside, and how often the
# candidates' pass over the logits.
WHOLE_PASSES, INNER_PASSES, LOGIT_PASSES = 16, 7, 10


@dataclass(frozen=True, slots=True)
class Machine:
    """What one device does in a second, and what a message costs.

    Attributes:
        flops: rows of a matrix product -> floating-point operations per second at that many.
        read_bytes_s: bytes of weights and cache read per second.
        layer_s: fixed seconds a layer costs whatever its size.
        round_s: fixed seconds a round costs outside the layers.
        link_latency_s: seconds of a collective between two devices that carries next to nothing.
        link_bytes_s: bytes per second between two devices; None where nothing was measured.
    """

    flops: Mapping[int, float]
    read_bytes_s: float
    layer_s: float
    round_s: float
    link_latency_s: float | None = None
    link_bytes_s: float | None = None

    def flops_at(self, rows: float) -> float:
        """The rate at any number of rows: between measured ones on a line in logarithms, beyond them the nearest."""
        known = sorted(self.flops)
        for below, above in pairwise(known):
            if below <= rows <= above:
                share = math.log(rows / below) / math.log(above / below)
                return self.flops[below] ** (1 - share) * self.flops[above] ** share
        return self.flops[known[0] if rows < known[0] else known[-1]]


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
    compute = _compute(machine, config, size, shape, own, tp)
    comm = _branch_talk(machine, config, size, shape, bp, tp) + _tensor_talk(machine, config, size, shape, own, tp)
    return Prediction(shape.branches, bp, tp, compute, comm, tokens_per_round)


def layer_flops(config: ModelConfig, positions: int, seen: int) -> float:
    """Operations of one layer: its projections, and the two products of attention over `seen` positions."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    weights = config.hidden_size * (2 * queries + 2 * keys + 3 * config.intermediate_size)
    return positions * (2.0 * weights + 4.0 * queries * seen)


def _compute(machine: Machine, config: ModelConfig, size: int, shape: RoundShape, own: int, tp: int) -> float:
    """Operations or reading, whichever takes longer, and what every layer and round costs besides."""
    positions, seen = own * shape.window, shape.window + shape.cached
    layers = config.num_layers * layer_flops(config, positions, seen) / tp
    head = 2.0 * own * shape.rows * config.hidden_size * config.vocab_size / tp
    operations = layers / machine.flops_at(positions) + head / machine.flops_at(own * shape.rows)
    # A row of the embedding is looked up, the rest of it is not read.
    read = weight_bytes(config, size, False, 0, tp) - (0 if config.tied_head else config.vocab_size / tp) * size
    cache = 2 * config.num_layers * shape.cached * max(1, config.num_kv_heads / tp) * config.head_dim * size
    reading = (read + cache) / machine.read_bytes_s
    # Norms, rotations, activations and the candidates' softmax are no products: they only move numbers.
    widths = WHOLE_PASSES * config.hidden_size + INNER_PASSES * config.intermediate_size / tp
    moved = config.num_layers * positions * widths * size + own * shape.rows * LOGIT_PASSES * config.vocab_size / tp * 4
    fixed = config.num_layers * machine.layer_s + machine.round_s
    return max(operations, reading) + moved / machine.read_bytes_s + fixed


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
    """Two sums a layer and one for the embedding, then two small gathers over the vocabulary's parts."""
    if tp == 1:
        return 0.0
    hidden = own * shape.window * config.hidden_size * size
    sums = (2 * config.num_layers + 1) * _message(machine, tp, 2 * hidden * (tp - 1) / tp)
    rows = own * shape.rows * VOCABULARY_NUMBERS * SCORE_BYTES * (tp - 1)
    return sums + 2 * _message(machine, tp, rows / 2)


def speed_up(prediction: Prediction, alone: Prediction) -> float:
    """Times faster than one device; below 1 where the talking costs more than the sharing brings."""
    return alone.seconds / prediction.seconds
