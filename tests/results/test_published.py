"""The published figures: complete, in range, each with its source, and equal to the reference notes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lopa_bench.errors import ResultsError
from lopa_bench.results.published_figures import (
    FOLDER,
    PAPERS,
    cells,
    published,
    read_published,
    select,
    table_ids,
)

HEADER = (FOLDER / "lopa.csv").read_text(encoding="utf-8").splitlines()[0]

# Counted by hand from the tables: rows x tasks x figures.
COUNTS = {
    "lopa-table1": 5 * 4 * 2,
    "lopa-table2": 3 * 2 * 2,
    "lopa-table3": 4 * 2 * 4,
    "lopa-table4": 36 * 2 * 4,
    "lopa-table5": 6 * 6,
    "lopa-table6": 18 * 7,
    "lopa-table7": 5 * 2 * 4 + 2 * 2,  # SDAR-4B has neither speed nor latency
    "lopa-figure1": 6 * 2,
    "lopa-figure4": (13 + 12 + 13 + 12) * 2 + 4 * 2,  # points of four curves, and the four baselines
    "d2f-table1": 5 * 4 * 4,
    "d2f-table2": 5 * 4 * 4,
    "d2f-table3": 3 * 4 * 2,
    "d2f-table4": 3 * 4 * 2,
    "d2f-table5": 4 * 2 * 4,
    "d2f-table6": 4 * 2 * 4,
    "d2f-table7": 4 * 2 * 4,
    "d2f-table8": 8 * 6 + 4,  # Dream's baseline has no block size
    "d2f-figure1": 7 * 2,
    "fast-dllm-table1": 8 * 4 * 2,
    "fast-dllm-table2": 8 * 4 * 2,
    "fast-dllm-table3": 2 * 4 * 2,
    "fast-dllm-table4": 3 * 4 * 2,
    "fast-dllm-figure5": 6,
}


def figure(table: str, row: str, task: str, metric: str) -> float:
    [found] = [one for one in select(table, rows=[row], tasks=[task]) if one.metric == metric]
    return found.value


def test_every_table_has_as_many_figures_as_the_paper() -> None:
    assert Counter(row.table_id for row in published()) == COUNTS
    assert sorted(table_ids()) == sorted(COUNTS)


def test_no_figure_stands_twice() -> None:
    keys = Counter((row.cell_id, row.metric) for row in published())
    assert max(keys.values()) == 1


def test_every_figure_names_its_source() -> None:
    for row in published():
        assert "arXiv" in row.source and row.table in row.source and row.row in row.source
        assert row.kind == "quoted" or ("read off the plot" in row.note and row.table == "Figure 4")


def test_only_points_without_a_label_are_digitised() -> None:
    digitised = [row for row in published() if row.kind == "digitised"]
    assert {row.table_id for row in digitised} == {"lopa-figure4"}
    assert len(digitised) == COUNTS["lopa-figure4"] - 4 * 2 - 4 * 2


@pytest.mark.parametrize(
    ("table", "row", "task", "metric", "value"),
    [
        ("lopa-table1", "D2F-Dream LoPA", "gsm8k", "tpf", 10.1),
        ("lopa-table1", "D2F-Dream LoPA", "gsm8k", "score", 73.8),
        ("lopa-table1", "Dream Fast-dLLM", "math", "score", 37.6),
        ("lopa-table2", "D2F-DiffuCoder LoPA", "humaneval+", "tpf", 8.3),
        ("lopa-table3", "D2F-Dream-Base Ascend", "mbpp", "tps_mean", 1073.86),
        ("lopa-table4", "Instruct S13", "mbpp", "tps_top10", 911.73),
        ("lopa-table4", "Base S12", "gsm8k", "score", 60.88),
        ("lopa-table5", "D2F-Dream", "math", "block_size", 16),
        ("lopa-table7", "SDAR-4B-Chat", "gsm8k", "tpf", 2.0),
        ("d2f-table1", "D2F-LLaDA", "math", "gen_length", 384),
        ("d2f-table2", "Fast-dLLM Dual", "humaneval", "latency_s", 4.3),
        ("d2f-table3", "tau_act 0.95 tau_add 0.1", "gsm8k", "score", 77.7),
        ("d2f-table4", "random tau_act 0.90", "mbpp", "tps", 148.5),
        ("d2f-table8", "Dream D2F", "mbpp", "block_size", 48),
        ("fast-dllm-table1", "+Both 256", "humaneval", "tps", 114.1),
        ("fast-dllm-table2", "+Parallel 512", "mbpp", "score", 55.4),
        ("fast-dllm-table4", "DualCache 8-shot 1024", "gsm8k", "score", 76.0),
        ("fast-dllm-figure5", "label 2 of 6", "gsm8k", "tpf", 3.25),
    ],
)
def test_figures_spot_checked(table: str, row: str, task: str, metric: str, value: float) -> None:
    assert figure(table, row, task, metric) == value


def test_settings_of_table_6_are_those_of_table_4s_rows() -> None:
    settings = {(row.row, row.metric): row.value for row in select("lopa-table6")}
    assert (settings["S7", "branch_parallel"], settings["S13", "tensor_parallel"]) == (8, 4)
    assert settings["S12", "tau_act"] == settings["S12", "tau_conf"] == 0.7
    assert {row.settings["setting"] for row in select("lopa-table4")} == {row.row for row in select("lopa-table6")}


def test_table_3_repeats_settings_of_table_4() -> None:
    for size in ("Base", "Instruct"):
        for arch, setting in (("NV", "S12"), ("Ascend", "S18")):
            for task in ("mbpp", "gsm8k"):
                for metric in ("tps_mean", "tps_max"):
                    short = figure("lopa-table3", f"D2F-Dream-{size} {arch}", task, metric)
                    assert short == figure("lopa-table4", f"{size} {setting}", task, metric)


def test_rows_are_found_by_name_or_by_their_words() -> None:
    assert {row.row for row in select("lopa-table1", rows=["d2f-dream lopa"])} == {"D2F-Dream LoPA"}
    assert {row.row for row in select("lopa-table1", rows=["vanilla"])} == {"Dream Vanilla", "D2F-Dream Vanilla"}
    assert len(cells(select("lopa-table1", rows=["lopa"], tasks=["gsm8k", "mbpp"]))) == 4
    assert {row.paper for row in select(paper="d2f")} == {"d2f"}


@pytest.mark.parametrize(
    ("table", "choice", "words"),
    [
        ("lopa-tabel1", {}, "did you mean 'lopa-table1'"),
        ("lopa-table1", {"rows": ["D2F-Drean LoPA"]}, "did you mean 'D2F-Dream LoPA'"),
        ("lopa-table1", {"tasks": ["gsm8"]}, "did you mean 'gsm8k'"),
        (None, {"paper": "lop"}, "did you mean 'lopa'"),
    ],
)
def test_an_unknown_name_gets_the_nearest(table: str | None, choice: dict, words: str) -> None:
    with pytest.raises(ResultsError, match=words):
        select(table, **choice)


GOOD = "lopa,Table 1,Dream LoPA,Dream,mbpp,lopa,num_fewshot=3,score,54.8,%,quoted,"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("54.8", "154.8"), "score = 154.8 % is not 0 to 100 %"),
        (("54.8", "nan"), "finite"),
        (("54.8", ""), "value"),
        (("%", "points"), "score = 54.8 points"),
        (("score", "scores"), "did you mean 'score'"),
        (("quoted", "guessed"), "kind"),
        (("Dream LoPA", ""), "no source"),
        (("lopa,Table", "nowhere,Table"), "paper 'nowhere' is unknown"),
        ((",quoted,", ",quoted,,more"), "line 2"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    file = tmp_path / "some.csv"
    file.write_text(f"{HEADER}\n{GOOD.replace(*change, 1)}\n")
    with pytest.raises(ResultsError, match=words) as caught:
        read_published(file)
    assert "some.csv, line 2" in str(caught.value)


def test_a_figure_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "some.csv"
    file.write_text(f"{HEADER}\n{GOOD}\n{GOOD}\n")
    with pytest.raises(ResultsError, match=r"line 3: .* stands in line 2 already"):
        read_published(file)


def test_there_is_a_file_per_paper() -> None:
    assert {file.stem for file in FOLDER.glob("*.csv")} == set(PAPERS)
