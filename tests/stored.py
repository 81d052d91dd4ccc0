"""Runs on disk without a model: a test names what it is about, the rest is an ordinary run of twenty answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lopa_bench.results.schema import (
    DecoderInfo,
    Environment,
    ModelInfo,
    RunRecord,
    SampleRecord,
    Setting,
    Status,
    TaskInfo,
    TimeLedger,
    TokenLedger,
    WorkLedger,
)
from lopa_bench.results.store import StoredRun, load_run
from lopa_bench.results.writer import create_run

PLACE = Environment(
    python="3.11.7", platform="Linux", packages={"torch": "2.9.0", "lm-eval": "0.4.12"}, device="cpu",
    device_name="AMD EPYC", dtype="float32", num_threads=1, git_commit="a" * 40, git_dirty=False,
)  # fmt: skip
OPTIONS: dict[str, Any] = {"branches": 8, "tau_conf": 0.9, "temperature": 0.0}


def sample(index: int, *, correct: float | None = 1.0, slower: float = 1.0, **changes: Any) -> SampleRecord:
    """One answer of 60 or so tokens in 12 or so rounds and 0.2 or so seconds; `slower` times as long."""
    useful, rounds = 60 + index % 7, 12 + index % 3
    values: dict[str, Any] = {
        "id": f"mini-maths-{index:04d}",
        "prompt_hash": f"{index:064x}",
        "token_ids": tuple(range(100 + index, 100 + index + useful)),
        "text_kept": f"She has {index} left. #### {index}",
        "tokens": TokenLedger(prompt=40, useful=useful, committed=useful + 4, kept=useful),
        "work": WorkLedger(
            prefill_calls=1, rounds=rounds, model_calls=rounds, branch_forwards=4 * rounds, positions=60 * rounds
        ),
        "time": TimeLedger(prefill_s=0.02 * slower, decode_s=(0.2 + 0.01 * (index % 5)) * slower),
        "scores": {} if correct is None else {"exact_match": correct},
        "correct": correct,
        "why": "wrong" if correct == 0 else None,
        "stopped_by": "eos",
    }
    return SampleRecord(**{**values, **changes})


def more_work(one: SampleRecord, factor: float) -> SampleRecord:
    """The same answer for `factor` times the rounds, calls and positions."""
    work = one.work.model_copy(
        update={name: round(getattr(one.work, name) * factor) for name in type(one.work).model_fields}
    )
    return one.model_copy(update={"work": work})


def samples(
    correct: Sequence[float | None] = (1.0,) * 16 + (0.0,) * 4, slower: float = 1.0, **changes: Any
) -> list[SampleRecord]:
    """Answers with these scores, in order."""
    return [sample(index, correct=score, slower=slower, **changes) for index, score in enumerate(correct)]


def wrong(answers: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The same problems with other tokens, all wrong."""
    return [
        one.model_copy(update={"token_ids": (*one.token_ids, 9), "scores": {"exact_match": 0.0}, "correct": 0.0})
        for one in answers
    ]


def record(
    *,
    num_documents: int = 20,
    decoder: str = "lopa",
    options: dict[str, Any] | None = None,
    origins: dict[str, str] | None = None,
    task: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    place: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **changes: Any,
) -> RunRecord:
    """A run's record; `origins` says which settings came from a flag."""
    chosen = {**OPTIONS, **(options or {})}
    values = {"task": "mini-maths", "decoder": decoder, "model": "bundled:d2f", "dtype": "auto", "device": "cpu"}
    values = {**values, "limit": num_documents, "runs_dir": "runs", "trace": False, **chosen, **(settings or {})}
    configuration = {
        name: Setting.model_validate({"value": value, "origin": (origins or {}).get(name, "default")})
        for name, value in values.items()
    }
    about = {"name": "mini-maths", "version": "1", "metric": "exact_match", "num_documents": num_documents}
    weights = {"name": "bundled:d2f", "family": "dream", "hash": "sha256:49100f62", "tokenizer_hash": "5a63"}
    return RunRecord(
        configuration=configuration,
        task=TaskInfo(**{**about, "num_available": 400, "partial": True, **(task or {})}),
        model=ModelInfo(**{**weights, **(model or {})}),
        decoder=DecoderInfo(name=decoder, options=chosen),
        environment=PLACE.model_copy(update=place or {}),
        **changes,
    )


def store(
    root: Path,
    answers: Sequence[SampleRecord] | None = None,
    run: RunRecord | None = None,
    status: Status = "finished",
    edit: Callable[[str], str] | None = None,
) -> StoredRun:
    """Put a run on disk and read it back; `edit` changes the text of its samples."""
    answers = samples() if answers is None else answers
    with create_run(root, "mini-maths lopa", run or record(num_documents=len(answers))) as writer:
        for one in answers:
            writer.append(one)
        writer.finish(status=status)
    file = writer.path / "samples.jsonl"
    if edit is not None:
        file.write_text(edit(file.read_text()))
    return load_run(writer.path)


def noise_factors(count: int, seed: int, low: float = 0.1, high: float = 1.25) -> list[float]:
    """How many times longer each of `count` runs takes on a shared runner: 10 to 125 % more than on an idle one."""
    draw = random.Random(seed)
    return [1 + draw.uniform(low, high) for _ in range(count)]
