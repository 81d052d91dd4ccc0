"""What one device does in a second, by short measurements of the very operations that a round is made of.

Each is the fewest seconds of some repetitions. Weights come from as many layers as a processor's caches do not hold,
for in a network every layer's are read anew.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor

from lopa_bench.harness.speed.model import Machine, Rates, RoundShape, attention_flops, product_flops
from lopa_bench.models.attention import attend, attend_with_prefix
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import RMSNorm
from lopa_bench.models.rotary import Rotary, rotate
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.tensor_parallel import TensorGroup, split
from lopa_bench.models.tiny import tiny_config

ROWS = (1, 8, 64, 256, 1024)
MOST_WEIGHTS = 64 << 20
"""Numbers that no processor's caches hold."""
MOST_LOGITS = 64 << 20
SETS = 4
"""Tensors of a kind that the small operations go over in turns."""
LEAST_REPEATS, MOST_REPEATS = 3, 25
MOST_S = 1.5
"""Seconds of repeating one measurement."""


Agree = Callable[[float], float]
"""Makes processes that measure together repeat equally often: the longest of their seconds, on each of them."""


def timed(
    work: Callable[[], object], device: str, repeats: int = 7, most_s: float = MOST_S, agree: Agree = lambda own: own
) -> float:
    """Fewest seconds of some calls, after one that does not count; what else runs on the machine only adds to them."""
    [fewest] = timed_in_turns([work], device, repeats, most_s, agree)
    return fewest


def timed_in_turns(
    works: Sequence[Callable[[], object]], device: str, repeats: int, most_s: float, agree: Agree
) -> list[float]:
    """`timed` of several works, one after the other in every repetition, so that what disturbs one disturbs all."""
    for work in works:
        work()
    found = [[_seconds(work, device) for work in works]]
    taken = max(agree(sum(found[0])), 1e-9)
    for _ in range(min(repeats, max(LEAST_REPEATS, int(most_s / taken))) - 1):
        found.append([_seconds(work, device) for work in works])
    return [min(one) for one in zip(*found, strict=True)]


def _seconds(work: Callable[[], object], device: str) -> float:
    begin = _now(device)
    work()
    return _now(device) - begin


def _now(device: str) -> float:
    if not device.startswith("cpu"):
        torch.accelerator.synchronize()
    return time.perf_counter()


@torch.inference_mode()
def measure_device(
    config: ModelConfig, dtype: torch.dtype, device: str, shape: RoundShape, meet: Callable[[], object] = lambda: None
) -> Machine:
    """Rates of one device for a network's operations, and what a layer and a round cost besides.

    Args:
        config: the network's shape.
        dtype: of its weights.
        device: where.
        shape: the largest round, whose windows and cache the attention is measured with.
        meet: called before every measurement, for several processes that measure at the same time.
    """
    bench = _Bench(config, dtype, device, meet)
    windows = sorted({1, 2, max(shape.branches, 2)})
    layer_s, round_s = _fixed_costs(device, dtype)
    return Machine(
        flops=bench.products(),
        head_flops=bench.head(),
        attention_flops={count: bench.attention(count, shape) for count in windows},
        hidden_numbers={rows: bench.hidden(rows) for rows in ROWS},
        inner_numbers={rows: bench.inner(rows) for rows in ROWS},
        scored_logits=bench.scores(),
        layer_s=layer_s,
        round_s=round_s,
    )


class _Bench:
    """The measurements, each named after what it is of."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: str, meet: Callable[[], object]) -> None:
        self.config, self.dtype, self.device, self.meet = config, dtype, device, meet

    def products(self) -> Rates:
        """A layer's seven projections: operations per second by rows."""
        config, layers = self.config, projections(self.config, self.dtype, self.device)

        def rate(rows: int) -> float:
            inputs = {width: self._random(rows, width) for width in {one.shape[1] for one in layers[0]}}
            seconds = self._seconds(lambda: [F.linear(inputs[one.shape[1]], one) for layer in layers for one in layer])
            return len(layers) * product_flops(config, rows) / seconds

        return {rows: rate(rows) for rows in ROWS}

    def head(self) -> Rates:
        """The vocabulary's matrix: operations per second by rows."""
        shape = (self.config.vocab_size, self.config.hidden_size)
        copies = [self._random(*shape) for _ in range(min(8, math.ceil(MOST_WEIGHTS / math.prod(shape))))]

        def rate(rows: int) -> float:
            hidden = self._random(rows, shape[1])
            return (
                2.0
                * rows
                * math.prod(shape)
                * len(copies)
                / self._seconds(lambda: [F.linear(hidden, one) for one in copies])
            )

        return {rows: rate(rows) for rows in ROWS}

    def attention(self, windows: int, shape: RoundShape) -> float:
        """Some windows' attention over the cache and themselves: operations per second."""
        config, (length, cached) = self.config, (shape.window, shape.cached)
        heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
        query, key = self._random(windows, heads, length, width), self._random(windows, kv_heads, length, width)
        prefix = self._random(1, kv_heads, cached, width)
        whole = self._random(1, kv_heads, cached + length, width)

        def once() -> Tensor:
            if cached == 0:
                return attend(query, key, key, None)
            if windows == 1:
                return attend(query, whole, whole, None)
            return attend_with_prefix(query, key, key, prefix, prefix, None)

        work = SETS * attention_flops(config, windows * length, length + cached)
        return work / self._seconds(lambda: [once() for _ in range(SETS)])

    def hidden(self, rows: int) -> float:
        """A layer's two norms and two residual sums: numbers of the hidden state per second."""
        size = self.config.hidden_size
        states = [self._random(rows, size) for _ in range(SETS)]
        norm = RMSNorm(size, self.config.norm_eps).to(self.device, self.dtype)

        def once(state: Tensor) -> Tensor:
            state = state + norm(state)
            return state + norm(state)

        return SETS * rows * size / self._seconds(lambda: [once(state) for state in states])

    def inner(self, rows: int) -> float:
        """The feed-forward's gate, queries and keys turned, the heads laid side by side: numbers per second."""
        config = self.config
        gates = [self._random(rows, config.intermediate_size) for _ in range(SETS)]
        query, key = (self._random(1, n, rows, config.head_dim) for n in (config.num_heads, config.num_kv_heads))
        cosine, sine = (table[:rows] for table in Rotary(config).tables(rows, query))

        def once(gate: Tensor) -> object:
            turned = rotate(query, cosine, sine), rotate(key, cosine, sine)
            return F.silu(gate) * gate, turned[0].transpose(1, 2).flatten(2)

        return SETS * rows * config.intermediate_size / self._seconds(lambda: [once(gate) for gate in gates])

    def scores(self) -> Rates:
        """Candidates of all rows, on the host: logits per second by rows."""
        from lopa_bench.decoders.confidence import host_scores

        def rate(rows: int) -> float:
            logits = self._random(1, rows, self.config.vocab_size)
            return logits.numel() / self._seconds(lambda: host_scores(logits, 0, "neg_entropy"))

        return {rows: rate(rows) for rows in ROWS if rows == 1 or rows * self.config.vocab_size <= MOST_LOGITS}

    def _random(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self.device, dtype=self.dtype)

    def _seconds(self, work: Callable[[], object]) -> float:
        self.meet()
        return timed(work, self.device, MOST_REPEATS)


def projections(config: ModelConfig, dtype: torch.dtype, device: str) -> list[list[Tensor]]:
    """The projections of as many layers as the caches do not hold, of all of them at most."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    shapes = [(queries, hidden), (keys, hidden), (keys, hidden), (hidden, queries)]
    shapes += [(inner, hidden), (inner, hidden), (hidden, inner)]
    count = min(config.num_layers, math.ceil(MOST_WEIGHTS / sum(map(math.prod, shapes))))
    return [[torch.randn(shape, device=device, dtype=dtype) for shape in shapes] for _ in range(count)]


def _fixed_costs(device: str, dtype: torch.dtype) -> tuple[float, float]:
    """Seconds per layer and per round of networks so small that nothing but starting the operations costs anything."""
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


def link_rates(
    layers: Sequence[Sequence[Tensor]], rows: int, device: str, add: Callable[[Tensor], object], agree: Agree
) -> tuple[float, float]:
    """Seconds of a sum that carries next to nothing, and bytes per second of one over `rows` hidden states.

    Each is measured twice, and the slower counts: alone, one sum after the other, and between products, as in a
    network, where those who carry it have gone to sleep meanwhile, the data is not at hand, and the processes come to
    it one after the other. Of two processes each sends what it holds once.
    """
    hidden, dtype = layers[0][0].shape[1], layers[0][0].dtype
    state = torch.randn(rows, hidden, device=device, dtype=dtype)
    small, large = (torch.zeros(size, device=device, dtype=dtype) for size in (64, rows * hidden))
    inside = [[one for one in layer if one.shape[1] == hidden] for layer in layers]

    def once(added: Tensor | None) -> None:
        for layer in inside:
            for one in layer:
                F.linear(state, one)
            if added is not None:
                add(added)

    alone = timed_in_turns([lambda: add(small), lambda: add(large)], device, 2 * MOST_REPEATS, MOST_S, agree)
    works = [lambda: once(None), lambda: once(small), lambda: once(large)]
    bare, few, many = timed_in_turns(works, device, MOST_REPEATS, 4 * MOST_S, agree)
    latency = max(alone[0], (few - bare) / len(inside))
    longer = max(alone[1] - alone[0], (many - few) / len(inside), 1e-9)
    return latency, large.numel() * large.element_size() / longer
