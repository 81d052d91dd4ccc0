"""Checkpoints from the Hugging Face hub: only named files, and the weights only once the architecture fits."""

from __future__ import annotations

from pathlib import Path

from lopa_bench.errors import ModelError
from lopa_bench.models.families import family_of
from lopa_bench.models.weights import INDEX, read_json

_WEIGHTS = ["model*.safetensors", INDEX]
_TOKENIZER = [
    "tokenizer*.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.*",
]


def fetch_checkpoint(hub_id: str, *, revision: str | None, offline: bool, weights: bool = True) -> Path:
    """The local snapshot of a checkpoint; config.json comes first, so that nothing big is fetched in vain."""
    snapshot = _download(hub_id, ["config.json"], revision, offline)
    if not (snapshot / "config.json").exists():
        raise ModelError(f"'{hub_id}' holds no config.json, so it is not a checkpoint that can be loaded")
    family_of(read_json(snapshot / "config.json"), f"'{hub_id}'")
    return _download(hub_id, ["config.json", *_TOKENIZER, *(_WEIGHTS if weights else [])], revision, offline)


def fetch_adapter(hub_id: str, *, revision: str | None, offline: bool) -> Path:
    """The local snapshot of a peft adapter."""
    return _download(hub_id, ["adapter_config.json", "adapter_model.safetensors"], revision, offline)


def _download(hub_id: str, patterns: list[str], revision: str | None, offline: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    at = f" at revision '{revision}'" if revision else ""
    try:
        return Path(
            snapshot_download(
                hub_id,
                revision=revision,
                allow_patterns=patterns,
                ignore_patterns=["*/*"],
                local_files_only=offline,
            )
        )
    except GatedRepoError:
        raise ModelError(
            f"'{hub_id}' is gated: accept its licence on huggingface.co and log in with `hf auth login`"
        ) from None
    except RevisionNotFoundError:
        raise ModelError(f"'{hub_id}' has no revision '{revision}'") from None
    except RepositoryNotFoundError:
        raise ModelError(
            f"'{hub_id}' is neither a folder here nor a model on the hub (or it is private and you are not logged in)"
        ) from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        raise ModelError(
            f"'{hub_id}'{at} is no folder here, and as a hub id it is not in the local cache and cannot be fetched: no "
            f"network, or offline was asked for; fetch it once with `hf download {hub_id}` or give a local folder"
        ) from None
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ModelError(f"'{hub_id}'{at} cannot be fetched: {str(error).splitlines()[0]}") from None
