"""The authors' conventions: what each fixes, and what a number of branches means under it."""

from __future__ import annotations

from typing import Any

import pytest

from lopa_bench.decoders.presets import CONVENTIONS
from lopa_bench.decoders.registry import resolve
from lopa_bench.errors import ConfigError


@pytest.mark.parametrize("name", CONVENTIONS)
def test_every_convention_resolves_and_decodes_on_after_the_eos_with_the_mask_id_allowed(name: str) -> None:
    convention = CONVENTIONS[name]
    config = resolve(convention.decoder, {}, name)
    assert config.early_stop is False
    assert config.allow_mask_token is True
    assert convention.source
    for option, value in convention.options.items():
        assert getattr(config, option) == value


def test_an_explicit_option_wins_over_the_convention_under_any_spelling() -> None:
    assert resolve("lopa", {"early_stop": True}, "lopa-dream").early_stop is True
    assert resolve("lopa", {"sampling_strategy": "margin"}, "lopa-dream").strategy == "margin"
    assert resolve("lopa", {"use-full-attention": False}, "lopa-dream").full_attention is False


def test_the_three_lopa_conventions_differ_in_strategy_and_counting() -> None:
    strategies = {name: resolve("lopa", {}, name).strategy for name in ("lopa-dream", "lopa-diffucoder", "lopa-dist")}
    assert strategies == {"lopa-dream": "neg_entropy", "lopa-diffucoder": "probability", "lopa-dist": "neg_entropy"}


@pytest.mark.parametrize(
    ("preset", "factor", "branches"),
    [
        ("lopa-dream", 7, 8),
        ("lopa-diffucoder", 3, 4),
        ("lopa-dist", 8, 8),
        ("lopa-dream", 1, 1),  # no lookahead in any of the programs
        ("lopa-diffucoder", 1, 1),
        ("lopa-dist", 1, 1),
    ],
)
def test_branching_factor_counts_the_anchor_only_in_lopa_dist(preset: str, factor: int, branches: int) -> None:
    assert resolve("lopa", {"branching_factor": factor}, preset).branches == branches
    assert resolve("lopa", {"branching-factor": str(factor)}, preset).branches == branches


def test_branching_factor_without_a_convention_is_ambiguous() -> None:
    with pytest.raises(ConfigError, match=r"use branches .* lookahead .* or name a convention"):
        resolve("lopa", {"branching_factor": 4})


def test_lookahead_is_one_less_than_branches() -> None:
    assert resolve("lopa", {"lookahead": 7}) == resolve("lopa", {"branches": 8})
    assert resolve("lopa", {"lookahead": 0}).branches == 1
    assert resolve("lopa", {"lookahead": 7, "branches": 8}).branches == 8


@pytest.mark.parametrize(
    ("options", "preset"),
    [
        ({"lookahead": 7, "branches": 7}, None),
        ({"branching_factor": 8, "branches": 8}, "lopa-dream"),
        ({"branching_factor": 8, "lookahead": 8}, "lopa-dist"),
    ],
)
def test_contradicting_counts_of_branches_are_refused(options: dict[str, Any], preset: str | None) -> None:
    with pytest.raises(ConfigError, match="contradicting numbers of branches"):
        resolve("lopa", options, preset)


def test_the_count_of_branches_belongs_to_lopa() -> None:
    with pytest.raises(ConfigError, match="has no option 'branches'"):
        resolve("d2f", {"branches": 8})
