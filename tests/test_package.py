"""What a user installs holds every package and every data file."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("cli", "decoders", "harness", "models", "results", "tasks")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names inside a freshly built wheel."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = out.glob("*.whl")
    return zipfile.ZipFile(path).namelist()


@pytest.mark.slow
def test_wheel_holds_every_module(wheel: list[str]) -> None:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            assert f"lopa_bench/{path.relative_to(ROOT).as_posix()}" in wheel
    assert "lopa_bench/errors.py" in wheel


@pytest.mark.slow
def test_wheel_holds_the_bundled_models(wheel: list[str]) -> None:
    bundled = [path for path in (ROOT / "models" / "bundled").rglob("*") if path.is_file()]
    assert bundled
    for path in bundled:
        assert f"lopa_bench/{path.relative_to(ROOT).as_posix()}" in wheel


@pytest.mark.slow
def test_wheel_holds_the_published_figures(wheel: list[str]) -> None:
    for paper in ("lopa", "d2f", "fast-dllm"):
        assert f"lopa_bench/results/published/{paper}.csv" in wheel


@pytest.mark.slow
def test_wheel_holds_the_pages_templates(wheel: list[str]) -> None:
    templates = [path.name for path in (ROOT / "results" / "templates").iterdir()]
    assert {"report.html.j2", "report.md.j2", "report.tex.j2"} <= set(templates)
    for name in templates:
        assert f"lopa_bench/results/templates/{name}" in wheel


@pytest.mark.slow
def test_wheel_holds_nothing_else(wheel: list[str]) -> None:
    allowed = tuple(f"lopa_bench/{folder}/" for folder in FOLDERS)
    for name in wheel:
        inside = name.startswith(allowed) or name in ("lopa_bench/errors.py", "lopa_bench_lm_eval.pth")
        assert inside or ".dist-info/" in name, name


def test_every_folder_with_code_is_a_declared_package() -> None:
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            package = ".".join(("lopa_bench", *path.relative_to(ROOT).parent.parts))
            assert package in declared, f"{path} is in no declared package"


def test_folders_at_the_top_are_the_agreed_ones() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in listed.stdout.splitlines()}
    agreed = {*FOLDERS, "tests", "docs", "benchmarks", ".ci"}
    files = {"pyproject.toml", "README.md", "Makefile", "CHANGELOG.md", "LICENSE", "errors.py", "constraints.txt"}
    assert top <= agreed | files | {".gitignore"}
    assert agreed | files <= top
