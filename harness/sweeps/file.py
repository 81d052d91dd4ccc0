"""A sweep as it is written down: a YAML file, or words of the command line, checked against what a run knows.

Every run setting and every decoder option may be a list. `decoder` may be a mapping from decoder to options of its own.
A mistake is told with the line it stands in and the nearest name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import islice
from operator import or_
from pathlib import Path
from types import GenericAlias, NoneType
from typing import Any, get_args, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from lopa_bench.errors import ConfigError, nearest
from lopa_bench.harness.assignments import parse_value
from lopa_bench.harness.settings import RunSpec

Scalar = str | int | float | bool | None
OneOrMore = Scalar | list[Scalar]
Place = tuple[str | int, ...]

NOT_SWEPT = ("task", "decoder", "options", "command", "dry_run", "fresh", "must_match", "runs_dir", "live")
GRID_KEYS = ("name", "include", "exclude")
COMMAS_INSIDE = ("samples", "system_instruction")
MAX_PLACES = 100_000  # a few lines of aliases can stand for more entries than there is memory


class Entry(BaseModel):
    """A grid: each key one value or a list. What is no run setting is an option of the decoders."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, OneOrMore] = Field(init=False)

    task: str | list[str] | None = None
    decoder: str | list[str] | dict[str, dict[str, OneOrMore] | None] | None = None


class Sweep(Entry):
    """A grid with a name, further grids, and what to leave out.

    An entry of `include` is a grid of its own that takes the keys it lacks from the sweep; where it names a decoder or
    preset, it takes neither decoders nor options. An entry of `exclude` takes away every cell that has all its values.
    """

    name: str | None = None
    runs_dir: str | None = None
    include: list[dict[str, Any]] = []
    exclude: list[dict[str, OneOrMore]] = []


@dataclass(frozen=True)
class Lines:
    """Where the keys of a file stand: key path -> line, from 1. Without a file nothing is known of lines."""

    file: str = ""
    numbers: Mapping[Place, int] = field(default_factory=dict)

    def where(self, place: Place) -> str:
        """Return "sweep.yaml, line 7: " for a key or the nearest one around it, "" where lines are not known."""
        for length in range(len(place), -1, -1):
            if (number := self.numbers.get(place[:length])) is not None:
                return f"{self.file}, line {number}: "
        return f"{self.file}: " if self.file else ""


@dataclass(frozen=True)
class Written:
    """A sweep as it was written: its entries, where they stand, its text."""

    sweep: Sweep
    include: tuple[Entry, ...]
    lines: Lines
    source: str


@cache
def entry_type(kind: type[BaseModel]) -> type[BaseModel]:
    """Return `kind` with a field for every run setting there is."""
    hints = get_type_hints(RunSpec)
    fields: dict[str, Any] = {name: (_one_or_more(hint), None) for name, hint in hints.items() if name not in NOT_SWEPT}
    return create_model(f"Full{kind.__name__}", __base__=kind, **fields)


def _one_or_more(hint: Any) -> Any:
    """Return the type of one value of a run setting or a list of them; of a setting that is a list itself, its own."""
    kinds = tuple(kind for kind in get_args(hint) or (hint,) if kind not in (NoneType, Path))
    if set(kinds) - {str, int, float, bool}:
        return hint
    single: Any = reduce(or_, kinds)
    return single | GenericAlias(list, (single,)) | None


def run_keys() -> tuple[str, ...]:
    """Return the run settings that a sweep may give."""
    return ("task", "decoder", *(name for name in entry_type(Entry).model_fields if name not in ("task", "decoder")))


def read_sweep_file(file: Path, flags: Mapping[str, Any] | None = None) -> Written:
    """Read a sweep file; what `flags` holds stands in place of the file's keys of that name.

    Raises:
        ConfigError: no such file, no YAML, a key twice, an unknown key or a value of another kind.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the sweep file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the sweep file {file} is no text in UTF-8") from None
    raw, lines = _parse(text, file.name)
    if not isinstance(raw, dict):
        raise ConfigError(f"{file.name} holds no keys; a sweep begins with `task:` and `decoder:`")
    return check(_overlaid(raw, flags or {}), lines, text)


def written_in_words(flags: Mapping[str, Any]) -> Written:
    """Return the sweep that the command line alone describes."""
    words = " ".join(f"{name}={value}" for name, value in flags.items())
    return check(dict(flags), Lines(), words)


def split_words(name: str, text: str) -> Any:
    """Read "1,2,4" as a list of values and "1" as one; a text that may hold commas itself stays whole."""
    if name in COMMAS_INSIDE:
        return text
    values = [parse_value(word) for word in text.split(",")]
    return values[0] if len(values) == 1 else values


def _overlaid(raw: dict[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Put flags in place of the file's keys, those in decoders' own blocks too."""
    merged = {**raw, **flags}
    decoders = merged.get("decoder")
    if isinstance(decoders, dict):
        merged["decoder"] = {
            name: {key: value for key, value in block.items() if key not in flags} if isinstance(block, dict) else block
            for name, block in decoders.items()
        }
    return merged


def check(raw: dict[str, Any], lines: Lines, source: str) -> Written:
    """Return the sweep that `raw` describes; ConfigError for the first key that does not fit."""
    sweep = _validated(Sweep, raw, lines, ())
    include = tuple(
        _validated(Entry, one, lines, ("include", index)) for index, one in enumerate(sweep.include)
    )  # fmt: skip
    for place, entry in (((), sweep), *((("include", index), one) for index, one in enumerate(include))):
        for key in GRID_KEYS if place else ():
            if key in (entry.model_extra or {}):
                raise ConfigError(f"{lines.where((*place, key))}{key} has no place inside include")
    return Written(sweep, include, lines, source)


def _validated(kind: Any, raw: Any, lines: Lines, place: Place) -> Any:
    try:
        return entry_type(kind).model_validate(raw)
    except ValidationError as error:
        fault = max(error.errors(), key=lambda one: len(one["loc"]))  # of several kinds tried, the one that fits best
        loc: Place = (*place, *fault["loc"])
        key = fault["loc"][0] if fault["loc"] else "the file"
        shown = "" if isinstance(fault["input"], dict | list) else f" = {fault['input']!r}"
        raise ConfigError(f"{lines.where(loc)}{key}{shown} does not fit: {fault['msg'].lower()}") from None


def unknown_key(key: str, known: Iterable[str], lines: Lines, place: Place, remark: str = "") -> ConfigError:
    """Return the error for a key that is neither a run setting nor an option."""
    return ConfigError(f"{lines.where((*place, key))}unknown key '{key}'{nearest(key, known)}{remark}")


def _parse(text: str, name: str) -> tuple[Any, Lines]:
    """Return a YAML file's values and the line of each key."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        numbers = dict(islice(_marks(node, (), name), MAX_PLACES + 1)) if node is not None else {}
        if len(numbers) > MAX_PLACES:
            raise ConfigError(f"{name}: with its aliases written out it has more than {MAX_PLACES:,} entries")
        return yaml.safe_load(text), Lines(name, numbers)
    except RecursionError:
        raise ConfigError(f"{name}: it is nested too deeply, or holds itself") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{name}{line}: not YAML: {getattr(error, 'problem', None) or error}") from None


def _marks(node: yaml.Node, place: Place, name: str) -> Iterable[tuple[Place, int]]:
    """Yield every key's path with its line; a key that stands twice in one mapping raises ConfigError."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{name}, line {line}: a key has to be one word")
            if key.value in seen:
                raise ConfigError(f"{name}, line {line}: '{key.value}' stands in line {seen[key.value]} already")
            seen[key.value] = line
            yield (*place, key.value), line
            yield from _marks(value, (*place, key.value), name)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*place, index), value.start_mark.line + 1
            yield from _marks(value, (*place, index), name)
