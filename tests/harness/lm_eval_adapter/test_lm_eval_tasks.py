"""lm-eval's own tasks over local data: the prompts, the shots, both filters."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lopa_bench.errors import ConfigError, TaskDataError
from lopa_bench.harness.lm_eval_adapter.tasks import LmEvalTask, PromptSettings
from lopa_bench.results.schema import Why
from lopa_bench.tasks.maths_tasks import MATHS_TASKS

# sha256 of the first three prompts, as lm-eval 0.4.13 builds them with its default seed.
GOLDEN = {
    "gsm8k": "b7bf55a33198583c45d10f6c3525c1487eb29ca65f7670b398880e55dba703d9",
    "gsm8k-cot": "546f725a54efdebf3eda0718d53c20e7e63af1601e7ae4458ede9dba4ef13e9b",
    "gsm8k-cot-zeroshot": "8ada853ad0bd6c7b141b36b4fae9fc62c5a0bd0c1cef0039b05d50420e847a1a",
    "gsm8k-cot-llama": "3dc0f4a5ed3ffe72a969212eadc382b062d40de6c5f399316eed5d739f7fdd83",
}


def task(data_dir: Path, name: str = "gsm8k", first: int | None = 3, **prompts: object) -> LmEvalTask:
    return LmEvalTask(MATHS_TASKS[name], data_dir, PromptSettings(**prompts), first)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def gsm8k(data_dir: Path) -> LmEvalTask:
    return task(data_dir)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_first_prompts_are_the_known_ones(data_dir: Path, name: str) -> None:
    documents = task(data_dir, name).documents()
    text = "\0".join(document.prompt for document in documents)
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN[name]
    assert all("\\n" not in document.prompt for document in documents)


def test_prompts_are_those_that_lm_eval_builds_itself(gsm8k: LmEvalTask) -> None:
    theirs = task(gsm8k.data_dir or Path())._task
    theirs.build_all_requests(limit=3)
    assert [one.args[0] for one in theirs.instances] == [document.prompt for document in gsm8k.documents()]
    assert gsm8k.stop == tuple(theirs.instances[0].args[1]["until"])


def test_a_limit_never_changes_a_prompt(gsm8k: LmEvalTask, data_dir: Path) -> None:
    more = task(data_dir, first=12).documents()
    assert more[:3] == gsm8k.documents()
    assert len({document.prompt for document in more}) == 12
    bit_by_bit = task(data_dir)
    for count in (2, 1, 8, 12):
        assert bit_by_bit.first_documents(count) == more[:count]
    assert gsm8k.num_available == 1319


def test_shots(data_dir: Path, gsm8k: LmEvalTask) -> None:
    assert gsm8k.documents()[0].prompt.count("Question:") == 6
    assert task(data_dir, num_fewshot=2).documents()[0].prompt.count("Question:") == 3
    none = task(data_dir, num_fewshot=0)
    assert none.documents()[0].prompt.count("Question:") == 1
    assert list(none.splits) == ["test"]  # nothing else is read
    with pytest.raises(ConfigError, match="gsm8k-cot-zeroshot: lm-eval asks it without examples"):
        task(data_dir, "gsm8k-cot-zeroshot", num_fewshot=3).documents()
    with pytest.raises(ConfigError, match="--num-fewshot 9 does not work for gsm8k-cot"):
        task(data_dir, "gsm8k-cot", num_fewshot=9).documents()


def render(chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
    turns = "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)
    return turns + ("<assistant>" if add_generation_prompt else "")


def test_chat_makes_a_pair_of_turns_of_every_shot_or_one_turn_of_all(data_dir: Path) -> None:
    many = task(data_dir, num_fewshot=2, chat_template=render).documents()[0].prompt
    assert (many.count("<user>"), many.count("<assistant>")) == (3, 3)
    assert many.endswith("Answer:<assistant>")
    one = task(data_dir, num_fewshot=2, chat_template=render, multiturn=False).documents()[0].prompt
    assert (one.count("<user>"), one.count("<assistant>"), one.count("Question:")) == (1, 1, 3)
    system = task(data_dir, num_fewshot=0, chat_template=render, system_instruction="Be brief.").documents()[0].prompt
    assert system.startswith("<system>Be brief.<user>Question:")


ANSWERS = {
    "right": (" 16 - 3 - 4 = 9, 9 * 2 = 18.\n#### 18", 1.0, 1.0, "18", None),
    "right without ####": (" She makes $18 every day.", 0.0, 1.0, "$18", None),
    "wrong": (" 16 - 3 = 13\n#### 13", 0.0, 0.0, "13", Why.WRONG),
    "empty": ("", 0.0, 0.0, None, Why.EMPTY),
    "blank": (" \n", 0.0, 0.0, None, Why.EMPTY),
    "no number": (" I do not know.", 0.0, 0.0, None, Why.NOT_EXTRACTED),
    "bold": ("**Answer: \\$18**", 0.0, 1.0, "$18", None),
    "full stop": ("\n#### 18.", 1.0, 1.0, "18.", None),
    "another problem's answer first": (" 5 - 2 = 3\n#### 3\n\nHer ducks ... 18.\n#### 18", 0.0, 1.0, "18", None),
    "another problem's answer last": (" 9 * 2 = 18\n#### 18\n\nA robe ...\n#### 3", 1.0, 0.0, "3", "recitation"),
    "not text": ("\x00\ud7ff", 0.0, 0.0, None, Why.NOT_EXTRACTED),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_both_filters_judge_every_answer(gsm8k: LmEvalTask, kind: str) -> None:
    text, strict, flexible, extracted, why = ANSWERS[kind]
    verdict = gsm8k.judge(gsm8k.documents()[0], text)
    assert verdict.scores == {"exact_match,strict-match": strict, "exact_match,flexible-extract": flexible}
    assert verdict.correct == verdict.scores[gsm8k.metric]
    assert (verdict.extracted, verdict.why) == (extracted, why)


def test_commas_and_signs_are_no_errors(gsm8k: LmEvalTask) -> None:
    documents = gsm8k.documents()
    by_target = {document.target.rpartition("#### ")[2]: document for document in documents}
    assert gsm8k.judge(by_target["70000"], "#### 70,000").correct == 1.0
    assert gsm8k.judge(by_target["70000"], "#### -70,000").correct == 0.0


def test_a_form_for_chats_says_when_there_is_none(data_dir: Path, gsm8k: LmEvalTask) -> None:
    assert "consider --chat" in task(data_dir, "gsm8k-cot-llama").notes[0]
    assert task(data_dir, "gsm8k-cot-llama", chat_template=render).notes == ()
    assert gsm8k.notes == ()


@pytest.mark.parametrize("until", ["Q:", ["Q:"], ["", "Q:", ""]])
def test_one_stop_string_and_a_list_of_them_are_alike(data_dir: Path, until: object) -> None:
    one = task(data_dir)
    one._config["generation_kwargs"] = {"until": until}
    assert one.stop == ("Q:",)


def test_data_are_named_with_their_hash(gsm8k: LmEvalTask) -> None:
    gsm8k.documents()
    source = gsm8k.source
    assert source["harness"].startswith("lm-eval ")
    assert source["data"]["test"]["num_rows"] == 1319
    assert (
        source["data"]["test"]["release"] == source["data"]["train"]["release"] == "openai/grade-school-math @ 3101c7d"
    )
    assert source["data"]["test"]["sha256"].startswith("3730d312")


def test_data_that_cannot_be_fetched_lead_to_data_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr("datasets.load_dataset", refuse)
    for offline, words in (
        ("0", "could not be fetched: no network"),
        ("1", "no network, or offline was asked for"),
    ):
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
        with pytest.raises(TaskDataError, match=rf"openai/gsm8k.*{words}.*--data-dir"):
            LmEvalTask(MATHS_TASKS["gsm8k"]).documents()


def test_an_unknown_split_is_refused(gsm8k: LmEvalTask) -> None:
    with pytest.raises(ConfigError, match="no split 'dev'"):
        gsm8k.documents("dev")
