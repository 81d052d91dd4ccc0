"""From a sweep as written to its cells: every combination of its lists, each a run of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

from lopa_bench.decoders.presets import BRANCH_WORDS
from lopa_bench.errors import ConfigError, LopaBenchError, nearest
from lopa_bench.harness.assignments import parse_value
from lopa_bench.harness.servers.settings import decoder_kind
from lopa_bench.harness.settings import RunSpec, Settings, resolve
from lopa_bench.harness.sweeps.file import Entry, Lines, Place, Written, run_keys, unknown_key
from lopa_bench.tasks.presets import get_preset

MOST_CELLS = 50_000  # a grid is held in memory and checked cell by cell before the first one runs
FIRST_AXES = ("model", "adapter", "preset", "task")


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    `values` are those that the sweep gave it, by the names of run settings and options. `settings` is what they come
    to, None where they contradict each other; then `error` says how. `where` is the line of its grid.
    """

    spec: RunSpec
    values: Mapping[str, Any]
    settings: Settings | None = None
    error: str | None = None
    where: str = ""

    def value(self, name: str) -> Any:
        """Return the value of a setting or option, settled where it could be; None for one that it does not have."""
        if self.settings is not None and name in self.settings.all:
            return self.settings.all[name].value
        return self.values.get(name)

    def words(self, names: Sequence[str] | None = None) -> str:
        """Return the cell in a few words: task, decoder and what else it was given, or of that only `names`."""
        chosen = [name for name in (self.values if names is None else names) if name not in ("task", "decoder")]
        first = [str(self.value(name)) for name in ("task", "decoder") if self.value(name) is not None]
        rest = [f"{name}={shown(value)}" for name, value in self.values.items() if name in chosen]
        return ", ".join([*first, *rest])


def shown(value: Any) -> str:
    """Return a value as it is typed."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def cells_of(written: Written, runs_dir: Path | None = None, command: tuple[str, ...] = ()) -> list[Cell]:
    """Return the cells of a sweep, those of one model next to each other, each once, without what it excludes.

    Raises:
        ConfigError: a key that no decoder of the sweep knows, an exclusion that takes nothing away, no cell at all.
    """
    where = runs_dir or (Path(written.sweep.runs_dir) if written.sweep.runs_dir else None)
    common = RunSpec(runs_dir=where, command=command)
    grids = [_grid(written.sweep, written.lines, (), common)]
    for index, entry in enumerate(written.include):
        grids.append(_grid(_completed(entry, written.sweep), written.lines, ("include", index), common))
    found = list(islice(chain.from_iterable(grids), MOST_CELLS + 1))
    if len(found) > MOST_CELLS:
        raise ConfigError(f"{written.lines.where(())}the sweep has more than {MOST_CELLS} cells; divide it")
    settled = _unique([_settle(cell) for cell in found])
    kept = _without_excluded(settled, written)
    if not kept:
        raise ConfigError(f"{written.lines.where(())}the sweep has no cell: {_why_empty(written)}")
    order = {loaded: place for place, loaded in enumerate(dict.fromkeys(map(_loaded, kept)))}
    return sorted(kept, key=lambda cell: order[_loaded(cell)])


def _why_empty(written: Written) -> str:
    """Name the list that is empty, or what is missing altogether."""
    if written.sweep.exclude:
        return "its exclusions take all of them away"
    given = written.sweep.model_dump(exclude_unset=True, exclude={"include", "exclude"})
    empty = [key for key, value in given.items() if value == []]
    return f"{' and '.join(empty)} is an empty list" if empty else "it names no decoder and no preset"


def _loaded(cell: Cell) -> tuple[str, ...]:
    """Return what decides whether two cells can share a model in memory."""
    return tuple(str(cell.value(name)) for name in ("model", "adapter", "device", "dtype"))


def _completed(entry: Entry, sweep: Entry) -> Entry:
    """Give a grid of `include` the keys that it lacks."""
    own = entry.model_dump(exclude_unset=True)
    base = sweep.model_dump(exclude_unset=True, exclude={"name", "runs_dir", "include", "exclude"})
    if "decoder" in own or "preset" in own:
        options = set(sweep.model_extra or {})
        base = {key: value for key, value in base.items() if key not in ("decoder", "preset") and key not in options}
    return type(entry).model_validate({**base, **own})


def _grid(entry: Entry, lines: Lines, place: Place, common: RunSpec) -> Iterator[Cell]:
    """Yield every combination of a grid's lists."""
    given = entry.model_dump(exclude_unset=True, exclude={"name", "runs_dir", "include", "exclude"})
    options = {key: value for key, value in given.items() if key in (entry.model_extra or {})}
    runs = {key: value for key, value in given.items() if key not in options and key != "decoder"}
    blocks = _decoders(entry)
    _check_options(options, blocks, runs, lines, place)
    outer = [key for key in FIRST_AXES if key in runs]
    inner = [key for key in runs if key not in outer]
    for first in _combinations({key: runs[key] for key in outer}):
        for decoder, block in blocks.items():
            known = _options_of(decoder or _decoder_of_preset(first.get("preset")))
            own = {_spelled(key, known): value for key, value in options.items() if _spelled(key, known) in known}
            own |= {_spelled(key, known): value for key, value in block.items()}
            for chosen in _combinations(own):
                for last in _combinations({key: runs[key] for key in inner}):
                    named = {} if decoder is None else {"decoder": decoder}
                    asked: dict[str, Any] = {**first, **named, **last}
                    spec = replace(common, **asked, options=dict(chosen))
                    yield Cell(spec, {**first, **named, **chosen, **last}, where=lines.where(place) if place else "")


def _decoders(entry: Entry) -> dict[str | None, dict[str, Any]]:
    """Return the decoders with their own options; {None: {}} where presets bring them."""
    if isinstance(entry.decoder, dict):
        return {name: dict(block or {}) for name, block in entry.decoder.items()}
    names = [entry.decoder] if isinstance(entry.decoder, str) else entry.decoder
    if names:
        return {name: {} for name in names}
    return {None: {}} if getattr(entry, "preset", None) else {}


def _combinations(axes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    lists = [value if isinstance(value, list) else [value] for value in axes.values()]
    for values in product(*lists):
        yield {
            name: parse_value(value) if isinstance(value, str) and name not in run_keys() else value
            for name, value in zip(axes, values, strict=True)
        }


def _decoder_of_preset(name: str | None) -> str | None:
    return None if name is None else get_preset(name).decoder


def _options_of(decoder: str | None) -> dict[str, str]:
    """Return every spelling of a decoder's options with the option's own name."""
    if decoder is None:
        return {}
    from lopa_bench.decoders.options import names_of

    spellings = names_of(decoder_kind(decoder).config_type)
    return spellings | ({word: word for word in BRANCH_WORDS} if "branches" in spellings else {})


def _spelled(key: str, known: Mapping[str, str]) -> str:
    plain = key.replace("-", "_")
    return known.get(plain, plain)


def _check_options(
    options: Mapping[str, Any],
    blocks: Mapping[str | None, Mapping[str, Any]],
    runs: Mapping[str, Any],
    lines: Lines,
    place: Place,
) -> None:
    """Refuse a key that is neither a run setting nor an option of one of the grid's decoders."""
    presets = runs.get("preset")
    named = [presets] if isinstance(presets, str) else presets or []
    decoders = [name for name in (*blocks, *map(_decoder_of_preset, named)) if name is not None]
    known = {spelling for name in decoders for spelling in _options_of(name)}
    for key in options:
        if key.replace("-", "_") not in known:
            elsewhere = _elsewhere(key, decoders)
            raise unknown_key(key, () if elsewhere else (*run_keys(), *known), lines, place, elsewhere)
    for decoder in decoders:
        _refuse_twice(decoder, options, lines, place)
    for name, block in blocks.items():
        for key in block:
            spellings = _options_of(name)
            if key.replace("-", "_") not in spellings:
                remark = f" among the options of {name}"
                raise unknown_key(key, spellings, lines, (*place, "decoder", str(name)), remark)
        if name is not None:
            _refuse_twice(name, block, lines, (*place, "decoder", name))


def _refuse_twice(decoder: str, keys: Iterable[str], lines: Lines, place: Place) -> None:
    """Refuse two spellings of one option in one place, of which only one could hold."""
    known = _options_of(decoder)
    written: dict[str, str] = {}
    for key in keys:
        option = _spelled(key, known)
        if option in known and written.setdefault(option, key) != key:
            raise ConfigError(
                f"{lines.where((*place, key))}{key} and {written[option]} are the same option of {decoder}; keep one"
            )


def _elsewhere(key: str, decoders: Sequence[str]) -> str:
    """Say which decoder that is not in the sweep has the option."""
    from lopa_bench.decoders.registry import decoder_types

    owners = [name for name in decoder_types() if key in _options_of(name) and name not in decoders]
    return f"; it is an option of {', '.join(owners)}, not of {', '.join(decoders)}" if owners and decoders else ""


def _settle(cell: Cell) -> Cell:
    try:
        return replace(cell, settings=resolve(cell.spec))
    except LopaBenchError as error:
        return replace(cell, error=str(error))


def _unique(cells: Sequence[Cell]) -> list[Cell]:
    """Drop cells that come to the same settings as an earlier one."""
    found: dict[str, Cell] = {}
    for cell in cells:
        if cell.settings is None:
            key = f"{cell.words()} {cell.error}"
        else:
            values = {name: one.value for name, one in cell.settings.all.items() if name != "preset"}
            key = json.dumps(values, sort_keys=True, default=str)
        found.setdefault(key, cell)
    return list(found.values())


def _without_excluded(cells: Sequence[Cell], written: Written) -> list[Cell]:
    kept = list(cells)
    for index, entry in enumerate(written.sweep.exclude):
        place: Place = ("exclude", index)
        for key in entry:
            if not any(key in (cell.settings.all if cell.settings else cell.values) for cell in cells):
                known = {name for cell in cells for name in (cell.settings.all if cell.settings else cell.values)}
                raise unknown_key(key, known, written.lines, place)
        if not any(_matches(cell, entry) for cell in cells):
            words = ", ".join(f"{name}={shown(value)}" for name, value in entry.items())
            raise ConfigError(
                f"{written.lines.where(place)}exclude takes no cell away: none has {words}{_values_of(cells, entry)}"
            )
        kept = [cell for cell in kept if not _matches(cell, entry)]
    return kept


def _matches(cell: Cell, entry: Mapping[str, Any]) -> bool:
    return all(
        cell.value(name) in [_plain(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in entry.items()
    )


def _plain(value: Any) -> Any:
    return parse_value(value) if isinstance(value, str) else value


def _values_of(cells: Sequence[Cell], entry: Mapping[str, Any]) -> str:
    """Name the values that there are of the first key whose value no cell has."""
    for name, value in entry.items():
        if not any(_matches(cell, {name: value}) for cell in cells):
            there = dict.fromkeys(shown(cell.value(name)) for cell in cells if cell.value(name) is not None)
            guess = nearest(value, there) if isinstance(value, str) else ""
            return f"; of {name} there is {', '.join(there)}{guess}"
    return ""
