"""A checkpoint before its weights are read: where it lies, what it is, whether the decoder can use it, its hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.harness.acceleration import acceleration_of
from lopa_bench.harness.settings import Settings
from lopa_bench.harness.shared_work import folder_state, once
from lopa_bench.results.schema import Environment, ModelInfo

if TYPE_CHECKING:
    from lopa_bench.decoders.base import Decoder
    from lopa_bench.models.acceleration import Acceleration
    from lopa_bench.models.config import ModelConfig
    from lopa_bench.models.language_model import LanguageModel
    from lopa_bench.models.tensor_parallel import TensorGroup

_TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


@dataclass(frozen=True)
class _Shape:
    """Stands in for a model that is not loaded yet: enough for a decoder to say whether it fits."""

    config: ModelConfig
    name: str


@dataclass(frozen=True)
class ModelSource:
    """The checkpoint that settings name. Nothing but small files is read, or fetched, until `load` is called."""

    settings: Settings

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return str(self.settings["model"])

    @cached_property
    def directory(self) -> Path:
        """The folder with config.json; of a hub id its snapshot without the weights."""
        from lopa_bench.models.loading import locate

        if self._is_hub_id:
            from lopa_bench.models.hub import fetch_checkpoint

            offline = bool(self.settings["offline"])
            return once(
                ("checkpoint", self.name, offline),
                lambda: fetch_checkpoint(self.name, revision=None, offline=offline, weights=False),
            )
        return locate(self.name)

    @cached_property
    def _files(self) -> Hashable:
        """The folder and the state of its files: what all that is read from it depends on."""
        return self.directory, folder_state(self.directory)

    @property
    def _is_hub_id(self) -> bool:
        local = self.name.startswith(("bundled:", ".", "/", "~")) or Path(self.name).exists()
        return "/" in self.name and not local

    @cached_property
    def config(self) -> ModelConfig:
        """Shape and token ids."""
        from lopa_bench.models.loading import load_config

        return once(("config", self._files), lambda: load_config(self.directory)[1])

    @cached_property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer."""
        from lopa_bench.models.loading import load_tokenizer

        place = self.name if self.name.startswith("bundled:") else self.directory
        return once(("tokenizer", self._files), lambda: load_tokenizer(place))

    def check(self) -> None:
        """Hold the weights' headers, a local adapter and the tokenizer against config.json.

        A hub id's weights and adapter are checked when they are loaded, since nothing big is fetched here.

        Raises:
            ModelError: they do not belong together.
        """
        adapter = self.settings["adapter"]
        folder = None if adapter is None else Path(str(adapter)).expanduser()
        local = folder if folder is not None and folder.is_dir() else None
        force = bool(self.settings["force_adapter"])
        state = None if local is None else (local, folder_state(local))
        once(("check", self.name, self._files, state, force), lambda: self._check(local, force))

    def _check(self, adapter: Path | None, force: bool) -> None:
        from lopa_bench.models.loading import check_checkpoint
        from lopa_bench.models.tokenizer_loading import check_vocabulary

        if not self._is_hub_id:
            words = None if adapter is None else str(self.settings["adapter"])
            check_checkpoint(self.directory, base=self.name, adapter=words, force_adapter=force)
        check_vocabulary(self.tokenizer, self.config, self.name)

    def unloaded_decoder(self) -> Decoder:
        """The decoder over a model without weights: for checks and estimates.

        Raises:
            ConfigError: the decoder does not work with this kind of model.
        """
        return self.decoder_for(_Shape(self.config, self.name))

    def decoder_for(self, model: Any) -> Decoder:
        """The decoder that the settings describe, over `model`."""
        from lopa_bench.decoders.registry import decoder_type

        return decoder_type(str(self.settings["decoder"]))(model, self.settings.config)

    @property
    def acceleration(self) -> Acceleration:
        """What is to be done to the network once it is loaded."""
        return acceleration_of(self.settings)

    def load(self, device: str, dtype: str, tensor_group: TensorGroup | None = None) -> LanguageModel:
        """Read the weights, the adapter merged in; once where `loaded_models.models_kept` is in force.

        Of `tensor_group`, processes that hold the network together, each reads its own part.
        """
        from lopa_bench.harness.loaded_models import kept
        from lopa_bench.models.loading import load_model

        adapter, force = self.settings["adapter"], bool(self.settings["force_adapter"])
        offline = bool(self.settings["offline"])
        shared: dict[str, Any] = {} if tensor_group is None else {"tensor_group": tensor_group}
        return kept(
            (self.name, adapter, force, device, dtype, self.acceleration),
            lambda: load_model(
                self.name,
                adapter=adapter,
                force_adapter=force,
                device=device,
                dtype=dtype,
                offline=offline,
                acceleration=self.acceleration,
                **shared,
            ),
        )

    def environment(self, device: str, dtype: str) -> Environment:
        """Where the run runs."""
        import torch

        from lopa_bench.harness.environment import describe

        batch_size = int(self.settings["batch_size"])
        key = ("environment", device, dtype, batch_size, torch.get_num_threads())
        return once(key, lambda: describe(device, dtype, batch_size))

    def info(self) -> ModelInfo:
        """What a run record says of the model; hashes the weights, which a hub id must have been fetched for."""
        from lopa_bench.models.loading import locate

        offline = bool(self.settings["offline"])
        directory = once(("weights", self.name, offline), lambda: locate(self.name, offline=offline))
        adapter = self.settings["adapter"]
        folder = None if adapter is None else self._adapter_folder(str(adapter))
        states = [None if one is None else (one, folder_state(one)) for one in (directory, folder)]
        return once(("model", self.name, adapter, self._files, *states), lambda: self._info(directory, folder))

    def _info(self, directory: Path, adapter: Path | None) -> ModelInfo:
        from lopa_bench.models.weights import weights_hash

        return ModelInfo(
            name=self.name,
            family=self.config.family,
            revision=directory.name if self._is_hub_id else "",
            hash=weights_hash(directory),
            config_hash=self._config_hash(),
            adapter=self.settings["adapter"],
            adapter_hash="" if adapter is None else hash_files(adapter, _ADAPTER_FILES),
            tokenizer_hash=self.tokenizer_hash(directory),
            mask_token_id=self.config.mask_token_id,
            eos_token_id=self.config.eos_token_id,
            pad_token_id=self.config.pad_token_id,
        )

    def _config_hash(self) -> str:
        """sha256 over what config.json says, however it is written: the same weights may be read in another way."""
        return hashlib.sha256(json.dumps(asdict(self.config), sort_keys=True).encode()).hexdigest()

    def _adapter_folder(self, adapter: str) -> Path:
        folder = Path(adapter).expanduser()
        if folder.is_dir():
            return folder
        from lopa_bench.models.hub import fetch_adapter

        offline = bool(self.settings["offline"])
        return once(("adapter", adapter, offline), lambda: fetch_adapter(adapter, revision=None, offline=offline))

    def tokenizer_hash(self, directory: Path) -> str:
        """sha256 over the tokenizer's files."""
        if self.name.startswith("bundled:"):
            directory = Path(self.tokenizer.name_or_path)
        return hash_files(directory, _TOKENIZER_FILES)


def hash_files(directory: Path, names: tuple[str, ...]) -> str:
    """Return a sha256 over the named files of a folder, those that are there, names included."""
    digest = hashlib.sha256()
    for name in names:
        if (file := directory / name).is_file():
            digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
