"""What `--decoder server` can be told: its options, the settings that are its alone, and what means nothing to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lopa_bench.decoders.options import DecoderConfig
from lopa_bench.errors import ConfigError, nearest
from lopa_bench.harness.servers.client import address
from lopa_bench.results.schema import Setting

if TYPE_CHECKING:
    from lopa_bench.harness.settings import RunSpec

SERVER = "server"
DEFAULTS: dict[str, Any] = {
    "base_url": None,
    "api_key_env": None,
    "concurrency": 1,
    "request_timeout": 600.0,
    "tokenizer": None,
}
# The server has a device, a precision and weights of its own, and tells nothing of its rounds.
ITS_OWN = ("adapter", "force_adapter", "device", "dtype", "trace", "quantize", "merge_qkv", "compile")


@dataclass(frozen=True, kw_only=True)
class ServerConfig(DecoderConfig):
    """Options of `server`: those that every completions server knows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.early_stop:
            raise ConfigError("early_stop = false is not for decoder server: a server ends an answer at its EOS")
        if self.allow_mask_token:
            raise ConfigError("allow_mask_token = true is not for decoder server: the server chooses its own tokens")


class ServerDecoder:
    """Stands among the decoders for what listings and settings ask of one; the server does the decoding."""

    name = SERVER
    config_type = ServerConfig
    needs_diffusion = False
    batches = False

    def __init__(self, config: ServerConfig) -> None:
        self.config = config


def decoder_kind(name: str) -> Any:
    """Return the class of a decoder, or what stands for one.

    Raises:
        ConfigError: no decoder has that name.
    """
    from lopa_bench.decoders.registry import decoder_type

    if name == SERVER:
        return ServerDecoder
    try:
        return decoder_type(name)
    except ConfigError as error:
        raise ConfigError(f"{error}, or {SERVER} for a model behind a server{nearest(name, [SERVER])}") from None


def check_server(spec: RunSpec, found: Mapping[str, Setting]) -> None:
    """Refuse a server's settings without a server, and with one what it has no use for.

    Raises:
        ConfigError: says which and why.
    """
    if found["decoder"].value != SERVER:
        for name in DEFAULTS:
            if getattr(spec, name) is not None:
                raise ConfigError(f"{flag(name)} is for --decoder server; this is decoder {found['decoder'].value}")
        return
    if found["base_url"].value is None:
        raise ConfigError("--decoder server needs the server's address: --base-url http://127.0.0.1:8000/v1")
    address(str(found["base_url"].value))
    for name in ITS_OWN:
        if getattr(spec, name):
            raise ConfigError(
                f"{flag(name)} means nothing with --decoder server, which settles it itself; leave it out"
            )
    if found["bos"].value:
        raise ConfigError("--bos means nothing with --decoder server, which writes a BOS where its model wants one")
    if found["chat"].value and found["tokenizer"].value is None:
        raise ConfigError("--chat with --decoder server needs --tokenizer NAME, whose chat template writes the prompts")
    seconds = found["request_timeout"].value
    if not isinstance(seconds, int | float) or seconds <= 0:
        raise ConfigError(f"--request-timeout {seconds} is too small: it must be above 0")


def check_batch(size: Any, decoder: str) -> None:
    """Refuse several answers at once where the decoder cannot make them.

    Raises:
        ConfigError: says which decoders can.
    """
    from lopa_bench.decoders.registry import decoder_types

    if not isinstance(size, int) or size == 1:
        return
    if decoder == SERVER:
        raise ConfigError(f"--batch-size {size} is not for decoder server, which batches by itself; use --concurrency")
    kinds = decoder_types()
    if not kinds[decoder].batches:
        able = ", ".join(name for name, kind in kinds.items() if kind.batches)
        raise ConfigError(
            f"--batch-size {size} is for {able}; decoder {decoder} makes one answer at a time, leave --batch-size out"
        )


def flag(name: str) -> str:
    """Return a setting as it is written on the command line."""
    return f"--{name.replace('_', '-')}"
