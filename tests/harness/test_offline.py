"""Nothing is fetched unasked: a run on local things works with every connection forbidden."""

from __future__ import annotations

import json
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
