"""The bundled tokenizer: exact round trips, stable ids, one token for what the mini tasks write."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lopa_bench.tasks.registry import get_task
from lopa_bench.tasks.tokenizer import PATTERN, build_tokenizer

BUNDLED = Path(__file__).resolve().parents[2] / "models" / "bundled" / "tokenizer"
FINGERPRINT = "5b9757315db1b13e"
VOCABULARY = 748
FIRST_OF_PIECES = 4 + 256 + 96


@functools.cache
def load() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(BUNDLED)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load()


@pytest.fixture(scope="module")
def encode(tokenizer: Any) -> Callable[[str], list[int]]:
    return lambda text: tokenizer(text)["input_ids"]


def test_the_shipped_file_is_what_the_function_builds(tmp_path: Path) -> None:
    assert build_tokenizer(tmp_path) == VOCABULARY
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (BUNDLED / name).read_bytes()


def test_the_shipped_file_stays_what_it_is() -> None:
    assert hashlib.sha256((BUNDLED / "tokenizer.json").read_bytes()).hexdigest()[:16] == FINGERPRINT


def test_special_tokens_have_their_ids(tokenizer: Any) -> None:
    ids = [tokenizer.pad_token_id, tokenizer.mask_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id]
    assert ids == [0, 1, 2, 3]
    (word,) = tokenizer(" apples")["input_ids"]
    assert word >= FIRST_OF_PIECES
    assert tokenizer.decode([3, word, 2, 0, 0], skip_special_tokens=True) == " apples"
    assert len(tokenizer) == VOCABULARY


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (" 12+5=<<12+5=17>>17 apples.", [" 1", "2", "+", "5", "=", "<<", "1", "2", "+", "5", "=", "1", "7", ">>",
                                         "1", "7", " apples", "."]),
        ("\n#### 17", ["\n", "####", " 1", "7"]),
        ("\n        total += x", ["\n        ", "total", " +=", " x"]),
        (":\n        if n % 2 == 0:", [":", "\n        ", "if", " n", " %", " 2", " ==", " 0", ":"]),
        ("s[::-1]", ["s", "[::-", "1", "]"]),
    ],
)  # fmt: skip
def test_pieces_are_cut_as_meant(
    tokenizer: Any, encode: Callable[[str], list[int]], text: str, pieces: list[str]
) -> None:
    assert [tokenizer.decode([token]) for token in encode(text)] == pieces


@pytest.mark.parametrize("name", ["mini-maths", "mini-code"])
def test_what_the_tasks_write_needs_no_spelling(tokenizer: Any, encode: Callable[[str], list[int]], name: str) -> None:
    task = get_task(name)
    texts = [(document.prompt, document.metadata["answer"]) for document in task.documents() + task.documents("dev")]
    texts += [(each.prompt, each.answer) for each in itertools.islice(task.training_examples(seed=77), 1000)]
    for prompt, answer in texts:
        tokens = encode(prompt) + encode(answer)
        assert tokens == encode(prompt + answer)  # a training row is the two, one after the other
        assert [tokenizer.decode([token]) for token in tokens] == re.findall(PATTERN, prompt + answer)


@pytest.mark.parametrize(
    ("name", "lowest", "mean", "highest"), [("mini-maths", 60, (100, 140), 224), ("mini-code", 40, (65, 85), 128)]
)
def test_answers_have_the_promised_lengths(
    encode: Callable[[str], list[int]], name: str, lowest: int, mean: tuple[int, int], highest: int
) -> None:
    task = get_task(name)
    assert task.max_new_tokens == highest
    lengths = [len(encode(each.answer)) for each in itertools.islice(task.training_examples(seed=9), 3000)]
    assert min(lengths) >= lowest
    assert mean[0] <= sum(lengths) / len(lengths) <= mean[1]
    assert max(lengths) < highest - 10  # room for the end of sequence, and for a longer draw than any of these


GSM8K_QUESTION = (
    "Question: Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many "
    "clips did Natalia sell altogether in April and May?\nAnswer:"
)


@settings(max_examples=300, deadline=None)
@given(st.text())
@example("")
@example(GSM8K_QUESTION)
@example("tabs\tand\r\n\n   indents, ünïcödé, 你好, 🙂, \x00, \u202e")
@example("<mask><eos> <pad> <0x41> <<>> #### ####")
@example(" ,  . ' s n't  end ")
def test_any_text_comes_back_exactly(text: str) -> None:
    tokenizer = load()
    tokens = tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokens) == text
    assert tokenizer.decode(tokens, skip_special_tokens=True) == text
    assert not {0, 1, 2, 3} & set(tokens)  # a text can name no special token


def test_bytes_that_are_no_text_do_not_stop_decoding(tokenizer: Any) -> None:
    lone_byte = tokenizer.convert_tokens_to_ids("<0xE4>")
    assert tokenizer.decode([lone_byte]) == "\ufffd"
