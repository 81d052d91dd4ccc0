"""Text in, text out: BOS, stop strings, what is kept, prompts that are too long."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import BOS, EOS, IM_END, ByteTokenizer, ScriptedDecoder, Step

from lopa_bench.errors import ConfigError
from lopa_bench.harness.answering import Answer, Answerer, render_chat


def answer(text: str, stop: list[str] | tuple[str, ...] = (), ends: bool = True, **settings: Any) -> Answer:
    tokens = [*ByteTokenizer()(text)["input_ids"], *([EOS] if ends else [])]
    decoder = ScriptedDecoder([Step(tuple(range(len(tokens))), tuple(tokens))], max_new_tokens=len(tokens))
    return Answerer(decoder, ByteTokenizer(), **settings).answer("prompt", stop)


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize("prompt", ["hello", "<bos>hello"])
def test_exactly_one_bos_when_asked_for_and_none_when_not(prompt: str, adds_bos: bool) -> None:
    tokenizer = ByteTokenizer(adds_bos=adds_bos)
    with_bos = Answerer(ScriptedDecoder([]), tokenizer, bos=True).encode(prompt)
    without = Answerer(ScriptedDecoder([]), tokenizer, bos=False).encode(prompt)
    assert with_bos == [BOS, *b"hello"]
    assert without == [*b"hello"]


def test_the_tokenizer_decides_on_the_bos_otherwise_but_never_doubles_it() -> None:
    assert Answerer(ScriptedDecoder([]), ByteTokenizer(adds_bos=True)).encode("<bos>x") == [BOS, *b"x"]
    assert Answerer(ScriptedDecoder([]), ByteTokenizer()).encode("x") == [*b"x"]


def test_asking_for_a_bos_that_does_not_exist_is_refused() -> None:
    tokenizer = ByteTokenizer()
    tokenizer.bos_token_id = None
    with pytest.raises(ConfigError, match="no BOS"):
        Answerer(ScriptedDecoder([]), tokenizer, bos=True)


def test_the_earliest_stop_string_cuts_whatever_the_order() -> None:
    for stop in (["Question:", "\n\n"], ["\n\n", "Question:"]):
        found = answer("#### 5\n\nQuestion: next", stop)
        assert (found.kept, found.stop_string, found.stopped_by) == ("#### 5", "\n\n", "stop string")
        assert found.text == "#### 5\n\nQuestion: next"


def test_an_anchored_stop_string_leaves_the_word_inside_a_sentence() -> None:
    text = "identify the Question first\n#### 5"
    assert answer(text, ["\n\nQuestion"]).kept == text
    cut = answer(text, ["Question"])
    assert (cut.kept, cut.stop_string) == ("identify the ", "Question")


def test_empty_stop_strings_are_ignored() -> None:
    assert answer("abc", ["", ""]).kept == "abc"


def test_a_special_token_stops_though_decoding_drops_it() -> None:
    found = answer("four<|im_end|>more", ["<|im_end|>"])
    assert (found.kept, found.stop_string, found.stopped_by) == ("four", "<|im_end|>", "stop string")
    assert found.outcome.tokens.kept == 4
    assert IM_END in found.outcome.useful


def test_kept_tokens_are_those_of_the_text_that_is_left() -> None:
    found = answer("12345 stop here", [" stop"])
    assert (found.outcome.tokens.useful, found.outcome.tokens.kept) == (15, 5)
    assert answer("12345").outcome.tokens.kept == 5


def test_how_an_answer_ended() -> None:
    assert answer("abc").stopped_by == "eos"
    assert answer("abc", ends=False).stopped_by == "budget"


def test_stop_strings_can_be_switched_off() -> None:
    assert answer("a\n\nb", ["\n\n"], stops_apply=False).kept == "a\n\nb"


def test_a_prompt_that_is_too_long_loses_its_beginning_and_says_so() -> None:
    decoder = ScriptedDecoder([Step((0,), (65,))], max_new_tokens=10, max_positions=16)
    found = Answerer(decoder, ByteTokenizer()).answer("0123456789")
    assert found.prompt_tokens_cut == 4
    assert decoder.prompts == [[*b"456789"]]
    assert found.outcome.tokens.prompt == 6


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    with pytest.raises(ConfigError, match="no chat template; use --no-chat"):
        render_chat(ByteTokenizer(), [{"role": "user", "content": "hi"}])
