"""The table of supported model families: how each public checkpoint's config.json and tensor names read in ours.

A family is known by the `architectures` entry of config.json alone. What a checkpoint asks for beyond this network
(sliding windows, other rotary scalings, experts, quantised weights) is refused with a sentence rather than ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lopa_bench.errors import ModelError, nearest
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.public_config import (
    Raw,
    read_llada,
    read_llama,
    read_qwen2,
    read_qwen3,
    special_ids,
    write_hugging_face,
    write_llada,
)

# Our module name -> the public one; {} is the layer's number.
_HUGGING_FACE_MODULES = {
    "embed": "model.embed_tokens",
    "layers.{}.attention_norm": "model.layers.{}.input_layernorm",
    "layers.{}.attention.q_proj": "model.layers.{}.self_attn.q_proj",
    "layers.{}.attention.k_proj": "model.layers.{}.self_attn.k_proj",
    "layers.{}.attention.v_proj": "model.layers.{}.self_attn.v_proj",
    "layers.{}.attention.o_proj": "model.layers.{}.self_attn.o_proj",
    "layers.{}.attention.q_norm": "model.layers.{}.self_attn.q_norm",
    "layers.{}.attention.k_norm": "model.layers.{}.self_attn.k_norm",
    "layers.{}.mlp_norm": "model.layers.{}.post_attention_layernorm",
    "layers.{}.mlp.gate_proj": "model.layers.{}.mlp.gate_proj",
    "layers.{}.mlp.up_proj": "model.layers.{}.mlp.up_proj",
    "layers.{}.mlp.down_proj": "model.layers.{}.mlp.down_proj",
    "norm": "model.norm",
    "head": "lm_head",
}

_LLADA_MODULES = {
    "embed": "model.transformer.wte",
    "layers.{}.attention_norm": "model.transformer.blocks.{}.attn_norm",
    "layers.{}.attention.q_proj": "model.transformer.blocks.{}.q_proj",
    "layers.{}.attention.k_proj": "model.transformer.blocks.{}.k_proj",
    "layers.{}.attention.v_proj": "model.transformer.blocks.{}.v_proj",
    "layers.{}.attention.o_proj": "model.transformer.blocks.{}.attn_out",
    "layers.{}.mlp_norm": "model.transformer.blocks.{}.ff_norm",
    "layers.{}.mlp.gate_proj": "model.transformer.blocks.{}.ff_proj",
    "layers.{}.mlp.up_proj": "model.transformer.blocks.{}.up_proj",
    "layers.{}.mlp.down_proj": "model.transformer.blocks.{}.ff_out",
    "norm": "model.transformer.ln_f",
    "head": "model.transformer.ff_out",
}


@dataclass(frozen=True, slots=True)
class Family:
    """One public architecture.

    Attributes:
        name: our short name, kept in `ModelConfig.family`.
        architecture: the class name in config.json's `architectures`.
        model_type: config.json's `model_type`.
        diffusion: a masked diffusion model, else an autoregressive one.
        logit_shift: whether row i predicts token i + 1.
        modules: our module names -> the public ones, {} for the layer.
        read: config.json -> the fields of ModelConfig.
        write: ModelConfig -> config.json without `architectures` and `model_type`.
    """

    name: str
    architecture: str
    model_type: str
    diffusion: bool
    logit_shift: bool
    modules: Mapping[str, str]
    read: Callable[[Raw], dict[str, Any]]
    write: Callable[[ModelConfig], dict[str, Any]]

    def config(self, raw: Raw) -> ModelConfig:
        """Read config.json; ModelError names what is missing or not supported."""
        if not self.diffusion and raw.get("mask_token_id") is not None and raw.get("auto_map"):
            raise ModelError(
                f"config.json names {self.architecture} but also a mask token and code of its own: a diffusion model "
                "under an autoregressive class's name, which would be decoded wrongly here"
            )
        fields = self.read(raw)
        return ModelConfig(
            family=self.name,
            logit_shift=self.logit_shift,
            causal=not self.diffusion,
            **fields,
            **special_ids(raw),
        )

    def public_config(self, config: ModelConfig) -> dict[str, Any]:
        """The way back: a config.json that `config` reads as the same ModelConfig."""
        ids = {f"{role}_token_id": getattr(config, f"{role}_token_id") for role in ("bos", "eos", "pad", "mask")}
        if not self.diffusion:
            del ids["mask_token_id"]
        return {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            **self.write(config),
            **ids,
        }

    def public_module(self, own: str) -> str | None:
        """Public name of one of our modules, or None."""
        return _renamed(own, self.modules)

    def own_module(self, public: str) -> str | None:
        """Our name of a public module, or None for one this network does not have."""
        return _renamed(public, {theirs: ours for ours, theirs in self.modules.items()})

    def public_name(self, own: str) -> str:
        """Public name of one of our parameters."""
        module, _, leaf = own.rpartition(".")
        public = self.public_module(module)
        if public is None:
            raise ModelError(f"the layout of {self.architecture} has no place for {own}")
        return f"{public}.{leaf}"

    def own_name(self, public: str) -> str | None:
        """Our name of a public parameter, or None for one this network does not have."""
        module, _, leaf = public.rpartition(".")
        own = self.own_module(module)
        return None if own is None else f"{own}.{leaf}"


def _renamed(name: str, table: Mapping[str, str]) -> str | None:
    number = re.search(r"\.(\d+)\.", name)
    if number is None:
        return table.get(name)
    pattern = table.get(name.replace(number.group(), ".{}.", 1))
    return None if pattern is None else pattern.format(number.group(1))


def _hugging_face(
    name: str, architecture: str, model_type: str, diffusion: bool, read: Callable[[Raw], dict[str, Any]]
) -> Family:
    return Family(name, architecture, model_type, diffusion, True, _HUGGING_FACE_MODULES, read, write_hugging_face)


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        _hugging_face("dream", "DreamModel", "Dream", True, read_qwen2),
        Family("llada", "LLaDAModelLM", "llada", True, False, _LLADA_MODULES, read_llada, write_llada),
        _hugging_face("qwen2", "Qwen2ForCausalLM", "qwen2", False, read_qwen2),
        _hugging_face("qwen3", "Qwen3ForCausalLM", "qwen3", False, read_qwen3),
        _hugging_face("llama", "LlamaForCausalLM", "llama", False, read_llama),
    )
}


def family_of(raw: Raw, where: str = "config.json") -> Family:
    """The family of a config.json, by its `architectures` entry.

    Raises:
        ModelError: no such entry, or an architecture that is not in the table.
    """
    known = {family.architecture: family for family in FAMILIES.values()}
    architectures = raw.get("architectures") or []
    if not architectures:
        raise ModelError(f"{where} names no architecture; expected one of {', '.join(known)}")
    for architecture in architectures:
        if architecture in known:
            return known[architecture]
    raise ModelError(
        f"{where} is of architecture '{architectures[0]}', which is not supported"
        f"{nearest(architectures[0], known)}; supported: {', '.join(known)}"
    )
