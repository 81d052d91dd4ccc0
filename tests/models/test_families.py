"""Public config.json and tensor names read as ours and back; what this network lacks is refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lopa_bench.errors import ModelError
from lopa_bench.models.catalog import ADAPTERS, CHECKPOINTS, Checkpoint
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.families import FAMILIES, family_of
from lopa_bench.models.memory import count_parameters, estimate_memory
from lopa_bench.models.skeleton import skeleton

NAMES = list(FAMILIES)


@pytest.mark.parametrize("known", CHECKPOINTS, ids=lambda known: known.name)
def test_catalogue_builds_with_the_public_parameter_count(known: Checkpoint) -> None:
    assert count_parameters(known.config) == known.parameters
    assert known.config.causal == (known.family.name not in ("dream", "llada"))
    assert known.config.logit_shift == (known.family.name != "llada")


def test_catalogue_names_are_distinct_and_adapters_have_their_base() -> None:
    assert len({known.name for known in CHECKPOINTS}) == len(CHECKPOINTS)
    assert {adapter.base for adapter in ADAPTERS} <= {known.hub_id for known in CHECKPOINTS}


@pytest.mark.parametrize("family", NAMES)
def test_config_round_trip(tiny_config: Callable[..., ModelConfig], family: str) -> None:
    config = tiny_config(family)
    raw = json.loads(json.dumps(FAMILIES[family].public_config(config)))
    assert family_of(raw) is FAMILIES[family]
    assert FAMILIES[family].config(raw) == config


def test_llama3_scaling_survives_the_round_trip(tiny_config: Callable[..., ModelConfig]) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    config = tiny_config("llama", rope_scaling=scaling, qkv_bias=True, o_bias=True)
    assert FAMILIES["llama"].config(FAMILIES["llama"].public_config(config)) == config


@pytest.mark.parametrize("family", NAMES)
def test_every_parameter_has_a_public_name_of_its_own(tiny_config: Callable[..., ModelConfig], family: str) -> None:
    names = [name for name, _ in skeleton(tiny_config(family)).named_parameters()]
    public = [FAMILIES[family].public_name(name) for name in names]
    assert len(set(public)) == len(names)
    assert [FAMILIES[family].own_name(name) for name in public] == names


def test_public_names_are_the_checkpoints_own() -> None:
    dream, llada = FAMILIES["dream"], FAMILIES["llada"]
    assert dream.public_name("layers.11.attention.k_proj.bias") == "model.layers.11.self_attn.k_proj.bias"
    assert dream.public_name("head.weight") == "lm_head.weight"
    assert llada.public_name("layers.3.mlp.gate_proj.weight") == "model.transformer.blocks.3.ff_proj.weight"
    assert llada.public_name("layers.3.mlp.down_proj.weight") == "model.transformer.blocks.3.ff_out.weight"
    assert llada.public_name("head.weight") == "model.transformer.ff_out.weight"
    assert dream.own_name("model.layers.0.self_attn.rotary_emb.inv_freq") is None
    with pytest.raises(ModelError, match="LLaDAModelLM has no place for"):
        llada.public_name("layers.0.attention.q_norm.weight")


def test_llada_sizes() -> None:
    llada = next(known for known in CHECKPOINTS if known.name == "LLaDA-8B-Base")
    assert llada.family.config({**llada.settings, "vocab_size": 126349}).vocab_size == 126464
    assert llada.family.config({**llada.settings, "n_kv_heads": None}).num_kv_heads == 32
    assert llada.family.config({**llada.settings, "mlp_hidden_size": None, "mlp_ratio": 4}).intermediate_size == 16384


def settings_of(name: str) -> dict[str, Any]:
    return dict(next(known for known in CHECKPOINTS if known.name == name).settings)


QWEN, QWEN3 = "Qwen2.5-7B-Instruct", "Qwen3-8B"
LLAMA, LLADA, DREAM = "Llama-3.1-8B-Instruct", "LLaDA-8B-Base", "Dream-v0-Base-7B"


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (QWEN, {"use_sliding_window": True, "max_window_layers": 20}, "sliding-window attention"),
        (QWEN, {"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window attention"),
        (QWEN, {"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rotary scaling 'yarn'"),
        (QWEN, {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e6}}, "rotary scaling 'linear'"),
        (QWEN, {"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        (QWEN, {"use_mrope": True}, "use_mrope = True"),
        (QWEN3, {"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        (QWEN3, {"mask_token_id": 5, "auto_map": {"AutoModel": "x.Y"}}, "under an autoregressive class's name"),
        (LLAMA, {"mlp_bias": True}, "mlp_bias = True"),
        (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        (LLAMA, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "config.json lacks 'low_freq_factor'"),
        (LLAMA, {"hidden_size": None}, "config.json lacks 'hidden_size'"),
        (LLAMA, {"num_key_value_heads": 5}, "32 attention heads cannot share 5"),
        (LLADA, {"block_type": "sequential"}, "block_type = 'sequential'"),
        (LLADA, {"alibi": True}, "alibi = True"),
        (LLADA, {"layer_norm_type": "default"}, "layer_norm_type = 'default'"),
        (LLADA, {"activation_type": "swiglu"}, "activation_type = 'swiglu'"),
        (LLADA, {"mask_token_id": None}, "needs mask_token_id"),
        (DREAM, {"architectures": ["DreamModl"]}, r"'DreamModl', which is not supported \(did you mean 'DreamModel'"),
        (DREAM, {"architectures": ["Qwen3MoeForCausalLM"]}, "supported: DreamModel, LLaDAModelLM, Qwen2ForCausalLM"),
        (DREAM, {"architectures": []}, "names no architecture"),
    ],
)
def test_refusals(name: str, changes: dict[str, Any], said: str) -> None:
    raw = {**settings_of(name), **changes}
    with pytest.raises(ModelError, match=said) as caught:
        family_of(raw).config(raw)
    assert "\n" not in str(caught.value)


def test_sliding_window_that_no_layer_uses_is_accepted() -> None:
    raw = settings_of(QWEN)
    for changes in (
        {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 0},
        {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 28},
        {"layer_types": ["full_attention"] * 28},
    ):
        assert family_of(raw).config({**raw, **changes}).num_layers == 28


def test_memory_estimate_of_a_known_model() -> None:
    """Dream-7B in bf16, 4 branches of 64 rows over 1024 positions."""
    config = next(known for known in CHECKPOINTS if known.name == "Dream-v0-Instruct-7B").config
    estimate = estimate_memory(config, "bf16", 1024, 4, window=64)
    assert estimate.weights == 2 * 7_615_616_512
    assert estimate.cache == 2 * 28 * 4 * 128 * 1024 * 2
    assert estimate.logits == 4 * 64 * 152064 * (2 + 4)
    assert estimate.total == estimate.weights + estimate.cache + estimate.logits
    assert estimate_memory(config, "float32", 1024, 4).logits == 4 * 1024 * 152064 * 8


def test_memory_estimate_equals_what_is_allocated(tiny_model: Callable[..., Any]) -> None:
    model = tiny_model("llama", dtype=torch.bfloat16)
    estimate = estimate_memory(model.config, model.dtype, 40)
    assert estimate.weights == sum(weight.numel() * 2 for weight in model.network.parameters())
    assert estimate.cache == model.new_cache(40).num_bytes
