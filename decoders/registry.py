"""Decoders by name, and their options from what a user gives: defaults, then a convention, then explicit values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

from lopa_bench.decoders.ar import ARDecoder
from lopa_bench.decoders.base import Decoder
from lopa_bench.decoders.d2f import D2FDecoder
from lopa_bench.decoders.fast_dllm import FastDLLMDecoder
from lopa_bench.decoders.lopa import LoPADecoder
from lopa_bench.decoders.options import DecoderConfig, build, names_of, whole_number
from lopa_bench.decoders.presets import BRANCH_WORDS, CONVENTIONS, Convention
from lopa_bench.decoders.vanilla import VanillaDecoder
from lopa_bench.errors import ConfigError, nearest
from lopa_bench.models.language_model import LanguageModel

BUILT_IN: tuple[type[Decoder], ...] = (ARDecoder, VanillaDecoder, FastDLLMDecoder, D2FDecoder, LoPADecoder)


def decoder_types() -> dict[str, type[Decoder]]:
    """All decoders by name: the built-in ones, then those of installed packages (group `lopa_bench.decoders`)."""
    known = {decoder.name: decoder for decoder in BUILT_IN}
    for entry in entry_points(group="lopa_bench.decoders"):
        known.setdefault(entry.name, entry.load())
    return known


def decoder_type(name: str) -> type[Decoder]:
    """The class of a decoder.

    Raises:
        ConfigError: no decoder has that name.
    """
    for kind in BUILT_IN:  # found without a look at what is installed, which takes its time
        if kind.name == name:
            return kind
    known = decoder_types()
    if name not in known:
        raise ConfigError(f"decoder {name!r} not found; there are {', '.join(known)}{nearest(name, known)}")
    return known[name]


def convention(name: str, decoder: str) -> Convention:
    """A named convention of a decoder.

    Raises:
        ConfigError: no such name, or it belongs to another decoder.
    """
    if name not in CONVENTIONS:
        raise ConfigError(
            f"convention {name!r} not found; there are {', '.join(CONVENTIONS)}{nearest(name, CONVENTIONS)}"
        )
    found = CONVENTIONS[name]
    if found.decoder != decoder:
        raise ConfigError(f"convention {name!r} is one of decoder {found.decoder!r}, not of {decoder!r}")
    return found


def resolve(decoder: str, options: Mapping[str, Any] | None = None, preset: str | None = None) -> DecoderConfig:
    """Make a decoder's config; explicit options win over the convention, which wins over the defaults.

    Args:
        decoder: its name.
        options: under any accepted spelling; `lookahead` (the paper's k) and, with a LoPA convention,
            `branching_factor` are turned into `branches`.
        preset: name of a convention.

    Raises:
        ConfigError: an unknown name or option (the nearest is named), values that contradict each other, or one that
            the others leave without effect; under a convention, whose program takes such values, it is dropped.
    """
    kind = decoder_type(decoder)
    chosen = dict(options or {})
    found = convention(preset, decoder) if preset else None
    if decoder == "lopa":
        chosen = _count_branches(chosen, found)
    spellings = names_of(kind.config_type)
    given = {spellings.get(key.replace("-", "_"), key) for key in chosen}
    defaults = {key: value for key, value in (found.options if found else {}).items() if key not in given}
    config = build(kind.config_type, {**defaults, **chosen}, decoder)
    unused = config.without_effect()
    for name, reason in unused.items():
        if name in given and found is None:
            raise ConfigError(f"{name} = {getattr(config, name)!r} has no effect: {reason}")
    changes: dict[str, Any] = dict.fromkeys(unused)
    return replace(config, **changes)


def _count_branches(options: dict[str, Any], found: Convention | None) -> dict[str, Any]:
    """Turn `lookahead` and `branching_factor` into `branches`, refusing contradictions."""
    wanted: dict[str, int] = {}
    counts = {key: _num_branches(key, options[key]) for key in options if key.replace("-", "_") in BRANCH_WORDS}
    options = {key: value for key, value in options.items() if key not in counts}
    if "branches" in counts:
        wanted["branches"] = counts["branches"]
    if "lookahead" in counts:
        wanted["lookahead"] = counts["lookahead"] + 1
    factor = counts.get("branching_factor", counts.get("branching-factor"))
    if factor is not None:
        if found is None or found.branching_factor_counts_anchor is None:
            raise ConfigError(
                "branching_factor counts the anchor in LoPA-Dist but not in the Dream and DiffuCoder scripts; "
                "use branches (all of them), lookahead (without the anchor), or name a convention"
            )
        extra = 0 if found.branching_factor_counts_anchor or factor <= 1 else 1
        wanted["branching_factor"] = factor + extra
    if len(set(wanted.values())) > 1:
        given = ", ".join(f"{name} means {count} branches" for name, count in wanted.items())
        raise ConfigError(f"contradicting numbers of branches: {given}")
    if wanted:
        options["branches"] = next(iter(wanted.values()))
    return options


def _num_branches(word: str, value: Any) -> int:
    number, least = whole_number(word, value), BRANCH_WORDS[word.replace("-", "_")]
    if number < least:
        raise ConfigError(f"{word} = {number} is out of range; it must be at least {least}")
    return number


def create(
    decoder: str, model: LanguageModel, options: Mapping[str, Any] | None = None, preset: str | None = None
) -> Decoder:
    """Make a decoder for a model; see `resolve` for the options."""
    return decoder_type(decoder)(model, resolve(decoder, options, preset))
