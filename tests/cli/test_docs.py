"""docs/cli.md is what the commands say, and every `lopa-bench` line in README and docs is a command that can be run.

Lines are taken from indented blocks, from fenced ones of `console`, and from `- run:` steps. Each must parse: command,
options, values. Those that need nothing named in NOT_RUN are run for real, made cheap by the rule of `cheapened`.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from report_cases import lopa
from typer.main import get_command

from lopa_bench.cli import app as program
from lopa_bench.cli.reference import reference
from lopa_bench.results.jsonl import gzip_member
from lopa_bench.results.store import TRACES_FILE, load_run
from lopa_bench.results.sweeps import SweepCell, SweepRecord, write_sweep
from lopa_bench.results.trace import RoundRecord, TraceRecord

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMANDS = get_command(program.app)
# What a command needs that is not here; all else is run.
NOT_RUN = {
    "lopa-bench speed": "measures for half a minute",
    "--preset": "a checkpoint from the hub",
    "--base-url": "a server",
    "lopa-dream-": "a checkpoint from the hub",
    "Qwen/": "a checkpoint from the hub",
    "HuggingFaceTB/": "a checkpoint from the hub",
    "--data-dir": "the tasks' files",
    "gsm8k": "the tasks' files",
    "humaneval": "the tasks' files",
    "--device cuda": "a GPU",
    "demo": "ten runs; tests/cli/test_app.py",
    "doctor": "seconds; tests/cli/test_app.py",
    "verify": "reference cases with their models",
    "train": "minutes, or a checkpoint to train",
    "rescore": "answers of a model; tests/cli/test_rescore_export.py",
    "export": "answers of a model; tests/cli/test_rescore_export.py",
    "noise": "several runs; tests/harness/test_noise.py",
    "torchrun": "several processes",
    "--devices": "several processes",
}


def lines_of(page: Path) -> list[str]:
    """The command lines of a page, without comments."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = re.findall(r"^```(?:console|sh|bash)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^ {4,}(lopa-bench .+)$", outside, re.MULTILINE)
    found += [line.strip() for block in fenced for line in block.splitlines() if line.strip().startswith("lopa-bench ")]
    found += re.findall(r"^\s*- run: (lopa-bench .+)$", text, re.MULTILINE)
    return list(dict.fromkeys(plain(line) for line in found))


def plain(line: str) -> str:
    """Return a line without comment; of a synopsis, every option that may be there and the first of alternatives."""
    line = line.split("  #")[0].split(" | ")[0].strip()
    return re.sub(r"(?<=\w)(?:\|[\w-]+)+", "", line.replace("[", "").replace("]", ""))


LINES = [(page.name, line) for page in PAGES for line in lines_of(page)]


def parse(words: list[str]) -> str:
    """Let the command line take the words, as far as it goes without running anything; return the command's name."""
    command: Any = COMMANDS
    names = []
    while hasattr(command, "commands"):
        names.append(words[0])
        command, words = command.commands[words[0]], words[1:]
    if not {"--help", "-h"} & set(words):
        command.make_context(" ".join(["lopa-bench", *names]), list(words))
    return " ".join(names)


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    page = ROOT / "docs" / "cli.md"
    made = reference(COMMANDS)
    if os.environ.get("LOPA_BENCH_UPDATE_DOCS"):
        page.write_text(made, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == made, "LOPA_BENCH_UPDATE_DOCS=1 pytest tests/cli/test_docs.py"


def test_every_command_of_the_program_is_on_its_page_with_an_example() -> None:
    text = reference(COMMANDS)
    for name in COMMANDS.commands:
        assert f"## lopa-bench {name}" in text
    sections = text.split("\n## ")[1:]
    assert all("```console\nlopa-bench " in section for section in sections)


@pytest.mark.parametrize(("page", "line"), LINES)
def test_every_command_line_of_the_pages_is_one(page: str, line: str) -> None:
    parse(shlex.split(line)[1:])


def test_the_readme_and_most_pages_have_commands() -> None:
    pages = {page for page, _ in LINES}
    assert {"README.md", "sweeps.md", "comparing.md", "ci.md", "cli.md", "reports.md"} <= pages
    assert len(LINES) > 60


def cheapened(words: list[str], name: str) -> list[str]:
    """Make a command quick: one answer, sweeps and published tables no further than their lists."""
    if name == "run":
        words = _with(words, "--limit", "1")
    if name == "sweep":
        words = [*_with(words, "--limit", "1"), "--dry-run"]
    if name == "reproduce":
        words = [*words, "--dry-run"]
    return words


def _with(words: list[str], option: str, value: str) -> list[str]:
    """Give an option a value, in place of what it had."""
    if option in words:
        index = words.index(option)
        return [*words[: index + 1], value, *words[index + 2 :]]
    return [*words, option, value]


def is_run(line: str) -> bool:
    return not any(word in line for word in NOT_RUN) and not re.search(r"\b[A-Z]{3,}\b", line)


RUN = list(dict.fromkeys(line for page, line in LINES if page != "cli.md" and is_run(line)))


@pytest.mark.parametrize("line", RUN)
def test_commands_of_the_pages_run(line: str, call: Any, tmp_path: Path) -> None:
    """In an empty folder with two stored runs, a sweep's file and a baseline, as the pages have them by then."""
    words = shlex.split(line)[1:]
    name = parse(words)
    prepare(tmp_path, call)
    code, out, err = call(*cheapened(words, name))
    assert code in ((0, 1) if name == "check" else (0,)), err
    assert out or err


def prepare(folder: Path, call: Any) -> None:
    """Put there what the pages' commands find: some runs, the last traced, a sweep's file and its sweep, a baseline."""
    for index, branches in enumerate((1, 8, 2, 4)):
        lopa(folder / "runs", branches, rounds=1 - 0.1 * index)
    text = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.+?)```", text, re.DOTALL)
    (folder / "branches.yaml").write_text(block, encoding="utf-8")
    runs = sorted(path.name for path in (folder / "runs").glob("0*"))
    last = load_run("last", folder / "runs")
    answer = last.samples[0]
    filled = [RoundRecord(index=place, positions=(place,), tokens=(id,)) for place, id in enumerate(answer.token_ids)]
    filled[answer.work.rounds - 1 :] = [
        RoundRecord(
            index=answer.work.rounds - 1,
            positions=tuple(range(answer.work.rounds - 1, len(filled))),
            tokens=answer.token_ids[answer.work.rounds - 1 :],
        )
    ]
    trace = TraceRecord(id=answer.id, rounds=tuple(filled))
    (last.path / TRACES_FILE).write_bytes(gzip_member(trace.model_dump_json().encode() + b"\n"))
    cells = tuple(SweepCell(values={}, run=name) for name in runs)
    write_sweep(folder / "runs", SweepRecord(name="branches", cells=cells))
    assert call("baseline", "accept", "1", "--why", "first", "--out", "baseline.json")[0] == 0
