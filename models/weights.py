"""Safetensors checkpoints: what a folder holds, read one tensor at a time, hashed, and written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import Tensor

from lopa_bench.errors import ModelError, nearest

if TYPE_CHECKING:
    from lopa_bench.models.tensor_parallel import Part

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

# Up to here every byte is hashed (about a second per GiB and disk); above, the head of every tensor.
HASH_ALL_BELOW = 2 * 1024**3
SAMPLE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where one tensor lies: its file, dtype as safetensors spells it, shape, and byte range in the file."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_json(path: Path) -> dict[str, Any]:
    """Parse a JSON object; ModelError names the file that is absent or damaged."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} not found; a checkpoint folder holds config.json and safetensors files") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise ModelError(f"{path} holds no JSON object")
    return loaded


def safetensors_files(directory: Path) -> list[Path]:
    """The files of a checkpoint, single or sharded; refuses other weight formats with a sentence."""
    if (directory / INDEX).exists():
        names = sorted(set(read_json(directory / INDEX).get("weight_map", {}).values()))
        strange = [name for name in names if Path(name).name != name]
        if not names or strange:
            raise ModelError(f"{directory / INDEX} is damaged: it names {strange[0] if strange else 'no file'!r}")
        missing = [name for name in names if not (directory / name).exists()]
        if missing:
            raise ModelError(f"{directory} lacks {len(missing)} of {len(names)} weight files: {', '.join(missing[:4])}")
        return [directory / name for name in names]
    if (directory / SINGLE).exists():
        return [directory / SINGLE]
    others = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth", "*.gguf") for path in directory.glob(kind))
    if others:
        raise ModelError(
            f"{directory} holds {others[0]} but no safetensors file; only safetensors are read, since the other "
            "formats can run code or are quantised: convert it, for example with transformers' save_pretrained"
        )
    raise ModelError(f"{directory} holds no weights: expected {SINGLE} or {INDEX}")


def stored_tensors(files: list[Path]) -> dict[str, StoredTensor]:
    """Name -> place of every tensor, from the files' headers alone."""
    found: dict[str, StoredTensor] = {}
    for file in files:
        for name, entry in _header(file).items():
            start, stop = entry["data_offsets"]
            found[name] = StoredTensor(file, entry["dtype"], tuple(entry["shape"]), start, stop)
    return found


def _header(file: Path) -> dict[str, Any]:
    """The header's entries, their offsets made absolute in the file."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > size:
                raise ValueError("its header is longer than the file")
            header: dict[str, Any] = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        for entry in header.values():
            entry["data_offsets"] = [8 + length + offset for offset in entry["data_offsets"]]
            if entry["data_offsets"][1] > size:
                raise ValueError("it ends before its last tensor; was the download cut off?")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} is not a whole safetensors file: {error}") from None
    return header


def read_tensors(
    places: Mapping[str, StoredTensor], parts: Mapping[str, Part] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Yield each named tensor, file by file, so that only one is in memory beside what the caller keeps.

    Of those named in `parts` only the part is read.
    """
    with ExitStack() as stack:
        opened: dict[Path, Any] = {}
        for name, place in sorted(places.items(), key=lambda item: (item[1].file, item[1].start)):
            if place.file not in opened:
                opened[place.file] = stack.enter_context(safe_open(place.file, framework="pt", device="cpu"))
            part = parts.get(name) if parts else None
            if part is None:
                yield name, opened[place.file].get_tensor(name)
            else:
                yield name, part.of(opened[place.file].get_slice(name))


def weights_hash(directory: Path | str, *, hash_all_below: int = HASH_ALL_BELOW) -> str:
    """Fingerprint of a checkpoint folder's weights for the run record.

    It covers each tensor's name, dtype and shape in sorted order and its data: all of it ("sha256:...") when the
    checkpoint is smaller than `hash_all_below` bytes, otherwise the first 64 KiB of each tensor, and the prefix
    "sha256-sampled:" says so. How the tensors are spread over files does not change it.
    """
    tensors = stored_tensors(safetensors_files(Path(directory)))
    whole = sum(place.stop - place.start for place in tensors.values()) < hash_all_below
    digest = hashlib.sha256()
    for name, place in sorted(tensors.items()):
        digest.update(json.dumps([name, place.dtype, place.shape]).encode())
        with place.file.open("rb") as stream:
            stream.seek(place.start)
            remaining = place.stop - place.start if whole else min(place.stop - place.start, SAMPLE_BYTES)
            while remaining:
                chunk = stream.read(min(remaining, 1 << 22))
                digest.update(chunk)
                remaining -= len(chunk)
    return f"{'sha256' if whole else 'sha256-sampled'}:{digest.hexdigest()}"


def torch_dtype(name: str | torch.dtype) -> torch.dtype:
    """The torch dtype of a name such as "float32", "bf16" or "fp16"."""
    if isinstance(name, torch.dtype):
        return name
    aliases = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp64": "float64"}
    known = ("float32", "bfloat16", "float16", "float64")
    wanted = aliases.get(name, name)
    if wanted not in known:
        raise ModelError(f"dtype '{name}' is not one of {', '.join(known)}{nearest(name, known)}")
    dtype: torch.dtype = getattr(torch, wanted)
    return dtype
