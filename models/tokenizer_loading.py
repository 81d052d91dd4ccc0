"""Tokenizers through transformers, exactly as their files describe them and without running remote code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lopa_bench.errors import ModelError
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.weights import read_json


def tokenizer_from(directory: Path) -> Any:
    """The tokenizer of a folder, as a transformers one.

    A tokenizer.json is taken as it stands. AutoTokenizer would, from transformers 5 on, rebuild it as the class that
    tokenizer_config.json names and lose its own way of splitting text: SmolLM2 (class GPT2Tokenizer, digits split one
    by one) then gets other ids for every number. Without such a file, vocab.json + merges.txt of a class that is
    remote code (Dream, DiffuCoder) are read as Qwen2's byte-pair tokenizer, of which those classes are copies;
    everything else is AutoTokenizer's, which is told never to trust remote code.

    Raises:
        ModelError: no tokenizer there, or one that only remote code could read.
    """
    settings_file = directory / "tokenizer_config.json"
    settings = read_json(settings_file) if settings_file.exists() else {}
    remote = "AutoTokenizer" in (settings.get("auto_map") or {})
    byte_pairs = (directory / "vocab.json").exists() and (directory / "merges.txt").exists()

    from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen2Tokenizer

    try:
        if (directory / "tokenizer.json").exists():
            return PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
        if remote and byte_pairs:
            return Qwen2Tokenizer.from_pretrained(directory, local_files_only=True)
        if remote:
            raise ModelError(
                f"the tokenizer in {directory} is remote code ({settings.get('tokenizer_class')}), which is never "
                "run, and the folder has neither tokenizer.json nor vocab.json + merges.txt to read instead"
            )
        if not settings and not byte_pairs and not (directory / "tokenizer.model").exists():
            raise ModelError(
                f"{directory} holds no tokenizer (tokenizer.json, or tokenizer_config.json with its vocabulary)"
            )
        return AutoTokenizer.from_pretrained(directory, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"the tokenizer in {directory} cannot be read: {reason}") from None


def check_vocabulary(tokenizer: Any, config: ModelConfig, name: str) -> None:
    """ModelError unless every id that the tokenizer can give is one that the network has a row for."""
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= config.vocab_size:
        raise ModelError(
            f"the tokenizer of '{name}' goes up to id {largest}, but its network knows {config.vocab_size} tokens: "
            "the two are not of one checkpoint"
        )
