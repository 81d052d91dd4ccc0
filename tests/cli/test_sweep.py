"""`lopa-bench sweep` from outside, and the page that shows it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sweeps.md"


@pytest.fixture
def small(diffusion_checkpoint: Path) -> list[str]:
    return [
        "sweep", "--task", "mini-maths", "--decoder", "d2f,lopa", "--branches", "1,2", "--model",
        str(diffusion_checkpoint), "--limit", "1", "--warmup", "0", "--max-new-tokens", "8", "--block-length", "4",
        "--threads", "1", "--name", "small",
    ]  # fmt: skip


def test_cells_are_listed_first_then_run_then_shown(call: Any, small: list[str]) -> None:
    code, out, err = call(*small)
    assert code == 0
    assert err.index("3 cells: 3 new") < err.index("cell 1 of 3: mini-maths, d2f") < err.index("cell 3 of 3: ")
    assert "branches=2" in err and "limit=1" not in err  # only what tells cells apart
    assert len(re.findall(r" ran ", out)) == 3 and "--sweep small" in err
    code, out, err = call(*small)
    assert code == 0 and len(re.findall(r" stored ", out)) == 3
    assert "nothing to generate" in err and "cell 1 of 3" not in err


def test_a_sweeps_runs_are_compared_and_set_on_a_frontier(call: Any, small: list[str]) -> None:
    call(*small, "--limit", "2")
    code, out, err = call("compare", "--sweep", "small", "--task", "mini-maths", "--json")
    assert code == 0, err
    assert "0001-mini-maths-d2f" in out and "0003-mini-maths-lopa" in out
    code, out, err = call("frontier", "--sweep", "small", "--y-max", "90", "--y-max-name", "someone", "--json")
    assert code == 0 and "0002-mini-maths-lopa-1" in out, err
    for command in ("compare", "frontier"):
        code, _, err = call(command)
        assert code == 2 and ("found none" in err or "no runs named" in err)
        code, _, err = call(command, "--sweep", "smal")
        assert code == 2 and "did you mean 'small'" in err


def test_a_dry_run_lists_and_stops(call: Any, small: list[str]) -> None:
    code, out, err = call(*small, "--dry-run")
    assert code == 0 and "3 cells: 3 new; about" in out and "nothing was stored" in err
    assert "tried one answer in 2 of 3 cells" in err  # lopa's second cell goes by its first
    assert not Path("runs").exists()
    rows = json.loads(call(*small, "--dry-run", "--json")[1])["rows"]
    assert [row["most_rounds"] for row in rows] == [8, 8, 8]
    assert all(row["seconds"] > 0 and 1 <= row["rounds"] <= 8 for row in rows)


def test_a_long_list_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from lopa_bench.cli import sweep_terminal

    clock = iter([0.0, 1.0, 12.0, 13.0, 25.0])
    monkeypatch.setattr(sweep_terminal, "monotonic", lambda: next(clock))
    checking = sweep_terminal.Checking()
    for done in (0, 100, 110, 400):
        checking(done, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "100 of 1000 cells checked, about 2 min left",
        "400 of 1000 cells checked, about 38 s left",
    ]


def test_many_cells_are_grouped_on_a_terminal_unless_asked_for_whole(
    call: Any, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lopa_bench.harness.sweeps.overview.LONG", 2)
    out = call(*small, "--dry-run")[1]
    assert "3 cells in groups; --whole prints a row for each" in " ".join(out.split()) and "branches" not in out
    assert "branches" in call(*small, "--dry-run", "--whole")[1]
    assert len(json.loads(call(*small, "--dry-run", "--json")[1])["rows"]) == 3
    code, out, err = call(*small)
    assert code == 0 and "TPF, highest" in out and "answers to make" in err and "branches=2" in err
    assert len(call(*small, "--csv")[1].splitlines()) == 4


def test_a_stopped_sweep_says_what_is_kept_and_what_goes_on(
    call: Any, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lopa_bench.cli.execute import Terminal

    sampled = Terminal.sampled

    def stopping(self: Any, sample: Any, running: Any) -> None:
        sampled(self, sample, running)
        if self.label == "cell 2 of 3":
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["lopa-bench", *small, "--limit", "2"])
    with monkeypatch.context() as patch:
        patch.setattr(Terminal, "sampled", stopping)
        code, out, err = call(*small, "--limit", "2")
    last = err.rstrip().splitlines()[-1]
    assert (code, out) == (130, "")
    assert last.startswith("lopa-bench: stopped: 1 of 3 cells, and 1 of 2 answers of the next are stored in runs; ")
    assert "`lopa-bench sweep --task mini-maths" in last and last.endswith("--limit 2` goes on from there")
    assert call(*small, "--limit", "2")[0] == 0
    monkeypatch.setattr("lopa_bench.harness.sweeps.plan.prepare", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert "stopped: nothing was generated yet; `lopa-bench" in call(*small)[2]


def test_the_table_as_json_and_csv(call: Any, small: list[str]) -> None:
    rows = json.loads(call(*small, "--json")[1])["rows"]
    assert [row["decoder"] for row in rows] == ["d2f", "lopa", "lopa"]
    assert all(row["n"] == 1 and row["run"].startswith("000") for row in rows)
    lines = call(*small, "--csv")[1].splitlines()
    assert lines[0].startswith("cell,task,decoder,branches,state,n,accuracy") and len(lines) == 4


def test_a_failed_cell_makes_the_exit_code_1(call: Any, small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.decoders.d2f import D2FDecoder

    monkeypatch.setattr(D2FDecoder, "decode", lambda *_, **__: 1 / 0)
    code, out, err = call(*small)
    assert code == 1
    assert "cell 1 failed" in out and "ZeroDivisionError" in out and "cell 1 of 3 failed" in err
    assert len(re.findall(r" ran ", out)) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing to sweep"),
        (["nothing.yaml"], "nothing.yaml cannot be read"),
        (["--task", "mini-maths"], "names no decoder and no preset"),
        (["--task", "mini-maths", "--decoder", "lopa", "--set", "branches"], "key=value"),
        (["--task", "mini-maths", "--decoder", "lopa", "--branches", "1", "--set", "branches=2"], "given twice"),
        (["--task", "mini-maths", "--decoder", "lopa", "--set", "branchs=2"], "did you mean 'branches'"),
        (["--task", "mini-maths,mini-cod", "--decoder", "lopa"], "did you mean 'mini-code'"),
        (["--task", "mini-maths", "--decoder", "lopa", "--branches", "0,2"], "1 of 2 cells cannot run"),
    ],
)
def test_a_mistake_ends_in_one_line(call: Any, words: list[str], told: str) -> None:
    code, out, err = call("sweep", *words)
    assert (code, out) == (2, "")
    assert told in err.rstrip("\n").splitlines()[-1] and "Traceback" not in err
    assert not Path("runs").exists()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_pages_example_runs(call: Any) -> None:
    """As it stands but for the number of problems, of which one has to do."""
    [grid] = blocks("yaml")
    Path("branches.yaml").write_text(grid)
    listed, ran = (shlex.split(line)[1:] for line in blocks("console")[0].splitlines())
    code, out, _ = call(*listed)
    assert code == 0 and "8 cells: 8 new" in out
    code, out, _ = call(*ran, "--limit", "1", "--warmup", "0")
    assert code == 0 and len(re.findall(r" ran ", out)) == 8
    code, out, _ = call(*ran, "--limit", "20", "--dry-run")
    shown = [re.split(r"  +", line.strip()) for line in (out, blocks("text")[0]) for line in line.splitlines()]
    cells = [row[:4] for row in shown if row[0].isdecimal()]
    assert len(cells) == 16 and cells[:8] == cells[8:]
    assert "8 cells: 8 begun; about" in out


def test_the_pages_words_and_mistake_are_as_it_says(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopa_bench.harness.sweeps.trial.SMALL", 0)
    code, out, _ = call(*shlex.split(blocks("console")[1])[1:], "--dry-run")
    assert code == 0 and "10 cells: 10 new" in out
    Path("branches.yaml").write_text(blocks("yaml")[0].replace("branches:", "branchs:"))
    code, _, err = call("sweep", "branches.yaml")
    assert (code, err) == (2, blocks("text")[1])
