"""A sweep as it is written: what is accepted, and where a mistake is told to stand."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.harness.settings import RunSpec
from lopa_bench.harness.sweeps.file import (
    NOT_SWEPT,
    Written,
    read_sweep_file,
    run_keys,
    split_words,
    written_in_words,
)
from lopa_bench.harness.sweeps.grid import Cell, cells_of

# Thirty lines of two aliases each: a billion entries where they are written out.
DOUBLED = "task: mini-maths\ndecoder: ar\na0: &a0 [1, 1]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)
)


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str, flags: dict[str, Any] | None = None) -> Written:
        file = tmp_path / "grid.yaml"
        file.write_text(text)
        return read_sweep_file(file, flags)

    return write


def words(cells: list[Cell]) -> list[str]:
    return [cell.words() for cell in cells]


def test_every_run_setting_can_be_swept() -> None:
    left_out = {"options", "command", "dry_run", "fresh", "must_match", "runs_dir", "live"}
    assert {one.name for one in fields(RunSpec)} - left_out == set(run_keys())
    assert set(NOT_SWEPT) == left_out | {"task", "decoder"}


GRID = """\
task: [mini-maths, mini-code]
decoder:
  d2f:
  lopa:
    branches: [1, 2]
seed: [0, 1]
limit: 3
"""


def test_options_of_a_decoder_apply_to_it_alone(written: Any) -> None:
    cells = cells_of(written(GRID))
    assert len(cells) == 2 * (1 + 2) * 2
    assert words(cells)[:4] == [
        "mini-maths, d2f, seed=0, limit=3",
        "mini-maths, d2f, seed=1, limit=3",
        "mini-maths, lopa, branches=1, seed=0, limit=3",
        "mini-maths, lopa, branches=1, seed=1, limit=3",
    ]
    assert all("branches" not in cell.spec.options for cell in cells if cell.spec.decoder == "d2f")


def test_common_options_go_to_every_decoder_that_has_them(written: Any) -> None:
    text = "task: mini-maths\ndecoder: [ar, d2f, lopa]\nbranches: [1, 2]\ntau-conf: [0.8, 0.9]\n"
    found = [(cell.spec.decoder, dict(cell.spec.options)) for cell in cells_of(written(text))]
    assert found.count(("ar", {})) == 1
    assert ("d2f", {"tau_conf": 0.8}) in found and ("lopa", {"branches": 2, "tau_conf": 0.9}) in found
    assert len(found) == 1 + 2 + 4


def test_aliases_and_words_are_read_as_on_the_command_line(written: Any) -> None:
    text = "task: mini-maths\ndecoder: fast-dllm\nblock_length: 8\nthreshold: [none, 0.9, null]\nsteps: 224\n"
    cells = cells_of(written(text))
    assert [dict(cell.spec.options)["threshold"] for cell in cells if cell.error is None] == [None]
    assert {dict(cell.spec.options)["block_size"] for cell in cells} == {8}


def test_an_include_adds_a_grid_and_an_exclude_takes_cells_away(written: Any) -> None:
    more = "include:\n  - {decoder: vanilla, task: mini-maths, seed: 7}\nexclude:\n  - {decoder: lopa, seed: 1}\n"
    cells = cells_of(written(GRID + more))
    assert len(cells) == 2 * 2 + 2 * 2 + 1
    assert words(cells)[-1] == "mini-maths, vanilla, seed=7, limit=3"
    assert not [cell for cell in cells if cell.spec.decoder == "lopa" and cell.spec.seed == 1]


def test_an_include_with_the_same_decoders_keeps_their_options(written: Any) -> None:
    cells = cells_of(written(GRID + "include:\n  - {task: mini-maths, seed: 2}\n"))
    added = [cell for cell in cells if cell.spec.seed == 2]
    assert [cell.value("branches") for cell in added] == [None, 1, 2]


def test_exclusions_look_at_what_settings_come_to(written: Any) -> None:
    text = "task: mini-maths\ndecoder: lopa\nlookahead: [0, 1, 3]\nexclude:\n  - branches: [1, 4]\n"
    assert [cell.value("branches") for cell in cells_of(written(text))] == [2]


def test_cells_that_come_to_the_same_run_once(written: Any) -> None:
    text = (
        "task: [mini-maths, mini_maths]\ndecoder: lopa\nbranches: [2, 2]\ninclude:\n  - {decoder: lopa, lookahead: 1}\n"
    )
    assert words(cells_of(written(text))) == ["mini-maths, lopa, branches=2"]


def test_cells_of_one_model_stand_together(written: Any) -> None:
    text = "task: [mini-maths, mini-code]\ndecoder: [vanilla, d2f, fast-dllm, lopa]\n"
    models = [cell.value("model") for cell in cells_of(written(text))]
    assert models == ["bundled:dllm"] * 4 + ["bundled:d2f"] * 4


def test_presets_bring_their_decoders_and_tasks(written: Any) -> None:
    text = "preset: [lopa-dream-gsm8k, d2f-dream-mbpp]\nmodel: bundled:d2f\ntau_conf: [0.8, 0.9]\nbranches: 2\n"
    found = [(cell.value("decoder"), cell.value("branches")) for cell in cells_of(written(text))]
    assert found == [("lopa", 2), ("lopa", 2), ("d2f", None), ("d2f", None)]


def test_flags_stand_in_place_of_the_files_keys(written: Any) -> None:
    cells = cells_of(written(GRID, {"seed": 5, "branches": [3, 4], "task": "mini-code"}))
    assert words(cells) == [
        "mini-code, d2f, seed=5, limit=3",
        "mini-code, lopa, branches=3, seed=5, limit=3",
        "mini-code, lopa, branches=4, seed=5, limit=3",
    ]


def test_the_same_grid_in_words() -> None:
    lists = {"task": "mini-maths,mini-code", "decoder": "d2f,lopa", "branches": "1,2,4,8", "limit": "20"}
    cells = cells_of(written_in_words({name: split_words(name, text) for name, text in lists.items()}))
    assert len(cells) == 2 * (1 + 4)
    assert words(cells)[1] == "mini-maths, lopa, branches=1, limit=20"


def test_a_text_with_commas_stays_one_value() -> None:
    assert split_words("samples", "3,7,20-29") == "3,7,20-29"
    assert split_words("seed", "0,1") == [0, 1]
    assert split_words("threshold", "none,0.9") == [None, 0.9]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("taks: mini-maths\ndecoder: ar\n", "grid.yaml, line 1: unknown key 'taks' (did you mean 'task'?)"),
        ("task: mini-maths\ndecoder: lopa\nbranchs: 2\n", "line 3: unknown key 'branchs' (did you mean 'branches'?)"),
        ("task: mini-maths\ndecoder: d2f\nbranches: 2\n", "line 3: unknown key 'branches'"),
        ("task: mini-maths\ndecoder: d2f\nbranches: 2\n", "it is an option of lopa, not of d2f"),
        (
            "task: mini-maths\ndecoder:\n  lopa:\n    tau_con: 0.9\n",
            "line 4: unknown key 'tau_con' (did you mean 'tau_conf'?) among the options of lopa",
        ),
        ("task: mini-maths\ndecoder: [ar, lopaa]\n", "did you mean 'lopa'"),
        ("task: mini-maths\ndecoder: ar\ntask: mini-code\n", "line 3: 'task' stands in line 1 already"),
        ("task: mini-maths\ndecoder: [ar\nseed: 1\n", "line 3: not YAML"),
        ("task: mini-maths\ndecoder: ar\nseed: [0, one]\n", "line 3: seed = 'one' does not fit"),
        ("task: mini-maths\ndecoder: ar\nwarmup: many\n", "line 3: warmup = 'many' does not fit"),
        ("task: mini-maths\ndecoder: ar\ntrace: 3\n", "line 3: trace = 3 does not fit"),
        ("task: mini-maths\ndecoder: ar\ninclude:\n  - {decoder: d2f}\n  - {decodr: lopa}\n", "line 5: unknown key"),
        ("task: mini-maths\ndecoder: ar\ninclude:\n  - {name: other}\n", "line 4: name has no place inside include"),
        ("task: mini-maths\ndecoder: ar\nexclude:\n  - {seeds: 1}\n", "line 4: unknown key 'seeds' (did you mean"),
        ("task: mini-maths\ndecoder: ar\nexclude:\n  - {task: mini-code}\n", "line 4: exclude takes no cell away"),
        ("task: mini-maths\ndecoder: ar\nexclude:\n  - {task: mini-math}\n", "of task there is mini-maths (did"),
        ("task: mini-maths\n", "names no decoder and no preset"),
        ("task: []\ndecoder: ar\n", "the sweep has no cell: task is an empty list"),
        ("task: mini-maths\ndecoder: lopa\nbranches: []\n", "the sweep has no cell: branches is an empty list"),
        ("task: mini-maths\ndecoder: ar\nexclude:\n  - {decoder: ar}\n", "its exclusions take all of them away"),
        (
            "task: mini-maths\ndecoder: [ar, d2f]\ntau_conf: 0.9\nskip-threshold: 0.8\n",
            "line 4: skip-threshold and tau_conf are the same option of d2f; keep one",
        ),
        (
            "task: mini-maths\ndecoder:\n  d2f:\n    tau_conf: 0.9\n    skip_threshold: 0.8\n",
            "line 5: skip_threshold and tau_conf are the same option of d2f; keep one",
        ),
        ("task: mini-maths\n? [decoder, model]\n: ar\n", "line 2: a key has to be one word"),
        ("task: mini-maths\ndecoder: ar\nseed: &again [0, *again]\n", "it is nested too deeply, or holds itself"),
        ("task: " + "[" * 5000, "it is nested too deeply, or holds itself"),
        (DOUBLED, "with its aliases written out it has more than 100,000 entries"),
        ("- task\n", "holds no keys"),
        ("", "holds no keys"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(written: Any, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cells_of(written(text))
    assert told in str(caught.value)


def test_no_other_name_is_guessed_for_an_option_that_another_decoder_has(written: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        cells_of(written("task: mini-maths\ndecoder: d2f\nbranches: 2\n"))
    assert "did you mean" not in str(caught.value)


def test_a_decoder_s_own_block_may_replace_a_common_option_by_another_name(written: Any) -> None:
    text = "task: mini-maths\ntau_conf: 0.9\ndecoder:\n  d2f:\n  lopa:\n    skip_threshold: 0.8\n"
    found = {cell.spec.decoder: dict(cell.spec.options) for cell in cells_of(written(text))}
    assert found == {"d2f": {"tau_conf": 0.9}, "lopa": {"tau_conf": 0.8}}


def test_a_grid_without_measure_is_refused_before_it_fills_the_memory(
    written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lopa_bench.harness.sweeps.grid.MOST_CELLS", 5)
    assert len(cells_of(written("task: mini-maths\ndecoder: d2f\nseed: [1, 2, 3, 4, 5]\n"))) == 5
    many = ", ".join(map(str, range(1, 1000)))
    with pytest.raises(ConfigError, match="the sweep has more than 5 cells"):
        cells_of(
            written(f"task: mini-maths\ndecoder: d2f\nseed: [{many}]\nlimit: [{many}]\nmax_new_tokens: [{many}]\n")
        )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_sweep_file(tmp_path / "nothing.yaml")


def test_in_words_a_mistake_has_no_line() -> None:
    with pytest.raises(ConfigError, match=r"^unknown key 'branchs'"):
        cells_of(written_in_words({"task": "mini-maths", "decoder": "lopa", "branchs": 2}))
