"""Reading `key=value` from the command line: typed values, and no word of it misread."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lopa_bench.errors import ConfigError

_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?|[+-]?inf|nan")
_QUOTES = "\"'"
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def parse_value(text: str) -> Any:
    """Return the value that a word stands for: an int, a float, a bool, None, or the text itself.

    Quotes keep a text what it is: `"5"` is the text 5. Only `true` and `false` are booleans here, since `yes`, `on` and
    `1` may mean something else; the option that takes them decides.
    """
    word = text.strip()
    if len(word) >= 2 and word[0] == word[-1] and word[0] in _QUOTES:
        return word[1:-1]
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if word.lower() in ("none", "null"):
        return None
    if _INTEGER.fullmatch(word):
        return int(word)
    if _FLOAT.fullmatch(word):
        return float(word)
    return word


def parse_bool(value: Any, name: str) -> bool:
    """Return true, yes, on, 1 as True and their opposites as False; anything else raises ConfigError."""
    word = str(value).strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ConfigError(f"{name} = {value!r} is neither true nor false")


def parse_assignments(words: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Read `key=value` words; only the first `=` parts them, so `a=b=c` gives key a the value "b=c".

    Raises:
        ConfigError: a word without `=` or key, or a key given two different values.
    """
    found: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise ConfigError(f"{option} {word!r} is not of the form key=value")
        value = parse_value(text)
        if key in found and found[key] != value:
            raise ConfigError(f"{option} gives {key} twice: {found[key]!r} and {value!r}")
        found[key] = value
    return found
