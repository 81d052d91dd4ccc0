"""Whole runs of several processes: the same record as one process makes, and an orderly end when one of them fails."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lopa_bench.harness.distributed.launch import launch
from lopa_bench.harness.distributed.watch import QUIET
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.store import StoredRun, list_runs, load_run

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
TIMEOUT_S = 30.0

Start = Callable[..., RunSpec]


def words(spec: RunSpec, root: Path, devices: int, *more: str) -> list[str]:
    """The command of a specification."""
    options = [word for name, value in spec.options.items() for word in ("--set", f"{name}={value}")]
    return [
        "run", "-t", str(spec.task), "-d", str(spec.decoder), "-m", str(spec.model), "-n", str(spec.limit),
        "--warmup", "0", "--threads", "1", "--runs-dir", str(root), "--devices", str(devices), "--json", *options,
        *more,
    ]  # fmt: skip


def fit(spec: RunSpec) -> RunSpec:
    """The same specification for a decoder without branches."""
    options = {name: value for name, value in spec.options.items() if spec.decoder == "lopa" or name != "branches"}
    return RunSpec(**{**vars(spec), "options": options})


def told(run: StoredRun) -> list[Any]:
    """All that a run says of its samples but times, bytes exchanged and which process it was."""
    unlike = {"time": ..., "rank": ..., "extra": ...}
    return [sample.model_dump(exclude=unlike) for sample in run.samples]


def rounds(run: StoredRun) -> dict[str, Any]:
    unlike = {"seconds", "comm_s", "wait_s", "gathered_bytes", "sent_bytes", "branches"}
    return {trace.id: [one.model_dump(exclude=unlike) for one in trace.rounds] for trace in run.traces()}


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """Rank 0 writes to this process's own output."""


@pytest.mark.slow
def test_two_runs_at_once_of_two_processes_each_make_the_record_of_one(start: Start, tmp_path: Path) -> None:
    spec = start(trace=True, options={"branches": 3})
    places = [tmp_path / "left", tmp_path / "right"]
    program = [sys.executable, "-m", "lopa_bench.cli.app"]
    both = [
        subprocess.Popen([*program, *words(spec, place, 2, "--trace")], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for place in places
    ]
    said = [one.communicate(timeout=200) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    alone = run(spec).run
    assert alone is not None
    for place in places:
        [together] = list_runs(place)
        assert told(together) == told(alone) and rounds(together) == rounds(alone)
        assert together.record.fingerprint == alone.record.fingerprint
        where = together.record.environment
        assert (where.world_size, where.num_devices, where.communication) == (2, 2, "gloo, two-phase")
        assert where.groups == {"dp": 1, "bp": 2, "tp": 1}
        for sample in together.samples:
            assert 0 < sample.time.comm_s + sample.time.rank_wait_s <= sample.time.decode_s
            traffic = sample.extra["traffic"]
            assert isinstance(traffic, dict) and traffic["rounds"] == sample.work.rounds
        of_rounds = [one for trace in together.traces() for one in trace.rounds]
        assert all(one.comm_s is not None and one.wait_s is not None for one in of_rounds)
        assert all((one.gathered_bytes or 0) / one.branch_forwards <= 65536 for one in of_rounds)


@pytest.mark.slow
def test_shared_samples_are_merged_in_order_and_other_numbers_of_processes_go_on(start: Start, tmp_path: Path) -> None:
    spec, root = fit(start(decoder="d2f", trace=True, limit=2)), tmp_path / "many"
    assert launch(words(spec, root, 3, "--trace"), 3, TIMEOUT_S) == 0  # two problems: one process has none
    [first] = list_runs(root)
    assert [sample.rank for sample in first.samples] == [0, 1]
    more = fit(start(decoder="d2f", trace=True, limit=4))
    assert launch(words(more, root, 2, "--trace"), 2, TIMEOUT_S) == 0
    [together] = list_runs(root)
    alone = run(more).run
    assert alone is not None and told(together) == told(alone) and rounds(together) == rounds(alone)
    assert together.record.environment.groups == {"dp": 2, "bp": 1, "tp": 1}
    assert together.record.earlier_groups == ({"dp": 3, "bp": 1, "tp": 1},)
    assert together.summary is not None and any("mixture" in line for line in together.summary.warnings)
    assert not list(together.path.glob("shard-*"))
    assert launch(words(more, root, 2, "--trace"), 2, TIMEOUT_S) == 0  # nothing is left to do
    assert len(load_run("last", root).record.resumed) == 1


def failure_table() -> ModuleType:
    found = importlib.util.spec_from_file_location("failure_table", BENCHMARKS / "failure_table.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["failure_table"] = module
    found.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rank", "decoder", "more"),
    [
        ("raise", 1, "lopa", {}),
        ("stop", 0, "lopa", {}),
        ("kill", 1, "d2f", {}),
        ("loop", 0, "d2f", {}),
        ("nan", 1, "lopa", {}),
        ("memory", 1, "d2f", {"tensor": 2}),
        ("memory-between", 1, "lopa", {"tensor": 2}),
        ("memory", 3, "lopa", {"tensor": 2, "devices": 4, "call": 12}),
        ("sleep", 1, "d2f", {"warmup": 1, "call": 4}),
        ("slow", 0, "lopa", {"call": "judging"}),
    ],
)
def test_a_faulty_process_ends_the_job_in_time_with_one_sentence_or_costs_one_answer(
    kind: str, rank: int, decoder: str, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FAULT", "FAULT_FOLDER", QUIET):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # put back at the end
    table = failure_table()
    outcome = table.trial(table.Fault(kind, rank, decoder, **more), tmp_path)
    assert outcome.broken == (), outcome
