"""Tokenizers through transformers, remote code excepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lopa_bench.errors import ModelError
from lopa_bench.models.weights import read_json


def tokenizer_from(directory: Path) -> Any:
    """The tokenizer of a folder.

    AutoTokenizer does it for most checkpoints. Where the tokenizer's class is remote code (Dream, DiffuCoder), the
    folder's data files are read by transformers' own classes instead: tokenizer.json as it stands, or
    vocab.json + merges.txt as Qwen2's byte-pair tokenizer, of which Dream's class is a copy.
    """
    if not directory.is_dir():
        raise ModelError(f"no tokenizer: {directory} is absent")
    settings_file = directory / "tokenizer_config.json"
    settings = read_json(settings_file) if settings_file.exists() else {}
    if "AutoTokenizer" in (settings.get("auto_map") or {}):
        return _without_remote_code(directory, settings)
    from transformers import AutoTokenizer, PreTrainedConfig

    # A config of its own keeps AutoTokenizer from resolving the model's config class, which may be remote code too.
    return AutoTokenizer.from_pretrained(
        directory, trust_remote_code=False, local_files_only=True, config=PreTrainedConfig()
    )


def _without_remote_code(directory: Path, settings: dict[str, Any]) -> Any:
    from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

    if (directory / "tokenizer.json").exists():
        return PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
    if (directory / "vocab.json").exists() and (directory / "merges.txt").exists():
        return Qwen2Tokenizer.from_pretrained(directory, local_files_only=True)
    raise ModelError(
        f"the tokenizer in {directory} is remote code ({settings.get('tokenizer_class')}), which is never run, and "
        "the folder has neither tokenizer.json nor vocab.json + merges.txt to read instead"
    )
