"""Options from what a user gives: spellings, types, ranges, and contradictions that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.decoders.options import describe
from lopa_bench.decoders.registry import create, decoder_type, decoder_types, resolve
from lopa_bench.errors import ConfigError

NAMES = ("ar", "vanilla", "fast-dllm", "d2f", "lopa")


def refused(decoder: str, options: dict[str, Any], message: str, preset: str | None = None) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        resolve(decoder, options, preset)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("decoder", "spellings"),
    [
        ("d2f", {"block_add_threshold": 0.3, "decoded_token_threshold": 0.8, "skip_threshold": 0.7}),
        ("d2f", {"tau-add": 0.3, "tau-act": 0.8, "tau-conf": 0.7}),
        ("d2f", {"tau_add": "0.3", "tau_act": "0.8", "tau_conf": "0.7"}),
    ],
)
def test_the_programs_names_mean_the_papers(decoder: str, spellings: dict[str, Any]) -> None:
    assert resolve(decoder, spellings) == resolve(decoder, {"tau_add": 0.3, "tau_act": 0.8, "tau_conf": 0.7})


@pytest.mark.parametrize(
    ("decoder", "alias", "name", "value"),
    [
        ("vanilla", "block_length", "block_size", 16),
        ("vanilla", "gen_length", "max_new_tokens", 64),
        ("vanilla", "diffusion_steps", "steps", 16),
        ("fast-dllm", "block_length", "block_size", 16),
        ("fast-dllm", "tau", "threshold", 0.5),
        ("d2f", "sampling_strategy", "strategy", "margin"),
        ("lopa", "use_full_attention", "full_attention", False),
        ("lopa", "branch_topp", "least_confident", 0.5),
        ("lopa", "selection_conf_alpha", "creation_weight", 0.5),
        ("lopa", "sampling_strategy", "strategy", "probability"),
    ],
)
def test_every_alias_gives_the_same_config(decoder: str, alias: str, name: str, value: Any) -> None:
    assert resolve(decoder, {alias: value}) == resolve(decoder, {name: value})
    assert getattr(resolve(decoder, {alias: value}), name) == value
    with_both = {alias: value, name: value}
    assert resolve(decoder, with_both) == resolve(decoder, {name: value})


@pytest.mark.parametrize("decoder", NAMES)
def test_no_alias_is_untested_or_taken_twice(decoder: str) -> None:
    spellings = [name for row in describe(decoder_type(decoder).config_type) for name in (row["name"], *row["aliases"])]
    assert len(spellings) == len(set(spellings))


def test_one_option_under_two_names_with_two_values_is_refused() -> None:
    refused("d2f", {"tau_conf": 0.9, "skip_threshold": 0.8}, "tau_conf is given twice, as 0.9 and as skip_threshold")
    refused("d2f", {"block-size": 8, "block_size": 16}, "block_size is given twice")


@pytest.mark.parametrize(
    ("decoder", "option", "suggestion"),
    [
        ("lopa", "branchs", "branches"),
        ("d2f", "tau_config", "tau_conf"),
        ("fast-dllm", "treshold", "threshold"),
        ("ar", "temperatur", "temperature"),
    ],
)
def test_an_unknown_option_names_the_nearest(decoder: str, option: str, suggestion: str) -> None:
    refused(decoder, {option: 1}, f"decoder '{decoder}' has no option '{option}' \\(did you mean '{suggestion}'\\?\\)")


@pytest.mark.parametrize("decoder", ["d2f", "lopa"])
def test_lladas_block_length_is_told_from_d2fs_block_size(decoder: str) -> None:
    refused(decoder, {"block_length": 32}, "has no option 'block_length': .* are block_size")


def test_unknown_decoders_and_conventions_name_the_nearest() -> None:
    refused("lopaa", {}, "did you mean 'lopa'")
    refused("lopa", {}, "did you mean 'lopa-dream'", preset="lopa-dreem")
    refused("d2f", {}, "is one of decoder 'lopa', not of 'd2f'", preset="lopa-dream")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("none", None), (None, None), ("0.5", 0.5), (1, 1.0), ("1", 1.0)],
)
def test_text_is_read_by_the_options_type(value: Any, expected: Any) -> None:
    config = resolve("fast-dllm", {"threshold": value})
    assert config.threshold == expected
    assert type(config.threshold) is type(expected)


@pytest.mark.parametrize("value", ["true", "True", "on", "1", 1, True, "yes"])
def test_switches_are_read_from_words(value: Any) -> None:
    assert resolve("lopa", {"packed": value}).packed is True


@pytest.mark.parametrize(
    ("decoder", "option", "value", "message"),
    [
        ("lopa", "packed", "maybe", "cannot be read as bool"),
        ("lopa", "branches", "many", "not a whole number"),
        ("lopa", "branches", 2.5, "not a whole number"),
        ("lopa", "branches", None, "not a whole number"),
        ("lopa", "lookahead", "x", "not a whole number"),
        ("lopa", "branches", 0, "at least 1"),
        ("lopa", "lookahead", -1, "at least 0"),
        ("ar", "top_k", float("inf"), "cannot be read as int"),
        ("ar", "top_k", 0, "at least 1"),
        ("ar", "top_k", True, "cannot be read as int"),
        ("ar", "top_p", 0, r"in \(0, 1\]"),
        ("ar", "top_p", 1.5, r"in \(0, 1\]"),
        ("ar", "temperature", -1, "0 or more"),
        ("ar", "temperature", float("nan"), "0 or more"),
        ("ar", "temperature", float("inf"), "cannot be read as float"),
        ("d2f", "tau_conf", "1e400", "cannot be read as float"),
        ("ar", "max_new_tokens", 0, "at least 1"),
        ("ar", "max_new_tokens", "none", "cannot be read as int"),
        ("ar", "max_new_tokens", None, "needs a value"),
        ("d2f", "tau_add", 1.1, "between 0 and 1"),
        ("d2f", "tau_conf", float("nan"), "0 or more"),
        ("d2f", "block_size", 0, "at least 1"),
        ("d2f", "strategy", "entropy", "did you mean 'neg_entropy'"),
        ("fast-dllm", "threshold", float("nan"), "0 or more"),
        ("fast-dllm", "cache", "duel", "did you mean 'dual'"),
        ("fast-dllm", "eps", 0, "between 0 and 1"),
        ("vanilla", "alg", "entropi", "did you mean 'entropy'"),
        ("vanilla", "steps", 0, "at least 1"),
        ("lopa", "least_confident", 2, "between 0 and 1"),
        ("lopa", "score_window", 0, "at least 1"),
        ("lopa", "select", "best", "is not one of confidence, anchor, first, random"),
        ("lopa", "base", "vanila", "did you mean 'vanilla'"),
        ("lopa", "candidates", "ful", "did you mean 'full'"),
    ],
)
def test_values_out_of_range_are_refused(decoder: str, option: str, value: Any, message: str) -> None:
    refused(decoder, {option: value}, message)


@pytest.mark.parametrize(
    ("authors", "ours"),
    [("default", "probability"), ("margin_confidence", "margin"), ("neg_entropy", "neg_entropy")],
)
def test_the_authors_words_for_the_strategies(authors: str, ours: str) -> None:
    assert resolve("d2f", {"strategy": authors}).strategy == ours


@pytest.mark.parametrize(
    ("decoder", "options", "message"),
    [
        ("vanilla", {"rule": "llada", "alg": "maskgit_plus"}, "alg = 'maskgit_plus' belongs to rule = dream"),
        ("vanilla", {"rule": "llada", "alg_temp": 0.5}, "alg_temp = 0.5 belongs to rule = dream"),
        ("vanilla", {"rule": "dream", "remasking": "random"}, "remasking = 'random' belongs to rule = llada"),
        ("vanilla", {"rule": "dream", "idle_steps": True}, "idle_steps = True belongs to rule = llada"),
        ("fast-dllm", {"rule": "dream", "factor": 1.0, "threshold": None}, "factor = 1.0 belongs to rule = llada"),
        ("fast-dllm", {"alg": "entropy"}, "alg = 'entropy' belongs to rule = dream"),
        ("fast-dllm", {"threshold": 0.9, "factor": 1.0}, "threshold and factor exclude each other"),
        ("fast-dllm", {"rule": "dream", "threshold": None}, "needs a threshold"),
        ("fast-dllm", {"rule": "dream", "alg": "entropy", "cache": "none"}, "is decoder vanilla with rule dream"),
        ("lopa", {"base": "vanilla", "whole_blocks": True}, "whole_blocks = True belongs to base = d2f"),
        ("lopa", {"base": "vanilla", "candidates": "full"}, "candidates = 'full' belongs to base = d2f"),
    ],
)
def test_options_that_would_mean_nothing_are_refused(decoder: str, options: dict[str, Any], message: str) -> None:
    refused(decoder, options, message)


@pytest.mark.parametrize(
    ("decoder", "options", "message"),
    [
        ("vanilla", {"max_new_tokens": 64, "block_size": 16, "steps": 30}, "take 28 or 32, or leave steps out"),
        ("fast-dllm", {"max_new_tokens": 64, "block_size": 16, "steps": 30, "threshold": None}, "does not divide"),
        ("fast-dllm", {"rule": "dream", "cache": "none", "max_new_tokens": 64, "steps": 30}, "must divide"),
        (
            "fast-dllm",
            {"rule": "dream", "alg": "entropy", "max_new_tokens": 64, "block_size": 16, "steps": 30},
            "does not divide over the 4 blocks",
        ),
    ],
)
def test_steps_that_do_not_divide_are_refused_before_anything_runs(
    decoder: str, options: dict[str, Any], message: str
) -> None:
    refused(decoder, options, message)


def test_threshold_and_steps_exclude_each_other() -> None:
    refused("fast-dllm", {"threshold": 0.9, "steps": 64}, "steps = 64 has no effect: threshold = 0.9 decides")
    refused("fast-dllm", {"steps": 64}, "set one of them to none")
    refused("fast-dllm", {"factor": 1.0, "threshold": None, "steps": 64}, "factor = 1.0 decides")
    refused("fast-dllm", {"rule": "dream", "alg": "entropy", "threshold": 0.9}, "alg = entropy fills by its schedule")


@pytest.mark.parametrize("preset", ["fast-dllm-llada", "fast-dllm-dream"])
def test_under_a_convention_the_resolved_config_says_which_is_in_force(preset: str) -> None:
    both = resolve("fast-dllm", {"threshold": 0.9, "steps": 64}, preset)
    assert (both.threshold, both.steps, both.decides) == (0.9, None, "threshold")
    assert both == resolve("fast-dllm", {"threshold": 0.9}, preset)


def test_steps_decide_when_they_alone_are_left() -> None:
    quotas = resolve("fast-dllm", {"threshold": None, "steps": 64})
    assert (quotas.threshold, quotas.steps, quotas.decides) == (None, 64, "steps")
    schedule = resolve("fast-dllm", {"rule": "dream", "alg": "entropy"})
    assert (schedule.threshold, schedule.decides) == (None, "steps")
    capped = resolve("fast-dllm", {"rule": "dream", "cache": "none", "steps": 64})
    assert (capped.threshold, capped.steps, capped.cap) == (0.9, 64, 4)


def test_a_model_of_the_wrong_kind_is_refused() -> None:
    from fakes_models import ScriptedModel, flat

    with pytest.raises(ConfigError, match="decoder 'lopa' needs a diffusion model; 'scripted' is an autoregressive"):
        create("lopa", ScriptedModel(flat, "ar"))
    with pytest.raises(
        ConfigError, match="decoder 'ar' needs an autoregressive model; 'scripted' is a diffusion model"
    ):
        create("ar", ScriptedModel(flat, "dream"))


def test_the_decoders_are_the_five_and_those_of_plugins() -> None:
    assert set(NAMES) <= set(decoder_types())
