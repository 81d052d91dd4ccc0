"""Checkpoint folders, hub ids and bundled names: what loads, what is refused and how it is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lopa_bench.errors import ModelError, PrerequisiteError
from lopa_bench.models import hub, loading, tokenizer_loading
from lopa_bench.models.families import FAMILIES
from lopa_bench.models.loading import load_config, load_model, save_model, weights_hash

Checkpoint = Callable[..., Path]
Shard = Callable[[Path], None]


def edit_weights(directory: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = dict(load_file(directory / "model.safetensors"))
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


def refusal(name: Any, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_save_and_load_round_trip(checkpoint: Checkpoint, tmp_path: Path, family: str) -> None:
    first = load_model(checkpoint(family))
    again = load_model(save_model(first.network, tmp_path / "again", dtype="float32"))
    assert again.config == first.config
    assert not again.network.training
    for (name, one), (_, other) in zip(first.network.named_parameters(), again.network.named_parameters(), strict=True):
        assert torch.equal(one, other), name
        assert not other.requires_grad


@pytest.mark.parametrize("stored", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("wanted", ["float32", "bf16", "fp16", "float64"])
def test_dtype_in_memory_is_the_one_asked_for(checkpoint: Checkpoint, stored: str, wanted: str) -> None:
    directory = checkpoint("qwen2", dtype=stored)
    model = load_model(directory, dtype=wanted)
    names = {"bf16": torch.bfloat16, "fp16": torch.float16}
    assert model.dtype == names.get(wanted) or model.dtype == getattr(torch, wanted)
    tensors = load_file(directory / "model.safetensors")
    assert torch.equal(model.network.norm.weight, tensors["model.norm.weight"].to(model.dtype))


def test_sharded_checkpoint_is_the_same_model(checkpoint: Checkpoint, shard: Shard) -> None:
    whole, parts = checkpoint("dream", name="whole"), checkpoint("dream", name="parts")
    shard(parts)
    assert not (parts / "model.safetensors").exists()
    tokens = torch.arange(20)[None]
    assert torch.equal(load_model(whole).predict(tokens, (0, 20)), load_model(parts).predict(tokens, (0, 20)))
    assert weights_hash(whole) == weights_hash(parts)


def test_weights_stay_usable_while_the_folder_is_written_anew(checkpoint: Checkpoint) -> None:
    """The loaded tensors may be views of the file; saving over it must not pull it from under them."""
    directory = checkpoint("dream")
    model = load_model(directory)
    before = model.predict(torch.arange(9)[None], (0, 9))
    checkpoint("dream", vocab_size=70)
    assert torch.equal(before, model.predict(torch.arange(9)[None], (0, 9)))
    assert load_model(directory).config.vocab_size == 70


def test_derived_tensors_and_a_stored_tied_head_are_passed_over(checkpoint: Checkpoint) -> None:
    directory = checkpoint("llama")
    expected = load_model(directory).predict(torch.arange(9)[None], (1, 9))

    def add(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = torch.zeros(61, 32)
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)

    edit_weights(directory, add)
    assert torch.equal(load_model(directory).predict(torch.arange(9)[None], (1, 9)), expected)


def test_the_tokenizer_says_which_of_several_eos_ends_a_turn(checkpoint: Checkpoint) -> None:
    directory = checkpoint("llama", edit=lambda raw: raw.update(eos_token_id=[5, 8, 9]))
    assert load_config(directory)[1].eos_token_id == 5
    added = {"5": {"content": "<|end_of_text|>"}, "9": {"content": "<|eot_id|>"}}
    settings = {"eos_token": {"content": "<|eot_id|>"}, "added_tokens_decoder": added}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    assert load_config(directory)[1].eos_token_id == 9


def test_architecture_is_refused_before_weights_are_looked_at(checkpoint: Checkpoint) -> None:
    directory = checkpoint(edit=lambda raw: raw.update(architectures=["MistralForCausalLM"]))
    (directory / "model.safetensors").write_bytes(b"not looked at")
    assert "architecture 'MistralForCausalLM', which is not supported" in refusal(directory)


def test_missing_unexpected_and_misshapen_tensors_are_named(checkpoint: Checkpoint) -> None:
    directory = checkpoint("llada")

    def damage(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["model.transformer.blocks.1.ff_proj.weight"]
        tensors["model.transformer.extra.weight"] = torch.zeros(2)
        tensors["model.transformer.ln_f.weight"] = torch.zeros(31)

    edit_weights(directory, damage)
    message = refusal(directory)
    assert "lacks 1 tensor (model.transformer.blocks.1.ff_proj.weight)" in message
    assert "holds 1 unexpected tensor (model.transformer.extra.weight)" in message
    assert "holds 1 mis-shaped tensor (model.transformer.ln_f.weight [31] instead of [32])" in message


@pytest.mark.parametrize("coded", [torch.int8, torch.float8_e4m3fn])
def test_quantised_weights_are_refused(checkpoint: Checkpoint, coded: torch.dtype) -> None:
    directory = checkpoint("dream")
    edit_weights(
        directory, lambda tensors: tensors.update({"model.norm.weight": tensors["model.norm.weight"].to(coded)})
    )
    assert "are quantised, which is not supported: it holds 1 coded tensor (model.norm.weight" in refusal(directory)


@pytest.mark.parametrize(("role", "number"), [("mask", 61), ("mask", -1), ("eos", 99)])
def test_special_ids_outside_the_vocabulary_are_refused(checkpoint: Checkpoint, role: str, number: int) -> None:
    directory = checkpoint("dream", edit=lambda raw: raw.update({f"{role}_token_id": number}))
    assert f"{role}_token_id {number} is outside the vocabulary of 61 tokens" in refusal(directory)


def test_a_checkpoint_without_its_head_is_refused_unless_tied(checkpoint: Checkpoint) -> None:
    directory = checkpoint("qwen2")
    edit_weights(directory, lambda tensors: tensors.pop("lm_head.weight"))
    assert "lacks 1 tensor (lm_head.weight)" in refusal(directory)


def test_many_missing_tensors_are_counted(checkpoint: Checkpoint) -> None:
    directory = checkpoint("dream", edit=lambda raw: raw.update(num_hidden_layers=3))
    assert "lacks 12 tensors" in (message := refusal(directory))
    assert "and 9 more" in message


def test_other_weight_formats_are_refused(checkpoint: Checkpoint) -> None:
    directory = checkpoint()
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    assert "holds pytorch_model.bin but no safetensors file" in refusal(directory)
    (directory / "pytorch_model.bin").unlink()
    assert "holds no weights: expected model.safetensors" in refusal(directory)


def test_damaged_files_are_named(checkpoint: Checkpoint) -> None:
    directory = checkpoint()
    file = directory / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert "model.safetensors is not a whole safetensors file: it ends before its last tensor" in refusal(directory)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    assert "is not a whole safetensors file" in refusal(directory)
    (directory / "config.json").write_text("{")
    assert "config.json cannot be read as JSON" in refusal(directory)
    (directory / "config.json").unlink()
    assert "config.json not found" in refusal(directory)


def test_index_with_missing_or_foreign_files_is_refused(checkpoint: Checkpoint, shard: Shard) -> None:
    directory = checkpoint()
    shard(directory)
    (directory / "model-00002-of-00003.safetensors").unlink()
    assert "lacks 1 of 3 weight files: model-00002-of-00003.safetensors" in refusal(directory)
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "../elsewhere.safetensors"}}))
    assert "it names '../elsewhere.safetensors'" in refusal(directory)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bundled:lm", "no bundled model 'lm'"),
        ("bundled:d2", "did you mean 'd2f'"),
        ("no-such-folder", "neither a folder here, nor bundled:<ar|dllm|d2f>, nor a hub id"),
        ("./owner/name", "neither a folder here"),
        ("/absolute/path", "neither a folder here"),
        (Path("owner/name"), "neither a folder here"),
    ],
)
def test_names_that_lead_nowhere(name: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_download", lambda *_: pytest.fail("a local name must never reach the network"))
    assert said in refusal(name)


def test_a_file_is_not_a_folder(checkpoint: Checkpoint) -> None:
    assert "is a file; give the folder" in refusal(checkpoint() / "config.json")


def test_unknown_dtype_and_device(checkpoint: Checkpoint) -> None:
    assert "dtype 'int8' is not one of" in refusal(checkpoint(), dtype="int8")
    with pytest.raises(PrerequisiteError, match="device 'gpu' is unknown"):
        load_model(checkpoint(), device="gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_absent_cuda_is_one_line(checkpoint: Checkpoint) -> None:
    with pytest.raises(PrerequisiteError, match="torch sees no CUDA device"):
        load_model(checkpoint(), device="cuda")


def test_bundled_names(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loading, "_BUNDLED_DIR", tmp_path)
    assert "the bundled model 'ar' is not in this installation" in refusal("bundled:ar")
    checkpoint("qwen2", name="ar")
    model = load_model("bundled:ar")
    assert (model.name, model.config.causal) == ("bundled:ar", True)
    monkeypatch.setattr(tokenizer_loading, "tokenizer_from", lambda directory: directory)
    assert loading.load_tokenizer("bundled:d2f") == tmp_path / "tokenizer"


def test_hash_covers_names_shapes_and_data(checkpoint: Checkpoint) -> None:
    directory = checkpoint("dream")
    first = weights_hash(directory)
    assert first.startswith("sha256:") and len(first) == len("sha256:") + 64

    def nudge(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.norm.weight"][-1] += 1

    edit_weights(directory, nudge)
    assert weights_hash(directory) != first
    sampled = weights_hash(directory, hash_all_below=0)
    assert sampled.startswith("sha256-sampled:")
    edit_weights(directory, nudge)
    assert weights_hash(directory, hash_all_below=0) != sampled


def test_saved_files_follow_the_users_umask(checkpoint: Checkpoint) -> None:
    directory = checkpoint()
    modes = {file.name: file.stat().st_mode for file in directory.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]
    assert sorted(modes) == ["config.json", "model.safetensors"], "no half-written file stays behind"
