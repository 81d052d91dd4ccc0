"""Runs that cannot write, are stopped, or meet another process: one sentence, nothing damaged, gone on with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="takes its own rights and disk away as Linux lets it"),
]

Attempts = list[dict[str, Any]]
STOPPED = r"lopa-bench: stopped: {} of 12 answers are stored in \S+/0001-\S+; the same command goes on from there"
NO_ROOM = (
    r"lopa-bench: cannot write (to )?\S+: {}; make room and run the same command again, all that was stored is kept"
)

# By case: exit code, stored answers and last line of each attempt but the last, which must find nothing in its way.
CASES: dict[str, list[tuple[int, list[int], str]]] = {
    "file_in_place": [(2, [], r"lopa-bench: cannot list \S+: Not a directory; give a folder with --runs-dir")],
    "read_only": [(2, [], r"lopa-bench: cannot write to \S+: Permission denied; make it writable or give another .*")],
    "read_only_run": [
        (143, [3], STOPPED.format(3)),
        (2, [3], r"lopa-bench: cannot write to \S+/0001-\S+: Permission denied; make it writable .*"),
        (0, [12], r"stored in .*"),
    ],
    "interrupt": [(130, [4], STOPPED.format(4))],
    "terminate": [(143, [4], STOPPED.format(4))],
    "terminate_early": [(143, [0], r"lopa-bench: stopped: nothing was generated yet")],
    "two_at_once": [
        (2, [2], r"lopa-bench: run 0001-\S+ is in use by process \d+ on \S+; wait for it or stop it"),
        (0, [12], r"stored in .*"),
    ],
}


@pytest.fixture(scope="module")
def attempts(diffusion_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Attempts | None]:
    """Run all cases in one process that imports everything once."""
    folder = tmp_path_factory.mktemp("places")
    command = [sys.executable, Path(__file__).with_name("bad_places.py"), diffusion_checkpoint, folder]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Attempts | None] = json.loads(done.stdout)
    return found


def check(found: Attempts, expected: list[tuple[int, list[int], str]]) -> None:
    """Compare every attempt; the last one has the run whole, equal to one that met no obstacle."""
    *obstructed, last = found
    assert [one["code"] for one in obstructed] == [code for code, _, _ in expected]
    for one, (_, stored, line) in zip(obstructed, expected, strict=True):
        assert one["stored"] == stored
        assert re.fullmatch(line, one["line"]), one["line"]
        assert "Traceback" not in one["stderr"] and one["stderr"].count("lopa-bench: ") == (one["code"] != 0)
    assert (last["code"], last["whole"], last["status"]) == (0, True, ["finished"]), last


@pytest.mark.parametrize("case", CASES)
def test_an_obstacle_is_one_sentence_and_the_same_command_goes_on(
    attempts: dict[str, Attempts | None], case: str
) -> None:
    check(attempts[case] or [], CASES[case])


def test_a_finished_run_in_a_read_only_place_still_answers(attempts: dict[str, Attempts | None]) -> None:
    found = attempts["read_only_run"]
    assert found is not None and "already holds all 12 answers; nothing was generated" in found[-1]["stderr"]


def test_a_file_that_may_not_grow_keeps_the_samples_that_fit(attempts: dict[str, Attempts | None]) -> None:
    found = attempts["large_file"]
    assert found is not None and found[0]["status"] == ["failed"]
    [stored] = found[0]["stored"]
    assert 0 < stored < 12
    check(found, [(2, [stored], NO_ROOM.format("File too large"))])


def test_a_full_disk_keeps_the_samples_that_fit(attempts: dict[str, Attempts | None]) -> None:
    found = attempts["full_disk"]
    if found is None:
        pytest.skip("this process may not mount a small file system")
    [stored] = found[0]["stored"]
    assert 0 < stored < 12
    check(found, [(2, [stored], NO_ROOM.format("No space left on device"))] * 2)


def test_of_two_that_start_where_no_run_is_one_makes_it(attempts: dict[str, Attempts | None]) -> None:
    found = attempts["both_from_nothing"]
    assert found is not None
    first, second, last = found
    assert (first["code"], second["code"]) in ((0, 2), (0, 0)), (first, second)
    if second["code"]:
        assert "is in use by process" in second["line"]
    assert (last["code"], last["whole"]) == (0, True)


def test_a_damaged_line_is_named_and_its_sample_done_again(attempts: dict[str, Attempts | None]) -> None:
    found = attempts["damaged"]
    assert found is not None
    stopped, refused, last = found
    assert (stopped["code"], refused["code"], last["code"]) == (143, 2, 0)
    assert "samples.jsonl is damaged at line 2; delete that line and run the same command again" in refused["line"]
    assert last["whole"]
