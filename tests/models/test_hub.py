"""Checkpoints by hub id: what is fetched, in which order, and how trouble is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lopa_bench.errors import ModelError
from lopa_bench.models.loading import load_model, locate

Checkpoint = Callable[..., Path]
Shard = Callable[[Path], None]


def refusal(name: Any, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class FakeHub:
    """Stands in for snapshot_download: keeps what was asked, copies from a folder what the patterns name."""

    def __init__(self, source: Path, cache: Path) -> None:
        self.source, self.cache, self.asked = source, cache, []  # type: tuple[Path, Path, list[Any]]

    def __call__(self, hub_id: str, **options: Any) -> str:
        self.asked.append((hub_id, options))
        self.cache.mkdir(exist_ok=True)
        for file in self.source.iterdir():
            if any(file.match(pattern) for pattern in options["allow_patterns"]):
                (self.cache / file.name).write_bytes(file.read_bytes())
        return str(self.cache)


@pytest.fixture
def fake_hub(checkpoint: Checkpoint, shard: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    source = checkpoint("dream")
    for name in ("modeling_dream.py", "pytorch_model.bin", "consolidated.safetensors", "vocab.json"):
        (source / name).write_text("{}")
    shard(source)
    fake = FakeHub(source, tmp_path / "cache")
    monkeypatch.setattr("huggingface_hub.snapshot_download", fake)
    return fake


def test_hub_id_fetches_weights_and_data_but_no_code(fake_hub: FakeHub) -> None:
    model = load_model("owner/name", revision="v1", offline=True)
    assert model.name == "owner/name"
    fetched = {file.name for file in fake_hub.cache.iterdir()}
    assert {"config.json", "vocab.json", "model.safetensors.index.json"} <= fetched
    assert not fetched & {"modeling_dream.py", "pytorch_model.bin", "consolidated.safetensors"}
    for hub_id, options in fake_hub.asked:
        assert (hub_id, options["revision"], options["local_files_only"]) == ("owner/name", "v1", True)


def test_hub_id_of_a_foreign_architecture_fetches_only_its_config(fake_hub: FakeHub) -> None:
    (fake_hub.source / "config.json").write_text(json.dumps({"architectures": ["GPT2LMHeadModel"]}))
    assert "'owner/name' is of architecture 'GPT2LMHeadModel'" in refusal("owner/name")
    assert [file.name for file in fake_hub.cache.iterdir()] == ["config.json"]


def test_hub_tokenizer_comes_without_the_weights(fake_hub: FakeHub) -> None:
    locate("owner/name", weights=False)
    assert not list(fake_hub.cache.glob("*.safetensors"))
    assert (fake_hub.cache / "vocab.json").exists()


def test_hub_troubles_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    response: Any = SimpleNamespace(headers={}, request=None)
    for error, said in (
        (GatedRepoError("x", response=response), "is gated: accept its licence"),
        (RepositoryNotFoundError("x", response=response), "neither a folder here nor a model on the hub"),
        (RevisionNotFoundError("x", response=response), "has no revision 'v9'"),
        (LocalEntryNotFoundError("x"), "not in the local cache and cannot be fetched"),
        (OSError("disk full\nmore"), "cannot be fetched: disk full"),
    ):

        def fail(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
        assert said in refusal("owner/name", revision="v9")
