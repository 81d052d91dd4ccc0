"""Runs through the command line: what is printed when, and what `show` and `list runs` make of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def small(diffusion_checkpoint: Path) -> list[str]:
    return [
        "run", "-t", "mini-maths", "-d", "lopa", "-m", str(diffusion_checkpoint), "-n", "2", "--warmup", "0",
        "--branches", "2", "--max-new-tokens", "8", "--block-length", "4", "--skip-threshold", "0.5", "--threads", "1",
    ]  # fmt: skip


def test_a_run_prints_its_plan_its_table_and_why_the_score_is_low(call: Any, small: list[str]) -> None:
    code, out, err = call(*small)
    assert code == 0
    by_origin = dict(re.findall(r"^  (\w+): (.*(?:\n    .*)*)", err, re.MULTILINE))
    assert "tau_conf = 0.5" in by_origin["flag"] and "tau_add = 0.1" in by_origin["default"]
    assert "\n    " in by_origin["default"] and all(len(line) <= 120 for line in by_origin["default"].splitlines())
    assert "samples: 2 of 400 (the first 2): 0-1" in err and "problems =" not in err
    assert "memory: about" in err and "rounds: 1 to 8 for a full answer (8 slots, 2 blocks of 4), 2 to 16 in all" in err
    assert "lopa, 2 branches" in out and "TPF" in out
    assert "not right: " in out and "answers ended by: " in out and "note: partial: 2 of 400" in out
    assert Path("runs/0001-mini-maths-lopa-2-branches-tiny-diffusion/summary.json").is_file()


def test_json_is_all_there_is_on_stdout(call: Any, small: list[str]) -> None:
    code, out, _ = call(*small, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["status"], document["new_samples"], document["summary"]["n"]) == ("finished", 2, 2)
    again = json.loads(call(*small, "--json")[1])
    assert (again["new_samples"], again["summary"]) == (0, document["summary"])


def test_a_dry_run_stops_at_the_plan(call: Any, small: list[str]) -> None:
    code, out, err = call(*small, "--dry-run")
    assert code == 0 and "branches = 2  (flag)" in out and "dry run" in err
    plan = json.loads(call(*small, "--dry-run", "--json")[1])
    assert (plan["samples"], plan["settings"]["branches"]) == (2, {"value": 2, "origin": "flag"})
    assert not Path("runs").exists()


def test_the_authors_names_of_options_are_taken(call: Any, small: list[str]) -> None:
    code, out, err = call(*small, "--skip-threshold", "0.8", "--block_add_threshold=0.2", "--dry-run")
    assert code == 0, err
    assert "tau_conf = 0.8  (flag)" in out and "tau_add = 0.2  (flag)" in out


@pytest.mark.parametrize(
    ("flag", "mark"), [("--csv", "task,decoder,model"), ("--markdown", "| task |"), ("--latex", "&")]
)
def test_the_table_in_other_formats(call: Any, small: list[str], flag: str, mark: str) -> None:
    code, out, _ = call(*small, flag)
    assert code == 0 and mark in out and "answers ended by" not in out


def test_stored_runs_can_be_shown_and_listed(call: Any, small: list[str]) -> None:
    call(*small)
    code, out, _ = call("show", "1", "--config")
    assert code == 0
    assert "status: finished" in out and "tau_conf = 0.5  (flag)" in out and "tau_add = 0.1  (default)" in out
    assert "ran on: cpu" in out and "torch" in out
    assert "tau_add" not in call("show", "last")[1]
    record = json.loads(call("show", "last", "--json")[1])
    assert record["run"]["decoder"]["options"]["branches"] == 2
    assert "mini-maths-0001" in call("show", "last", "--samples")[1]
    sample = json.loads(call("show", "last", "--sample", "mini-maths-0000", "--json")[1])
    assert sample["tokens"]["committed"] == 8
    code, _, err = call("show", "last", "--sample", "mini-maths-000")
    assert code == 2 and "did you mean 'mini-maths-000" in err
    assert re.search(r"^ *0001 +finished .* lopa, 2 branches", call("list", "runs")[1], re.MULTILINE)


def test_an_unfinished_run_can_be_shown(call: Any, small: list[str]) -> None:
    call(*small)
    [folder] = Path("runs").glob("0001-*")
    (folder / "summary.json").unlink()
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "status": "running"}))
    _, out, _ = call("show", "1")
    assert "status: interrupted" in out and "TPF" in out
    code, out, _ = call(*small)
    assert code == 0 and (folder / "summary.json").exists()


def test_where_runs_are_stored_may_come_from_the_environment(
    call: Any, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOPA_BENCH_RUNS", "elsewhere")
    call(*small)
    assert list(Path("elsewhere").glob("0001-*"))
    assert "  0001  " in call("list", "runs")[1]


def test_the_demo_is_a_table_a_plot_and_ordinary_runs(
    call: Any, monkeypatch: pytest.MonkeyPatch, diffusion_checkpoint: Path, causal_checkpoint: Path
) -> None:
    from lopa_bench.harness import bundled_defaults

    models = {name: str(diffusion_checkpoint) for name in bundled_defaults.MODEL_OF} | {"ar": str(causal_checkpoint)}
    monkeypatch.setattr(bundled_defaults, "MODEL_OF", models)
    code, out, err = call("demo", "--limit", "1", "--threads", "1", "--json")
    document = json.loads(out)
    assert code == 0, err
    pairs = [(row["task"], row["decoder"]) for row in document["rows"]]
    assert pairs == [(t, d) for t in ("mini-maths", "mini-code") for d in ("ar", "vanilla", "fast-dllm", "d2f", "lopa")]
    assert all({"accuracy", "tpf", "tps_e2e", "delta", "n"} <= set(row) for row in document["rows"])
    assert [row["delta"] for row in document["rows"] if row["decoder"] == "vanilla"] == [0.0, 0.0]
    assert Path(document["plot"]).stat().st_size > 1000
    assert len(list(Path("runs").glob("0*"))) == 10
    code, out, _ = call("demo", "--limit", "1", "--threads", "1")
    assert code == 0 and "Δ to vanilla" in out
    assert len(list(Path("runs").glob("0*"))) == 10  # nothing was run twice


def test_a_stopped_demo_says_what_is_kept_and_what_goes_on(
    call: Any, monkeypatch: pytest.MonkeyPatch, diffusion_checkpoint: Path, causal_checkpoint: Path
) -> None:
    from lopa_bench.cli.execute import Terminal
    from lopa_bench.harness import bundled_defaults

    models = {name: str(diffusion_checkpoint) for name in bundled_defaults.MODEL_OF} | {"ar": str(causal_checkpoint)}
    monkeypatch.setattr(bundled_defaults, "MODEL_OF", models)

    def stopping(self: Any, *_: Any) -> None:
        if "vanilla" in self.label:
            raise KeyboardInterrupt

    monkeypatch.setattr(Terminal, "started", stopping)
    words = ("demo", "--limit", "1", "--threads", "1")
    monkeypatch.setattr("sys.argv", ["/usr/bin/lopa-bench", *words])
    code, out, err = call(*words)
    assert (code, out) == (130, "")
    again = "`lopa-bench demo --limit 1 --threads 1` goes on from there"
    assert err.rstrip().splitlines()[-1] == f"lopa-bench: stopped: 1 of 10 runs are stored in runs; {again}"


@pytest.mark.slow
def test_the_quick_demo_on_the_bundled_models(call: Any) -> None:
    from lopa_bench.models.loading import BUNDLED, locate

    for kind in BUNDLED:
        locate(f"bundled:{kind}")
    code, out, err = call("demo", "--quick", "--json")
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert {row["tpf"] for row in rows if row["decoder"] == "ar"} == {1.0}
