"""The bundled models' tokenizer: whole words of the mini tasks, single digits, and bytes for everything else.

A text is cut by one pattern into words (with their leading space), digits, operators and line breaks with the
indent after them. A piece of the vocabulary is one token; any other is spelled in ASCII characters, and what is
not ASCII in bytes, so that every text comes back exactly. Nothing is added at either end.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS: dict[str, str] = {
    "pad_token": "<pad>",
    "mask_token": "<mask>",
    "eos_token": "<eos>",
    "bos_token": "<bos>",
}
"""Names and texts of the special tokens; their ids are 0, 1, 2, 3."""

PATTERN = r"<<|>>|####| ?[=!<>+*-]=|\[::-| ?[A-Za-z_]+| ?[0-9]|\n *| ?[!-/:-@\[-`{-~]|  *"
"""What may be one token. Alternatives are tried from left to right."""

NUM_SAMPLED_EXAMPLES = 20_000
MODEL_MAX_LENGTH = 4096


def collect_pieces() -> list[str]:
    """Return, sorted, every piece that a large fixed sample of both tasks holds."""
    from lopa_bench.tasks.registry import get_task, task_names

    pattern = re.compile(PATTERN)
    pieces: set[str] = set()
    for name in task_names():
        for example in itertools.islice(get_task(name).training_examples(seed=0), NUM_SAMPLED_EXAMPLES):
            pieces.update(pattern.findall(example.prompt + example.answer))
    return sorted(pieces)


def make_tokenizer(pieces: list[str]) -> Tokenizer:
    """Return a tokenizer whose whole-piece tokens are `pieces`, besides special tokens, ASCII and bytes."""
    import tokenizers

    special = list(SPECIAL_TOKENS.values())
    characters = ["\n", *(chr(code) for code in range(32, 127))]
    data = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = dict.fromkeys([*special, *data, *characters, *pieces])
    vocabulary = {token: index for index, token in enumerate(tokens)}
    # Without merges and with ignore_merges a piece of the vocabulary is taken whole, any other by characters.
    model = tokenizers.models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, ignore_merges=True, fuse_unk=False)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(PATTERN), "isolated")
    tokenizer.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()])
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def build_tokenizer(directory: str | Path) -> int:
    """Write `tokenizer.json` and `tokenizer_config.json` into `directory`; return the size of the vocabulary.

    `transformers.AutoTokenizer.from_pretrained(directory)` loads them. The outcome is the same at every call.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(collect_pieces())
    tokenizer.save(str(directory / "tokenizer.json"))
    configuration = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MODEL_MAX_LENGTH,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
        **SPECIAL_TOKENS,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(configuration, indent=2) + "\n", encoding="utf-8")
    return int(tokenizer.get_vocab_size())
