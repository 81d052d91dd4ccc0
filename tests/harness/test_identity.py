"""What makes two runs the same run: each thing that decides answers by itself, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness import identity
from lopa_bench.harness.job import Job, prepare
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.schema import Environment, ModelInfo, Setting
from lopa_bench.tasks.base import Document

ENVIRONMENT = Environment(
    device="cpu", device_name="a CPU", dtype="float32", packages={"torch": "2", "lopa-bench": "1"}
)
MODEL = ModelInfo(
    name="a", revision="main", hash="1", adapter="b", adapter_hash="2", tokenizer_hash="3", mask_token_id=1
)


@pytest.fixture
def job(start: Callable[..., RunSpec]) -> Job:
    return prepare(start())


def fingerprint(
    job: Job, *, model: ModelInfo = MODEL, environment: Environment = ENVIRONMENT, first: Document | None = None
) -> str:
    return identity.run_fingerprint(job.settings, job.task, first or job.choice.first, model, environment)


@pytest.mark.parametrize(
    "change", [{"hash": "9"}, {"adapter_hash": "9"}, {"tokenizer_hash": "9"}, {"mask_token_id": 9}, {"family": "llada"}]
)
def test_another_model_is_another_run(job: Job, change: dict[str, Any]) -> None:
    assert fingerprint(job, model=MODEL.model_copy(update=change)) != fingerprint(job)


@pytest.mark.parametrize("change", [{"name": "z"}, {"revision": "z"}, {"adapter": "z"}])
def test_the_same_weights_by_another_name_are_the_same(job: Job, change: dict[str, Any]) -> None:
    assert fingerprint(job, model=MODEL.model_copy(update=change)) == fingerprint(job)


@pytest.mark.parametrize(
    "change",
    [
        {"device": "cuda"},
        {"dtype": "bfloat16"},
        {"packages": {"torch": "3", "lopa-bench": "1"}},
        {"packages": {"torch": "2", "lopa-bench": "2"}},
    ],
)
def test_another_device_precision_or_program_is_another_run(job: Job, change: dict[str, Any]) -> None:
    assert fingerprint(job, environment=ENVIRONMENT.model_copy(update=change)) != fingerprint(job)


@pytest.mark.parametrize("change", [{"device_name": "another CPU"}, {"python": "3.99"}, {"num_threads": 7}])
def test_another_machine_of_the_kind_is_the_same(job: Job, change: dict[str, Any]) -> None:
    assert fingerprint(job, environment=ENVIRONMENT.model_copy(update=change)) == fingerprint(job)


def test_another_prompt_is_another_run(job: Job) -> None:
    first = job.choice.first
    assert fingerprint(job, first=replace(first, prompt=first.prompt + " ")) != fingerprint(job)


def test_every_option_of_the_decoder_decides(job: Job) -> None:
    for name in job.settings.options:
        options = {**job.settings.options, name: Setting(value="another")}
        assert fingerprint(replace(job, settings=replace(job.settings, options=options))) != fingerprint(job), name


def test_every_setting_decides_unless_it_is_said_not_to(job: Job) -> None:
    for name in job.settings.run:
        run = {**job.settings.run, name: Setting(value="another")}
        changed = fingerprint(replace(job, settings=replace(job.settings, run=run)))
        assert (changed == fingerprint(job)) == (name in identity.INCIDENTAL), name


def test_the_sources_that_decide_answers_are_hashed(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(job)
    monkeypatch.setattr(identity, "code_hash", lambda: "changed")
    assert fingerprint(job) != before


def test_the_hash_of_the_sources_changes_with_any_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_now = identity.code_hash.__wrapped__
    before, read = hash_now(), Path.read_bytes
    for name in ("lopa.py", "network.py", "mini_maths.py", "answering.py", "driver.py", "prompts.py"):

        def changed(self: Path, name: str = name) -> bytes:
            return read(self) + (b"#" if self.name == name else b"")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", changed)
            assert hash_now() != before, name
    assert hash_now() == before
