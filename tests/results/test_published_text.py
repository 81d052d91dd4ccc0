"""Every published figure against the notes that it was taken from: none missing, none too many, none changed."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lopa_bench.results.published_figures import FOLDER, PAPERS, PublishedRow

METRICS = {
    "avg": "tps_mean", "max": "tps_max", "top-10": "tps_top10", "latency": "latency_s", "shots": "num_fewshot",
    "length": "max_new_tokens", "seq": "max_new_tokens", "block": "block_size", "tp": "tensor_parallel",
    "bp": "branch_parallel",
}  # fmt: skip
GRIDS = {  # rows by columns of tasks: table -> section, figures of a cell, columns that name the row
    "lopa-figure1": ("9.1", "TPS", 1), "lopa-table1": ("9.2", "TPF/Score", 2), "lopa-table2": ("9.3", "TPF/Score", 2),
    "lopa-table3": ("9.4", "Avg/Max/TPF/Latency", 2), "lopa-table7": ("9.8", "Avg/TPF/Latency/Score", 1),
    "d2f-table1": ("9.10", "TPS/Latency/Gen_length/Score", 1),
    "d2f-table2": ("9.11", "TPS/Latency/Gen_length/Score", 1),
}  # fmt: skip


Figure = tuple[str, ...]  # table, row, task, metric, value as printed, shots where the notes say them, kind


def section(notes: str, number: str) -> str:
    return re.split(r"^##", notes.partition(f"### {number} ")[2], flags=re.MULTILINE)[0]


def tables(body: str) -> list[list[list[str]]]:
    """Return the tables of a section as rows of cells, the heads first."""
    blocks = re.findall(r"(?:^\|.*\n)+", body, flags=re.MULTILINE)
    split = [[[cell.strip() for cell in line.strip("|").split("|")] for line in one.splitlines()] for one in blocks]
    return [[rows[0], *rows[2:]] for rows in split]


def figures(table: str, row: str, task: str, cell: str, words: str, kind: str = "quoted") -> Iterator[Figure]:
    """Read "1.0 / 56.2" under "TPF / Score" and "MBPP 3-shot"; "-" is no figure."""
    name, _, shots = task.lower().partition(" ")
    for word, value in zip(re.split(" ?/ ?", words), re.split(" ?/ ?", cell), strict=True):
        if value != "-":
            metric = word.lower().removeprefix("lopa ")
            yield (table, row, name, METRICS.get(metric, metric), value, shots.removesuffix("-shot"), kind)


def grids(notes: str) -> Iterator[Figure]:
    for table, (number, words, first) in GRIDS.items():
        head, *lines = tables(section(notes, number))[0]
        for line in lines:
            for task, cell in zip(head[first:], line[first:], strict=True):
                yield from figures(table, " ".join(line[:first]), task, cell, words)


def lopa(notes: str) -> Iterator[Figure]:
    head, *lines = tables(section(notes, "9.5"))[0]
    for model, _, setting, *cells in lines:
        for start in (0, 4):
            task, values = head[3 + start].removesuffix(" Avg"), " / ".join(cells[start : start + 4])
            yield from figures("lopa-table4", f"{model} {setting}", task, values, "Avg/Max/Top-10/Score")
    head, *lines = tables(section(notes, "9.6"))[0]
    for model, task, *cells in lines:
        yield from figures("lopa-table5", model, task, "/".join(cells), "/".join(head[2:]))
    head, *lines = tables(section(notes, "9.7"))[0]
    for settings, _, _, *cells in lines:
        for name, tau in zip(settings.split(" / "), cells[-2].split("/"), strict=True):
            values = "/".join([*cells[:-2], f"0{tau}", f"0{tau}"])
            yield from figures("lopa-table6", name, "", values, "/".join(head[3:]))
    body = section(notes, "9.9")
    point = r"(\S+) at (\d+): (?:TPF )?([\d.]+), (?:score )?([\d.]+?)[;.]\s"
    labelled = {(task.lower(), at): f"{tpf}/{score}" for task, at, tpf, score in re.findall(point, body)}
    for (task, at), pair in labelled.items():
        yield from figures("lopa-figure4", f"{at} branches", task, pair, "TPF/Score")
    head, *lines = tables(body)[0]
    curves = [word.removesuffix(" TPF").lower() for word in head[1::2]]
    baselines = re.findall(r"\d[\d.]*\d", body.partition("Baseline lines: ")[2].partition("(")[0])
    for task, score in zip(curves, baselines, strict=True):
        yield from figures("lopa-figure4", "baseline", task, f"1/{score}", "TPF/Score")
    for at, *cells in lines:
        for index, task in enumerate(curves):
            if (task, at) not in labelled:
                pair = "/".join(cells[2 * index : 2 * index + 2])
                yield from figures("lopa-figure4", f"{at} branches", task, pair, "TPF/Score", "digitised")


def d2f(notes: str) -> Iterator[Figure]:
    head, *lines = tables(section(notes, "9.12"))[0]
    for act, *cells in lines:
        for add, cell in zip((act, *head[2:]), cells, strict=True):
            yield from figures("d2f-table3", f"tau_act {act} tau_add {add}", "GSM8K 4-shot", cell, "TPS/Score")
    head, *lines = tables(section(notes, "9.13"))[0]
    for act, *cells in lines:
        for (task, noise), cell in zip(map(str.split, head[1:]), cells, strict=True):
            yield from figures("d2f-table4", f"{noise} tau_act {act}", task, cell, "TPS/Score")
    (head, *lines), ((_, *names), *others) = tables(section(notes, "9.14"))
    ablations = [(both.split()[0], [f"D2F-{both.split()[1]} {word}" for word in head[2:]], one) for both, *one in lines]
    ablations += [("6", [name.partition(" (")[0] for name in names], one) for one in others]
    for number, rows, (task, *cells) in ablations:
        for row, cell in zip(rows, cells, strict=True):
            yield from figures(f"d2f-table{number}", row, task, cell, "TPS/Latency/Gen_length/Score")
    head, *lines = tables(section(notes, "9.15"))[0]
    for model, task, *cells in lines:
        for column, cell in zip(head[2:], cells, strict=True):
            kind, _, words = column.partition(" ")
            yield from figures("d2f-table8", f"{model} {kind}", task, cell, words)
    names = []
    for task, words in re.findall(r"(\w+ \d-shot): ([^:]*?\d)\.\s", section(notes, "9.16").partition("Figure 2")[0]):
        for short, value in (one.rsplit(" ", 1) for one in words.split(", ")):
            names.append(next((name for name in names if name.startswith(short)), short))  # short the second time
            yield from figures("d2f-figure1", names[-1], task, value, "TPS")


def fast_dllm(notes: str) -> Iterator[Figure]:
    for number, table in (("9.17", "table1"), ("9.18", "table2")):
        head, *lines = tables(section(notes, number))[0]
        for task, length, *cells in lines:
            for word, cell in zip(head[2:], cells, strict=True):
                yield from figures(f"fast-dllm-{table}", f"{word} {length}", task, cell, "Score/TPS")
    head, *lines = tables(body := section(notes, "9.19"))[0]
    for numbers, setting, *cells in lines:
        shots, length = setting.split(", length ")
        for number in numbers.split(" and "):
            for word, cell in zip(head[2:], cells, strict=True):
                row = f"{word} {shots} {length}"
                yield from figures(f"fast-dllm-table{number}", row, f"GSM8K {shots}", cell, "Score/TPS")
    labels = re.findall(r"\d\.\d\d", body.partition("down to 0.5: ")[2].partition(" Tables")[0])
    for index, value in enumerate(labels, start=1):
        yield from figures("fast-dllm-figure5", f"label {index} of {len(labels)}", "GSM8K 5-shot", value, "TPF")


@pytest.mark.parametrize("paper", PAPERS)
def test_the_files_hold_the_figures_of_the_notes_and_no_others(reference_dir: Path, paper: str) -> None:
    if not (file := reference_dir / "decoders.md").exists():
        pytest.skip("reference notes (decoders.md) not found")
    notes = file.read_text(encoding="utf-8")
    told = {one for read in (grids, lopa, d2f, fast_dllm) for one in read(notes) if one[0].startswith(f"{paper}-")}
    says_shots = {one[:4] for one in told if one[5]}
    shipped = set()
    with (FOLDER / f"{paper}.csv").open(newline="", encoding="utf-8") as lines:
        for raw in csv.DictReader(lines):
            row = PublishedRow.model_validate(raw)
            key = (row.table_id, row.row, row.task, row.metric)
            shots = row.settings.get("num_fewshot", "") if key in says_shots else ""
            shipped.add((*key, raw["value"], shots, row.kind))
    assert sorted(told - shipped) == [] and sorted(shipped - told) == []
