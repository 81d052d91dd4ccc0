"""The noise floor: agreement by hand, a band that widens with few repeats, a file per machine."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from stored import PLACE, record, samples

from lopa_bench.errors import ResultsError, SchemaTooNew
from lopa_bench.results.comparison.noise import (
    NOISE_VERSION,
    Agreement,
    NoiseCell,
    Repeat,
    SpeedBand,
    agreement,
    cell_key,
    find_noise,
    first_difference,
    log_spread,
    machine_id,
    noise_path,
    read_noise,
    repeat_of,
    store_noise,
)
from lopa_bench.results.comparison.noise_tables import noise_table
from lopa_bench.results.comparison.paired import Pair
from lopa_bench.results.schema import SampleRecord


def pair(one: list[int], other: list[int]) -> Pair:
    return Pair(SampleRecord(id="a", token_ids=tuple(one)), SampleRecord(id="a", token_ids=tuple(other)))


def cell(*speeds: float) -> NoiseCell:
    repeats = [
        Agreement(repeat=Repeat(run=f"{index:04d}-x", accuracy=0.8, tokens_per_second=speed), samples=20, identical=20,
                  tokens=1.0)
        for index, speed in enumerate(speeds)
    ]  # fmt: skip
    return NoiseCell(cell="a cell", environment=PLACE, samples=20, repeats=tuple(repeats))


@pytest.mark.parametrize(
    ("one", "other", "position"),
    [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([], [], None), ([5], [6], 0)],
)
def test_the_first_position_that_differs(one: list[int], other: list[int], position: int | None) -> None:
    assert first_difference(pair(one, other)) == position


def test_agreement_by_hand() -> None:
    pairs = [pair([1, 2, 3, 4], [1, 2, 9, 4]), pair([1, 2], [1, 2]), pair([1, 2], [1, 2, 3, 4])]
    found = agreement(Repeat(run="x"), pairs)
    assert found.tokens == pytest.approx(7 / 10)  # 3 of 4, 2 of 2, 2 of 4
    assert (found.samples, found.identical) == (3, 1)
    assert (found.first_divergence, found.median_divergence) == (2, 2)


def test_answers_of_no_tokens_have_no_agreement() -> None:
    assert agreement(Repeat(run="x"), [pair([], [])]).tokens is None


def test_the_spread_of_speeds_is_that_of_their_logarithms() -> None:
    assert log_spread([100, 200]) == pytest.approx(math.log(2) / math.sqrt(2))
    assert log_spread([100]) is None


def test_the_band_is_students_prediction_limit() -> None:
    from scipy.stats import t

    expected = math.exp(t.ppf(0.995, 4) * 0.02 * math.sqrt(2))
    assert SpeedBand(0.02, 5).factor(0.99) == pytest.approx(expected)
    assert SpeedBand(0.02, 3).factor(0.99) > SpeedBand(0.02, 5).factor(0.99) > SpeedBand(0.02, 20).factor(0.99) > 1
    assert SpeedBand(0.02, 5).factor(0.99, 5) < SpeedBand(0.02, 5).factor(0.99, 1)
    assert SpeedBand(0.0, 3).factor(0.99) == 1.0
    assert math.isfinite(SpeedBand(50.0, 3).factor(0.999))


def test_a_floor_is_stored_per_machine_and_found_by_its_cell(tmp_path: Path) -> None:
    run = record()
    assert find_noise(tmp_path, run) is None
    path = store_noise(tmp_path, cell(300, 310, 290), cell_key(run))
    assert path == tmp_path / "noise" / f"{machine_id(PLACE)}.json" and path.name.startswith("amd-epyc-")
    found = find_noise(tmp_path, run)
    assert found is not None and found.speeds == [300, 310, 290]
    for other in (
        record(options={"branches": 1}), record(place={"dtype": "bfloat16"}), record(place={"num_threads": 2}),
        record(model={"hash": "sha256:other"}), record(place={"device_name": "H200"}),
        record(task={"name": "mini-code"}),
    ):  # fmt: skip
        assert find_noise(tmp_path, other) is None
    for same in (record(settings={"warmup": 3}), record(settings={"compile": None, "a_later_default": False})):
        assert find_noise(tmp_path, same) is not None
    store_noise(tmp_path, cell(1, 2, 3), cell_key(record(options={"branches": 1})))
    store_noise(tmp_path, cell(200, 210, 190), cell_key(run))
    assert len(read_noise(path).cells) == 2
    again = find_noise(tmp_path, run)
    assert again is not None and again.speeds == [200, 210, 190]


OTHERS: dict[str, dict[str, Any]] = {
    "fewer problems": {"num_documents": 1},
    "other problems": {"task": {"prompts_hash": "f" * 64}},
    "an adapter": {"model": {"adapter": "x", "adapter_hash": "sha256:123"}},
    "a chat template": {"settings": {"chat": True}},
    "shots": {"settings": {"num_fewshot": 4}},
    "8-bit numbers": {"settings": {"quantize": "int8"}},
    "a compiled network": {"settings": {"compile": True}},
    "another kernel": {"place": {"accelerations": ("int8 by another kernel",)}},
    "branches shared by processes": {"place": {"world_size": 2, "groups": {"dp": 1, "bp": 2, "tp": 1}}},
    "layers shared by processes": {"place": {"world_size": 2, "groups": {"dp": 1, "bp": 1, "tp": 2}}},
    "another backend": {"place": {"communication": "gloo"}},
    "requests at a time": {"settings": {"concurrency": 8}},
    "a trace": {"settings": {"trace": True}},
}


def test_what_makes_another_cell_of_the_floor(tmp_path: Path) -> None:
    keys = {name: cell_key(record(**about)) for name, about in OTHERS.items()}
    assert len({cell_key(record()), *keys.values()}) == len(OTHERS) + 1, keys
    store_noise(tmp_path, cell(300, 310, 290), cell_key(record()))
    assert [name for name, about in OTHERS.items() if find_noise(tmp_path, record(**about)) is not None] == []


def test_few_problems_do_not_replace_the_floor_of_many(tmp_path: Path) -> None:
    store_noise(tmp_path, cell(300, 310, 290), cell_key(record()))
    store_noise(tmp_path, cell(1, 500, 3), cell_key(record(num_documents=1)))
    found = find_noise(tmp_path, record())
    assert found is not None and found.speeds == [300, 310, 290]


def test_a_floor_of_an_earlier_version_is_read_found_by_none_and_left_out(tmp_path: Path) -> None:
    path = store_noise(tmp_path, cell(1, 2, 3), "mini-maths | lopa-22acc649 | and no problems")
    path.write_text(json.dumps({**json.loads(path.read_text()), "noise_version": 2}))
    assert find_noise(tmp_path, record()) is None and len(read_noise(path).cells) == 1
    store_noise(tmp_path, cell(300, 310, 290), cell_key(record()))
    assert list(read_noise(path).cells) == [cell_key(record())]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"noise_version": 1, "cells": 3}', '{"noise_version": 1, "mach'])
def test_a_damaged_floor_is_told_and_never_used(tmp_path: Path, text: str) -> None:
    path = noise_path(tmp_path, PLACE)
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ResultsError, match="damaged; delete it and measure again"):
        find_noise(tmp_path, record())


def test_a_floor_of_a_later_program_is_refused(tmp_path: Path) -> None:
    path = store_noise(tmp_path, cell(1, 2, 3), "x")
    path.write_text(json.dumps({**json.loads(path.read_text()), "noise_version": NOISE_VERSION + 1}))
    with pytest.raises(SchemaTooNew, match=f"version {NOISE_VERSION + 1}"):
        read_noise(path)


def test_a_repeat_carries_the_run_s_figures() -> None:
    found = repeat_of(record(id="0001-x"), samples(), "dtype = bfloat16")
    assert (found.accuracy, found.setting) == (0.8, "dtype = bfloat16")
    assert found.rounds == sum(12 + index % 3 for index in range(20))
    assert found.tokens_per_second == pytest.approx(sum(60 + i % 7 for i in range(20)) / (4 * (0.02 * 5 + 1.0 + 0.1)))


def test_the_table_says_how_far_speeds_differ_without_the_time_that_other_work_took() -> None:
    repeats = [
        one.model_copy(update={"repeat": one.repeat.model_copy(update={"unhindered": 400 + index, "queued": queued})})
        for index, (one, queued) in enumerate(zip(cell(400, 200, 100).repeats, (0.0, 0.5, 0.75), strict=True))
    ]
    table = noise_table(cell(400, 200, 100).model_copy(update={"repeats": tuple(repeats)}))
    assert [row["queued"] for row in table.rows] == [0.0, 0.5, 0.75]
    assert table.notes[-1].startswith(
        "without the time in which there was no processor, tokens/s: median 401.0, 400.0 to"
    )
    assert table.notes[-2].startswith("tokens/s: median 200.0, 100.0 to 400.0")


def test_the_table_says_what_two_equal_runs_may_differ_by() -> None:
    table = noise_table(cell(300, 310, 290))
    assert "two equal runs may differ" in table.notes[-1] and "-fold" in table.notes[-1]
    assert "5 repeats would narrow that down" in table.notes[-1]
    assert "narrow" not in noise_table(cell(300, 310, 290, 305, 295)).notes[-1]
    assert "it takes 3 repeats" in noise_table(cell(300, 310)).notes[-1]
    assert len(table.rows) == 3
