"""The pages on comparing and on gates: every command in them is one, and the workflow is valid YAML that calls them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from lopa_bench.cli import app as program

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = ("comparing.md", "ci.md")


def lines(page: str) -> list[str]:
    """The `lopa-bench ...` lines of a page's code blocks and workflow."""
    found = re.findall(r"^(?: {4}|\s*- run: )(lopa-bench .+)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    return [line.partition("  #")[0] for line in found]


def parse(words: list[str]) -> None:
    """Let the command line take the words, as far as it goes without running anything."""
    command: Any = get_command(program.app)
    names = ["lopa-bench"]
    while hasattr(command, "commands"):
        names.append(words[0])
        command, words = command.commands[words[0]], words[1:]
    command.make_context(" ".join(names), words)


@pytest.mark.parametrize("line", [line for page in PAGES for line in lines(page)])
def test_every_command_of_the_pages_is_one(line: str) -> None:
    parse(shlex.split(line)[1:])


def test_there_are_commands_on_both_pages() -> None:
    assert all(len(lines(page)) >= 4 for page in PAGES)


def workflow() -> dict[str, list[dict[str, Any]]]:
    """The steps of the workflow's jobs."""
    text = (DOCS / "ci.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.+?)```", text, re.DOTALL)
    return {name: job["steps"] for name, job in yaml.safe_load(block)["jobs"].items()}


def commands(job: str) -> list[str]:
    return [step.get("run", "") for step in workflow()[job]]


def test_the_workflow_runs_cells_then_checks_them_and_keeps_the_report() -> None:
    found = commands("gate")
    first, second = (next(i for i, one in enumerate(found) if word in one) for word in ("demo", "check"))
    assert first < second and "--all-cells" in found[second]
    last = workflow()["gate"][-1]
    assert "report.xml" in last["with"]["path"] and last["if"] == "always()"


def test_the_workflow_s_speeds_are_those_of_both_versions_on_one_machine_and_measured_again_before_they_fail() -> None:
    text = "\n".join(commands("speed")).replace("\\\n", " ")
    ours = [line.strip() for line in text.splitlines() if re.match(r"\s*(old/bin/)?lopa-bench ", line)]
    assert [line.startswith("old/") for line in ours] == [True, False, True, False]
    assert "for turn in 1 2 3" in text, "a speed needs three runs"
    for line in ours:
        parse(shlex.split(line.replace("$decoder", "lopa").removeprefix("old/bin/"))[1:])
    assert "--tps" in ours[-1] and "--remeasure" in ours[-1] and "accept 1 2 3 4 5 6 " in ours[2]


@pytest.mark.parametrize("job", ["gate", "speed"])
def test_the_workflow_installs_what_is_checked_out_and_from_no_index(job: str) -> None:
    installs = [one for one in commands(job) if "pip install" in one]
    assert installs and all(re.search(r"pip install --constraint \S+ \.(/before)?$", one) for one in installs)
    assert workflow()[job][0]["uses"].startswith("actions/checkout@")


@pytest.mark.parametrize("job", ["gate", "speed"])
def test_the_shell_of_the_workflow_is_shell(job: str) -> None:
    script = "\n".join(commands(job))
    assert subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True).stderr == ""
