"""What is known of a checkpoint before its weights are read, and what tells two checkpoints apart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lopa_bench.errors import ConfigError, ModelError
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec

Change = Callable[[Path], object]


def spec(model: Path, runs: Path, **changes: Any) -> RunSpec:
    options = {"max_new_tokens": 8, "block_size": 4, "branches": 2}
    settings: dict[str, Any] = {"task": "mini-maths", "decoder": "lopa", "limit": 1, "warmup": 0, "threads": 1}
    return RunSpec(**{**settings, "model": str(model), "runs_dir": runs, "options": options, **changes})


@pytest.fixture
def copy(tmp_path: Path, diffusion_checkpoint: Path) -> Path:
    return shutil.copytree(diffusion_checkpoint, tmp_path / "copy")


def edit_json(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def edit_weights(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(3)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no weights"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 99), "not a whole safetensors file"),
        (edit_weights, r"mis-shaped tensor \(model.norm.weight \[3\]"),
        (
            lambda folder: edit_json(folder / "config.json", lambda raw: raw.update(mask_token_id=9999)),
            "outside the voc",
        ),
        (
            lambda folder: edit_json(folder / "tokenizer.json", lambda raw: raw["model"]["vocab"].update({"zz": 7777})),
            "goes up to id 7777, but its network knows 748 tokens",
        ),
    ],
)
def test_a_damaged_checkpoint_is_told_before_a_run_is_made(
    copy: Path, tmp_path: Path, damage: Change, said: str
) -> None:
    damage(copy)
    for dry_run in (True, False):
        with pytest.raises(ModelError, match=said):
            run(spec(copy, tmp_path / "runs", dry_run=dry_run))
    assert not (tmp_path / "runs").exists()


def test_an_adapter_of_another_base_is_told_before_a_run_is_made(copy: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": "some/Other-7B", "r": 2, "lora_alpha": 4})
    )
    save_file({"x": torch.ones(1)}, adapter / "adapter_model.safetensors")
    with pytest.raises(ModelError, match="was trained on 'some/Other-7B'"):
        run(spec(copy, tmp_path / "runs", adapter=str(adapter)))
    assert not (tmp_path / "runs").exists()


def test_the_same_weights_read_by_another_config_are_another_run(copy: Path, tmp_path: Path) -> None:
    """A run must not go on with the answers that the same weights gave under another reading of them."""
    first = run(spec(copy, tmp_path / "runs")).run
    edit_json(copy / "config.json", lambda raw: raw.update(transformers_version="99"))
    assert run(spec(copy, tmp_path / "runs")).num_new == 0
    edit_json(copy / "config.json", lambda raw: raw.update(rope_theta=500.0))
    second = run(spec(copy, tmp_path / "runs"))
    assert first is not None and second.run is not None
    assert (second.num_new, second.run.path == first.path) == (1, False)
    assert first.record.model.hash == second.run.record.model.hash


def test_answers_that_leave_no_room_for_a_prompt_are_refused(copy: Path, tmp_path: Path) -> None:
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match=r"leave no room for a prompt: .* knows 512 positions"):
            run(spec(copy, tmp_path / "runs", options={"max_new_tokens": 512}, dry_run=dry_run))
    assert not (tmp_path / "runs").exists()
