"""`compare` and `noise` from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stored import record, samples, store

from lopa_bench.cli import app as program


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A baseline, a run with one setting changed and one problem lost, one of another task."""
    root = tmp_path / "runs"
    store(root)
    lost = [one.model_copy(update={"text_kept": one.text_kept + "!"}) for one in samples([0.0] * 2 + [1.0] * 18)]
    store(root, lost, record(options={"tau_conf": 0.8}))
    store(root, run=record(task={"name": "mini-code"}))
    return root


def test_two_runs(call: Any, runs: Path) -> None:
    code, out, err = call("compare", "1", "last", "--runs-dir", str(runs))
    assert code == 3 and "differ in task: mini-maths vs mini-code" in err
    code, out, _ = call("compare", "1", "0002-mini-maths-lopa", "--show-flips")
    assert code == 0
    for words in (
        "baseline: 0001-mini-maths-lopa",
        "0.6875",
        "tau_conf",
        "semantic",
        "mini-maths-0000",
        "lost",
        "gained",
    ):
        assert words in out, words
    assert "noise of this cell not measured" in out and "n = 20: no difference in accuracy below 30.0 points" in out


def test_one_pair_of_three_that_cannot_be_compared_is_listed(call: Any, runs: Path) -> None:
    code, out, _ = call("compare", "1", "2", "3")
    assert code == 3 and "x not comparable: 0001-mini-maths-lopa and 0003" in out and "McNemar" in out


def test_machine_readable_forms(call: Any, runs: Path) -> None:
    code, out, _ = call("compare", "1", str(runs / "0002-mini-maths-lopa"), "--json", "--show-flips")
    [pair] = json.loads(out)["pairs"]
    assert (code, pair["lost"], pair["gained"], len(pair["flipped"])) == (0, 2, 4, 6)
    assert [one["name"] for one in pair["differences"] if one["kind"] == "semantic"] == ["tau_conf"]
    for flag, words in (
        ("--csv", "baseline,run,comparable"),
        ("--markdown", "| run |"),
        ("--latex", r"\begin{tabular}"),
    ):
        code, out, err = call("compare", "1", "2", flag)
        assert code == 0 and words in out and "n = 20" in err and "n = 20" not in out


def test_a_run_beside_itself_is_said_to_be(call: Any, runs: Path) -> None:
    code, out, _ = call("compare", "1", "1")
    assert code == 0 and "0001-mini-maths-lopa is compared with itself" in out
    assert "compared with itself" not in call("compare", "1", "2")[1]


def test_tables_in_markdown_stand_apart(call: Any, runs: Path) -> None:
    """A line that follows a table's last row at once is read as one more row."""
    lines = call("compare", "1", "2", "--markdown", "--show-flips")[1].splitlines()
    titles = [index for index, line in enumerate(lines) if line.startswith("**")]
    assert len(titles) == 4 and all(not lines[index - 1] for index in titles[1:])


def test_mistakes(call: Any, runs: Path) -> None:
    code, _, err = call("compare", "1")
    assert code == 2 and "needs two runs or more" in err
    code, _, err = call("compare", "1", "9")
    assert code == 2 and "run '9' not found" in err


def test_the_noise_of_a_cell_named_by_flags(call: Any, diffusion_checkpoint: Path) -> None:
    code, out, err = call(
        "noise", "-t", "mini-maths", "-d", "d2f", "-m", str(diffusion_checkpoint), "-n", "2", "--warmup", "0",
        "--max-new-tokens", "8", "--block-size", "4", "--threads", "1", "--repeats", "3", "--json",
    )  # fmt: skip
    document = json.loads(out)
    assert code == 0 and "3 of 3: the same again" in err
    assert [one["identical"] for one in document["cell"]["repeats"]] == [2, 2, 2] and document["stored"] is None
    assert Path(document["path"]).is_file()
    code, out, err = call("noise", "runs/noise/runs/0001-mini-maths-d2f-tiny-diffusion", "--repeats", "2")
    assert code == 0 and "it takes 3 repeats" in out and "run 1" in out and "100.00" in out


def test_noise_takes_every_flag_of_run_but_those_that_make_no_sense(call: Any) -> None:
    from typer.main import get_command

    commands = get_command(program.app).commands  # type: ignore[attr-defined]
    run, noise = ({one.name for one in commands[name].params} for name in ("run", "noise"))
    assert run - noise == {"dry_run", "fresh", "trace"} | ({"live"} & run)
    assert {"reference", "repeats", "vary"} <= noise


def test_runs_are_compared_as_another_program_counts(call: Any, runs: Path) -> None:
    code, out, _ = call("compare", "1", "2", "--count-as", "lopa-bench", "--json")
    first, second = json.loads(out)["counted_as"]
    assert code == 0 and first["tpf"] == pytest.approx(1257 / 259) and "tpf_ratio" not in first
    assert second["tpf_ratio"] == pytest.approx(second["tpf"] / first["tpf"])
    assert second["tps_ratio"] == pytest.approx(second["tps"] / first["tps"])
    code, out, _ = call("compare", "1", "2", "--count-as", "all", "--csv")
    assert code == 0 and out.count("lopa-diffucoder") == 2 and "tpf_ratio" in out.splitlines()[0]
    code, _, err = call("compare", "1", "2", "--count-as", "lopa-drem")
    assert code == 2 and "did you mean 'lopa-dream'?" in err


@pytest.mark.parametrize("command", ["compare", "show", "report"])
def test_an_unknown_convention_is_refused_before_a_run_is_read(call: Any, command: str) -> None:
    code, out, err = call(command, "no-such-run", "--count-as", "lopa-drem")
    assert (code, out) == (2, "") and "lopa-drem" in err and "did you mean" in err and "no-such-run" not in err


def test_speeds_of_other_machines_get_no_ratio_in_any_way_of_counting(call: Any, tmp_path: Path) -> None:
    store(tmp_path / "runs")
    store(tmp_path / "runs", run=record(place={"device": "cuda", "device_name": "NVIDIA A100"}))
    _, out, _ = call("compare", "1", "2", "--count-as", "lopa-dist", "--json", "--runs-dir", str(tmp_path / "runs"))
    assert json.loads(out)["counted_as"][1]["tps_ratio"].startswith("x not comparable: ")
