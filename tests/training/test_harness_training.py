"""`lopa-bench train` end to end on a handful of examples: AR, then adapted to diffusion, then a LoRA student."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lopa_bench.errors import ConfigError, ModelError, TaskDataError
from lopa_bench.harness.training import Shape, TrainingRun, file_source, task_source, train
from lopa_bench.models.loading import load_model
from lopa_bench.models.training.trainer import TrainingOptions

OPTIONS = TrainingOptions(steps=2, batch_size=4, rate=0.01)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "examples.jsonl"
    lines = [json.dumps({"prompt": f"Question: {n} + 1?\nAnswer:", "answer": f" {n + 1}"}) for n in range(40)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_three_recipes_in_a_row(tmp_path: Path, data: Path) -> None:
    small = Shape(16, 1, 2, 1, 16)
    ar = train(TrainingRun("ar", tmp_path / "ar", OPTIONS, data=data, shape=small))
    assert load_model(ar).config.causal
    dllm = train(TrainingRun("dllm", tmp_path / "dllm", OPTIONS, data=data, init=str(ar)))
    teacher = load_model(dllm).config
    assert (teacher.family, teacher.causal, teacher.mask_token_id) == ("dream", False, 1)
    run = TrainingRun("d2f", tmp_path / "d2f", OPTIONS, data=data, init=str(dllm), lora_rank=2)
    student = load_model(train(run))
    adapted = load_model(dllm, adapter=tmp_path / "d2f" / "adapter")
    before, after = (model.network.layers[0].attention.q_proj.weight for model in (adapted, student))
    assert (before - after).abs().max() < 1e-3


def test_a_missing_start_is_named(tmp_path: Path, data: Path) -> None:
    with pytest.raises(ModelError, match="neither a folder"):
        train(TrainingRun("dllm", tmp_path / "out", OPTIONS, data=data, init="nowhere to be found"))


def test_a_student_needs_a_teacher(tmp_path: Path, data: Path) -> None:
    with pytest.raises(ConfigError, match="--teacher"):
        train(TrainingRun("d2f", tmp_path / "out", OPTIONS, data=data, shape=Shape(16, 1, 2, 1, 16)))


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, data: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=r"cannot make .*; give another folder with --out"):
            train(TrainingRun("ar", place, OPTIONS, data=data))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no example"),
        ('{"prompt": "a"}\n', ":1 is no"),
        ('{"prompt": "a", "answer": "b"}\n[1]\n', ":2 is no"),
    ],
)
def test_bad_data_is_named_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(TaskDataError, match=complaint):
        file_source(path, lambda text: [1])


def test_tasks_are_mixed_by_their_shares() -> None:
    source = task_source({"mini-maths": 0.75, "mini-code": 0.25}, lambda text: [len(text), text.startswith("Question")])
    stream = source(3)
    is_maths = [next(stream)[0][1] for _ in range(1000)]
    assert 0.7 < sum(is_maths) / 1000 < 0.8
    with pytest.raises(ConfigError, match="positive shares"):
        task_source({}, lambda text: [1])
