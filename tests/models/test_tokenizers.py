"""Tokenizers load as their files describe them, remote classes from their data, remote code never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from lopa_bench.errors import ModelError
from lopa_bench.models.loading import load_tokenizer

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = "hello  12 34\n<|mask|>é"


@pytest.fixture(scope="module")
def byte_pairs() -> Tokenizer:
    """Byte-level BPE that has merged numbers, so that splitting digits or not gives different ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["hello world 12 34 12 34 hello"] * 9, trainer)
    return tokenizer


def settings(first_id: int, **changes: Any) -> dict[str, Any]:
    return {
        "added_tokens_decoder": {
            str(first_id + number): {
                "content": content,
                "special": True,
                **dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False),
            }
            for number, content in enumerate(SPECIAL)
        },
        "eos_token": SPECIAL[0],
        "pad_token": SPECIAL[0],
        "mask_token": SPECIAL[3],
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
        **changes,
    }


def write(directory: Path, name: str, content: dict[str, Any]) -> None:
    (directory / name).write_text(json.dumps(content))


@pytest.fixture
def dream_folder(byte_pairs: Tokenizer, tmp_path: Path) -> Path:
    """A tokenizer in the file layout of Dream and DiffuCoder: a remote class over vocab.json and merges.txt."""
    byte_pairs.model.save(str(tmp_path))
    remote = {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]}
    vocabulary = byte_pairs.get_vocab_size()
    write(
        tmp_path,
        "tokenizer_config.json",
        settings(vocabulary, tokenizer_class="DreamTokenizer", auto_map=remote),
    )
    write(tmp_path, "added_tokens.json", {content: vocabulary + i for i, content in enumerate(SPECIAL)})
    write(tmp_path, "config.json", {"architectures": ["DreamModel"], "model_type": "Dream"})
    (tmp_path / "tokenization_dream.py").write_text("raise SystemExit('remote code ran')")
    return tmp_path


def test_remote_class_is_read_from_its_data(dream_folder: Path, byte_pairs: Tokenizer) -> None:
    tokenizer = load_tokenizer(dream_folder)
    first = byte_pairs.get_vocab_size()
    assert (tokenizer.eos_token_id, tokenizer.mask_token_id) == (first, first + 3)
    ids = tokenizer(TEXT).input_ids
    assert first + 3 in ids
    assert tokenizer.decode(ids) == TEXT
    assert not (dream_folder / "__pycache__").exists()
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_qwen_rules_split_the_text_of_a_remote_class(dream_folder: Path, byte_pairs: Tokenizer) -> None:
    """Dream's class is Qwen2's: each digit alone, though this vocabulary has a token for ' 12'."""
    assert byte_pairs.token_to_id("Ġ12") is not None
    tokenizer = load_tokenizer(dream_folder)
    assert tokenizer.tokenize("hello 12") == ["hello", "Ġ", "1", "2"]


def test_remote_class_with_nothing_to_read_is_refused(dream_folder: Path) -> None:
    (dream_folder / "merges.txt").unlink()
    with pytest.raises(ModelError, match=r"remote code \(DreamTokenizer\), which is never run"):
        load_tokenizer(dream_folder)


@pytest.mark.parametrize("declared", ["PreTrainedTokenizerFast", "GPT2Tokenizer", "Qwen2Tokenizer", "DreamTokenizer"])
def test_tokenizer_json_is_taken_as_it_stands(byte_pairs: Tokenizer, tmp_path: Path, declared: str) -> None:
    """Whatever class is declared; transformers 5 would rebuild GPT2Tokenizer and merge digits that this one splits."""
    tokenizer = Tokenizer.from_str(byte_pairs.to_str())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    changes: dict[str, Any] = {"tokenizer_class": declared}
    if declared == "DreamTokenizer":
        changes["auto_map"] = {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]}
    write(tmp_path, "tokenizer_config.json", settings(byte_pairs.get_vocab_size(), **changes))
    write(tmp_path, "config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama"})
    loaded = load_tokenizer(tmp_path)
    assert loaded(TEXT).input_ids == tokenizer.encode(TEXT).ids
    assert loaded.decode(loaded(TEXT).input_ids) == TEXT
    assert loaded.eos_token == SPECIAL[0]


def test_absent_and_damaged_tokenizers_are_one_line(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"architectures": ["DreamModel"]})
    with pytest.raises(ModelError, match="holds no tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be read") as caught:
        load_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)
