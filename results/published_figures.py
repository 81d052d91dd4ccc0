"""The published figures: every table of the three papers as rows of CSV, each quoted with paper, table and row.

The files lie in `results/published/`, one per paper. A figure is "quoted" where the paper prints it and "digitised"
where it was read off a plot. None of them was measured by this program.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from lopa_bench.errors import ResultsError, nearest

FOLDER = Path(__file__).resolve().parent / "published"

Kind = Literal["quoted", "digitised"]


@dataclass(frozen=True)
class Paper:
    """Where figures were printed, and the versions of the libraries that its programs pin."""

    id: str
    title: str
    pins: Mapping[str, str]


_PINS = MappingProxyType({"lm-eval": "0.4.8", "transformers": "4.49.0"})
PAPERS: Mapping[str, Paper] = MappingProxyType(
    {
        "lopa": Paper("lopa", "LoPA, arXiv 2512.16229", _PINS),
        "d2f": Paper("d2f", "D2F, arXiv 2508.09192", _PINS),
        "fast-dllm": Paper("fast-dllm", "Fast-dLLM, arXiv 2505.22618", _PINS),
    }
)

# What was measured, with its unit and the range it must lie in.
MEASURED: Mapping[str, tuple[str, float, float]] = MappingProxyType(
    {
        "score": ("%", 0, 100),
        "tpf": ("tokens/forward", 0.5, 50),
        "tps": ("tokens/s", 0.1, 5000),
        "tps_mean": ("tokens/s", 0.1, 5000),
        "tps_max": ("tokens/s", 0.1, 5000),
        "tps_top10": ("tokens/s", 0.1, 5000),
        "latency_s": ("s", 0.01, 1000),
        "gen_length": ("tokens", 1, 2048),
    }
)
# What was set.
SET: Mapping[str, tuple[str, float, float]] = MappingProxyType(
    {
        "num_fewshot": ("shots", 0, 8),
        "max_new_tokens": ("tokens", 1, 2048),
        "block_size": ("tokens", 1, 2048),
        "tau_add": ("share", 0, 1),
        "tau_act": ("share", 0, 1),
        "tau_conf": ("probability", 0, 1),
        "branches": ("branches", 1, 64),
        "tensor_parallel": ("devices", 1, 64),
        "branch_parallel": ("branches", 1, 64),
    }
)
FIGURES: Mapping[str, tuple[str, float, float]] = MappingProxyType({**MEASURED, **SET})


class PublishedRow(BaseModel):
    """One figure.

    `table` and `row` are as printed ("Table 1", "D2F-Dream LoPA"), `task` is this program's name ("" for a setting of
    all tasks), `decoder` too, where it knows it. `settings` holds what the paper says of this row beside its figures,
    `hardware` among it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    paper: str
    table: str
    row: str
    model: str
    task: str
    decoder: str
    settings: dict[str, str]
    metric: str
    value: float
    unit: str
    kind: Kind
    note: str = ""

    @field_validator("settings", mode="before")
    @classmethod
    def _split(cls, text: object) -> object:
        """Read "key=value; key=value"."""
        if not isinstance(text, str):
            return text
        pairs = (word.partition("=") for word in text.split("; ") if word)
        return {key: value for key, _, value in pairs}

    @model_validator(mode="after")
    def _in_range(self) -> PublishedRow:
        if self.paper not in PAPERS:
            raise ValueError(f"paper '{self.paper}' is unknown")
        if not (self.table and self.row):
            raise ValueError("without a table and a row there is no source")
        if self.metric not in FIGURES:
            raise ValueError(f"metric '{self.metric}' is unknown{nearest(self.metric, FIGURES)}")
        unit, low, high = FIGURES[self.metric]
        if self.unit != unit or not low <= self.value <= high:
            raise ValueError(f"{self.metric} = {self.value} {self.unit} is not {low} to {high} {unit}")
        return self

    @property
    def table_id(self) -> str:
        """Paper and table in one word: `lopa-table1`."""
        return f"{self.paper}-{slug(self.table).replace('-', '')}"

    @property
    def cell_id(self) -> str:
        """Table, row and task: what one preset reproduces, as `lopa-table1/d2f-dream-lopa/gsm8k`."""
        return f"{self.table_id}/{slug(self.row)}/{self.task}"

    @property
    def source(self) -> str:
        """Paper, table and row in words."""
        return f"{PAPERS[self.paper].title}, {self.table}, {self.row}"

    @property
    def is_measured(self) -> bool:
        """Whether it is a result and not a setting."""
        return self.metric in MEASURED


@dataclass(frozen=True)
class PublishedCell:
    """All figures of one row of a table for one task."""

    id: str
    rows: tuple[PublishedRow, ...]

    @property
    def first(self) -> PublishedRow:
        """Any of the rows, for what they share."""
        return self.rows[0]

    @cached_property
    def figures(self) -> dict[str, PublishedRow]:
        """The figures by metric."""
        return {row.metric: row for row in self.rows}


def slug(text: str) -> str:
    """Return words of a table in small letters, joined by dashes; a plus stays, since it tells `+Cache` apart."""
    return re.sub(r"[^a-z0-9.+]+", "-", text.lower()).strip("-")


def read_published(file: Path) -> list[PublishedRow]:
    """Read one file of figures.

    Raises:
        ResultsError: a line that is not a figure with its source, or a figure that stands there twice.
    """
    rows: list[PublishedRow] = []
    seen: dict[tuple[str, str], int] = {}
    with file.open(newline="", encoding="utf-8") as lines:
        for number, raw in enumerate(csv.DictReader(lines), start=2):
            try:
                row = PublishedRow.model_validate(raw)
            except ValidationError as error:
                fault = error.errors()[0]
                place = ".".join(map(str, fault["loc"]))
                raise ResultsError(
                    f"{file.name}, line {number}: {place + ': ' if place else ''}{fault['msg']}"
                ) from None
            key = (row.cell_id, row.metric)
            if key in seen:
                raise ResultsError(f"{file.name}, line {number}: {' '.join(key)} stands in line {seen[key]} already")
            seen[key] = number
            rows.append(row)
    return rows


@cache
def published() -> tuple[PublishedRow, ...]:
    """Return all figures, paper by paper, in the order of their tables."""
    return tuple(row for paper in PAPERS for row in read_published(FOLDER / f"{paper}.csv"))


def cells(rows: Iterable[PublishedRow] | None = None) -> list[PublishedCell]:
    """Return figures by row and task; only what was measured."""
    found: dict[str, list[PublishedRow]] = {}
    for row in published() if rows is None else rows:
        if row.is_measured:
            found.setdefault(row.cell_id, []).append(row)
    return [PublishedCell(id, tuple(group)) for id, group in found.items()]


def table_ids() -> list[str]:
    """Return the name of every table, as `reproduce` takes it."""
    return list(dict.fromkeys(row.table_id for row in published()))


def select(
    table: str | None = None, *, paper: str | None = None, rows: Sequence[str] = (), tasks: Sequence[str] = ()
) -> list[PublishedRow]:
    """Return the figures of a paper or table, of some of its rows and tasks.

    A row is named as printed, in any spelling of its words, or by words that only it or a few rows have.

    Raises:
        ResultsError: nothing goes by that name; the nearest is named.
    """
    found = list(published())
    if paper is not None:
        found = _named(found, "paper", paper.lower(), lambda row: row.paper)
    if table is not None:
        found = _named(found, "table", table.lower(), lambda row: row.table_id)
    if rows:
        found = _unique(row for wanted in rows for row in _matching_rows(found, wanted))
    if tasks:
        found = _unique(row for wanted in tasks for row in _named(found, "task", wanted, lambda row: row.task))
    return found


def _unique(rows: Iterable[PublishedRow]) -> list[PublishedRow]:
    return list({(row.cell_id, row.metric): row for row in rows}.values())


def _named(
    rows: Sequence[PublishedRow], what: str, wanted: str, name: Callable[[PublishedRow], str]
) -> list[PublishedRow]:
    """Return the rows that `name` gives the wanted name."""
    found = [row for row in rows if name(row) == wanted]
    if not found:
        names = dict.fromkeys(name(row) for row in rows if name(row))
        raise ResultsError(f"no {what} of published figures is called '{wanted}'{nearest(wanted, names)}; "
                           f"there are {', '.join(names)}")  # fmt: skip
    return found


def _matching_rows(rows: Sequence[PublishedRow], wanted: str) -> list[PublishedRow]:
    """Return the rows of that name; failing that, those that have all its words."""
    name = slug(wanted)
    exact = [row for row in rows if slug(row.row) == name]
    words = set(name.split("-"))
    found = exact or [row for row in rows if words <= set(slug(row.row).split("-"))]
    if not found:
        names = dict.fromkeys(row.row for row in rows)
        raise ResultsError(f"no row of published figures is called '{wanted}'{nearest(wanted, names)}; "
                           f"there are {', '.join(names)}")  # fmt: skip
    return found
