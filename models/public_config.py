"""The public config.json of each family, read into the fields of ModelConfig and written back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lopa_bench.errors import ModelError
from lopa_bench.models.config import ModelConfig

Raw = Mapping[str, Any]


def need(raw: Raw, key: str) -> Any:
    """A value that config.json must hold."""
    if raw.get(key) is None:
        raise ModelError(f"config.json lacks '{key}', without which the network cannot be built")
    return raw[key]


def refuse(raw: Raw, key: str, allowed: tuple[Any, ...]) -> None:
    """Stop on a setting that this network does not have; an absent key is one of the allowed."""
    if key in raw and raw[key] not in allowed:
        raise ModelError(
            f"config.json asks for {key} = {raw[key]!r}, which is not supported; "
            f"supported: {', '.join(map(repr, allowed))}"
        )


def special_ids(raw: Raw) -> dict[str, Any]:
    """Special token ids; the first where the config lists several (loading looks further for the EOS)."""
    ids: dict[str, Any] = {}
    for role in ("mask", "eos", "pad", "bos"):
        value = raw.get(f"{role}_token_id")
        ids[f"{role}_token_id"] = (value[0] if value else None) if isinstance(value, list) else value
    return ids


def _rope(raw: Raw) -> tuple[float, dict[str, Any] | None]:
    """Base and Llama 3 scaling, from either spelling: `rope_theta` + `rope_scaling`, or `rope_parameters`."""
    settings: dict[str, Any] = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
    theta = settings.pop("rope_theta", None) or raw.get("rope_theta") or 10000.0
    kind = settings.pop("rope_type", None) or settings.pop("type", None) or "default"
    settings.pop("type", None)
    for where in (settings, raw):
        refuse(where, "partial_rotary_factor", (1, None))
    if kind == "default":
        return float(theta), None
    if kind != "llama3":
        raise ModelError(
            f"config.json asks for rotary scaling '{kind}', which is not supported; supported: default, llama3"
        )
    wanted = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    return float(theta), {"rope_type": "llama3", **{key: need(settings, key) for key in wanted}}


def refuse_sliding_window(raw: Raw, num_layers: int) -> None:
    """Sliding windows are refused where a layer would use one; Qwen2 writes them down switched off."""
    types = raw.get("layer_types")
    if types is not None:
        used = any(kind != "full_attention" for kind in types)
    else:
        used = bool(raw.get("use_sliding_window")) and raw.get("max_window_layers", 0) < num_layers
    if used:
        raise ModelError(
            "config.json asks for sliding-window attention, which is not supported; "
            "only checkpoints whose layers all attend to everything are"
        )


def read_hugging_face(raw: Raw) -> dict[str, Any]:
    """Fields shared by the Qwen, Llama and Dream classes."""
    refuse(raw, "hidden_act", ("silu",))
    for key in ("quantization_config", "quantization"):
        refuse(raw, key, (None,))
    refuse(raw, "use_mrope", (False, None))
    heads, hidden = need(raw, "num_attention_heads"), need(raw, "hidden_size")
    num_layers = need(raw, "num_hidden_layers")
    refuse_sliding_window(raw, num_layers)
    theta, scaling = _rope(raw)
    return {
        "vocab_size": need(raw, "vocab_size"),
        "hidden_size": hidden,
        "num_layers": num_layers,
        "num_heads": heads,
        "num_kv_heads": raw.get("num_key_value_heads") or heads,
        "head_dim": raw.get("head_dim") or hidden // heads,
        "intermediate_size": need(raw, "intermediate_size"),
        "norm_eps": raw.get("rms_norm_eps", 1e-6),
        "rope_theta": theta,
        "rope_scaling": scaling,
        "max_positions": raw.get("max_position_embeddings", 32768),
        "tied_head": bool(raw.get("tie_word_embeddings", False)),
    }


def read_qwen2(raw: Raw) -> dict[str, Any]:
    """Qwen2 and 2.5, and Dream, which was adapted from it: biases on q, k and v whatever config.json says."""
    return {**read_hugging_face(raw), "qkv_bias": True}


def read_qwen3(raw: Raw) -> dict[str, Any]:
    """Qwen3: norms on the heads of q and k, and a head size of its own."""
    bias = bool(raw.get("attention_bias", False))
    # The class's own default where config.json is silent, not hidden_size / heads.
    fields = read_hugging_face({"head_dim": 128, **raw})
    return {**fields, "qkv_bias": bias, "o_bias": bias, "qk_norm": True}


def read_llama(raw: Raw) -> dict[str, Any]:
    """Llama 2 and 3 and what shares their class, SmolLM2 for one."""
    refuse(raw, "mlp_bias", (False, None))
    refuse(raw, "pretraining_tp", (1, None))
    bias = bool(raw.get("attention_bias", False))
    return {**read_hugging_face(raw), "qkv_bias": bias, "o_bias": bias}


def read_llada(raw: Raw) -> dict[str, Any]:
    """LLaDA's config.json speaks OLMo's language."""
    refuse(raw, "block_type", ("llama",))
    refuse(raw, "activation_type", ("silu",))
    refuse(raw, "layer_norm_type", ("rms",))
    refuse(raw, "rope", (True,))
    refuse(raw, "block_group_size", (1, None))
    for key in ("alibi", "attention_layer_norm", "input_emb_norm", "scale_logits", "include_bias", "clip_qkv"):
        refuse(raw, key, (False, None))
    refuse(raw, "layer_norm_with_affine", (True, None))
    refuse(raw, "bias_for_layer_norm", (False, None))
    refuse(raw, "quantization_config", (None,))
    heads, hidden = need(raw, "n_heads"), need(raw, "d_model")
    one_head = 1 if raw.get("multi_query_attention") else heads
    return {
        # The matrices have embedding_size rows, of which the tokenizer knows the first vocab_size.
        "vocab_size": raw.get("embedding_size") or need(raw, "vocab_size"),
        "hidden_size": hidden,
        "num_layers": need(raw, "n_layers"),
        "num_heads": heads,
        "num_kv_heads": raw.get("n_kv_heads") or one_head,
        "head_dim": hidden // heads,
        "intermediate_size": raw.get("mlp_hidden_size") or raw.get("mlp_ratio", 4) * hidden,
        "norm_eps": raw.get("rms_norm_eps", 1e-5),
        "rope_theta": float(raw.get("rope_theta", 10000.0)),
        "max_positions": need(raw, "max_sequence_length"),
        "tied_head": bool(raw.get("weight_tying", False)),
        "qkv_bias": bool(raw.get("include_qkv_bias", False)),
    }


def write_hugging_face(config: ModelConfig) -> dict[str, Any]:
    """Config.json of the Qwen, Llama and Dream classes."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate_size,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": config.rope_scaling,
        "max_position_embeddings": config.max_positions,
        "tie_word_embeddings": config.tied_head,
        "attention_bias": config.qkv_bias,
        "hidden_act": "silu",
    }


def write_llada(config: ModelConfig) -> dict[str, Any]:
    """Config.json of LLaDA."""
    return {
        "vocab_size": config.vocab_size,
        "embedding_size": config.vocab_size,
        "d_model": config.hidden_size,
        "n_layers": config.num_layers,
        "n_heads": config.num_heads,
        "n_kv_heads": config.num_kv_heads,
        "mlp_hidden_size": config.intermediate_size,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "max_sequence_length": config.max_positions,
        "weight_tying": config.tied_head,
        "include_qkv_bias": config.qkv_bias,
        "include_bias": False,
        "block_type": "llama",
        "activation_type": "silu",
        "layer_norm_type": "rms",
        "rope": True,
        "rope_full_precision": True,
    }
