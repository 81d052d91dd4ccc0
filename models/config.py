"""The shape of a network and the token ids that its family gives a meaning to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lopa_bench.errors import ModelError


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Everything that fixes the network's shape and how its rows are to be read.

    `logit_shift` says which token a row of logits speaks of: the one after it (Dream, DiffuCoder and all
    autoregressive models) or its own (LLaDA). `causal` marks autoregressive models.
    `rope_scaling` holds the public config's dictionary for Llama 3's frequency scaling, or None.
    """

    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    norm_eps: float
    rope_theta: float
    max_positions: int
    logit_shift: bool
    causal: bool
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    tied_head: bool = False
    rope_scaling: dict[str, Any] | None = None
    mask_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    bos_token_id: int | None = None

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ModelError(
                f"{self.num_heads} attention heads cannot share {self.num_kv_heads} key/value heads evenly; "
                "check num_attention_heads and num_key_value_heads in config.json"
            )
        if not self.causal and self.mask_token_id is None:
            raise ModelError("a diffusion model needs mask_token_id in its config.json")
        for role in ("mask", "eos"):
            number = getattr(self, f"{role}_token_id")
            if number is not None and not 0 <= number < self.vocab_size:
                raise ModelError(
                    f"{role}_token_id {number} is outside the vocabulary of {self.vocab_size} tokens; check config.json"
                )

    @property
    def num_query_groups(self) -> int:
        """Query heads that share one key/value head."""
        return self.num_heads // self.num_kv_heads

    def with_(self, **changes: Any) -> ModelConfig:
        """Return a copy with some fields changed."""
        return replace(self, **changes)
