"""The program from outside: what it says, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stored import more_work, record, samples, store

from lopa_bench.cli import app as program
from lopa_bench.harness.source_state import source_words

HEAVY = ("torch", "transformers", "lm_eval", "pandas", "numpy", "matplotlib", "datasets", "peft", "scipy", "evalplus")


class Outcome:
    """What a command left: exit code, stdout, stderr."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def lopa_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            program.main(list(words))
        out, err = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), out, err)

    return call


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list", "nothing"], ["rnu"]])
def test_help_and_mistakes_import_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys, json\nfrom lopa_bench.cli.app import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        f"print('\\nloaded:', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("loaded: []")


@pytest.mark.parametrize("command", program.COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(lopa_bench: Any, command: str, flag: str) -> None:
    outcome = lopa_bench(command, flag)
    assert outcome.code == 0
    assert f"lopa-bench {command}" in outcome.out


@pytest.mark.parametrize("command", program.COMMANDS)
def test_the_help_of_a_command_ends_with_an_example(lopa_bench: Any, command: str) -> None:
    assert f"Example: lopa-bench {command}" in lopa_bench(command, "-h").out


def test_version(lopa_bench: Any) -> None:
    from importlib.metadata import version

    assert lopa_bench("--version").out == f"lopa-bench {version('lopa-bench')} ({source_words()})\n"


MISTAKES = {
    "unknown command": (["rnu"], "Did you mean 'run'?"),
    "unknown option": (["run", "--brnches", "3"], "--branches"),
    "unknown task": (["run", "-t", "gsm8kk", "-d", "lopa"], "did you mean 'gsm8k'"),
    "unknown decoder": (["run", "-t", "gsm8k", "-d", "lopaa"], "did you mean 'lopa'"),
    "unknown preset": (["run", "-p", "lopa-dream-gsm9k"], "did you mean 'lopa-dream-gsm8k'"),
    "unknown decoder option": (["run", "-t", "gsm8k", "-d", "lopa", "-s", "tau_con=1"], "did you mean 'tau_conf'"),
    "unknown listing": (["list", "decodrs"], "did you mean 'decoders'"),
    "unknown run": (["show", "7"], "there are no runs"),
    "no decoder": (["run", "-t", "gsm8k"], "no decoder was named"),
    "no task": (["run", "-d", "ar"], "no task was named"),
    "no samples": (["run", "-t", "mini-maths", "-d", "ar", "--limit", "0"], "--limit 0"),
    "fewer than no samples": (["run", "-t", "mini-maths", "-d", "ar", "--limit", "-2"], "--limit -2"),
    "not a number": (["run", "-t", "mini-maths", "-d", "ar", "--limit", "three"], "--limit three is no number"),
    "neither number nor part": (["run", "-t", "mini-maths", "-d", "ar", "--limit", "1.5"], "--limit 1.5 is neither"),
    "two choices of problems": (
        ["run", "-t", "mini-maths", "-d", "ar", "--limit", "3", "--samples", "7"],
        "--limit and --samples both say which problems to ask",
    ),
    "no such subset": (["run", "-t", "mini-maths", "-d", "ar", "--subset", "smal"], "did you mean 'small'"),
    "no such problem": (["run", "-t", "mini-maths", "-d", "ar", "--samples", "mini-maths-04"], "did you mean 'mini-m"),
    "no such position": (["run", "-t", "mini-maths", "-d", "ar", "--samples", "3,400"], "positions go from 0 to 399"),
    "not an assignment": (["run", "-t", "gsm8k", "-d", "ar", "--set", "max_new_tokens"], "key=value"),
    "flag against --set": (
        ["run", "-t", "gsm8k", "-d", "lopa", "--branches", "2", "-s", "branches=3"],
        "branches is given twice: 2 by its flag and 3 by --set",
    ),
    "branches against lookahead": (
        ["run", "-t", "gsm8k", "-d", "lopa", "--branches", "2", "--lookahead", "2"],
        "contradicting numbers of branches",
    ),
    "two formats": (["list", "tasks", "--json", "--csv"], "--json and --csv exclude each other"),
    "no data": (["run", "-t", "gsm8k", "-d", "ar", "--data-dir", "nowhere"], "nowhere does not exist"),
    "no such model": (["run", "-t", "mini-maths", "-d", "ar", "-m", "nowhere"], "model 'nowhere' not found"),
    "no such device": (["doctor", "--device", "tpu"], "device 'tpu' is unknown"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_one_line_and_exit_code_2(lopa_bench: Any, mistake: str) -> None:
    words, expected = MISTAKES[mistake]
    outcome = lopa_bench(*words)
    assert outcome.code == 2, outcome.err
    last = outcome.err.rstrip("\n").splitlines()[-1]
    assert expected in last and last.startswith("lopa-bench: ")
    assert "Traceback" not in outcome.err and outcome.out == ""


def test_stopping_is_told_and_has_its_own_code(lopa_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lopa_bench.harness.runner.run", stop)
    outcome = lopa_bench("run", "-t", "mini-maths", "-d", "ar")
    assert outcome.code == 130
    assert outcome.err == "lopa-bench: stopped: nothing was generated yet\n"


def test_a_fault_of_the_program_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("lopa_bench.harness.runner.run", fail)
    with pytest.raises(ZeroDivisionError, match="a fault"):
        program.main(["run", "-t", "mini-maths", "-d", "ar"])


@pytest.mark.parametrize(("what", "row"), [("tasks", "gsm8k-cot"), ("presets", "lopa-dist-base-gsm8k-s12")])
def test_listings_in_every_format(lopa_bench: Any, what: str, row: str) -> None:
    assert row in lopa_bench("list", what).out
    rows = lopa_bench("list", what, "--json").document["rows"]
    [found] = [one for one in rows if row in one.values()]
    assert found
    for flag, mark in (("--csv", ","), ("--markdown", "| "), ("--latex", " & ")):
        out = lopa_bench("list", what, flag).out
        assert row.replace("_", r"\_") in out and mark in out


def test_decoders_are_listed_with_all_their_options(lopa_bench: Any) -> None:
    from lopa_bench.decoders.options import names_of
    from lopa_bench.decoders.registry import decoder_types

    rows = lopa_bench("list", "decoders", "--json").document["rows"]
    for name, kind in decoder_types().items():
        listed = {row["option"] for row in rows if row["decoder"] == name}
        assert listed == set(names_of(kind.config_type).values())


def test_models_are_listed_even_where_one_is_not_installed(lopa_bench: Any) -> None:
    names = [row["model"] for row in lopa_bench("list", "models", "--json").document["rows"]]
    assert {"bundled:ar", "bundled:dllm", "bundled:d2f", "Dream-org/Dream-v0-Instruct-7B"} <= set(names)


def test_the_doctor_finds_nothing_wrong(lopa_bench: Any) -> None:
    outcome = lopa_bench("doctor", "--json")
    document = outcome.document
    assert outcome.code == 0 and document["ok"]
    assert document["versions"]["torch"]
    assert {one["task"]: one["usable"] for one in document["tasks"]}["gsm8k"] is True
    backends = {one["device"]: one for one in document["backends"]}
    assert set(backends) == {"cuda", "npu", "cpu"}
    assert all(one["available"] or one["why"] for one in backends.values())
    assert [one["kind"] for one in document["isolation"]] == ["bubblewrap", "limits"]
    assert len(document["checks"]) >= 8


def test_a_failed_check_makes_the_doctor_fail(lopa_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.harness.equivalence import Check

    monkeypatch.setattr("lopa_bench.harness.equivalence.checks", lambda device: [Check("sums", False, "2 + 2 = 5")])
    outcome = lopa_bench("doctor")
    assert outcome.code == 1
    assert "2 + 2 = 5" in outcome.out and "1 of 1 checks failed" in outcome.out


@pytest.mark.slow
def test_the_installed_program_answers() -> None:
    script = Path(sys.executable).with_name("lopa-bench")
    done = subprocess.run([script, "list", "tasks"], capture_output=True, text=True)
    assert done.returncode == 0 and "mini-maths" in done.stdout


def test_a_command_without_stdout_works_on() -> None:
    script = "import sys; sys.stdout = None\nfrom lopa_bench.cli.app import main; main(['list', 'tasks'])"
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_behind_stdout_is_one_sentence() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full is Linux's")
    script = "from lopa_bench.cli.app import main; main(['list', 'tasks'])"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "lopa-bench: the output cannot be written: No space left on device\n")


def test_a_gate_s_code_is_its_own_though_nobody_reads(tmp_path: Path) -> None:
    store(tmp_path / "runs")
    program = [sys.executable, "-m", "lopa_bench.cli.app"]
    where = ["--runs-dir", str(tmp_path / "runs")]
    baseline = str(tmp_path / "baseline.json")
    subprocess.run([*program, "baseline", "accept", "1", "--why", "x", "--out", baseline, *where], check=True)
    store(tmp_path / "runs", [more_work(one, 2) for one in samples()])
    for more in ([], ["--json"]):
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run([*program, "check", "-b", baseline, *where, *more], stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_disk_behind_stderr_changes_no_code(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full is Linux's")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "lopa_bench.cli.app", "show", "--runs-dir", str(tmp_path)]
        assert subprocess.run(command, stderr=full).returncode == 2


def test_what_is_not_utf8_is_a_sentence(lopa_bench: Any, tmp_path: Path) -> None:
    store(tmp_path / "runs")
    outcome = lopa_bench("baseline", "accept", "1", "--why", "caf\udce9", "--out", str(tmp_path / "baseline.json"))
    assert outcome.code == 2 and "is not UTF-8 and cannot be stored" in outcome.err
    assert not (tmp_path / "baseline.json").exists()


def test_no_name_commands_the_terminal(lopa_bench: Any, tmp_path: Path) -> None:
    for branches in (1, 8):
        store(tmp_path / "runs", run=record(options={"branches": branches, "x": "\x1b[2J\a\u202e"}, title="\x1b]0;"))
    for words in (["show", "1", "--config"], ["frontier", "1", "2"], ["compare", "1", "2"], ["show", "1", "--samples"]):
        outcome = lopa_bench(*words)
        assert outcome.code == 0 and not set("\x1b\a\u202e") & set(outcome.out + outcome.err), words


def test_a_yardstick_is_in_percent(lopa_bench: Any, tmp_path: Path) -> None:
    store(tmp_path / "runs")
    outcome = lopa_bench("frontier", "1", "--y-max", "0.84", "--y-max-name", "the leaderboard")
    assert outcome.code == 2 and "--y-max 0.84 is a share of 1; give it in percent, as 84" in outcome.err


def test_a_damaged_run_is_listed_with_the_others(lopa_bench: Any, tmp_path: Path) -> None:
    for edit in (None, lambda text: "{garbage}\n" + text):
        store(tmp_path / "runs", edit=edit)
    outcome = lopa_bench("list", "runs", "--json")
    assert outcome.code == 0
    rows = {row["run"]: row for row in outcome.document["rows"]}
    assert [(name[:4], row["status"]) for name, row in rows.items()] == [("0001", "finished"), ("0002", "damaged")]
    assert "samples.jsonl is damaged at line 1" in outcome.document["notes"][0]


def test_a_terminal_without_unicode_gets_what_it_can_show() -> None:
    script = "from lopa_bench.cli.app import main; main(['list', 'tasks'])"
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "mini-maths" in done.stdout
