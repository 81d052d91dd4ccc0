"""What a run was asked to do, and what that comes to: every setting with the place that its value came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopa_bench.decoders.presets import BRANCH_WORDS
from lopa_bench.errors import ConfigError
from lopa_bench.harness import bundled_defaults
from lopa_bench.harness.assignments import parse_bool
from lopa_bench.harness.code import consent
from lopa_bench.harness.distributed.spread_settings import DEFAULTS as SPREAD_DEFAULTS
from lopa_bench.harness.problem_choice import settled
from lopa_bench.harness.servers.settings import DEFAULTS as SERVER_DEFAULTS
from lopa_bench.harness.servers.settings import SERVER, ServerConfig, check_batch, check_server, decoder_kind
from lopa_bench.harness.task_source import facts, known_name
from lopa_bench.results.schema import Origin, Setting, setting
from lopa_bench.tasks.code_tasks import CODE_TASKS
from lopa_bench.tasks.presets import REAL_CHECKPOINT, Preset, get_preset

if TYPE_CHECKING:
    from lopa_bench.decoders.options import DecoderConfig

ENVIRONMENT = {
    "data_dir": "LOPA_BENCH_DATA",
    "runs_dir": "LOPA_BENCH_RUNS",
    "device": "LOPA_BENCH_DEVICE",
    "allow_code_execution": consent.VARIABLE,
}
DEFAULTS: dict[str, Any] = {
    "adapter": None,
    "force_adapter": False,
    "convention": None,
    "dtype": "auto",
    "device": "auto",
    "num_fewshot": None,
    "chat": False,
    "multiturn": True,
    "bos": None,
    "stops_apply": True,
    "system_instruction": None,
    "allow_code_execution": False,
    "cleanup": None,
    "scorer": "sandbox",
    "isolation": "auto",
    "min_call_s": None,
    "data_dir": None,
    "offline": False,
    "seed": 0,
    "batch_size": 1,
    "warmup": 1,
    "threads": None,
    "trace": False,
    "runs_dir": "runs",
    **SPREAD_DEFAULTS,
    **SERVER_DEFAULTS,
}
FOR_PROGRAMS = ("cleanup", "scorer", "isolation", "min_call_s")


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What was asked; None stands for what was not said.

    `options` are the decoder's, under any spelling it knows; `limit`, `samples` and `subset` choose problems (see
    `problem_choice`); `allow_code_execution` to `min_call_s` are for tasks that run the answers (see `code_scoring`);
    `devices` to `comm_timeout` spread the run over processes (see `spread`); `quantize` to `compile` are done to the
    network. `dry_run` stops at the plan, `fresh` begins a new run though one with the same settings exists; with
    `must_match`, settings that only speeds depend on, so does one that had them otherwise (see `speed_conditions`).
    """

    task: str | None = None
    decoder: str | None = None
    preset: str | None = None
    model: str | None = None
    adapter: str | None = None
    force_adapter: bool | None = None
    convention: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    num_fewshot: int | None = None
    chat: bool | None = None
    multiturn: bool | None = None
    bos: bool | None = None
    stops_apply: bool | None = None
    system_instruction: str | None = None
    allow_code_execution: bool | None = None
    cleanup: str | None = None
    scorer: str | None = None
    isolation: str | None = None
    min_call_s: float | None = None
    seed: int | None = None
    limit: int | float | str | None = None
    samples: str | None = None
    subset: str | None = None
    device: str | None = None
    dtype: str | None = None
    data_dir: str | Path | None = None
    offline: bool | None = None
    batch_size: int | None = None
    warmup: int | None = None
    threads: int | None = None
    runs_dir: str | Path | None = None
    trace: bool | None = None
    devices: int | None = None
    branch_parallel: int | None = None
    tensor_parallel: int | None = None
    data_parallel: int | None = None
    cache_protocol: str | None = None
    comm_timeout: float | None = None
    quantize: str | None = None
    merge_qkv: bool | None = None
    compile: bool | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    concurrency: int | None = None
    request_timeout: float | None = None
    tokenizer: str | None = None
    dry_run: bool = False
    fresh: bool = False
    must_match: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


YES_OR_NO = tuple(name for name, one in RunSpec.__dataclass_fields__.items() if one.type == "bool | None")


@dataclass(frozen=True)
class Settings:
    """A resolved run: `run` and `options` hold every value with its origin, `config` is the decoder's own."""

    run: dict[str, Setting]
    options: dict[str, Setting]
    config: DecoderConfig
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """The value of a run setting."""
        return self.run[name].value

    @property
    def all(self) -> dict[str, Setting]:
        """Run settings, then the decoder's options."""
        return {**self.run, **self.options}


class _Layers:
    """Values by name from several places, the later place winning."""

    def __init__(self) -> None:
        self.found: dict[str, Setting] = {}

    def put(self, origin: Origin, values: Mapping[str, Any]) -> None:
        """Lay `values` over what is there; a None is no value."""
        for name, value in values.items():
            if isinstance(value, float) and not isfinite(value):
                raise ConfigError(f"--{name.replace('_', '-')} {value} is no number that a run can have")
            if value is not None or name not in self.found:
                plain = str(value) if isinstance(value, Path) else value
                self.found[name] = setting(plain, origin if value is not None else "default")


def resolve(spec: RunSpec, *, needs_task: bool = True, environment: Mapping[str, str] = os.environ) -> Settings:
    """Settle every setting: defaults, then those of the bundled model, the preset, the environment, the flags.

    Raises:
        ConfigError: nothing says which task or decoder, names that do not exist, options that contradict each other.
    """
    preset = get_preset(spec.preset) if spec.preset else None
    decoder = _decoder(spec, preset)
    run = _Layers()
    run.put("default", DEFAULTS)
    causal = not decoder_kind(decoder).needs_diffusion
    run.put("default", {"model": None if decoder == SERVER else bundled_defaults.model_for(decoder, causal=causal)})
    if preset is not None:
        run.put("preset", {**preset.settings(), "preset": None})
    run.put("environment", {name: environment.get(word) or None for name, word in ENVIRONMENT.items()})
    run.put("flag", {name: getattr(spec, name) for name in (*DEFAULTS, "task", "model", "decoder", "preset")})
    run.found.setdefault("decoder", Setting(value=decoder, origin="preset"))
    notes = _bundled_settings(run, decoder)
    for name in YES_OR_NO:
        if (value := (found := run.found[name]).value) is not None:
            called = ENVIRONMENT[name] if found.origin == "environment" else name
            run.found[name] = found.model_copy(update={"value": parse_bool(value, called)})
    if (task := run.found["task"]).value is not None:
        run.found["task"] = task.model_copy(update={"value": known_name(str(task.value))})
    elif needs_task:
        raise ConfigError("no task was named; give --task (`lopa-bench list tasks` shows them) or --preset")
    _check(spec, run)
    options, config = _options(spec, decoder, preset, run)
    return Settings(run.found, options, config, tuple(notes))


def _decoder(spec: RunSpec, preset: Preset | None) -> str:
    name = spec.decoder or (preset.decoder if preset else None)
    if name is None:
        raise ConfigError("no decoder was named; give --decoder (`lopa-bench list decoders` shows them) or --preset")
    if preset is not None and name != preset.decoder:
        raise ConfigError(
            f"preset {preset.name} is one of decoder {preset.decoder}, but --decoder {name} was given; drop one of them"
        )
    decoder_kind(name)
    return name


def _bundled_settings(run: _Layers, decoder: str) -> list[str]:
    """Settle what a bundled model asks for, and say so when nobody named a model."""
    model = run.found["model"]
    if not bundled_defaults.is_bundled(str(model.value)):
        return []
    for name, value in bundled_defaults.RUN_SETTINGS.items():
        if run.found[name].origin == "default":
            run.found[name] = Setting(value=value)
    if run.found["adapter"].origin == "preset":
        run.found["adapter"] = Setting(value=None)  # it was trained on the preset's model
    if model.origin != "default":
        return []
    real = REAL_CHECKPOINT.get(decoder)
    other = "--model NAME takes another, e.g. Qwen/Qwen2.5-7B"
    advice = f"--preset {real} takes the published checkpoint" if real else other
    return [f"no --model given: running on the small bundled model {model.value}; {advice}"]


def _check(spec: RunSpec, run: _Layers) -> None:
    """Refuse values that no run can have."""
    lowest = {"batch_size": 1, "concurrency": 1, "warmup": 0, "threads": 1, "num_fewshot": 0}
    for name, least in lowest.items():
        value = getattr(spec, name)
        if value is not None and value < least:
            raise ConfigError(f"--{name.replace('_', '-')} {value} is too small: it must be at least {least}")
    check_batch(run.found["batch_size"].value, str(run.found["decoder"].value))
    check_server(spec, run.found)
    for name in FOR_PROGRAMS:
        if getattr(spec, name) is not None and (task := run.found["task"].value) is not None:
            check_runs_answers(name, str(task))
    for name, value in settled(spec.limit, spec.samples, spec.subset).items():
        run.found[name] = Setting(value=value, origin="default" if value is None else "flag")
    if run.found["force_adapter"].value and run.found["adapter"].value is None:
        raise ConfigError("--force-adapter was given without an --adapter")


def check_runs_answers(name: str, task: str) -> None:
    """Refuse a setting about running answers for a task that does not run them."""
    if task not in CODE_TASKS:
        raise ConfigError(
            f"--{name.replace('_', '-')} is for tasks that run the answers, and {task} is none of them: "
            f"{', '.join(CODE_TASKS)}"
        )


def _options(
    spec: RunSpec, decoder: str, preset: Preset | None, run: _Layers
) -> tuple[dict[str, Setting], DecoderConfig]:
    """Settle the decoder's options with the origin of each."""
    from lopa_bench.decoders import registry
    from lopa_bench.decoders.options import build

    convention = run.found["convention"].value
    given = {name.replace("-", "_"): value for name, value in spec.options.items()}
    defaults: dict[str, Any] = {}
    if run.found["task"].value is not None:
        defaults["max_new_tokens"] = facts(str(run.found["task"].value)).max_new_tokens
    if bundled_defaults.is_bundled(str(run.found["model"].value)):
        defaults |= bundled_defaults.OPTIONS.get(decoder, {})
    of_preset = {} if preset is None else dict(preset.options)
    layers: list[tuple[Origin, dict[str, Any]]] = [("default", defaults), ("preset", of_preset), ("flag", given)]
    spell = _speller(decoder)
    merged: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    if convention:
        found = registry.convention(str(convention), decoder)
        origins = dict.fromkeys((spell(name) for name in found.options), run.found["convention"].origin)
        for name in found.options:  # named by someone, it wins over what nobody asked for
            defaults.pop(name, None)
    for origin, values in layers:
        names = {spell(name) for name in values}
        merged = {name: value for name, value in merged.items() if spell(name) not in names}
        merged.update(values)
        origins.update(dict.fromkeys(names, origin))
    if decoder == SERVER:
        config = build(ServerConfig, merged, SERVER)
    else:
        config = registry.resolve(decoder, merged, preset=str(convention) if convention else None)
    return {name: setting(one, origins.get(name, "default")) for name, one in asdict(config).items()}, config


def _speller(decoder: str) -> Any:
    from lopa_bench.decoders.options import names_of

    spellings = names_of(decoder_kind(decoder).config_type)

    def spell(name: str) -> str:
        return "branches" if name in BRANCH_WORDS else spellings.get(name, name)

    return spell
