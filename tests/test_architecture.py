"""The house holds: imports go downwards only, heavy packages stay where they belong, files and functions stay small."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "models": {"models"},
    "decoders": {"decoders", "models"},
    "tasks": {"tasks"},
    "results": {"results"},
    "harness": {"harness", "decoders", "models", "tasks", "results"},
    "cli": {"cli", "harness", "decoders", "models", "tasks", "results"},
}
HEAVY = {"torch", "transformers", "lm_eval", "pandas", "matplotlib", "datasets", "peft", "scipy", "evalplus", "numpy"}


def sources(folder: str) -> Iterator[Path]:
    yield from (ROOT / folder).rglob("*.py")


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module with whether it is imported at the top of the file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or "", id(node) in top


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_go_downwards(folder: str) -> None:
    for path in sources(folder):
        for module, _ in imported(path):
            parts = module.split(".")
            if parts[0] != "lopa_bench" or parts[1:2] == ["errors"]:
                continue
            assert parts[1] in MAY_IMPORT[folder], f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("folder", ["tasks", "results"])
def test_torch_stays_out_of(folder: str) -> None:
    for path in sources(folder):
        assert not any(module.split(".")[0] == "torch" for module, _ in imported(path)), path


def test_commands_import_nothing_heavy_at_their_top() -> None:
    for path in [*sources("cli"), ROOT / "errors.py"]:
        for module, at_top in imported(path):
            assert not (at_top and module.split(".")[0] in HEAVY), f"{path.relative_to(ROOT)} imports {module}"


def functions() -> Iterator[tuple[str, int]]:
    for folder in MAY_IMPORT:
        for path in sources(folder):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{path.relative_to(ROOT)}:{node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_functions_and_files_stay_small() -> None:
    lengths = dict(functions())
    assert [name for name, length in lengths.items() if length > 80] == []
    assert statistics.median(lengths.values()) <= 10
    files = [path for folder in MAY_IMPORT for path in sources(folder)]
    assert [path for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 300] == []


def test_no_word_that_belongs_elsewhere() -> None:
    """No absolute path of a machine, no unfinished work."""
    words = ("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error", "/wo" + "rk/", "/ro" + "ot/")
    for folder in [*MAY_IMPORT, "benchmarks", "docs"]:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md"):
                text = path.read_text(encoding="utf-8")
                assert not [word for word in words if word in text], path
