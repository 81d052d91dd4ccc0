"""From settings to something that answers: model, decoder and tokenizer together, and how the process is set up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from lopa_bench.errors import ConfigError
from lopa_bench.harness import offline
from lopa_bench.harness.bundled_defaults import is_bundled
from lopa_bench.harness.servers.settings import SERVER
from lopa_bench.harness.settings import Settings
from lopa_bench.harness.shared_work import once
from lopa_bench.harness.task_source import facts

if TYPE_CHECKING:
    from lopa_bench.harness.answering import Answerer
    from lopa_bench.harness.driver import Clock
    from lopa_bench.harness.model_source import ModelSource
    from lopa_bench.harness.servers.answerer import ServerSource


def set_up_process(settings: Settings) -> None:
    """Set the hub's switches, which must happen before its libraries are imported, and the number of threads."""
    name = str(settings["tokenizer"] or "bundled:" if settings["decoder"] == SERVER else settings["model"])
    model_is_local = is_bundled(name) or Path(name).expanduser().is_dir()
    data_are_local = settings["data_dir"] is not None or not facts(str(settings["task"])).needs_data
    all_is_local = model_is_local and data_are_local
    if settings["offline"] or all_is_local or (not offline.is_offline() and once("hub", offline.hub_is_out_of_reach)):
        offline.go_offline()
        if settings["offline"]:
            offline.forbid_connections()
    else:
        offline.use_private_dataset_cache()
    set_threads(settings)


def set_threads(settings: Settings) -> None:
    """Set the number of CPU threads, where one was asked for or the model wants one."""
    if settings["threads"] is not None:
        import torch

        try:
            torch.set_num_threads(int(settings["threads"]))
        except (ValueError, RuntimeError, OverflowError):
            raise ConfigError(f"--threads {settings['threads']} are more than can be") from None


def device_and_dtype(settings: Settings) -> tuple[str, str]:
    """Return where and in what precision the settings ask to run."""
    from lopa_bench.harness.environment import choose_device, choose_dtype

    if settings["decoder"] == SERVER:
        return SERVER, ""
    asked = str(settings["device"])
    device = once(("device", asked), lambda: choose_device(asked))
    return device, choose_dtype(str(settings["dtype"]), device, is_bundled(str(settings["model"])))


def load_answerer(settings: Settings, source: ModelSource | None = None, clock: Clock | None = None) -> Answerer:
    """Load model and tokenizer and return what answers.

    Raises:
        ConfigError: the decoder and the model do not go together; told before the weights are read.
        ModelError: the checkpoint cannot be used.
    """
    from lopa_bench.harness.model_source import ModelSource

    if settings["devices"] not in (None, 1):
        raise ConfigError("several devices are for `lopa-bench run`, which starts a process for each")
    source = source or ModelSource(settings)
    source.unloaded_decoder()
    device, dtype = device_and_dtype(settings)
    return answerer_for(settings, source, source.load(device, dtype), clock)


def source_of_model(settings: Settings) -> ModelSource:
    """Return the checkpoint that settings name, or the server in its place."""
    from lopa_bench.harness.model_source import ModelSource

    if settings["decoder"] == SERVER:
        from lopa_bench.harness.servers.answerer import ServerSource

        return cast(ModelSource, ServerSource(settings))
    return ModelSource(settings)


def answerer_for(settings: Settings, source: ModelSource, model: object = None, clock: Clock | None = None) -> Answerer:
    """Return what answers with `model`; without one it can encode prompts and tell estimates, no more."""
    from lopa_bench.harness.answering import Answerer

    if settings["decoder"] == SERVER:
        return cast(Answerer, cast("ServerSource", source).answerer())
    decoder = source.unloaded_decoder() if model is None else source.decoder_for(model)
    bos = settings["bos"]
    return Answerer(
        decoder,
        source.tokenizer,
        bos=None if bos is None else bool(bos),
        stops_apply=bool(settings["stops_apply"]),
        clock=clock,
        batch_size=int(settings["batch_size"]),
    )
