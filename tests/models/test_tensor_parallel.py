"""A network held by several processes gives what it gives on one, and each reads its own part of the weights only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fakes_models import tiny_config, tiny_model
from threads import ThreadGroup, on_ranks
from torch import Tensor

from lopa_bench.errors import ConfigError
from lopa_bench.models import weights
from lopa_bench.models.adapters import Adapter, LowRank
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.loading import load_model, save_model
from lopa_bench.models.quantize import quantize
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.tensor_parallel import Part, RowLinear, exchanges_of, key_value_heads, partition, span_of, split
from lopa_bench.models.visibility import block_causal

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def part_of(model: LanguageModel, group: ThreadGroup) -> LanguageModel:
    """This rank's part of a whole model."""
    network = skeleton(model.config)
    parts = split(network, group)
    state = model.network.state_dict()
    network.load_state_dict({name: parts[name].of(t) if name in parts else t for name, t in state.items()}, assign=True)
    return LanguageModel(network, model.name)


def logits(model: LanguageModel) -> Tensor:
    """Over a cache and with two branches, so that every path of the attention is taken."""
    cache = model.new_cache(8)
    visibility = block_causal(4, 2)
    first = model.predict(IDS[:, :4], (1, 4), cache=cache, num_commit=4, visibility=visibility)
    cache.commit()
    both = torch.cat((IDS[:, 4:], IDS[:, 4:].flip(1)))
    second = model.predict(both, (4, 8), start=4, cache=cache, visibility=visibility)
    return torch.cat((first.flatten(0, 1), second.flatten(0, 1)))


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("dream", {}),
        ("dream", {"qkv_bias": True, "o_bias": True}),
        ("llada", {"num_kv_heads": 4}),
        ("ar", {"tied_head": True, "num_kv_heads": 1}),
        ("dream", {"num_heads": 6, "num_kv_heads": 3, "intermediate_size": 31, "vocabulary": 17}),
    ],
)
def test_the_parts_together_give_the_whole(size: int, kind: str, changes: dict[str, Any]) -> None:
    model = tiny_model(kind, **changes)
    found = on_ranks(size, lambda group: logits(part_of(model, group)))
    assert sum(part.shape[-1] for part in found) == model.config.vocab_size
    torch.testing.assert_close(torch.cat(found, dim=-1), logits(model), rtol=1e-9, atol=1e-9)


def shape(heads: int, kv_heads: int) -> ModelConfig:
    return tiny_config(num_heads=heads, num_kv_heads=kv_heads)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "held"),
    [
        (4, 4, [[0, 1], [2, 3]]),
        (4, 2, [[0], [1]]),
        (8, 2, [[0], [0], [1], [1]]),
        (12, 2, [[0], [0, 1], [1]]),
        (14, 2, [[0], [0, 0, 0, 1], [1], [1]]),
    ],
)
def test_a_shared_key_value_head_is_held_by_all_that_need_it(heads: int, kv_heads: int, held: list[list[int]]) -> None:
    config = shape(heads, kv_heads)
    found = [key_value_heads(config, rank, len(held)) for rank in range(len(held))]
    assert found == held
    served = []
    for rank, own in enumerate(found):
        start, stop = span_of(heads, rank, len(held))
        served += [own[query * len(own) // (stop - start)] for query in range(stop - start)]
    assert served == [query // config.num_query_groups for query in range(heads)]


def test_more_processes_than_heads_are_refused() -> None:
    with pytest.raises(ConfigError, match="5 processes leaves some without a head: the model has 4"):
        on_ranks(5, lambda group: split(skeleton(shape(4, 2)), group))


def test_a_layer_costs_two_sums_and_the_embedding_one() -> None:
    def count(group: ThreadGroup) -> int:
        part_of(tiny_model(), group).predict(IDS, (1, 8))
        return group.reduced

    assert on_ranks(2, count) == [1 + 2 * 2] * 2


def test_each_reads_its_own_part_of_the_weights_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(dtype=torch.float32)
    save_model(model, tmp_path)
    whole = load_model(tmp_path)
    read: dict[str, list[int]] = {}
    original = weights.read_tensors

    def noted(*arguments: Any) -> Any:
        for name, tensor in original(*arguments):
            read.setdefault(name, []).append(tensor.numel())
            yield name, tensor

    monkeypatch.setattr("lopa_bench.models.loading.read_tensors", noted)
    found = on_ranks(2, lambda group: logits(load_model(tmp_path, tensor_group=group)))
    torch.testing.assert_close(torch.cat(found, dim=-1), logits(whole), rtol=0, atol=1e-5)
    split_ones = partition(model.config, 0, 2)
    sizes = {name: parameter.numel() for name, parameter in whole.network.named_parameters()}
    assert read["model.embed_tokens.weight"] == [sizes["embed.weight"] // 2] * 2
    assert sum(sum(counts) for counts in read.values()) == sum(
        size if name in split_ones else 2 * size for name, size in sizes.items()
    )


def test_an_adapter_changes_every_process_part_of_the_weights() -> None:
    plain, whole = tiny_model(qkv_bias=True), tiny_model(qkv_bias=True)
    torch.manual_seed(4)
    modules = [f"layers.1.attention.{name}_proj" for name in "qkvo"] + [
        "layers.0.mlp.up_proj",
        "layers.0.mlp.down_proj",
    ]
    shapes = {name: whole.network.get_parameter(f"{name}.weight").shape for name in modules}
    changes = {
        name: LowRank(torch.randn(2, shape[1]).double(), torch.randn(shape[0], 2).double(), 0.3)
        for name, shape in shapes.items()
    }
    adapter = Adapter("an adapter", changes)

    def on_rank(group: ThreadGroup) -> tuple[Tensor, Tensor]:
        model = part_of(plain, group)
        before = logits(model)
        adapter.narrowed(partition(plain.config, group.rank, group.size)).merge_into(model.network)
        return before, logits(model)

    found = on_ranks(2, on_rank)
    adapter.merge_into(whole.network)
    assert all(float((after - before).abs().max()) > 0.1 for before, after in found)
    torch.testing.assert_close(torch.cat([after for _, after in found], dim=-1), logits(whole), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_sum_of_parts_is_rounded_once_as_one_product_is(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    whole = torch.nn.Linear(256, 64).to(dtype).requires_grad_(False)
    rows = torch.randn(23, 256).to(dtype)

    def on_rank(group: ThreadGroup) -> Tensor:
        own = Part(1, (span_of(256, group.rank, group.size),))
        part = RowLinear(1, 1).requires_grad_(False)
        part.weight, part.bias, part.group = torch.nn.Parameter(own.of(whole.weight), False), whole.bias, group
        return part(own.of(rows))

    exact = torch.nn.functional.linear(rows.double(), whole.weight.double(), whole.bias.double()).to(dtype)
    halves = [part.of(rows) @ part.of(whole.weight).T for part in (Part(1, (span,)) for span in ((0, 128), (128, 256)))]
    for found in on_ranks(2, on_rank):
        assert found.dtype == dtype
        # A number may lie so near the middle of two that the order of the sum decides.
        assert (found != exact).float().mean() < 0.01
    assert (sum(halves) + whole.bias != exact).float().mean() > 0.1  # what rounding each part would give


@pytest.mark.parametrize("eight_bit", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_what_a_forward_exchanges_is_known_beforehand(dtype: torch.dtype, eight_bit: bool) -> None:
    whole = tiny_model(dtype=dtype)

    class Listed(ThreadGroup):
        def __init__(self, group: ThreadGroup) -> None:
            super().__init__(group.meeting, group.parts, group.rank)
            self.seen: list[tuple[bool, tuple[int, ...], torch.dtype]] = []

        def all_reduce(self, tensor: Tensor) -> None:
            self.seen.append((True, (IDS.numel(), tensor.shape[-1]), tensor.dtype))
            super().all_reduce(tensor)

        def all_gather(self, part: Tensor) -> Tensor:
            self.seen.append((False, tuple(part.shape), part.dtype))
            return super().all_gather(part)

    def on_rank(group: ThreadGroup) -> tuple[list[Any], list[Any]]:
        listed = Listed(group)
        model = part_of(whole, listed)
        if eight_bit:
            quantize(model.network)
        listed.seen.clear()  # the scales of the weights
        model.network(IDS)
        return listed.seen, [(one.is_sum, one.shape, one.dtype) for one in exchanges_of(model.network, IDS.numel())]

    for seen, foretold in on_ranks(2, on_rank):
        assert seen == foretold and len(seen) > 2
