"""What HumanEval+ and MBPP+ expect: the outputs of their canonical solutions, worked out here and kept.

The data sets bring inputs and solutions but no outputs. They are computed in the sandbox on first need and kept in a
private folder per problem, as text: outputs too big to keep are kept as digests, some kilobytes where pickles of the
same would take a gigabyte.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lopa_bench.errors import ScorerError
from lopa_bench.harness.code.compare import only_not_none
from lopa_bench.harness.sandbox import plain_values
from lopa_bench.harness.sandbox.program import Output
from lopa_bench.harness.sandbox.sandbox import Sandbox

CALL_S = 60.0
LOAD_S = 30.0


@dataclass(frozen=True)
class Expected:
    """One half of a problem's tests: encoded arguments, expected outputs (with the processor time each took)."""

    arguments: tuple[Any, ...]
    outputs: tuple[Output, ...]


def private_folder() -> Path | None:
    """Return a folder that only this user can read or write, or None where there can be none."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    for base in (home, Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"):
        folder = base / "lopa-bench" / "expected"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = folder.stat()
            if state.st_uid == os.getuid() and not stat.S_IMODE(state.st_mode) & 0o077:
                return folder
    return None


class ExpectedOutputs:
    """The expected outputs of one data set, problem by problem.

    Args:
        sandbox: where the canonical solutions are run; its limits must leave them room.
        family: "humaneval" or "mbpp".
        data_sha256: identifies the data set; another file's outputs are never used.
        folder: where they are kept; None keeps them in memory only.
    """

    def __init__(self, sandbox: Sandbox, family: str, data_sha256: str, folder: Path | None) -> None:
        self._sandbox = sandbox
        self._family = family
        self._folder = folder and folder / _key(family, data_sha256)
        self._known: dict[str, dict[str, Expected]] = {}

    def get(self, row: dict[str, Any]) -> dict[str, Expected]:
        """Return the "base" and "plus" tests of a problem.

        Raises:
            ScorerError: the canonical solution does not run here.
        """
        name = row["task_id"]
        if name not in self._known:
            arguments = {half: encoded_inputs(self._family, row, half) for half in ("base", "plus")}
            outputs = self._read(row, arguments) or self._compute(row, arguments)
            self._known[name] = {half: Expected(arguments[half], outputs[half]) for half in arguments}
        return self._known[name]

    def _compute(self, row: dict[str, Any], arguments: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Output, ...]]:
        source = row["prompt"] + row["canonical_solution"]
        calls = [*arguments["base"], *arguments["plus"]]
        with self._sandbox.open() as program:
            loaded = program.load(source, LOAD_S)
            if loaded.why:
                raise ScorerError(f"the canonical solution of {row['task_id']} does not run here: {loaded.error}")
            outputs = list(program.call(row["entry_point"], calls, [CALL_S] * len(calls)))
        if len(outputs) < len(calls) or outputs[-1].why:
            raise ScorerError(f"the canonical solution of {row['task_id']} fails here: {outputs[-1].error}")
        if only_not_none(self._family, row["entry_point"]):
            outputs = [replace(one, data=one.data is not None, digest=None, type_name="bool") for one in outputs]
        num_base = len(arguments["base"])
        halves = {"base": tuple(outputs[:num_base]), "plus": tuple(outputs[num_base:])}
        self._write(row, halves)
        return halves

    def _path(self, row: dict[str, Any]) -> Path | None:
        return self._folder and self._folder / f"{row['task_id'].replace('/', '-')}.json"

    def _read(self, row: dict[str, Any], arguments: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Output, ...]] | None:
        """Return what is kept for a problem, or None when there is nothing or it is not whole."""
        path = self._path(row)
        if path is None:
            return None
        try:
            stored = json.loads(path.read_bytes())
            outputs = {half: tuple(Output(**one) for one in stored[half]) for half in arguments}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return outputs if all(len(outputs[half]) == len(arguments[half]) for half in arguments) else None

    def _write(self, row: dict[str, Any], outputs: dict[str, tuple[Output, ...]]) -> None:
        path = self._path(row)
        if path is None:
            return
        text = json.dumps({half: [asdict(one) for one in ones] for half, ones in outputs.items()})
        with contextlib.suppress(OSError):  # a full disk costs time, not verdicts
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                file.write(text)
            Path(file.name).replace(path)


def _key(family: str, data_sha256: str) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = f"{family} {data_sha256} python {version} format {plain_values.FORMAT}"
    return f"{family}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def encoded_inputs(family: str, row: dict[str, Any], half: str) -> tuple[Any, ...]:
    """Return the argument lists of one half of the tests, as the child is sent them."""
    inputs: Sequence[Any] = list(row[f"{half}_input"])
    if family == "mbpp":
        from evalplus.data.mbpp import mbpp_deserialize_inputs  # JSON has no tuples, sets and complex numbers

        inputs = mbpp_deserialize_inputs(row["task_id"], inputs)
    return tuple([plain_values.encode(argument) for argument in arguments] for arguments in inputs)
