"""What `key=value` words stand for."""

from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.harness.assignments import parse_assignments, parse_bool, parse_value


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("7", 7),
        ("-1", -1),
        ("+3", 3),
        ("0.9", 0.9),
        (".5", 0.5),
        ("1e-5", 1e-5),
        ("-2.5E3", -2500.0),
        ("None", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("neg_entropy", "neg_entropy"),
        ('"5"', "5"),
        ("'true'", "true"),
        ("b=c", "b=c"),
        ("a,b", "a,b"),
        ("", ""),
        ("1.2.3", "1.2.3"),
        ("0x10", "0x10"),
        ("yes", "yes"),
    ],
)
def test_values_are_what_they_look_like(word: str, value: Any) -> None:
    parsed = parse_value(word)
    assert parsed == value and type(parsed) is type(value)


def test_only_the_first_equals_sign_parts() -> None:
    assert parse_assignments(["a=b=c"]) == {"a": "b=c"}


def test_keys_may_be_written_with_dashes_and_values_keep_theirs() -> None:
    assert parse_assignments(["tau-conf=0.5", "rule=a-b"]) == {"tau_conf": 0.5, "rule": "a-b"}


@pytest.mark.parametrize("word", ["nothing", "=5", " =5"])
def test_words_without_key_or_equals_sign_are_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        parse_assignments([word])


def test_one_key_with_two_values_is_refused_and_with_one_twice_is_not() -> None:
    assert parse_assignments(["a=1", "a=1"]) == {"a": 1}
    with pytest.raises(ConfigError, match="gives a twice"):
        parse_assignments(["a=1", "a=2"])


@pytest.mark.parametrize("value", ["true", "TRUE", "yes", "on", "1", 1, True])
def test_words_for_true(value: Any) -> None:
    assert parse_bool(value, "chat") is True


@pytest.mark.parametrize("value", ["false", "False", "no", "off", "0", 0, False])
def test_words_for_false(value: Any) -> None:
    assert parse_bool(value, "chat") is False


@pytest.mark.parametrize("value", ["maybe", "", "2", None, "truee", 1.5])
def test_anything_else_is_neither(value: Any) -> None:
    with pytest.raises(ConfigError, match="neither true nor false"):
        parse_bool(value, "chat")


@pytest.mark.parametrize(
    ("option", "expected"), [("early_stop=off", False), ("early_stop=0", False), ("early_stop=YES", True)]
)
def test_a_decoders_booleans_through_settings(option: str, expected: bool) -> None:
    from lopa_bench.harness.settings import RunSpec, resolve

    settings = resolve(RunSpec(task="mini-maths", decoder="lopa", options=parse_assignments([option])))
    assert settings.config.early_stop is expected


@pytest.mark.parametrize("option", ["early_stop=maybe", "branches=2.5", "branches=two", "lookahead=-1", "tau_conf=x"])
def test_values_that_do_not_fit_an_option_are_refused(option: str) -> None:
    from lopa_bench.harness.settings import RunSpec, resolve

    with pytest.raises(ConfigError, match=option.partition("=")[0]):
        resolve(RunSpec(task="mini-maths", decoder="lopa", options=parse_assignments([option])))
