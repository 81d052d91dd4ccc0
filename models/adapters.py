"""Peft LoRA adapters, merged into the weights at load.

The file layout is peft's; the merge is written here: W + scale * B @ A. Handing it to peft would mean wrapping a module
tree of the public names, which this network does not have, and an import of some four seconds, for these few lines;
the tests compare the result with peft's own `merge_and_unload`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lopa_bench.errors import ModelError
from lopa_bench.models.families import Family
from lopa_bench.models.network import Transformer
from lopa_bench.models.weights import read_json, read_tensors, stored_tensors

if TYPE_CHECKING:
    from lopa_bench.models.tensor_parallel import Part

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

# Settings that change what an adapter computes in ways a plain W + scale * B @ A does not reproduce.
_UNSUPPORTED = (
    "use_dora",
    "modules_to_save",
    "lora_bias",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "use_qalora",
    "use_bdlora",
    "alora_invocation_tokens",
    "arrow_config",
    "monteclora_config",
)
# Other initialisations (PiSSA, OLoRA, LoftQ, CorDA, LoRA-GA) also rewrite the base's own weights.
_PLAIN_INITIALISATIONS = (True, False, None, "gaussian", "eva", "orthogonal")

_KEY = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")


@dataclass(frozen=True, slots=True)
class LowRank:
    """One module's change: scale * up @ down, with down [rank, in] and up [out, rank]."""

    down: Tensor
    up: Tensor
    scale: float

    def delta(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The change of the weight, [out, in]."""
        return self.scale * (self.up.to(device, dtype) @ self.down.to(device, dtype))


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter read into memory: our module names -> their changes."""

    name: str
    changes: Mapping[str, LowRank]

    def narrowed(self, parts: Mapping[str, Part]) -> Adapter:
        """The same changes, cut as a network's weights are over several processes."""
        cut = {}
        for module, change in self.changes.items():
            part = parts.get(f"{module}.weight")
            down = part.of(change.down) if part is not None and part.dim == 1 else change.down
            up = part.of(change.up) if part is not None and part.dim == 0 else change.up
            cut[module] = LowRank(down, up, change.scale)
        return Adapter(self.name, cut)

    @torch.no_grad()
    def merge_into(self, network: Transformer) -> None:
        """Add the changes to the weights, in float32 or wider and then rounded to the weights' dtype.

        Raises:
            ModelError: a module that the network lacks, a shape that does not fit, or nothing changed.
        """
        self.check(network)
        changed = False
        for module, change in self.changes.items():
            weight = network.get_parameter(f"{module}.weight")
            wide = torch.promote_types(weight.dtype, torch.float32)
            merged = (weight.to(wide) + change.delta(wide, weight.device)).to(weight.dtype)
            changed = changed or not torch.equal(merged, weight)
            weight.copy_(merged)
        if not changed:
            raise ModelError(
                f"adapter '{self.name}' changes no weight: its updates vanish in {weight.dtype}; "
                "load with dtype float32 to see them"
            )

    def check(self, network: Transformer) -> None:
        """ModelError unless every change fits the network, whose weights may still be on the meta device."""
        shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
        for module, change in self.changes.items():
            found, wanted = (change.up.shape[0], change.down.shape[1]), shapes.get(f"{module}.weight")
            if found != wanted:
                raise ModelError(
                    f"adapter '{self.name}' does not fit: {module} is "
                    f"{list(wanted) if wanted else 'absent'} in the base and {list(found)} in the adapter"
                )


def read_adapter(
    name_or_dir: str | Path,
    family: Family,
    *,
    base: str,
    force: bool = False,
    revision: str | None = None,
    offline: bool = False,
) -> Adapter:
    """Read an adapter from a local folder or a hub id.

    Args:
        name_or_dir: the adapter.
        family: of the base, which gives module names their meaning.
        base: name or folder that the base was loaded by, held against the one the adapter records.
        force: accept an adapter of another base.
        revision: branch, tag or commit of a hub id.
        offline: use only what the hub's cache already holds.

    Raises:
        ModelError: the adapter is absent, of another base or kind, does not belong to the network, or is all zeros.
    """
    name = str(name_or_dir)
    directory = _locate(name, revision, offline)
    settings = read_json(directory / CONFIG)
    _check_kind(settings, name)
    if not force:
        _check_base(settings.get("base_model_name_or_path"), base, name)
    changes = _changes(_sides(directory, family, name), settings, name)
    if not any(change.scale and change.up.any() and change.down.any() for change in changes.values()):
        raise ModelError(
            f"adapter '{name}' changes nothing: all its updates are zero; was it saved before any training?"
        )
    return Adapter(name, changes)


def _locate(name: str, revision: str | None, offline: bool) -> Path:
    directory = Path(name).expanduser()
    if not directory.is_dir():
        if directory.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
            raise ModelError(f"adapter '{name}' not found: it is neither a folder here nor a hub id owner/name")
        from lopa_bench.models.hub import fetch_adapter

        directory = fetch_adapter(name, revision=revision, offline=offline)
    if not (directory / CONFIG).exists():
        raise ModelError(f"{directory} holds no {CONFIG}, so it is no peft adapter")
    if not (directory / WEIGHTS).exists():
        raise ModelError(
            f"{directory} holds no {WEIGHTS}; only safetensors are read, so save the adapter anew with peft"
        )
    return directory


def _check_kind(settings: Mapping[str, Any], name: str) -> None:
    kind = settings.get("peft_type")
    if kind != "LORA":
        raise ModelError(f"adapter '{name}' is of kind {kind}, which is not supported; supported: LORA")
    used = [key for key in _UNSUPPORTED if settings.get(key)]
    if settings.get("bias", "none") != "none":
        used.append("bias")
    if settings.get("init_lora_weights") not in _PLAIN_INITIALISATIONS:
        used.append(f"init_lora_weights={settings['init_lora_weights']}")
    if used:
        raise ModelError(
            f"adapter '{name}' uses {', '.join(used)}, which cannot be merged here; merge it with peft's "
            "merge_and_unload and load the merged checkpoint instead"
        )


def _check_base(recorded: str | None, base: str, name: str) -> None:
    remedy = "load that base, or pass --force-adapter if the two are the same"
    if not recorded:
        raise ModelError(f"adapter '{name}' does not record its base model; pass --force-adapter to use it anyway")
    if not same_base(recorded, base):
        raise ModelError(f"adapter '{name}' was trained on '{recorded}' but the base is '{base}'; {remedy}")


def same_base(recorded: str, base: str) -> bool:
    """By hub id where both are hub ids, else by the last component of the path; case does not matter."""
    (owner_a, name_a), (owner_b, name_b) = _owner_and_name(recorded), _owner_and_name(base)
    return name_a == name_b and (owner_a is None or owner_b is None or owner_a == owner_b)


def _owner_and_name(text: str) -> tuple[str | None, str]:
    text = text.rstrip("/").lower()
    snapshot = re.search(r"models--([^/]+?)--([^/]+)/snapshots/", f"{text}/")
    if snapshot:
        return snapshot.group(1), snapshot.group(2)
    if Path(text).is_absolute() or text.startswith(".") or Path(text).expanduser().is_dir() or "/" not in text:
        path = Path(text).expanduser()
        return None, (path.resolve() if text.startswith(".") else path).name.removeprefix("bundled:")
    owner, _, last = text.rpartition("/")
    return (owner if "/" not in owner else None), last


def _sides(directory: Path, family: Family, name: str) -> dict[str, tuple[str, dict[str, Tensor]]]:
    """Our module name -> (public name, its two factors by side)."""
    found: dict[str, tuple[str, dict[str, Tensor]]] = {}
    strange = []
    for key, tensor in read_tensors(stored_tensors([directory / WEIGHTS])):
        match = _KEY.fullmatch(key)
        public = match["module"] if match else key
        # Adapters trained here on our own module tree carry our names.
        own = family.own_module(public) or (public if family.public_module(public) else None)
        if match is None or own is None:
            strange.append(key)
        else:
            found.setdefault(own, (family.public_module(own) or own, {}))[1][match["side"]] = tensor
    if strange or not found:
        what = f"holds {strange[0]}" if strange else "is empty"
        raise ModelError(
            f"adapter '{name}' {what}: no such module in {family.architecture}; it belongs to another architecture"
        )
    return found


def _changes(
    sides: Mapping[str, tuple[str, dict[str, Tensor]]], settings: Mapping[str, Any], name: str
) -> dict[str, LowRank]:
    changes = {}
    for own, (public, pair) in sides.items():
        if pair.keys() != {"A", "B"}:
            raise ModelError(f"adapter '{name}' holds only one of the two factors of {public}")
        rank = _by_pattern(settings.get("rank_pattern"), public, settings.get("r"))
        alpha = _by_pattern(settings.get("alpha_pattern"), public, settings.get("lora_alpha"))
        down, up = pair["A"], pair["B"]
        if down.dim() != 2 or up.dim() != 2 or not down.shape[0] == up.shape[1] == rank:
            raise ModelError(
                f"adapter '{name}' is damaged: {public} has factors {list(down.shape)} and {list(up.shape)}, "
                f"but {CONFIG} says rank {rank}"
            )
        changes[own] = LowRank(down, up, alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank))
    return changes


def _by_pattern(patterns: Mapping[str, Any] | None, module: str, default: Any) -> Any:
    """The value of the first pattern that matches the end of the module's name, as peft reads them."""
    for pattern, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return value
    return default
