"""What makes a network faster changes its logits by no more than is told: W8A8 by hundredths, the rest by rounding."""

from __future__ import annotations

import shutil
from functools import cache
from typing import Any

import pytest
import torch
from fakes_models import tiny_config, tiny_model
from threads import ThreadGroup, on_ranks
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from lopa_bench.decoders.registry import create
from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.models.acceleration import Acceleration
from lopa_bench.models.compiled import compile_network
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.loading import load_model, load_tokenizer
from lopa_bench.models.memory import estimate_memory
from lopa_bench.models.merged import merge_projections
from lopa_bench.models.quantize import DEQUANTISED, INTEGER, QuantizedLinear, quantize
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.tensor_parallel import split

TEXTS = (
    "Question: Anna starts with 29 cups. She gives away 11. She finds 7 more. How many cups are there in the end?\n",
    "Question: Ruth has 26 balls. She gets 8 more. She keeps one of 2 equal parts. How many balls are there now?\n",
    "Question: Ben has 31 coins. He loses 9. How many coins does Ben have now?\n",
)
NUM_MASKS, SURE = 32, 0.9
TEXT = "Tom has 3 apples and buys 4 more. How many apples does he have?\nAnswer:"


def bundled(dtype: str = "float32", **asked: Any) -> tuple[LanguageModel, Tensor]:
    """A bundled model and its logits for a text."""
    model = load_model("bundled:d2f", dtype=dtype, acceleration=Acceleration(**asked))
    ids = torch.tensor([load_tokenizer("bundled:d2f")(TEXT)["input_ids"]])
    return model, model.predict(ids, (1, ids.shape[1])).float()


def error(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("kind", ["dream", "llada", "ar"])
def test_merged_projections_give_the_same_to_a_millionth(kind: str) -> None:
    wanted = tiny_model(kind, dtype=torch.float32)
    merged = tiny_model(kind, dtype=torch.float32)
    merge_projections(merged.network)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    torch.testing.assert_close(merged.predict(ids, (1, 5)), wanted.predict(ids, (1, 5)), rtol=1e-6, atol=1e-6)
    assert merged.network.num_parameters == wanted.network.num_parameters
    attention = merged.network.layers[0].attention
    assert [name for name, _ in attention.named_children() if name.endswith("_proj")] == ["o_proj", "qkv_proj"]


@cache
def plain_logits(dtype: str) -> Tensor:
    return at_work(load_model("bundled:d2f", dtype=dtype))


def at_work(model: LanguageModel) -> Tensor:
    """Logits [rows, own part of the vocabulary] of prompts and of answers that are still masked."""
    encode, rows = load_tokenizer("bundled:d2f"), []
    for text in TEXTS:
        ids = [*encode(f"{text}Answer:")["input_ids"], *[model.config.mask_token_id] * NUM_MASKS]
        rows.append(model.predict(torch.tensor([ids]), (1, len(ids)))[0].float())
    return torch.cat(rows)


def accelerated(dtype: str, processes: int, **asked: Any) -> Tensor:
    acceleration = Acceleration(**asked)
    if processes == 1:
        return at_work(load_model("bundled:d2f", dtype=dtype, acceleration=acceleration))

    def on_rank(group: ThreadGroup) -> Tensor:
        return at_work(load_model("bundled:d2f", dtype=dtype, acceleration=acceleration, tensor_group=group))

    return torch.cat(on_ranks(processes, on_rank), dim=-1)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "asked", "least", "most", "agreeing"),
    [
        pytest.param("float32", {}, 0.0, 1e-5, 1.0, id="float32"),
        pytest.param("float32", {"merge_qkv": True}, 0.0, 1e-5, 1.0, id="float32-merged"),
        pytest.param("float32", {"quantize": "w8a8"}, 1e-3, 0.02, 0.9, id="float32-w8a8"),
        pytest.param("bfloat16", {}, 0.0, 5e-3, 0.95, id="bfloat16"),
        pytest.param("bfloat16", {"merge_qkv": True}, 0.0, 5e-3, 0.95, id="bfloat16-merged"),
        pytest.param("bfloat16", {"quantize": "w8a8"}, 1e-3, 0.02, 0.9, id="bfloat16-w8a8"),
    ],
)
def test_each_way_changes_logits_by_no_more_than_is_told(
    dtype: str, asked: dict[str, Any], least: float, most: float, agreeing: float, processes: int
) -> None:
    plain, found = plain_logits(dtype), accelerated(dtype, processes, **asked)
    assert least <= error(found, plain) < most
    if "quantize" not in asked:  # as far from float32 as one process without it, and no farther
        exact = plain_logits("float32")
        assert error(found, exact) < 1.3 * error(plain, exact) + 1e-5
    agree = found.argmax(-1) == plain.argmax(-1)
    assert agree.float().mean() >= agreeing
    # Where two tokens are all but equally likely rounding chooses; where the network is sure nothing may.
    sure = plain.softmax(-1).amax(-1) > SURE
    assert sure.sum() >= 20 and agree[sure].all()


def test_eight_bits_are_told_and_leave_the_embedding_alone() -> None:
    plain, _ = bundled()
    model, _ = bundled(quantize="w8a8")
    assert model.accelerations == ("w8a8 (torch._int_mm: 35)",)
    assert model.dtype == torch.float32 and model.network.embed.weight.equal(plain.network.embed.weight)


def test_merged_or_not_the_eight_bit_numbers_are_the_same() -> None:
    _, apart = bundled(quantize="w8a8")
    model, merged = bundled(quantize="w8a8", merge_qkv=True)
    assert model.accelerations == ("merged q, k, v and gate, up", "w8a8 (torch._int_mm: 20)")
    assert torch.equal(merged, apart)


def test_without_the_kernel_the_same_numbers_are_multiplied_as_floats_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, integers = bundled(quantize="w8a8")

    def missing(*_: Tensor) -> Tensor:
        raise RuntimeError("not compiled for this device")

    monkeypatch.setattr(torch, "_int_mm", missing)
    model, floats = bundled(quantize="w8a8")
    assert model.accelerations == ("w8a8 (dequantised: 35)",)
    assert error(floats, integers) < 1e-5


@torch.no_grad()
def test_products_of_codes_are_exact() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(96, 40)
    ours, reference = QuantizedLinear(linear, INTEGER), QuantizedLinear(linear, DEQUANTISED)
    rows = torch.randn(3, 7, 96)
    rows[1, 2] = 0  # a row of zeros has no scale of its own
    torch.testing.assert_close(ours(rows), reference(rows), rtol=1e-6, atol=1e-6)
    assert error(ours(rows), linear(rows)) < 0.02
    assert torch.equal(ours(rows)[1, 2], linear.bias)


@torch.no_grad()
def test_each_token_and_each_output_has_its_own_scale() -> None:
    linear = nn.Linear(8, 4, bias=False)
    linear.weight.mul_(torch.tensor([[1.0], [10.0], [100.0], [1000.0]]))
    rows = torch.randn(5, 8) * torch.tensor([1e-4, 1e-2, 1.0, 1e2, 1e4])[:, None]
    found, wanted = QuantizedLinear(linear, INTEGER)(rows), linear(rows)
    assert all(error(found[row, :], wanted[row, :]) < 0.03 for row in range(5))


@torch.no_grad()
def test_what_is_not_a_number_stays_so() -> None:
    rows = torch.full((2, 8), float("nan"))
    assert QuantizedLinear(nn.Linear(8, 4), INTEGER)(rows).isnan().all()


@pytest.mark.parametrize("kernel", [INTEGER, DEQUANTISED])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_over_two_processes_the_eight_bit_results_are_those_of_one(
    dtype: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lopa_bench.models.quantize._kernel_for", lambda weight: kernel)
    whole = tiny_model(dtype=getattr(torch, dtype), qkv_bias=True, o_bias=True)
    state = {name: tensor.clone() for name, tensor in whole.network.state_dict().items()}
    ids = torch.tensor([[3, 1, 4, 1, 5]])

    def on_rank(group: ThreadGroup) -> Tensor:
        network = skeleton(whole.config)
        parts = split(network, group)
        network.load_state_dict({n: parts[n].of(t) if n in parts else t for n, t in state.items()}, assign=True)
        quantize(network)
        return LanguageModel(network).network(ids)

    quantize(whole.network)
    wanted = whole.network(ids)
    assert all(torch.equal(found, wanted) for found in on_ranks(2, on_rank))


@pytest.mark.parametrize(("eight_bit", "processes"), [(False, 1), (True, 1), (False, 2), (True, 3)])
def test_the_memory_estimate_is_what_the_network_takes(eight_bit: bool, processes: int) -> None:
    config = tiny_config(num_kv_heads=2, qkv_bias=True)
    estimate = estimate_memory(config, "bfloat16", 64, eight_bit=eight_bit, tensor_parallel=processes)

    def on_rank(group: ThreadGroup) -> tuple[int, int]:
        network = skeleton(config)
        parts = split(network, group) if group.size > 1 else {}
        state = {name: torch.zeros(tuple(value.shape)) for name, value in skeleton(config).state_dict().items()}
        cut = {name: (parts[name].of(t) if name in parts else t).bfloat16() for name, t in state.items()}
        network.load_state_dict(cut, assign=True)
        if eight_bit:
            quantize(network)
        held = [*network.parameters(), *network.buffers()]
        model = LanguageModel(network)
        return sum(one.numel() * one.element_size() for one in held), model.new_cache(64).num_bytes

    found = on_ranks(processes, on_rank)
    assert estimate.weights == max(weights for weights, _ in found)
    assert estimate.cache == max(cache for _, cache in found)


def test_what_cannot_be_is_refused_before_weights_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"--quantize w8a9 is not one of w8a8 .did you mean 'w8a8'"):
        Acceleration("w8a9").check("cpu")
    with pytest.raises(ConfigError, match="--compile is not offered with tensor parallelism"):
        Acceleration(compile=True).check("cpu", tensor_parallel=2)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(PrerequisiteError, match=r"needs a C\+\+ compiler, but none of c\+\+, g\+\+.* was found"):
        Acceleration(compile=True).check("cpu")
    Acceleration(compile=True).check("cuda:0")
    with pytest.raises(ConfigError, match="--compile is not offered on npu"):
        Acceleration(compile=True).check("npu:1")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="no C++ compiler")
def test_a_compiled_network_gives_the_same_tokens() -> None:
    prompt = load_tokenizer("bundled:d2f")(TEXT)["input_ids"]
    options = {"max_new_tokens": 32, "block_size": 8, "branches": 2, "early_stop": False}

    def answer(**asked: bool) -> tuple[list[int], tuple[str, ...]]:
        model = load_model("bundled:d2f", acceleration=Acceleration(**asked))
        generation = create("lopa", model, options).decode(prompt)
        generation.run()
        return generation.answer, model.accelerations

    compiled, done = answer(compile=True)
    assert done == ("torch.compile, mode default, layers without attention",)
    assert compiled == answer()[0]
    plain, other = load_model("bundled:d2f", dtype="bfloat16"), bundled("bfloat16", compile=True)[0]
    for branches, length in ((1, 8), (3, 8), (2, 13)):
        ids = torch.tensor([prompt[:length]] * branches)
        assert error(other.predict(ids, (1, length)).float(), plain.predict(ids, (1, length)).float()) < 0.02


def test_no_graphs_are_recorded_on_cuda_whose_memory_the_next_layer_would_take_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(torch, "compile", lambda part, **options: asked.append(options) or part)
    network = tiny_model().network
    with FakeTensorMode():
        network.embed.weight = nn.Parameter(torch.empty(2, 2, device="cuda"), requires_grad=False)
    assert network.embed.weight.device.type == "cuda"
    assert compile_network(network) == "torch.compile, mode default, layers without attention"
    assert asked == [{"mode": "default"}] * 2 * len(network.layers)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_on_cuda_a_compiled_network_decodes_and_its_logits_are_those_of_the_plain_one(dtype: str) -> None:
    prompt = load_tokenizer("bundled:d2f")(TEXT)["input_ids"]
    plain = load_model("bundled:d2f", dtype=dtype, device="cuda")
    compiled = load_model("bundled:d2f", dtype=dtype, device="cuda", acceleration=Acceleration(compile=True))
    for branches, length in ((1, 8), (3, 8), (2, 13), (1, 8)):  # back to a number of rows that was seen before
        ids = torch.tensor([prompt[:length]] * branches)
        found, wanted = compiled.predict(ids, (1, length)).float(), plain.predict(ids, (1, length)).float()
        assert error(found, wanted) < (1e-4 if dtype == "float32" else 0.02)
    options = {"max_new_tokens": 32, "block_size": 8, "branches": 4, "early_stop": False}
    answers = [create("lopa", model, options).decode(prompt) for model in (compiled, plain)]
    for one in answers:
        one.run()
    assert dtype == "bfloat16" or answers[0].answer == answers[1].answer
