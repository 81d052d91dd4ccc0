"""docs/cli.md is what the commands say, and every `lopa-bench` line in README and docs is a command that can be run.

Lines are taken from indented blocks, from fenced ones of `console`, and from `- run:` steps. Each must parse: command,
options, values. Those that hold nothing named in NOT_RUN are run for real in a folder that has what the pages speak of,
their placeholders filled by FILLED, made cheap by the rule of `cheapened`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes import write_checkpoint
from report_cases import lopa
from typer.main import get_command

from lopa_bench.cli import app as program
from lopa_bench.cli.reference import reference
from lopa_bench.decoders.registry import create
from lopa_bench.models.loading import load_model
from lopa_bench.results.jsonl import gzip_member
from lopa_bench.results.store import TRACES_FILE, load_run
from lopa_bench.results.sweeps import SweepCell, SweepRecord, write_sweep
from lopa_bench.results.trace import RoundRecord, TraceRecord
from lopa_bench.tasks.maths_tasks import GSM8K_TEST, GSM8K_TRAIN

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMANDS = get_command(program.app)
# What a line holds that cannot be had here, and what that is; all other lines are run.
NOT_RUN = {
    "lopa-bench speed": "measures for half a minute; tests/harness/speed",
    "lopa-bench demo": "ten runs; tests/cli/test_app.py",
    "lopa-bench train [a-z]": "minutes, or a checkpoint to train; tests/training",
    "--preset": "a checkpoint from the hub",
    "lopa-dream-": "a checkpoint from the hub",
    "Qwen/": "a checkpoint from the hub",
    "reproduce lopa-table1 (?!.*bundled)": "a checkpoint from the hub",
    "reproduce fast-dllm-table2": "a checkpoint from the hub",
    "humaneval": "the task's own inputs, on which programs are run; tests/cli/test_rescore_export.py",
    "--scorer evalplus": "programs for HumanEval; tests/cli/test_rescore_export.py",
    "mbpp": "the task's files; tests/harness/test_data_check.py",
    "--base-url": "a server; tests/cli/test_server.py",
    "--devices": "several processes; tests/harness/distributed",
}
# What stands on the pages for something of the reader's own, and what it is in the prepared folder.
FILLED = {
    "--baseline FILE": "--baseline baseline.json",
    "--sweep NAME": "--sweep branches",
    "--decoder NAME": "--decoder d2f",
    "--models-dir DIR": "--models-dir models",
    "--data-dir DIR": "--data-dir data",
    "--data-dir DATA": "--data-dir data",
    "CASES.json": "models/cases.json",
    "--out PATH": "--out written",
    " RUN ": " last ",
    "~/models/smollm2": "models/causal",
    # Of the formats only this one is of programs for HumanEval; the other two are of any task.
    "export last --format evalplus": "export last --format csv",
}
OF_ANSWERS = ("rescore", "export", "noise")  # what they find last is a run of a model, not one that was made up


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
    """Make a command quick: few and short answers, sweeps and published tables no further than their lists."""
    if name == "run":
        words = _with(_with(words, "--limit", "1"), "--max-new-tokens", "32")
    if name == "noise":
        words = _with(words, "--repeats", "2")
        words = _with(words, "--limit", "1") if "--task" in words else words
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


def filled(line: str) -> str:
    """Return a line with what the prepared folder has in place of what readers have."""
    line = f"{line} "
    for placeholder, value in FILLED.items():
        line = line.replace(placeholder, value)
    return line.strip()


def reasons(line: str) -> list[str]:
    """What NOT_RUN has against a line; asking for help needs nothing."""
    return [] if "--help" in line else [what for what in NOT_RUN if re.search(what, line)]


OF_PAGES = list(dict.fromkeys(line for page, line in LINES if page != "cli.md"))
RUN = [line for line in OF_PAGES if not reasons(line)]


def test_nothing_is_left_out_without_a_reason_that_holds() -> None:
    assert all(any(re.search(what, line) for line in OF_PAGES) for what in NOT_RUN)
    assert all(any(what in f"{line} " for line in OF_PAGES) for what in FILLED)
    assert not [line for line in RUN if re.search(r"\b[A-Z]{3,}\b", filled(line))]


def test_most_lines_of_the_readme_are_run() -> None:
    lines = [line for page, line in LINES if page == "README.md"]
    left_out = {line: reasons(line) for line in lines if reasons(line)}
    assert len(lines) > 20 and len(left_out) <= 4, left_out


@pytest.mark.parametrize("line", RUN)
def test_commands_of_the_pages_run(
    line: str, call: Any, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy of the prepared folder, which is as the pages have it by then."""
    words = shlex.split(filled(line))[1:]
    name = parse(words)
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True, symlinks=True)
    if name in OF_ANSWERS:
        shutil.copytree(tmp_path / "answers", tmp_path / "runs", dirs_exist_ok=True)
    monkeypatch.setenv("LOPA_BENCH_DATA", "data")
    monkeypatch.setattr("lopa_bench.harness.equivalence.checks", lambda device: [])  # seconds; tests/cli/test_app.py
    code, out, err = call(*cheapened(words, name))
    assert code in ((0, 1) if name == "check" else (0,)), err
    assert out or err


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages' commands find: runs, a sweep, a baseline, models, cases and the data of GSM8K."""
    folder, kept = tmp_path_factory.mktemp("prepared"), tmp_path_factory.mktemp("kept")
    stored_runs(folder)
    command("baseline", "accept", "1", "--why", "first", "--out", f"{folder}/baseline.json", "--runs-dir",
            f"{folder}/runs")  # fmt: skip
    write_checkpoint(kept / "models" / "tiny")
    write_checkpoint(kept / "models" / "causal", causal=True)
    made_up_problems(kept / "data" / "gsm8k" / "main")
    (kept / "models" / "cases.json").write_text(json.dumps([decoded_case(kept / "models")]), encoding="utf-8")
    for name in ("models", "data"):
        (folder / name).symlink_to(kept / name)
    answers_of_a_model(folder)
    return folder


def command(*words: str) -> None:
    """Run a command that prepares something; it must go well."""
    with pytest.raises(SystemExit) as caught:
        program.main(list(words))
    assert not caught.value.code


def stored_runs(folder: Path) -> None:
    """Put some runs there, the last traced, a sweep's file and its sweep."""
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


def answers_of_a_model(folder: Path) -> None:
    """Decode two answers and keep them apart as the run behind the stored ones."""
    command(
        "run", "-t", "mini-code", "-d", "lopa", "-m", f"{folder}/models/tiny", "--branches", "2", "-n", "2", "--warmup",
        "0", "--max-new-tokens", "16", "--block-length", "8", "--threads", "1", "--runs-dir", f"{folder}/answers",
    )  # fmt: skip
    [run] = (folder / "answers").glob("0001-*")
    run.rename(run.with_name(run.name.replace("0001-", "0005-")))


def made_up_problems(folder: Path) -> None:
    """Write as many problems as GSM8K has, two kinds of them, in the hub's layout: a file with fewer is refused."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True)
    for split in (GSM8K_TEST, GSM8K_TRAIN):
        rows = [
            {"question": f"What is {one} {sign} 1?", "answer": f"{one} {sign} 1 = {result}\n#### {result}"}
            for one in range(1, split.num_rows // 2 + 2)
            for sign, result in (("+", one + 1), ("-", one - 1))
        ][: split.num_rows]
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{split.split}-00000-of-00001.parquet")


def decoded_case(models: Path) -> dict[str, Any]:
    """A case for `verify`: what D2F decodes with the tiny network."""
    options = {"max_new_tokens": 16, "block_size": 8, "early_stop": False}
    generation = create("d2f", load_model(models / "tiny"), options).decode([5, 17, 3])
    rounds = generation.run()
    own = {name: value for name, value in options.items() if name != "early_stop"}
    return {
        "decoder": "d2f", "model": "tiny", "config": own, "prompt": [5, 17, 3], "tokens": generation.answer,
        "forwards": len(rounds),
    }  # fmt: skip
