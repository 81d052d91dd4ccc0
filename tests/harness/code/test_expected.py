from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.harness.code.expected import ExpectedOutputs, encoded_inputs, private_folder
from lopa_bench.harness.code.judge import SOLUTION_LIMITS
from lopa_bench.harness.sandbox.plain_values import decode
from lopa_bench.harness.sandbox.sandbox import Sandbox
from lopa_bench.tasks.code_data import load_code_data

ROW: dict[str, Any] = {
    "task_id": "Own/1",
    "prompt": "def f(x):\n",
    "canonical_solution": "    return [x] * 10**6 if x > 9 else (x,)\n",
    "entry_point": "f",
    "base_input": [[1]],
    "plus_input": [[2], [10]],
    "atol": 0,
}


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(SOLUTION_LIMITS)


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_outputs_are_computed_kept_and_read_again(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ExpectedOutputs(sandbox, "humaneval", "sha", tmp_path).get(ROW)
    assert decode(first["base"].outputs[0].data) == (1,)
    assert first["plus"].outputs[1].digest is not None
    (file,) = kept(tmp_path)
    assert file.stat().st_size < 2000, "a million numbers kept as a digest"

    monkeypatch.setattr(Sandbox, "open", None)  # nothing is run a second time
    assert ExpectedOutputs(sandbox, "humaneval", "sha", tmp_path).get(ROW) == first


@pytest.mark.parametrize("content", ["", "{", "[]", '{"base": [], "plus": []}', '{"base": [{"x": 1}], "plus": []}'])
def test_a_damaged_file_is_written_anew(sandbox: Sandbox, tmp_path: Path, content: str) -> None:
    first = ExpectedOutputs(sandbox, "humaneval", "sha", tmp_path).get(ROW)
    (file,) = kept(tmp_path)
    whole = file.read_text()
    file.write_text(content)
    again = ExpectedOutputs(sandbox, "humaneval", "sha", tmp_path).get(ROW)
    assert [output.data for output in again["plus"].outputs] == [output.data for output in first["plus"].outputs]
    assert len(file.read_text()) > len(content)
    assert len(kept(tmp_path)) == 1
    assert whole


def test_another_data_file_has_outputs_of_its_own(sandbox: Sandbox, tmp_path: Path) -> None:
    for sha in ("one", "two"):
        ExpectedOutputs(sandbox, "humaneval", sha, tmp_path).get(ROW)
    assert len(kept(tmp_path)) == 2


def test_nowhere_to_keep_them_is_no_failure(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (None, tmp_path / "file"):
        assert len(ExpectedOutputs(sandbox, "humaneval", "sha", folder).get(ROW)["plus"].outputs) == 2


def test_the_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = private_folder()
    assert folder == tmp_path / "lopa-bench" / "expected"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    assert private_folder() != folder, "a folder that others may read is not used"


def test_tuples_and_sets_of_mbpp_reach_the_program(data_dir: Path) -> None:
    rows = {row["task_id"]: row for row in load_code_data("mbpp+", data_dir).rows}
    assert decode(encoded_inputs("mbpp", rows["Mbpp/2"], "base")[0][0]) == (3, 4, 5, 6)
    assert type(decode(encoded_inputs("mbpp", rows["Mbpp/252"], "base")[0][0])) is complex
    assert encoded_inputs("mbpp", rows["Mbpp/793"], "plus") == ()
