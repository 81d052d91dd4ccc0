"""The loop: resuming after a kill, accumulation, several processes, and that it learns at all."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from lopa_bench.errors import ConfigError, PrerequisiteError
from lopa_bench.models.training.distributed import join_processes
from lopa_bench.models.training.trainer import CHECKPOINT

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from tiny_run import gradients, make_trainer  # noqa: E402 - beside this file, and run as a script too


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return torch.load(directory / CHECKPOINT, weights_only=True)["network"]


def assert_same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], **tolerance: float) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], **(tolerance or {"rtol": 0, "atol": 0}))


def losses(directory: Path) -> list[float]:
    lines = (directory / "loss.csv").read_text().splitlines()
    return [float(row["loss"]) for row in csv.DictReader(lines)]


def start(directory: Path, steps: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(HERE / "tiny_run.py"), str(directory), str(steps)])


def test_a_killed_run_ends_with_the_weights_of_an_unbroken_one(tmp_path: Path) -> None:
    killed, unbroken, steps = tmp_path / "killed", tmp_path / "unbroken", 40
    process = start(killed, steps)
    deadline = time.monotonic() + 60
    while not (killed / CHECKPOINT).exists():
        assert process.poll() is None, "ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    reached = torch.load(killed / CHECKPOINT, weights_only=True)["step"]
    assert 0 < reached < steps

    resumed = make_trainer(killed, steps)
    assert resumed.resume()
    assert resumed.step == reached
    resumed.fit()
    make_trainer(unbroken, steps).fit()
    assert_same(weights(killed), weights(unbroken))
    assert losses(killed) == losses(unbroken)


def test_other_options_are_another_run(tmp_path: Path) -> None:
    make_trainer(tmp_path, 10).fit()
    with pytest.raises(ConfigError, match=r"rate = 0\.02, asked for is 0\.01"):
        make_trainer(tmp_path, 10, rate=0.01).resume()


def test_accumulated_parts_equal_the_whole_batch(tmp_path: Path) -> None:
    whole, parts = (gradients(make_trainer(tmp_path, 1, accumulate=accumulate)) for accumulate in (1, 4))
    assert_same(parts, whole, rtol=1e-4, atol=1e-6)
    assert whole["embed.weight"].abs().max() > 1e-3


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """The same batch, cut in two by torchrun's processes, gives the same gradients and loss."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        str(HERE / "tiny_run.py"), str(tmp_path), "0",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    two = torch.load(tmp_path / "gradients.pt", weights_only=True)
    assert_same(two, gradients(make_trainer(tmp_path, 1)), rtol=1e-4, atol=1e-6)


def test_a_batch_that_cannot_be_cut_evenly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="multiple of 3"):
        make_trainer(tmp_path, 4, accumulate=3)


def counting_pairs(seed: int):
    """Every answer counts up from the prompt's token."""
    while True:
        seed = (seed * 7 + 1) % 11
        yield [3 + seed], list(range(4 + seed, 4 + seed + 5))


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_the_loss_falls(tmp_path: Path, optimizer: str) -> None:
    trainer = make_trainer(
        tmp_path, 60, recipe="ar", source=counting_pairs, optimizer=optimizer, rate=0.02, log_every=10
    )
    trainer.fit()
    trainer.curve.plot()
    assert losses(tmp_path)[-1] < 0.5 * losses(tmp_path)[0]
    assert (tmp_path / "loss.png").stat().st_size > 1000


def test_bf16_trains_float32_weights(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, 4, bf16=True)
    trainer.fit()
    assert {tensor.dtype for tensor in trainer.network.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize("name", ["rate", "vector_rate"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_trains_nothing_is_refused(tmp_path: Path, name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} is .*; it has to be above 0"):
        make_trainer(tmp_path, 1, **{name: value})


@pytest.mark.parametrize("device", ["gpu", *([] if torch.cuda.is_available() else ["cuda", "cuda:1"])])
def test_a_device_that_is_not_there_is_one_sentence(device: str) -> None:
    with pytest.raises(PrerequisiteError, match=f"device '{device}'"):
        join_processes(device)
