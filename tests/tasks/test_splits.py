"""What holds for both generated tasks: fixed splits, streams that avoid them, stable texts."""

from __future__ import annotations

import hashlib
import itertools
import json
import re

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.tasks.base import GeneratedTask
from lopa_bench.tasks.registry import get_task, task_names

NAMES = ["mini-maths", "mini-code"]
NUM_TRAINING = 8000

# Of the ids and prompts of both splits. A change of wording or of the generators is a new version of the task.
FINGERPRINTS = {
    "mini-maths": "14de436bfc8ca539",
    "mini-code": "551211b446028f0a",
}


def what_is_asked(prompt: str) -> str:
    """Take out of a prompt whatever may vary between two prompts that ask for the same thing."""
    if prompt.startswith("Write"):
        signature = re.match(r"Write a function \w+\((\w+)(, b)?\)", prompt)
        assert signature is not None
        described = prompt[signature.end() : prompt.index(" Use ")]
        return re.sub(rf"\b(in|of) {signature[1]}\b", r"\1 it", described)
    kinds = {
        "buys": "+", "finds": "+", "gets": "+", "gives": "-", "loses": "-", "sells": "-", "times": "*", "equal": "/",
    }  # fmt: skip
    sentences = prompt.removeprefix("Question: ").split(". ")
    found = []
    for sentence in sentences[:-1]:
        (number,) = re.findall(r"[0-9]+", sentence)
        found.append("".join(sign for word, sign in kinds.items() if word in sentence.split()) + number)
    return " ".join(found)


@pytest.fixture(params=NAMES, scope="module")
def task(request: pytest.FixtureRequest) -> GeneratedTask:
    return get_task(request.param)


def test_the_registry_knows_both_tasks_and_helps_with_a_slip() -> None:
    assert task_names()[:2] == NAMES
    for name in NAMES:
        task = get_task(name)
        assert (task.name, task.version) == (name, 1)
        assert isinstance(task, GeneratedTask)
    with pytest.raises(ConfigError, match="did you mean 'mini-maths'"):
        get_task("mini-math")


def test_splits_have_their_sizes_ids_and_levels(task: GeneratedTask) -> None:
    test, dev = task.documents(), task.documents("dev")
    assert (len(test), len(dev)) == (400, 200)
    assert test[7].id == f"{task.name}-0007"
    assert dev[7].id == f"{task.name}-dev-0007"
    assert len({document.id for document in test + dev}) == 600
    assert [document.metadata["level"] for document in test[:6]] == [1, 2, 3, 1, 2, 3]


def test_an_unknown_split_is_refused_with_the_nearest_match(task: GeneratedTask) -> None:
    with pytest.raises(ConfigError, match="did you mean 'test'"):
        task.documents("tests")


def test_no_training_pair_asks_what_a_held_out_problem_asks(task: GeneratedTask) -> None:
    held_out = [document.prompt for document in task.documents() + task.documents("dev")]
    asked = {what_is_asked(prompt) for prompt in held_out}
    assert len(set(held_out)) == len(asked) == 600
    for seed in (0, 1):
        stream = itertools.islice(task.training_examples(seed), NUM_TRAINING)
        assert not any(what_is_asked(example.prompt) in asked for example in stream)


def test_training_meets_all_levels_and_hardly_repeats_itself(task: GeneratedTask) -> None:
    prompts = [example.prompt for example in itertools.islice(task.training_examples(5), 5000)]
    assert len(set(prompts)) > 4950


def test_a_stream_depends_on_its_seed_alone(task: GeneratedTask) -> None:
    first = list(itertools.islice(task.training_examples(11), 50))
    other_task = get_task(task.name)
    other_task.documents()
    assert first == list(itertools.islice(other_task.training_examples(11), 50))
    assert first != list(itertools.islice(other_task.training_examples(12), 50))


def test_documents_stay_what_they_are(task: GeneratedTask) -> None:
    documents = task.documents() + task.documents("dev")
    assert documents == get_task(task.name).documents() + get_task(task.name).documents("dev")
    text = json.dumps([(document.id, document.prompt) for document in documents])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == FINGERPRINTS[task.name]


def test_metadata_can_be_written_as_json(task: GeneratedTask) -> None:
    for document in task.documents():
        assert json.loads(json.dumps(document.metadata)) == document.metadata
