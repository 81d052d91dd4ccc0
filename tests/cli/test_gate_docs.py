"""The pages on comparing and on gates: every command in them is one, and the workflow is valid YAML that calls them."""

from __future__ import annotations

import re
import shlex
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


def test_the_workflow_runs_cells_then_checks_them_and_keeps_the_report() -> None:
    text = (DOCS / "ci.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.+?)```", text, re.DOTALL)
    [job] = yaml.safe_load(block)["jobs"].values()
    commands = [step.get("run", "") for step in job["steps"]]
    first, second = (next(i for i, one in enumerate(commands) if word in one) for word in ("demo", "check"))
    assert first < second and "--all-cells" in commands[second]
    assert "report.xml" in job["steps"][-1]["with"]["path"] and job["steps"][-1]["if"] == "always()"
