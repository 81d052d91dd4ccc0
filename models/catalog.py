"""The public checkpoints this project knows by name, with the facts of their config.json, and D2F's adapters.

Any other checkpoint of a supported architecture loads as well; what stands here serves `list models`, memory
estimates without a download, and tests that each of these shapes builds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.families import Family, family_of


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A public checkpoint.

    Attributes:
        hub_id: what `load_model` takes.
        parameters: as the model card counts them; a tied head counts once.
        settings: the parts of its config.json that fix the network.
    """

    hub_id: str
    parameters: int
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The hub id without its owner."""
        return self.hub_id.rpartition("/")[2]

    @property
    def family(self) -> Family:
        """Its row of the family table."""
        return family_of(self.settings, self.hub_id)

    @property
    def config(self) -> ModelConfig:
        """The network's shape."""
        return self.family.config(self.settings)


@dataclass(frozen=True, slots=True)
class KnownAdapter:
    """A public D2F adapter and the base it was trained on."""

    hub_id: str
    base: str


_QWEN_7B = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-06,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "max_window_layers": 28,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
}
_DREAM_7B = {
    **_QWEN_7B,
    "architectures": ["DreamModel"],
    "model_type": "Dream",
    "mask_token_id": 151666,
    "pad_token_id": 151643,
}
_LLADA_8B = {
    "architectures": ["LLaDAModelLM"],
    "model_type": "llada",
    "vocab_size": 126464,
    "embedding_size": 126464,
    "d_model": 4096,
    "mlp_hidden_size": 12288,
    "n_layers": 32,
    "n_heads": 32,
    "n_kv_heads": 32,
    "max_sequence_length": 4096,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-05,
    "block_type": "llama",
    "activation_type": "silu",
    "layer_norm_type": "rms",
    "rope": True,
    "weight_tying": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "eos_token_id": 126081,
    "pad_token_id": 126081,
    "mask_token_id": 126336,
}
_QWEN2_7B = {
    **_QWEN_7B,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "max_position_embeddings": 32768,
    "eos_token_id": 151645,
}
_QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "rms_norm_eps": 1e-06,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "use_sliding_window": False,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}
_LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
}
_LLAMA_1B = {
    **_LLAMA_8B,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "head_dim": 64,
    "rope_scaling": {**_LLAMA_8B["rope_scaling"], "factor": 32.0},  # type: ignore[dict-item]
    "tie_word_embeddings": True,
}
_QWEN2_HALF_B = {
    **_QWEN2_7B,
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
_QWEN3_SMALL = {
    **_QWEN3_8B,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "tie_word_embeddings": True,
}
_SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rope_theta": 100000,
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}

CHECKPOINTS: tuple[Checkpoint, ...] = (
    Checkpoint("Dream-org/Dream-v0-Base-7B", 7_615_616_512, _DREAM_7B),
    Checkpoint("Dream-org/Dream-v0-Instruct-7B", 7_615_616_512, _DREAM_7B),
    Checkpoint("apple/DiffuCoder-7B-Base", 7_615_616_512, _DREAM_7B),
    Checkpoint("apple/DiffuCoder-7B-Instruct", 7_615_616_512, _DREAM_7B),
    Checkpoint("GSAI-ML/LLaDA-8B-Base", 8_015_581_184, _LLADA_8B),
    Checkpoint("GSAI-ML/LLaDA-8B-Instruct", 8_015_581_184, _LLADA_8B),
    Checkpoint("GSAI-ML/LLaDA-1.5", 8_015_581_184, _LLADA_8B),
    Checkpoint("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512, _QWEN2_7B),
    Checkpoint("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768, _QWEN2_HALF_B),
    Checkpoint("Qwen/Qwen3-8B", 8_190_735_360, _QWEN3_8B),
    Checkpoint("Qwen/Qwen3-0.6B", 596_049_920, _QWEN3_SMALL),
    Checkpoint("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248, _LLAMA_8B),
    Checkpoint("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400, _LLAMA_1B),
    Checkpoint("HuggingFaceTB/SmolLM2-135M-Instruct", 134_515_008, _SMOLLM2),
)

ADAPTERS: tuple[KnownAdapter, ...] = (
    KnownAdapter("SJTU-Deng-Lab/D2F_Dream_Base_7B_Lora", "Dream-org/Dream-v0-Base-7B"),
    KnownAdapter("SJTU-Deng-Lab/D2F_Dream_Instruct_7B_Lora", "Dream-org/Dream-v0-Instruct-7B"),
    KnownAdapter("SJTU-Deng-Lab/D2F_DiffuCoder_Instruct_7B_Lora", "apple/DiffuCoder-7B-Instruct"),
    KnownAdapter("SJTU-Deng-Lab/D2F_LLaDA_Instruct_8B_Lora", "GSAI-ML/LLaDA-8B-Instruct"),
)
