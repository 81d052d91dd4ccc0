"""`--offline`: no connection is tried, and one that is tried all the same is an error."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lopa_bench.harness.offline import CONNECTIONS

# Blocks what a socket could do and writes down every attempt, then runs the program as from a shell.
BLOCKED = """
import os, socket, sys
attempts = open(sys.argv[1], "w")

def refuse(*arguments, **_):
    attempts.write(repr(arguments) + "\\n")
    attempts.flush()
    raise OSError("blocked")

for name in ("connect", "connect_ex", "sendto", "sendmsg"):
    setattr(socket.socket, name, refuse)
socket.getaddrinfo = socket.create_connection = socket.gethostbyname = refuse

from lopa_bench.cli.app import main
main(sys.argv[2:])
"""


def call(tmp_path: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], str]:
    attempts = tmp_path / "attempts"
    command = [sys.executable, "-c", BLOCKED, str(attempts), *words, "--runs-dir", str(tmp_path / "runs")]
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    return done, attempts.read_text()


SMALL = ("--limit", "1", "--warmup", "0", "--max-new-tokens", "4", "--threads", "1", "--offline", "--json")


@pytest.mark.slow
def test_an_offline_run_on_local_things_tries_no_connection(tmp_path: Path, data_dir: Path) -> None:
    words = ("run", "--task", "gsm8k", "--decoder", "d2f", "--data-dir", str(data_dir), "--block-size", "4", *SMALL)
    done, attempts = call(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["n"] == 1
    assert attempts == ""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="the scores of MATH need the extra 'math'")
def test_no_score_of_math_is_fetched(tmp_path: Path) -> None:
    row = {"problem": "What is $1 + 1$?", "level": "Level 1", "type": "Algebra", "solution": r"It is $\boxed{2}$."}
    (tmp_path / "math_test.jsonl").write_text(json.dumps(row))
    words = ("run", "--task", "math", "--decoder", "d2f", "--data-dir", str(tmp_path), "--block-size", "4", *SMALL)
    done, attempts = call(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["summary"]["scores"]) == {"exact_match,none", "math_verify,none"}
    assert attempts == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--task", "gsm8k", "--decoder", "ar"), "the data of gsm8k (openai/gsm8k) would have to be fetched"),
        (
            ("--task", "mbpp+", "--decoder", "ar", "--allow-code-execution"),
            "the data of mbpp+ (evalplus/mbppplus_release)",
        ),
        (("--task", "mini-maths", "--decoder", "ar", "--model", "some/where"), "some/where"),
    ],
)
def test_what_would_have_to_be_fetched_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done, attempts = call(tmp_path, "run", *words, *SMALL)
    assert (done.returncode, done.stdout, attempts) == (2, "", "")
    last = done.stderr.rstrip("\n").splitlines()[-1]
    assert last.startswith("lopa-bench: ") and sentence in last and "offline" in last
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


TRY = """
import socket, sys
from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness.offline import forbid_connections

def tried(act):
    try:
        act()
    except PrerequisiteError as error:
        return str(error)
    except OSError as error:
        return type(error).__name__

forbid_connections()
forbid_connections()
datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(tried(lambda: socket.create_connection(("198.51.100.7", 9), timeout=1)))
print(tried(lambda: socket.getaddrinfo("hub.example", 443)))
print(tried(lambda: socket.gethostbyname("hub.example")))
print(tried(lambda: socket.socket().connect_ex(("198.51.100.7", 9))))
print(tried(lambda: datagram.sendto(b"x", ("198.51.100.7", 9))))
server = socket.create_server(("127.0.0.1", 0))
print(tried(lambda: socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()))
print(tried(lambda: socket.socket(socket.AF_UNIX).connect("/nowhere")))
"""


def test_every_way_to_another_machine_is_an_error_and_this_one_is_not() -> None:
    done = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *refused, local, unix = done.stdout.splitlines()
    assert len(refused) == len(CONNECTIONS)
    for line, host in zip(
        refused, ("198.51.100.7", "hub.example", "hub.example", "198.51.100.7", "198.51.100.7"), strict=True
    ):
        assert line.startswith(f"--offline forbids connections, and one to {host} was tried")
    assert (local, unix) == ("None", "FileNotFoundError")
