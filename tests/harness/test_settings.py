"""Which value wins, and where it says it came from."""

from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.harness.settings import RunSpec, Settings, resolve
from lopa_bench.tasks.presets import PRESETS


def settle(environment: dict[str, str] | None = None, **asked: Any) -> Settings:
    return resolve(RunSpec(**{"task": "mini-maths", "decoder": "lopa", **asked}), environment=environment or {})


def origin(settings: Settings, name: str) -> tuple[Any, str]:
    setting = settings.all[name]
    return setting.value, setting.origin


def test_every_option_of_the_decoder_is_settled_with_its_origin() -> None:
    settings = settle(options={"tau_conf": 0.5})
    assert origin(settings, "tau_conf") == (0.5, "flag")
    assert origin(settings, "tau_add") == (0.1, "default")
    assert origin(settings, "max_new_tokens") == (224, "default")  # the task's own length
    assert settings.config.tau_conf == 0.5
    assert all(name in settings.options for name in vars(settings.config))


def test_flags_win_over_the_preset_and_the_preset_over_defaults() -> None:
    settings = resolve(
        RunSpec(preset="lopa-dream-gsm8k", seed=7, num_fewshot=2, options={"skip_threshold": 0.8}), environment={}
    )
    assert origin(settings, "seed") == (7, "flag")
    assert origin(settings, "num_fewshot") == (2, "flag")
    assert origin(settings, "tau_conf") == (0.8, "flag")
    assert origin(settings, "tau_act") == (0.95, "preset")
    assert origin(settings, "strategy") == ("neg_entropy", "preset")  # by the preset's convention
    assert origin(settings, "adapter")[1] == "preset"
    assert origin(settings, "temperature")[1] == "preset"
    assert origin(settings, "top_k") == (None, "default")


def test_the_environment_stands_between_preset_and_flags() -> None:
    environment = {"LOPA_BENCH_DATA": "/data", "LOPA_BENCH_RUNS": "/elsewhere"}
    assert origin(settle(environment), "data_dir") == ("/data", "environment")
    assert origin(settle(environment, runs_dir="here"), "runs_dir") == ("here", "flag")


@pytest.mark.parametrize(
    ("decoder", "model"),
    [
        ("ar", "bundled:ar"),
        ("vanilla", "bundled:dllm"),
        ("fast-dllm", "bundled:dllm"),
        ("d2f", "bundled:d2f"),
        ("lopa", "bundled:d2f"),
    ],
)
def test_without_a_model_the_bundled_one_is_taken_and_a_line_says_so(decoder: str, model: str) -> None:
    settings = settle(decoder=decoder)
    assert origin(settings, "model") == (model, "default")
    [note] = settings.notes
    assert model in note
    real = [name for name in PRESETS if f"--preset {name} " in note]
    assert real or decoder == "ar"
    assert all(PRESETS[name].decoder == decoder for name in real)


def test_a_convention_wins_over_the_defaults_of_task_and_bundled_model() -> None:
    settings = settle(convention="lopa-dream")
    assert origin(settings, "strategy") == ("neg_entropy", "flag")
    assert origin(settings, "creation_weight") == (0.0, "flag")
    assert origin(settings, "tau_conf") == (0.9, "default")  # the convention does not speak of it
    dream = settle(decoder="vanilla", convention="dream")
    assert origin(dream, "max_new_tokens") == (512, "flag") and dream.config.steps == 512
    assert settle(convention="lopa-dream", options={"strategy": "margin"}).config.strategy == "margin"


def test_a_named_model_gets_no_line_and_no_bundled_settings() -> None:
    settings = settle(model="some/checkpoint")
    assert settings.notes == ()
    assert origin(settings, "block_size") == (32, "default")
    assert origin(settings, "num_fewshot") == (None, "default")


def test_a_presets_adapter_does_not_follow_to_a_bundled_model() -> None:
    settings = resolve(RunSpec(preset="lopa-dream-gsm8k", model="bundled:d2f"), environment={})
    assert settings["adapter"] is None


def test_branches_and_lookahead_are_two_words_for_one_thing() -> None:
    assert settle(options={"lookahead": 3}).config.branches == 4
    assert settle(options={"lookahead": 3, "branches": 4}).config.branches == 4
    assert origin(settle(options={"lookahead": 0}), "branches") == (1, "flag")
    with pytest.raises(ConfigError, match="contradicting numbers of branches"):
        settle(options={"lookahead": 3, "branches": 3})


def test_a_flag_in_one_word_replaces_a_presets_in_another() -> None:
    preset = resolve(RunSpec(preset="lopa-dream-script-gsm8k"), environment={})
    assert preset.config.branches == 5  # the script's branching factor 4 does not count the anchor
    for options in ({"branches": 2}, {"lookahead": 1}):
        assert resolve(RunSpec(preset="lopa-dream-script-gsm8k", options=options), environment={}).config.branches == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"decoder": "lopaa"}, "did you mean 'lopa'"),
        ({"task": "mini-math"}, "did you mean 'mini-maths'"),
        ({"preset": "lopa-dream-gsm8"}, "did you mean 'lopa-dream-gsm8k'"),
        ({"options": {"brnches": 2}}, "did you mean 'branches'"),
        ({"decoder": "d2f", "options": {"lookahead": 2}}, "no option 'lookahead'"),
        ({"limit": 0}, "--limit 0 is too small"),
        ({"limit": -3}, "--limit -3 is too small"),
        ({"warmup": -1}, "--warmup -1 is too small"),
        ({"threads": 0}, "--threads 0 is too small"),
        ({"num_fewshot": -1}, "--num-fewshot -1 is too small"),
        ({"force_adapter": True}, "without an --adapter"),
        ({"preset": "d2f-dream-mbpp"}, "is one of decoder d2f, but --decoder lopa"),
        ({"convention": "d2f-dream"}, "is one of decoder 'd2f'"),
        ({"options": {"block_size": 0}}, "block_size = 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settle(**asked)


def test_a_run_needs_a_task_and_a_decoder() -> None:
    with pytest.raises(ConfigError, match="no task was named"):
        resolve(RunSpec(decoder="ar"), environment={})
    with pytest.raises(ConfigError, match="no decoder was named"):
        resolve(RunSpec(task="gsm8k"), environment={})


def test_a_preset_of_a_task_that_does_not_exist_yet_says_which_do() -> None:
    unknown = next(preset for preset in PRESETS.values() if preset.task == "mbpp")
    try:
        settings = resolve(RunSpec(preset=unknown.name), environment={})
    except ConfigError as error:
        assert "no task is called 'mbpp'" in str(error)
    else:
        assert settings["task"] == "mbpp"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_settles_to_a_valid_decoder(name: str) -> None:
    from lopa_bench.decoders import registry

    preset = PRESETS[name]
    config = registry.resolve(preset.decoder, preset.options, preset.convention)
    assert config.max_new_tokens in (256, 512, 1024)
    assert preset.source


def test_the_published_settings_spot_checked() -> None:
    table = PRESETS["lopa-dream-math"]
    assert (table.options["block_size"], table.options["tau_conf"], table.options["branches"]) == (16, 0.90, 7)
    s12 = PRESETS["lopa-dist-base-gsm8k-s12"]
    assert (s12.options["tau_act"], s12.options["tau_conf"], s12.options["branches"]) == (0.7, 0.7, 8)
    assert (s12.chat, s12.bos, s12.stops_apply, s12.num_fewshot) == (False, True, False, 4)
    instruct = PRESETS["lopa-dist-instruct-mbpp-s13"]
    assert (instruct.chat, instruct.bos, instruct.options["branches"], instruct.num_fewshot) == (True, False, 4, 3)
    llada = PRESETS["d2f-llada-math"]
    assert (llada.num_fewshot, llada.options["tau_add"], llada.options["max_new_tokens"]) == (0, 0.1, 512)
    assert PRESETS["d2f-dream-mbpp"].options["block_size"] == 48
    assert PRESETS["fast-dllm-dream-humaneval-parallel"].options["steps"] == 8
    assert len([name for name in PRESETS if name.startswith("lopa-dist")]) == 72
