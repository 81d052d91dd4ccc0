"""Makes the shared fakes importable; the program called from outside; tiny random checkpoints for whole runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lopa_bench.cli import app as program
from lopa_bench.harness.code.consent import VARIABLE as CONSENT

Call = Callable[..., tuple[int, str, str]]

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Run a command in an empty folder; returns exit code, stdout and stderr. Nobody's environment speaks for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "LOPA_BENCH_DATA", CONSENT):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            program.main(list(words))
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


@pytest.fixture(scope="session")
def diffusion_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny-diffusion")


@pytest.fixture(scope="session")
def causal_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny-causal", causal=True)
