"""A baseline on disk: read with every damage told, written so that a diff can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lopa_bench.errors import ResultsError, SchemaTooNew
from lopa_bench.results import jsonl
from lopa_bench.results.comparison.baseline import BASELINE_VERSION, Baseline, figures_of
from lopa_bench.results.comparison.bounds import ROUNDING
from lopa_bench.results.upgrades import check_version, upgrade


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file.

    Raises:
        ResultsError: it is damaged, or was edited so that its figures no longer follow from its samples.
        SchemaTooNew: a later program wrote it.
    """
    with jsonl.sentence_on_os_error("read", path):
        raw = path.read_bytes()
    advice = "restore it from version control or write it anew with `lopa-bench baseline accept`"
    try:
        document: Any = jsonl.parse_json(raw)
        if not isinstance(document, dict) or not {"baseline_version", "cells"} <= set(document):
            raise ValueError("it holds no baseline_version and cells, so it is no baseline file")
        version = document["baseline_version"]
        if isinstance(version, int) and version > BASELINE_VERSION:
            raise SchemaTooNew(
                f"baseline {path} has version {version}, this program reads up to {BASELINE_VERSION}; upgrade it"
            )
        for name, cell in document["cells"].items():
            cell["run"] = upgrade("run", cell["run"], check_version(cell["run"], f"{path}, {name}"))
        baseline = Baseline.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ResultsError(f"baseline {path} is damaged at {where}: {first['msg']}; {advice}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ResultsError(f"baseline {path} is damaged: {error}; {advice}") from error
    for name, cell in baseline.cells.items():
        if not _agree(cell.figures, figures_of(cell.samples)):
            raise ResultsError(
                f"baseline {path} was edited: the figures of {name} do not follow from its samples; {advice}"
            )
    return baseline


def _agree(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> bool:
    if set(one) != set(other):
        return False
    return all(
        value == other[name]
        or (value is not None and abs(value - (other[name] or 0.0)) <= ROUNDING * max(1, abs(value)))
        for name, value in one.items()
    )


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline so that a diff shows problem by problem what changed."""
    with jsonl.sentence_on_os_error("make", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    jsonl.replace_file(path, (pretty(baseline.model_dump(mode="json")) + "\n").encode())


def pretty(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for every member of an object; flat lists and settings stand on one line."""
    inner = " " * (indent + 1)
    flat = isinstance(value, dict) and set(value) == {"value", "origin"}
    if isinstance(value, dict) and value and not flat:
        members = (f"{inner}{json.dumps(key)}: {pretty(one, indent + 1)}" for key, one in value.items())
        return "{\n" + ",\n".join(members) + "\n" + " " * indent + "}"
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        items = (inner + pretty(one, indent + 1) for one in value)
        return "[\n" + ",\n".join(items) + "\n" + " " * indent + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
