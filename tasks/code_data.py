"""The problems of HumanEval, HumanEval+, MBPP and MBPP+, from local files or, when asked, from their publishers.

A file that is not what it should be is told by file, line, what was found and its sha256 against the known releases.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lopa_bench.errors import ConfigError, TaskDataError, nearest

Row = dict[str, Any]
Kinds = type | tuple[type, ...]
MBPP_TEST = range(11, 511)
"""The task ids of MBPP's test split; the others are for prompts, validation and training."""


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set.

    `stem` is the file's name without `.jsonl` or `.jsonl.gz`; `fields` what every row must have, with its type; `known`
    the releases by the sha256 of the uncompressed file; `hub` where it is published.
    """

    name: str
    stem: str
    num_rows: int
    fields: Mapping[str, Kinds]
    known: Mapping[str, str]
    hub: str


@dataclass(frozen=True)
class CodeData:
    """The rows of a data set and what identifies them; `release` is None for a file that is none of the known ones."""

    rows: tuple[Row, ...]
    source: str
    sha256: str
    release: str | None

    def card(self) -> dict[str, Any]:
        """Return what a run record keeps of it."""
        release = self.release or "unknown release"
        return {"source": self.source, "num_rows": len(self.rows), "sha256": self.sha256, "release": release}


_PROGRAM: dict[str, Kinds] = {"task_id": str, "prompt": str, "entry_point": str, "canonical_solution": str}
_INPUTS: dict[str, Kinds] = {"base_input": list, "plus_input": (list, dict), "atol": (int, float)}

DATA_SETS: Mapping[str, DataSet] = MappingProxyType(
    {
        one.name: one
        for one in (
            DataSet(
                "humaneval", "HumanEval", 164, {**_PROGRAM, "test": str},
                {"1d49078ba3e2b196b9344535bef34a43021f038fad9561d6ee7c53450609a6a2": "openai/human-eval @ 6d43fb9"},
                "openai/openai_humaneval",
            ),
            DataSet(
                "humaneval+", "HumanEvalPlus-v0.1.10", 164, {**_PROGRAM, **_INPUTS},
                {"42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f": "HumanEval+ v0.1.10",
                 "78fbba8865b20c5a979cda6e02fd72538e1762e65980af7d1a6e93c3e87e93af": "HumanEval+ v0.1.10 mini"},
                "evalplus/humanevalplus_release",
            ),
            DataSet(
                "mbpp", "mbpp", 974,
                {"task_id": int, "text": str, "code": str, "test_list": list, "test_setup_code": str},
                {"ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f": "google-research mbpp"},
                "google-research-datasets/mbpp",
            ),
            DataSet(
                "mbpp+", "MbppPlus-v0.2.0", 378, {**_PROGRAM, **_INPUTS, "assertion": str},
                {"b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad": "MBPP+ v0.2.0"},
                "evalplus/mbppplus_release",
            ),
        )
    }
)  # fmt: skip


def load_code_data(name: str, data_dir: Path | None = None) -> CodeData:
    """Return a data set's test problems in their order.

    Args:
        name: "humaneval", "humaneval+", "mbpp" or "mbpp+".
        data_dir: the folder with `HumanEval.jsonl.gz` and the like, compressed or not; None fetches from the hub.

    Raises:
        ConfigError: no such data set.
        TaskDataError: the file is absent, damaged, cut short or of another kind, or cannot be fetched.
    """
    if name not in DATA_SETS:
        raise ConfigError(
            f"no code data are called '{name}'{nearest(name, DATA_SETS)}; there are {', '.join(DATA_SETS)}"
        )
    data_set = DATA_SETS[name]
    data = fetch(data_set) if data_dir is None else read_file(data_set, find_file(data_set, data_dir))
    if name == "mbpp":
        rows = tuple(row for row in data.rows if row["task_id"] in MBPP_TEST)
        data = CodeData(rows, data.source, data.sha256, data.release)
    return data


def find_file(data_set: DataSet, data_dir: Path) -> Path:
    """Return the file of a data set in a folder; TaskDataError says what was looked for and what is there."""
    if not data_dir.is_dir():
        raise TaskDataError(
            f"data folder {data_dir} does not exist; give the folder that holds {data_set.stem}.jsonl.gz"
        )
    for suffix in (".jsonl.gz", ".jsonl", ".parquet"):
        if (path := data_dir / f"{data_set.stem}{suffix}").is_file():
            return path
    names = sorted(entry.name for entry in data_dir.iterdir())
    listing = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"
    raise TaskDataError(
        f"no {data_set.name} data in {data_dir}: looked for {data_set.stem}.jsonl.gz, .jsonl and .parquet, "
        f"found {listing}"
    )


def read_file(data_set: DataSet, path: Path) -> CodeData:
    """Read and check one file; TaskDataError names the line and what was found in it."""
    if path.suffix == ".parquet":
        numbered, sha256 = _read_parquet(path)
    else:
        numbered, sha256 = _read_lines(data_set, path)
    identity = _identity(data_set, sha256)
    for number, row in numbered:
        _check_row(data_set, path, number, row, identity)
    if len(numbered) != data_set.num_rows:
        raise TaskDataError(
            f"data file {path} holds {len(numbered)} problems, {data_set.name} has {data_set.num_rows}; {identity}; "
            "fetch it again"
        )
    rows = tuple(row for _, row in numbered)
    return CodeData(rows, str(path), sha256, data_set.known.get(sha256))


def _identity(data_set: DataSet, sha256: str) -> str:
    if sha256 in data_set.known:
        return f"its sha256 {sha256[:12]} is that of {data_set.known[sha256]}"
    known = ", ".join(f"{sha[:12]} {release}" for sha, release in data_set.known.items())
    return f"its sha256 {sha256[:12]} is none of the known ones ({known})"


def _read_lines(data_set: DataSet, path: Path) -> tuple[list[tuple[int, Row]], str]:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if os.access(path, os.R_OK) else "unknown"
        raise TaskDataError(
            f"data file {path} is damaged: {error}; the sha256 of the compressed file is {sha256[:12]}; fetch it again"
        ) from error
    sha256 = hashlib.sha256(content).hexdigest()
    numbered = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:  # not JSON, or not text
            start = line[:40].decode(errors="replace").strip()
            raise TaskDataError(
                f"data file {path} is damaged at line {number}: not JSON ({error}), it starts with {start!r}; "
                f"{_identity(data_set, sha256)}; fetch it again"
            ) from error
        if not isinstance(row, dict):
            raise TaskDataError(f"data file {path} is damaged at line {number}: a {type(row).__name__}, not an object")
        numbered.append((number, row))
    return numbered, sha256


def _read_parquet(path: Path) -> tuple[list[tuple[int, Row]], str]:
    from pyarrow import ArrowInvalid, parquet  # type: ignore[import-untyped]

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowInvalid) as error:
        raise TaskDataError(f"data file {path} is damaged: {error}; fetch it again") from error
    return list(enumerate(rows, start=1)), hashlib.sha256(path.read_bytes()).hexdigest()


def _check_row(data_set: DataSet, path: Path, number: int, row: Row, identity: str) -> None:
    for field, kind in data_set.fields.items():
        value = row.get(field)
        if field == "atol" and isinstance(value, str):
            value = row["atol"] = float(value)
        if not isinstance(value, kind):
            found = "no such field" if field not in row else f"a {type(value).__name__}"
            raise TaskDataError(
                f"data file {path}, line {number}: field '{field}' of {data_set.name} is missing or of another kind "
                f"({found}); found the fields {', '.join(map(str, row)) or 'none'}; {identity}"
            )


def fetch(data_set: DataSet) -> CodeData:
    """Return a data set from where it is published; TaskDataError when it cannot be had."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise TaskDataError(
            f"the data of {data_set.name} ({data_set.hub}) would have to be fetched: no network, or offline was asked for; "
            f"give a folder with {data_set.stem}.jsonl.gz: --data-dir"
        )
    load: Callable[[DataSet], CodeData] = _fetch_release if data_set.name.endswith("+") else _fetch_from_hub
    try:
        return load(data_set)
    except TaskDataError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TaskDataError(
            f"the data of {data_set.name} ({data_set.hub}) could not be fetched: {reason}; "
            f"give a folder with {data_set.stem}.jsonl.gz: --data-dir"
        ) from error


def _fetch_from_hub(data_set: DataSet) -> CodeData:
    import datasets

    config = "full" if data_set.name == "mbpp" else None
    rows = [dict(row) for row in datasets.load_dataset(data_set.hub, config, split="test")]
    content = "\n".join(json.dumps(row, sort_keys=True) for row in rows)
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    return CodeData(tuple(rows), data_set.hub, sha256, "hub")


def _fetch_release(data_set: DataSet) -> CodeData:
    """Let the evalplus package download the release into its own cache, and read it from there."""
    from evalplus.data.utils import get_dataset_metadata, make_cache

    package, _, version = data_set.stem.rpartition("-")
    url, path = get_dataset_metadata(package, version, mini=False)
    make_cache(url, path)
    return read_file(data_set, Path(path))
