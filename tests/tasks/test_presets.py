"""The presets cover the published tables, each cell by one of them, and agree with what the tables say."""

from __future__ import annotations

from collections import Counter

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.results.published_figures import PublishedCell, cells, published
from lopa_bench.tasks.presets import PRESETS, WITHOUT_PRESET, Preset, get_preset, presets_of, why_no_preset


def preset_of(cell: PublishedCell) -> Preset | None:
    found = presets_of(cell.id)
    assert len(found) <= 1, f"{cell.id} has several presets"
    return found[0] if found else None


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell.id)
def test_every_cell_has_one_preset_with_its_settings_or_a_reason_why_not(cell: PublishedCell) -> None:
    preset = preset_of(cell)
    if preset is None:
        assert why_no_preset(cell.id).startswith("no preset: ")
        return
    assert (preset.task, preset.decoder) == (cell.first.task, cell.first.decoder)
    said = {name: value for name, value in cell.first.settings.items() if name not in ("hardware", "setting", "noise")}
    assert preset.num_fewshot == int(said.pop("num_fewshot", preset.num_fewshot))
    for name, value in said.items():
        assert str(preset.options[name]) == value or float(preset.options[name]) == float(value), name


def test_cells_without_a_preset_are_these_and_every_reason_is_needed() -> None:
    without = [cell.id for cell in cells() if preset_of(cell) is None]
    assert Counter(id.partition("/")[0] for id in without) == {
        "lopa-table7": 12, "lopa-figure1": 12, "lopa-figure4": 51, "d2f-table1": 4, "d2f-table2": 4, "d2f-table4": 6,
        "d2f-table5": 4, "d2f-table6": 4, "d2f-table7": 4, "d2f-figure1": 14, "fast-dllm-figure5": 6,
    }  # fmt: skip
    for part in WITHOUT_PRESET:
        assert any(part in id for id in without), part


def test_programs_are_made_and_timed_as_the_authors_did() -> None:
    for preset in PRESETS.values():
        assert (preset.cleanup == "authors") == (preset.task == "humaneval")
        assert (preset.min_call_s == 4.0) == ("diffucoder" in preset.name)
    assert PRESETS["lopa-diffucoder-mbpp+"].settings()["min_call_s"] == 4.0
    assert "cleanup" not in PRESETS["lopa-dream-mbpp"].settings()


def test_every_preset_names_cells_that_exist() -> None:
    known = {row.cell_id for row in published()}
    assert {cell for preset in PRESETS.values() for cell in preset.published} <= known


def test_settings_of_tables_5_6_and_8_are_those_of_their_presets() -> None:
    names = {"branch_parallel": "branches"}
    checked = 0
    for row in published():
        for preset in [] if row.is_measured else presets_of(row.cell_id):
            if row.metric == "tensor_parallel":
                continue
            options = {**preset.options, "num_fewshot": preset.num_fewshot}
            assert options[names.get(row.metric, row.metric)] == row.value, (preset.name, row.metric)
            checked += 1
    assert checked == 6 * 6 + 4 * 18 * 6 + (8 * 5 + 4 * 2 + 4)


def test_names_are_unique_and_say_where_they_come_from() -> None:
    assert all(name == preset.name for name, preset in PRESETS.items())
    assert len(PRESETS) == 251
    for preset in PRESETS.values():
        assert "arXiv" in preset.source or " @ " in preset.source


def test_what_a_paper_leaves_open_is_said() -> None:
    assert "steps" in get_preset("d2f-table1-vanilla-llada-gsm8k").open_question
    assert "Ascend" in get_preset("lopa-dist-base-gsm8k-s18").open_question
    assert get_preset("lopa-dream-gsm8k").open_question == ""


def test_an_unknown_preset_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'd2f-table3-act0\.95-add0\.1'"):
        get_preset("d2f-table3-act0.95-add.1")
