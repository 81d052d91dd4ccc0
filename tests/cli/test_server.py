"""`lopa-bench run --decoder server` from outside: tables without a TPF, mistakes in a line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_server import Behaviour, serving

from lopa_bench.cli import app as program

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lopa_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            program.main(list(words))
        return int(caught.value.code or 0), *capsys.readouterr()

    return call


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    return ["run", "-t", "mini-maths", "-d", "server", "-n", "3", "--runs-dir", str(tmp_path / "runs")]


def test_no_table_shows_a_tpf(lopa_bench: Call, arguments: list[str]) -> None:
    with serving(Behaviour(text="The answer is 12.")) as url:
        code, out, _ = lopa_bench(*arguments, "--base-url", url, "--json")
        metrics = json.loads(out)["summary"]["metrics"]
        assert code == 0 and metrics["tpf"]["value"] is None and metrics["tps_e2e"]["value"] > 0
        _, table, _ = lopa_bench(*arguments, "--base-url", url, "--markdown")
    heads, values = ([cell.strip() for cell in table.splitlines()[row].split("|")] for row in (0, 2))
    shown = dict(zip(heads, values, strict=True))
    assert {cell for head, cell in shown.items() if "TPF" in head} == {"n/a"}, table
    _, out, _ = lopa_bench("show", "last", "--runs-dir", arguments[-1], "--samples", "--json")
    for row in json.loads(out)["rows"]:
        assert row["tpf"] is None and row["rounds"] is None and row["useful"] == 4
    _, out, _ = lopa_bench("show", "last", "--runs-dir", arguments[-1], "--count-as", "all", "--json")
    for row in json.loads(out)["rows"]:
        assert row["tpf"] is None and row["steps"] is None


def test_a_dead_port_is_one_line_and_exit_code_2(lopa_bench: Call, arguments: list[str]) -> None:
    code, out, err = lopa_bench(*arguments, "--base-url", "http://127.0.0.1:1/v1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no server answers at http://127.0.0.1:1/v1" in err


@pytest.mark.parametrize("decoder", ["d2f", "lopa"])
def test_a_decoder_that_cannot_make_several_answers_says_so(lopa_bench: Call, decoder: str) -> None:
    assert lopa_bench("run", "-t", "mini-maths", "-d", decoder, "--batch-size", "4") == (
        2,
        "",
        "lopa-bench: --batch-size 4 is for ar, vanilla, fast-dllm; "
        f"decoder {decoder} makes one answer at a time, leave --batch-size out\n",
    )


@pytest.mark.slow
def test_an_interrupted_run_does_not_wait_for_the_server(arguments: list[str]) -> None:
    does = Behaviour(text="a b c", trouble=[None, "slow"])
    with serving(does) as url:
        command = [sys.executable, "-m", "lopa_bench.cli.app", *arguments, "--base-url", url, "--warmup", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            while len(does.requests) < 2 and running.poll() is None:
                time.sleep(0.05)
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=60) == 130
            assert not does.released.is_set(), "it waited for the answer"
        again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert json.loads(again.stdout)["new_samples"] == 2, again.stderr
