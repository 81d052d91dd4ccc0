"""Every command that prints a table prints it in all formats, with equal numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_cases import lopa
from typer.main import get_command

from lopa_bench.cli import app as program
from lopa_bench.cli.options import OUTPUT
from lopa_bench.results.characters import LATEX_ESCAPES

FORMATS = ("json", "csv", "markdown", "latex")
# Commands that print no table, or none that is a result: what they print instead.
NO_TABLE = {
    "train": "its course, line by line",
    "export": "files",
    "report": "a folder",
}
# Commands whose table takes too long here: where their formats are tested.
ELSEWHERE = {
    "demo": "the same table functions as sweep; tests/cli/test_app.py",
    "noise": "tests/harness/test_noise.py",
    "speed": "measures anew at each call; tests/harness/speed/test_speed.py",
    "verify": "needs reference models; tests/cli/test_app.py",
}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command with its words."""
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from leaves(one, (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = dict(leaves(get_command(program.app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_all_formats_or_no_table(name: str) -> None:
    panels = {option.name: option.rich_help_panel for option in COMMANDS[name].params if option.name in FORMATS}
    if name in NO_TABLE:
        assert set(panels) <= {"json"}
    else:
        assert panels == dict.fromkeys(FORMATS, OUTPUT)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs to show: two that can be compared."""
    root = tmp_path_factory.mktemp("stored")
    lopa(root / "runs", 1)
    lopa(root / "runs", 4, rounds=0.5, correct=(1.0,) * 15 + (0.0,) * 5)
    (root / "data").mkdir()
    return root


CASES: dict[str, tuple[str, ...]] = {
    "list": ("list", "runs", "--runs-dir", "{root}/runs"),
    "show": ("show", "1", "--runs-dir", "{root}/runs"),
    "compare": ("compare", "1", "2", "--runs-dir", "{root}/runs"),
    "frontier": ("frontier", "1", "2", "--runs-dir", "{root}/runs"),
    "baseline accept": ("baseline", "accept", "1", "--why", "trial", "--out", "new.json", "--runs-dir", "{root}/runs"),
    "check": ("check", "--baseline", "{root}/baseline.json", "2", "--runs-dir", "{root}/runs"),
    "describe": ("describe", "mini-maths"),
    "reproduce": ("reproduce", "lopa-table1", "--dry-run"),
    "sweep": (
        "sweep", "--task", "mini-maths", "--decoder", "d2f,lopa", "--branches", "1,2", "--limit", "1", "--model",
        "{model}", "--max-new-tokens", "8", "--block-length", "4", "--threads", "1", "--warmup", "0", "--set",
        "trace=true",
    ),
    "run": (
        "run", "--task", "mini-maths", "--decoder", "lopa", "--branches", "2", "--limit", "1", "--model", "{model}",
        "--max-new-tokens", "8", "--block-length", "4", "--threads", "1", "--warmup", "0", "--trace",
    ),
    "rescore": ("rescore", "last"),
    "analyse": ("analyse", "last"),
    "trace": ("trace", "last"),
    "doctor": ("doctor", "--part", "versions"),
    "data check": ("data", "check", "humaneval", "--data-dir", "{data}"),
}  # fmt: skip
# Their tables come from runs that the command itself must make first.
AFTER_A_RUN = ("rescore", "analyse", "trace")


def test_every_command_with_a_table_is_tried() -> None:
    assert set(COMMANDS) - set(NO_TABLE) - set(ELSEWHERE) <= set(CASES)


def cells(text: str, is_latex: bool) -> list[list[list[str]]]:
    """The tables of a Markdown or LaTeX text as plain rows, titles first."""
    tables: list[list[list[str]]] = []
    last = ""
    for line in text.splitlines():
        if is_latex and line.endswith(r" \\"):
            row = [plain_latex(one) for one in line.removesuffix(r" \\").split(" & ")]
            begins = last == r"\toprule"
        elif not is_latex and line.startswith("| "):
            row = [plain_markdown(one) for one in re.split(r"(?<!\\) \| ", line[2:].removesuffix(" |"))]
            begins = not last.startswith("|")
        else:
            last = line
            continue
        last = line
        if begins:
            tables.append([])
        if not all(re.fullmatch(r":?-{3}:?", one) for one in row) or is_latex:
            tables[-1].append(row)
    return tables


def plain_markdown(text: str) -> str:
    return re.sub(r"\\([|*<\\])", r"\1", re.sub(r"^\*+(.+?)(?<!\\)\*+$", r"\1", text)).strip()


def plain_latex(text: str) -> str:
    text = re.sub(r"^\\text(?:bf|it)\{(.*)\}$", r"\1", text).replace("{[}", "[").replace("-{}-", "--")
    text = re.sub(r"\\texttt\{U\+([0-9A-F]+)\}", lambda one: chr(int(one[1], 16)), text)
    for sign, escape in sorted(LATEX_ESCAPES.items(), key=lambda pair: -len(str(pair[1]))):
        text = text.replace(str(escape), chr(sign)) if str(escape).strip() else text
    return text.strip()


def numbers(value: Any) -> set[float]:
    """All numbers of a JSON document."""
    if isinstance(value, dict):
        return {one for inner in value.values() for one in numbers(inner)}
    if isinstance(value, list):
        return {one for inner in value for one in numbers(inner)}
    return {float(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


def is_shown(text: str, value: float) -> bool:
    """Whether a shown cell is this number, as it is or in percent, rounded as shown."""
    found = re.match(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", text)
    if found is None:
        return False
    digits = len(found[0].partition(".")[2]) if "e" not in found[0] else 12
    return any(abs(float(found[0]) - scale * value) <= 0.5001 * 10**-digits for scale in (1, 100))


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_equal_in_every_format(
    name: str,
    call: Any,
    root: Path,
    diffusion_checkpoint: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = request.getfixturevalue("data_dir") if name == "data check" else root / "data"
    if name == "check":
        accept = [word.format(root=root) for word in CASES["baseline accept"]]
        assert call(*[str(root / "baseline.json") if word == "new.json" else word for word in accept])[0] == 0
    if name == "doctor":
        monkeypatch.setattr("lopa_bench.harness.equivalence.checks", lambda device: [])  # tried in test_app.py
    words = [word.format(root=root, model=diffusion_checkpoint, data=data) for word in CASES[name]]
    if name in AFTER_A_RUN:
        assert call(*(word.format(model=diffusion_checkpoint) for word in CASES["run"]))[0] == 0
    code, shown, err = call(*words)
    assert shown and "Traceback" not in err
    out = {}
    for format in FORMATS:
        code_then, out[format], err = call(*words, f"--{format}")
        assert code_then == code, err
    markdown, latex = cells(out["markdown"], False), cells(out["latex"], True)
    assert markdown and markdown == latex
    rows = list(csv.reader(io.StringIO(out["csv"])))
    assert all(len(row) == len(rows[0]) for row in rows)
    in_json = numbers(json.loads(out["json"]))
    exact = [value for row in rows[1:] for value in row if re.fullmatch(r"-?\d+\.\d{4,}", value)]
    if name not in ("run", "rescore", "doctor"):  # their times change from run to run, or there are none
        assert {float(value) for value in exact} <= in_json
    if len(markdown) == 1 and len(rows) == len(markdown[0]):
        check_columns(rows, markdown[0])


def check_columns(rows: list[list[str]], shown: list[list[str]]) -> None:
    """Column by column, the bounds of intervals left out: what CSV holds is what the table shows."""
    names = rows[0]
    own = [i for i, name in enumerate(names) if not name.endswith(("_low", "_high"))]
    if len(own) != len(shown[0]):
        return
    for row, cells_shown in zip(rows[1:], shown[1:], strict=True):
        for index, text in zip(own, cells_shown, strict=True):
            value = row[index]
            if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", value):
                assert is_shown(text, float(value)), (names[index], value, text)
