"""Nothing is fetched unasked: a run on local things works with every connection forbidden."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, socket, sys

def refuse(*_, **__):
    raise SystemExit("a connection was tried")

for name in ("connect", "connect_ex"):
    setattr(socket.socket, name, refuse)
socket.getaddrinfo = socket.create_connection = refuse
for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ.pop(name, None)

from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec

done = run(RunSpec(decoder="d2f", model=sys.argv[1], runs_dir=sys.argv[2], limit=1, warmup=0, threads=1,
                   options={"max_new_tokens": 8, "block_size": 4}, **json.loads(sys.argv[3])))
print(done.run.status, os.environ["HF_HUB_OFFLINE"], os.environ["HF_DATASETS_CACHE"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["mini-maths", "gsm8k"])
def test_a_run_on_local_things_asks_no_network(
    task: str, diffusion_checkpoint: Path, tmp_path: Path, data_dir: Path
) -> None:
    more = {"task": task} | ({"data_dir": str(data_dir), "num_fewshot": 1} if task == "gsm8k" else {})
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    command = [sys.executable, "-c", SCRIPT, str(diffusion_checkpoint), str(tmp_path / "runs"), json.dumps(more)]
    environment = {"PATH": "/usr/bin", "HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    status, offline, cache = done.stdout.split()
    assert (status, offline) == ("finished", "1")
    assert not cache.startswith(str(home))
    assert list(home.iterdir()) == []


def test_libraries_that_read_the_switches_before_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    from lopa_bench.harness import offline

    for switch in (*offline.OFFLINE_SWITCHES, "HF_DATASETS_CACHE"):
        monkeypatch.setenv(switch, "0")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert "huggingface_hub" in offline.go_offline()
    assert offline.is_offline()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "huggingface_hub" not in offline.go_offline()


@pytest.mark.parametrize(
    ("outcomes", "out_of_reach"),
    [
        ([socket.gaierror(-2, "Name or service not known")] * 2, True),
        ([ConnectionRefusedError()] * 2, True),
        ([socket.gaierror(-3, "Temporary failure in name resolution"), None], False),
        ([TimeoutError()], False),
        ([None], False),
    ],
)
def test_only_a_hub_that_certainly_cannot_be_had_is_given_up(
    outcomes: list[OSError | None], out_of_reach: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lopa_bench.harness import offline

    asked = []

    def connect(place: tuple[str, int], timeout: float) -> socket.socket:
        asked.append(place)
        if (outcome := outcomes[len(asked) - 1]) is not None:
            raise outcome
        return socket.socket()

    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.test:8080")
    monkeypatch.setattr(socket, "create_connection", connect)
    assert offline.hub_is_out_of_reach(pause_s=0) is out_of_reach
    assert asked == [("hub.test", 8080)] * len(outcomes)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test")
    assert not offline.hub_is_out_of_reach()
    assert len(asked) == len(outcomes)


def test_without_a_network_the_sentence_comes_without_the_hubs_retries(tmp_path: Path) -> None:
    """A refused connection stands for a machine without a network."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path), "HF_ENDPOINT": endpoint}
    command = "from lopa_bench.cli.app import main; main(['run', '--task', 'gsm8k', '--decoder', 'd2f'])"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no network, or offline was asked for; give a folder with gsm8k_test.jsonl.gz: --data-dir" in done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr
