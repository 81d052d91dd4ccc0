"""Tiny random models of every family, in memory and as checkpoint folders."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.loading import save_model
from lopa_bench.models.network import Transformer
from lopa_bench.models.tiny import tiny_config

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the shared fakes


def make_network(config: ModelConfig, seed: int = 0, dtype: torch.dtype = torch.float32) -> Transformer:
    torch.manual_seed(seed)
    network = Transformer(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            # Norms away from one, biases away from zero, weights large enough that attention is far from uniform.
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.3)
    return network.to(dtype)


@pytest.fixture(name="tiny_config")
def config_builder() -> Callable[..., ModelConfig]:
    return tiny_config


@pytest.fixture
def tiny_model() -> Callable[..., LanguageModel]:
    """tiny_model(family, seed=0, dtype=torch.float32, **config changes) -> LanguageModel."""

    def make(family: str = "dream", seed: int = 0, dtype: torch.dtype = torch.float32, **changes: Any) -> LanguageModel:
        return LanguageModel(make_network(tiny_config(family, **changes), seed, dtype))

    return make


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """checkpoint(family, name="base", dtype="float32", edit=None) -> folder; `edit` changes config.json's dict."""

    def make(
        family: str = "dream",
        name: str = "base",
        dtype: str = "float32",
        edit: Callable[[dict[str, Any]], object] | None = None,
        **changes: Any,
    ) -> Path:
        directory = save_model(make_network(tiny_config(family, **changes)), tmp_path / name, dtype=dtype)
        if edit is not None:
            file = directory / "config.json"
            raw = json.loads(file.read_text())
            edit(raw)
            file.write_text(json.dumps(raw))
        return directory

    return make


@pytest.fixture
def shard() -> Callable[[Path], None]:
    """shard(folder): split its single weight file in the way of the public checkpoints."""

    def split(directory: Path, parts: int = 3) -> None:
        tensors = load_file(directory / "model.safetensors")
        (directory / "model.safetensors").unlink()
        weight_map: dict[str, str] = {}
        for part in range(parts):
            name = f"model-{part + 1:05}-of-{parts:05}.safetensors"
            mine = dict(list(tensors.items())[part::parts])
            save_file(mine, directory / name)
            weight_map.update(dict.fromkeys(mine, name))
        index = {"metadata": {}, "weight_map": weight_map}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index))

    return split
