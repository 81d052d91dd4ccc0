"""What a user installs holds every package and every data file."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from lopa_bench.harness import source_state
from lopa_bench.harness.build_hook import write_commit

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("cli", "decoders", "harness", "models", "results", "tasks")


@pytest.fixture(scope="module")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A freshly built wheel."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> list[str]:
    """Names inside it."""
    return zipfile.ZipFile(wheel_file).namelist()


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


def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def recent_commits() -> list[str | None]:
    """Commits that may have been the tree's a moment ago, as somebody may commit meanwhile; None without git."""
    return [*git(ROOT, "log", "-20", "--format=%H").split()] if (ROOT / ".git").exists() else [None]


def installed(folder: Path, built: bytes | None) -> ModuleType:
    """`source_state` as it is once it is installed in `folder`, with the file that the wheel has beside it."""
    path = folder / "lopa_bench" / "harness" / "source_state.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(Path(source_state.__file__).read_bytes())
    if built is not None:
        (path.parent / source_state.BUILT_FROM).write_bytes(built)
    spec = importlib.util.spec_from_file_location("installed_source_state", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_an_installed_wheel_names_its_commit_and_the_source_tree_is_left_alone(
    wheel_file: Path, tmp_path: Path
) -> None:
    built = zipfile.ZipFile(wheel_file).read(f"lopa_bench/harness/{source_state.BUILT_FROM}")
    commit, changed = installed(tmp_path, built).git_state()
    assert commit == json.loads(built)["git_commit"] and commit in recent_commits()
    assert isinstance(changed, type(source_state.ask_git(ROOT)[1]))
    assert not (ROOT / "harness" / source_state.BUILT_FROM).exists()


def test_a_source_tree_asks_git_for_commit_and_changes(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "--quiet", "-m", "a")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert source_state.ask_git(tmp_path) == (commit, False)
    (tmp_path / "a").write_text("2")
    assert source_state.ask_git(tmp_path) == (commit, True)
    write_commit(tmp_path, tmp_path)
    assert source_state.read_state(tmp_path / source_state.BUILT_FROM) == (commit, True)
    assert installed(tmp_path / "site", (tmp_path / source_state.BUILT_FROM).read_bytes()).source_words() == (
        f"commit {commit[:10]}, changed"
    )


@pytest.mark.slow
def test_a_source_archive_holds_its_commit_for_the_wheels_that_are_built_from_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from setuptools.build_meta import build_sdist; import sys; build_sdist(sys.argv[1])",
    ]
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [tree] = (tmp_path / "unpacked").iterdir()
    assert source_state.ask_git(tree) == (None, None)
    write_commit(tree, tmp_path)
    assert source_state.read_state(tmp_path / source_state.BUILT_FROM)[0] in recent_commits()
    assert not (ROOT / "harness" / source_state.BUILT_FROM).exists()


def test_a_wheel_that_was_built_without_git_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    git(tmp_path, "init", "--quiet")  # a repository around the unpacked sources is not theirs
    sources = tmp_path / "sources"
    sources.mkdir()
    with caplog.at_level(logging.WARNING):
        write_commit(sources, sources)
    assert "built without git: runs of this installation will name no commit" in caplog.text
    wheel = installed(tmp_path / "site", (sources / source_state.BUILT_FROM).read_bytes())
    assert wheel.git_state() == (None, None) and wheel.source_words() == "commit unknown: built without git"
    assert installed(tmp_path / "other", None).source_words() == "commit unknown: no git here"


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
