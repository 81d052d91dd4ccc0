"""The scripts for accelerators run to their end, here on a CPU; what fails or cannot be is told, not fatal."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from stored import record, samples, store

from lopa_bench.decoders.registry import create
from lopa_bench.harness.environment import Backend
from lopa_bench.harness.verify import translate
from lopa_bench.models.loading import load_model

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import a script as it is found when it is started."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def load(name: str) -> ModuleType:
        return __import__(name)

    yield load
    for name in ("gpu_devices", "gpu_scaling", "gpu_speed", "gpu_verify"):
        sys.modules.pop(name, None)


def started(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCHMARKS / name), *words], capture_output=True, text=True)


def labels(module: ModuleType, sizes: list[int], heads: int | None = None) -> list[str]:
    return [way.label for way in module.ways(sizes, heads)]


def test_a_network_is_not_dealt_out_to_more_devices_than_it_has_heads(
    script: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    devices = script("gpu_devices")
    of_bundled = devices.heads_of("bundled:d2f")
    assert of_bundled == 4 and devices.heads_of("nowhere/at-all") is None
    found = labels(devices, [1, 2, 4, 8], of_bundled)
    assert found == [
        "one device", "branches 2", "network 2", "branches 4", "network 4", "branches 2 x network 2", "branches 8",
        "branches 4 x network 2",
    ]  # fmt: skip
    assert capsys.readouterr().out == "left out: network 8, for the model has 4 attention heads\n"
    assert "network 8" in labels(devices, [8], 28) and "network 8" in labels(devices, [8])


@pytest.mark.parametrize(("there", "asked", "wanted"), [(1, None, [1]), (8, None, [1, 2, 4, 8]), (2, "1,2,4", [1, 2])])
def test_as_many_devices_are_taken_as_there_are(
    there: int,
    asked: str | None,
    wanted: list[int],
    script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    devices = script("gpu_devices")
    monkeypatch.setattr(devices, "backends", lambda: [Backend("cuda", "nccl", True, ("H200",) * there)])
    assert devices.sizes_here(argparse.Namespace(device="cuda", devices=asked)) == wanted
    assert ("left out: more than 2 devices" in capsys.readouterr().out) == (asked is not None)
    with pytest.raises(SystemExit, match="there is no npu here"):
        devices.sizes_here(argparse.Namespace(device="npu", devices=asked))


def test_a_run_that_fails_is_named_and_the_others_are_set_side_by_side(
    script: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = script("gpu_scaling")
    monkeypatch.setattr(module, "sizes_here", lambda arguments: [1, 2])

    def lopa_bench(words: list[str], **_: Any) -> SimpleNamespace:
        if "--tensor-parallel" in words:
            return SimpleNamespace(returncode=1)
        bp = 2 if "--devices" in words else 1
        place: dict[str, Any] = {"world_size": bp, "groups": {"bp": bp} if bp > 1 else {}}
        store(tmp_path, samples(slower=1 / bp), record(place=place, fingerprint="f" * 8))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(module.subprocess, "run", lopa_bench)
    monkeypatch.setattr(sys, "argv", ["gpu_scaling.py", "--runs-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == "network 2: the run ended with 1 and stored 0 runs"
    table = capsys.readouterr().out
    assert "efficiency" in table and "2.00" in table


def test_one_device_alone_tells_its_speed(
    script: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = store(tmp_path)
    script("gpu_scaling").show([run])
    told = capsys.readouterr().out
    assert f"{run.path.name}: " in told and " tokens/s" in told and "nothing to set side by side" in told


def test_a_way_that_fails_is_told_and_the_others_are_measured(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = script("gpu_speed")
    row = {"decoder": "ar", "ms_per_round": 2.0, "logits_error": None, "accelerations": []}

    def engine_speed(words: list[str], **_: Any) -> SimpleNamespace:
        if "--compile" in words:
            return SimpleNamespace(returncode=1, stderr="Traceback\nRuntimeError: no compiler\n", stdout="")
        faster = row if "--quantize" not in words else {**row, "ms_per_round": 1.0, "logits_error": 0.021}
        return SimpleNamespace(returncode=0, stderr="", stdout=json.dumps({"rows": [faster]}))

    monkeypatch.setattr(module.subprocess, "run", engine_speed)
    monkeypatch.setattr(sys, "argv", ["gpu_speed.py", "--device", "cpu"])
    with pytest.raises(SystemExit, match="failed: --compile, all three"):
        module.main()
    told = capsys.readouterr().out
    assert "2.00x  logits off by   2.10%" in told and "failed: RuntimeError: no compiler" in told


@pytest.fixture
def cases(diffusion_checkpoint: Path, tmp_path: Path) -> Path:
    """Two cases that this program made itself, their model beside them; the second one's answer is not its own."""
    model = load_model(diffusion_checkpoint)
    (tmp_path / "tiny").symlink_to(diffusion_checkpoint)
    config = {"max_new_tokens": 8, "block_size": 4, "branching_factor": 2}
    case = {"id": "own", "decoder": "lopa", "model": "tiny", "config": config, "prompt": [5, 17, 3], "tokens": [0]}
    name, preset, options = translate(case, model)
    generation = create(name, model, options, preset).decode(case["prompt"])
    generation.run()
    case["tokens"] = generation.answer
    file = tmp_path / "cases.json"
    file.write_text(
        json.dumps([case, {**case, "id": "foreign", "tokens": [*generation.answer[:-1], generation.answer[-1] + 1]}])
    )
    return file


@pytest.mark.slow
def test_reference_cases_are_replayed_on_one_process_and_on_two_in_every_arrangement(cases: Path) -> None:
    done = started("gpu_verify.py", str(cases), "--device", "cpu", "--devices", "1,2")
    assert done.stderr == "not equal everywhere: one device, branches 2, network 2\n" and done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split("equal: ")[1] for line in lines[::2]] == ["lopa 1 of 2"] * 3
    assert "foreign: token 7: " in lines[1]
    assert [line.split()[1:] for line in lines[3::2]] == [["as", "on", "one", "device"]] * 2
    assert started("gpu_verify.py", str(cases), "--device", "cpu", "--devices", "1", "--every", "2").returncode == 0


@pytest.mark.slow
def test_the_speed_of_a_tiny_network_stands_beside_the_error_of_its_logits() -> None:
    few = ["--device", "cpu", "--shape", "tiny", "--decoder", "ar", "--most-rounds", "5"]
    done = started("gpu_speed.py", *few, "--way", "plain", "--way", "--quantize w8a8")
    assert done.returncode == 0, done.stderr
    plain, eight_bit = done.stdout.splitlines()[1:]
    assert "logits off by     n/a" in plain and " 1.00x" in plain
    assert 0.1 < float(eight_bit.split("logits off by")[1].split("%")[0]) < 10


@pytest.mark.slow
def test_runs_of_the_bundled_model_on_one_process_and_on_two_are_set_side_by_side(tmp_path: Path) -> None:
    few = ["--device", "cpu", "--devices", "1,2", "--limit", "1", "--runs-dir", str(tmp_path)]
    done = started("gpu_scaling.py", *few, "--set", "max_new_tokens=8", "--warmup", "0")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "-mini-maths-lopa" in line and "yes" in line]
    assert [row[:4] for row in rows] == [["1", "1", "1", "1"], ["2", "1", "2", "1"], ["2", "1", "1", "2"]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_scripts_run_to_their_end_on_as_many_cuda_devices_as_there_are(cases: Path, tmp_path: Path) -> None:
    few = ["--limit", "1", "--runs-dir", str(tmp_path / "runs"), "--set", "max_new_tokens=8", "--warmup", "0"]
    verified, scaled = started("gpu_verify.py", str(cases)), started("gpu_scaling.py", *few)
    timed = started("gpu_speed.py", "--shape", "small", "--decoder", "lopa 8", "--most-rounds", "6")
    assert "one device" in verified.stdout and "failed" not in verified.stdout + verified.stderr
    assert scaled.returncode == timed.returncode == 0, scaled.stderr + timed.stderr
