"""Writing a network as a checkpoint in its family's public layout."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file

from lopa_bench.models.families import FAMILIES
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.network import Transformer
from lopa_bench.models.weights import SINGLE, torch_dtype


def save_model(
    model: Transformer | LanguageModel, directory: Path | str, *, dtype: str | torch.dtype = "bfloat16"
) -> Path:
    """Write config.json and model.safetensors under the public parameter names of `config.family`.

    Args:
        model: the network; its weights are not changed.
        directory: made when absent. Files are replaced as a whole, so that a reader or a kill never meets half a
            file.
        dtype: of the weights on disk.

    Returns:
        The directory.
    """
    network = model.network if isinstance(model, LanguageModel) else model
    family, stored = FAMILIES[network.config.family], torch_dtype(dtype)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {
        family.public_name(name): parameter.detach().to("cpu", stored).contiguous()
        for name, parameter in network.named_parameters()
    }
    raw = {**family.public_config(network.config), "torch_dtype": str(stored).removeprefix("torch.")}

    unfinished_config, unfinished = (directory / f".{name}.{os.getpid()}" for name in ("config.json", SINGLE))
    unfinished_config.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    save_file(tensors, unfinished, metadata={"format": "pt"})
    # safetensors makes files that only their owner reads; the user's umask, as seen on config.json, decides instead.
    unfinished.chmod(unfinished_config.stat().st_mode)
    unfinished.replace(directory / SINGLE)
    unfinished_config.replace(directory / "config.json")
    return directory
