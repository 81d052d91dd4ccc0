"""Options of decoders: frozen dataclasses whose fields carry their help and their other names."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar

from lopa_bench.decoders.confidence import STRATEGIES, STRATEGY_ALIASES, Sampling
from lopa_bench.errors import ConfigError, nearest


def option(default: Any, help: str, *aliases: str) -> Any:
    """A field with a description and the names that other programs use for it."""
    return field(default=default, metadata={"help": help, "aliases": aliases})


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """What all decoders share.

    `early_stop` cuts the work at the first EOS once everything before it is filled; the authors' programs decode on,
    as their presets here do. `allow_mask_token` lets the model propose the mask id itself, as theirs do.
    `foreign` names options of other decoders that are easily taken for one of these, and says which is meant.
    """

    foreign: ClassVar[Mapping[str, str]] = {}

    max_new_tokens: int = option(256, "most tokens an answer may have", "gen_length")
    temperature: float = option(0.0, "0 takes the most probable token")
    top_p: float | None = option(None, "draw from the most probable tokens with this mass together")
    top_k: int | None = option(None, "draw from the k most probable tokens")
    early_stop: bool = option(True, "stop at the first EOS once everything before it is filled")
    allow_mask_token: bool = option(False, "let the model propose the mask id (the authors' programs do)")

    def __post_init__(self) -> None:
        require(self, "max_new_tokens", self.max_new_tokens >= 1, "at least 1")
        require(self, "temperature", 0 <= self.temperature < math.inf, "0 or more")
        require(self, "top_p", self.top_p is None or 0 < self.top_p <= 1, "in (0, 1]")
        require(self, "top_k", self.top_k is None or self.top_k >= 1, "at least 1")

    def without_effect(self) -> dict[str, str]:
        """Options that the others leave without effect -> why; they are None in a resolved config."""
        return {}

    @property
    def sampling(self) -> Sampling:
        """The three sampling options as one."""
        return Sampling(self.temperature, self.top_p, self.top_k)


def require(config: DecoderConfig, name: str, holds: bool, wanted: str) -> None:
    """Refuse a value with a sentence.

    Raises:
        ConfigError: `holds` is false.
    """
    if not holds:
        raise ConfigError(f"{name} = {getattr(config, name)!r} is out of range; it must be {wanted}")


def one_of(config: DecoderConfig, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not one of `choices`, naming the nearest."""
    value = getattr(config, name)
    if value not in choices:
        raise ConfigError(f"{name} = {value!r} is not one of {', '.join(choices)}{nearest(str(value), choices)}")


def share(config: DecoderConfig, *names: str) -> None:
    """Refuse values outside [0, 1]."""
    for name in names:
        require(config, name, 0 <= getattr(config, name) <= 1, "between 0 and 1")


def belongs_to(config: DecoderConfig, choice: str, value: str, *names: str) -> None:
    """Refuse options that mean nothing here: those that are not at their defaults though `choice` is not `value`.

    Raises:
        ConfigError: one of `names` is set.
    """
    actual = getattr(config, choice)
    if actual == value:
        return
    for one in fields(config):
        if one.name in names and getattr(config, one.name) != one.default:
            raise ConfigError(
                f"{one.name} = {getattr(config, one.name)!r} belongs to {choice} = {value}, but {choice} is {actual}; "
                f"leave {one.name} out or set {choice} to {value}"
            )


def known_strategy(config: DecoderConfig) -> None:
    """Accept the authors' spellings of the confidence strategies, and refuse unknown ones (theirs ignore them)."""
    value = getattr(config, "strategy")  # noqa: B009 - the base class has no such field
    object.__setattr__(config, "strategy", STRATEGY_ALIASES.get(value, value))
    one_of(config, "strategy", STRATEGIES)


def names_of(config_type: type[DecoderConfig]) -> dict[str, str]:
    """Every accepted spelling -> field name."""
    spellings: dict[str, str] = {}
    for one in fields(config_type):
        for name in (one.name, *one.metadata.get("aliases", ())):
            spellings[name] = one.name
    return spellings


def build(config_type: type[DecoderConfig], options: Mapping[str, Any], decoder: str) -> DecoderConfig:
    """Make a config from options under any accepted spelling.

    Raises:
        ConfigError: an unknown name, one option under two spellings with two values, or a value out of range.
    """
    spellings = names_of(config_type)
    by_name = {one.name: one for one in fields(config_type)}
    chosen: dict[str, Any] = {}
    for spelling, value in options.items():
        key = spelling.replace("-", "_")
        if key not in spellings:
            hint = f": {config_type.foreign[key]}" if key in config_type.foreign else nearest(key, spellings)
            hint = hint or "; `lopa-bench list decoders` shows those that it has"
            raise ConfigError(f"decoder {decoder!r} has no option {spelling!r}{hint}")
        name = spellings[key]
        value = convert(by_name[name], value, config_type)
        if name in chosen and chosen[name] != value:
            raise ConfigError(f"{name} is given twice, as {chosen[name]!r} and as {spelling} = {value!r}")
        chosen[name] = value
    return config_type(**chosen)


def convert(one: Field[Any], value: Any, config_type: type[DecoderConfig]) -> Any:
    """Bring a value to the field's type; text such as "0.9", "none" or "false" is understood.

    Raises:
        ConfigError: it cannot be read as that type.
    """
    kinds = _kinds(_hints(config_type)[one.name])  # type: ignore[arg-type]  # a class is hashable, mypy asks its objects
    if value is None or (isinstance(value, str) and value.lower() in ("none", "null") and type(None) in kinds):
        if type(None) in kinds:
            return None
        raise ConfigError(f"{one.name} needs a value")
    for kind in (bool, int, float, str):
        if kind in kinds:
            converted = _as(kind, value)
            if converted is not None:
                return converted
    wanted = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
    raise ConfigError(f"{one.name} = {value!r} cannot be read as {wanted}")


def whole_number(name: str, value: Any) -> int:
    """Read a count.

    Raises:
        ConfigError: it is no whole number.
    """
    number = None if value is None else _as(int, value)
    if number is None:
        raise ConfigError(f"{name} = {value!r} is not a whole number")
    return int(number)


@cache
def _hints(config_type: type[DecoderConfig]) -> dict[str, Any]:
    """Return the types of the fields, which are read from text; that takes its time, and a sweep asks for each cell."""
    return typing.get_type_hints(config_type)


def _kinds(hint: Any) -> tuple[type, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _as(kind: type, value: Any) -> Any:
    """`value` as `kind`, or None when that would change its meaning."""
    if kind is bool:
        return value if isinstance(value, bool) else _WORDS.get(str(value).lower())
    if isinstance(value, bool):
        return None
    try:
        converted = kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if kind is int and isinstance(value, float) and converted != value:
        return None
    return None if kind is float and math.isinf(converted) else converted  # no record can hold it


def describe(config_type: type[DecoderConfig]) -> list[dict[str, Any]]:
    """Name, default, aliases and help of every option, for listings."""
    return [
        {
            "name": one.name,
            "default": None if one.default is MISSING else one.default,
            "aliases": list(one.metadata.get("aliases", ())),
            "help": one.metadata.get("help", ""),
        }
        for one in fields(config_type)
    ]
