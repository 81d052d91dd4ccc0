"""Checkpoints by bundled name, local folder or hub id, read by our own code; remote code is never run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lopa_bench.errors import ModelError, PrerequisiteError, nearest
from lopa_bench.models.config import ModelConfig
from lopa_bench.models.families import Family, family_of
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.memory import estimate_memory
from lopa_bench.models.network import Transformer
from lopa_bench.models.saving import save_model
from lopa_bench.models.skeleton import skeleton
from lopa_bench.models.weights import (
    StoredTensor,
    read_json,
    read_tensors,
    safetensors_files,
    stored_tensors,
    torch_dtype,
    weights_hash,
)

if TYPE_CHECKING:
    from lopa_bench.models.acceleration import Acceleration
    from lopa_bench.models.adapters import Adapter
    from lopa_bench.models.tensor_parallel import Part, TensorGroup

__all__ = [
    "BUNDLED",
    "check_checkpoint",
    "estimate_memory",
    "load_config",
    "load_model",
    "load_tokenizer",
    "locate",
    "save_model",
    "weights_hash",
]

BUNDLED = ("ar", "dllm", "d2f")
_BUNDLED_DIR = Path(__file__).resolve().parent / "bundled"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

# Written by some checkpoints though they follow from config.json.
_DERIVED = re.compile(r"(^|\.)rotary_emb\.(inv_freq|original_inv_freq)$")
# As safetensors spells them; numbers of other kinds mean nothing without the scales beside them.
_PLAIN_DTYPES = ("BF16", "F16", "F32", "F64")


def load_model(
    name_or_dir: str | Path,
    *,
    adapter: str | Path | None = None,
    force_adapter: bool = False,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float32",
    revision: str | None = None,
    offline: bool = False,
    tensor_group: TensorGroup | None = None,
    acceleration: Acceleration | None = None,
) -> LanguageModel:
    """Load a checkpoint, its LoRA adapter merged in where one is given.

    Args:
        name_or_dir: `bundled:ar`, `bundled:dllm`, `bundled:d2f`, a local folder, or a hub id such as
            `Dream-org/Dream-v0-Instruct-7B`. Only a hub id may use the network.
        adapter: folder or hub id of a peft LoRA adapter.
        force_adapter: merge it even if it was trained on another base.
        device: where the weights go; each tensor goes there as it is read.
        dtype: of the weights in memory, whatever they are on disk: float32, bfloat16, float16 or float64.
        revision: branch, tag or commit of a hub id.
        offline: use only what the hub's cache already holds.
        tensor_group: processes that hold the network together, each reading its own part of the weights only.
        acceleration: what is done to the network once it has its weights.

    Raises:
        ConfigError: more processes in the group than the network has heads.
        ModelError: no such checkpoint, an architecture outside the family table, a feature that is not supported,
            weights that are not safetensors or do not fit, an adapter that does not belong.
        PrerequisiteError: the device is not there.
    """
    place = _device(device)
    wanted = torch_dtype(dtype)
    directory = locate(name_or_dir, revision=revision, offline=offline)
    family, config = load_config(directory)
    network = skeleton(config)
    lora = _adapter(network, family, str(name_or_dir), adapter, force_adapter, offline)
    places = _checked(stored_tensors(safetensors_files(directory)), family, network, directory)
    parts: dict[str, Part] = {}
    if tensor_group is not None and tensor_group.size > 1:
        from lopa_bench.models.tensor_parallel import split

        parts = split(network, tensor_group)
    _fill(network, places, family, place, wanted, parts)
    if lora is not None:
        (lora.narrowed(parts) if parts else lora).merge_into(network)
    model = LanguageModel(network, name=str(name_or_dir))
    model.accelerations = tuple(acceleration.apply(network)) if acceleration is not None else ()
    return model


def check_checkpoint(
    directory: Path, *, base: str, adapter: str | Path | None = None, force_adapter: bool = False, offline: bool = False
) -> None:
    """Hold what a folder's weights and an adapter are against config.json, from the files' headers alone.

    Args:
        directory: the checkpoint.
        base: the name by which it was asked for, held against the one that the adapter records.
        adapter: folder or hub id of a peft LoRA adapter, which is read.
        force_adapter: accept an adapter of another base.
        offline: use only what the hub's cache already holds.

    Raises:
        ModelError: what `load_model` would refuse.
    """
    family, config = load_config(directory)
    network = skeleton(config)
    _checked(stored_tensors(safetensors_files(directory)), family, network, directory)
    _adapter(network, family, base, adapter, force_adapter, offline)


def _adapter(
    network: Transformer, family: Family, base: str, adapter: str | Path | None, force: bool, offline: bool
) -> Adapter | None:
    """The adapter where one is given, which fits the network."""
    if adapter is None:
        return None
    from lopa_bench.models.adapters import read_adapter

    lora = read_adapter(adapter, family, base=base, force=force, offline=offline)
    lora.check(network)
    return lora


def load_config(directory: Path) -> tuple[Family, ModelConfig]:
    """Family and shape of a checkpoint folder, from its config.json; no weights are read."""
    raw = read_json(directory / "config.json")
    family = family_of(raw, str(directory / "config.json"))
    return family, family.config({**raw, "eos_token_id": _eos(raw, directory)})


def _eos(raw: Mapping[str, Any], directory: Path) -> Any:
    """Of several EOS ids the one that the tokenizer calls so: it ends a chat turn where the others end a text."""
    listed = raw.get("eos_token_id")
    settings = directory / "tokenizer_config.json"
    if not isinstance(listed, list) or not settings.exists():
        return listed
    tokenizer = read_json(settings)
    token = tokenizer.get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    added = tokenizer.get("added_tokens_decoder") or {}
    named = [int(number) for number, entry in added.items() if entry.get("content") == content]
    return next((number for number in named if number in listed), listed)


def _device(device: str | torch.device) -> torch.device:
    try:
        place = torch.device(device)
    except RuntimeError:
        raise PrerequisiteError(f"device '{device}' is unknown; try cpu, cuda or npu") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise PrerequisiteError(f"device '{device}' was asked for, but torch sees no CUDA device; try cpu")
    return place


def locate(
    name_or_dir: str | Path, *, revision: str | None = None, offline: bool = False, weights: bool = True
) -> Path:
    """The folder of a checkpoint; downloads only for a hub id, and only once its architecture is known to fit."""
    name = str(name_or_dir)
    if name.startswith("bundled:"):
        return _bundled(name.removeprefix("bundled:"))
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise ModelError(f"{name} is a file; give the folder that holds config.json and the weights")
    if isinstance(name_or_dir, Path) or not _HUB_ID.fullmatch(name):
        raise ModelError(
            f"model '{name}' not found: it is neither a folder here, nor bundled:<{'|'.join(BUNDLED)}>, "
            "nor a hub id of the form owner/name"
        )
    from lopa_bench.models.hub import fetch_checkpoint

    return fetch_checkpoint(name, revision=revision, offline=offline, weights=weights)


def _check_bundled(kind: str) -> None:
    if kind not in BUNDLED:
        raise ModelError(f"no bundled model '{kind}'{nearest(kind, BUNDLED)}; bundled are {', '.join(BUNDLED)}")


def _bundled(kind: str) -> Path:
    _check_bundled(kind)
    directory = _BUNDLED_DIR / kind
    if not (directory / "config.json").exists():
        raise ModelError(f"the bundled model '{kind}' is not in this installation ({directory} is absent)")
    return directory


def _fill(
    network: Transformer,
    places: Mapping[str, StoredTensor],
    family: Family,
    device: torch.device,
    dtype: torch.dtype,
    parts: Mapping[str, Part],
) -> None:
    """Give a network on the meta device its tensors, one by one, so that no second copy is ever in memory."""
    state = {}
    for name, tensor in read_tensors(places, {family.public_name(own): part for own, part in parts.items()}):
        own = family.own_name(name)
        if own is not None:
            state[own] = tensor.to(device, dtype)
    network.load_state_dict(state, assign=True)


def _checked(
    stored: Mapping[str, StoredTensor], family: Family, network: Transformer, directory: Path
) -> dict[str, StoredTensor]:
    """The tensors to read; ModelError names those that are missing, unexpected, of another shape or quantised."""
    expected = {family.public_name(name): tuple(value.shape) for name, value in network.named_parameters()}
    tied = {f"{family.public_module('head')}.weight"} if network.config.tied_head else set()
    found = {name: place for name, place in stored.items() if name not in tied and not _DERIVED.search(name)}
    problems = {
        ("lacks", ""): sorted(expected.keys() - found.keys()),
        ("holds", "unexpected"): sorted(found.keys() - expected.keys()),
        ("holds", "mis-shaped"): [
            f"{name} {list(found[name].shape)} instead of {list(shape)}"
            for name, shape in sorted(expected.items())
            if name in found and found[name].shape != shape
        ],
    }
    texts = [_few(*what, names) for what, names in problems.items() if names]
    if texts:
        raise ModelError(f"the weights in {directory} do not fit its config.json: it {'; it '.join(texts)}")
    coded = [f"{name} {place.dtype}" for name, place in sorted(found.items()) if place.dtype not in _PLAIN_DTYPES]
    if coded:
        raise ModelError(
            f"the weights in {directory} are quantised, which is not supported: it {_few('holds', 'coded', coded)}; "
            "take the checkpoint in bfloat16, float16 or float32"
        )
    return found


def _few(verb: str, adjective: str, names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    words = (verb, str(len(names)), adjective, "tensors" if len(names) > 1 else "tensor")
    return f"{' '.join(filter(None, words))} ({', '.join(names[:3])}{more})"


def load_tokenizer(name_or_dir: str | Path, *, revision: str | None = None, offline: bool = False) -> Any:
    """The checkpoint's tokenizer as a transformers one; of a hub id only the small files are fetched.

    Raises:
        ModelError: no such checkpoint, no tokenizer in it, or one that only remote code could read.
    """
    from lopa_bench.models.tokenizer_loading import tokenizer_from

    if str(name_or_dir).startswith("bundled:"):
        _check_bundled(str(name_or_dir).removeprefix("bundled:"))
        return tokenizer_from(_BUNDLED_DIR / "tokenizer")
    return tokenizer_from(locate(name_or_dir, revision=revision, offline=offline, weights=False))
