"""The reference of all commands, made from the commands themselves: docs/cli.md is what `reference()` returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEAD = """\
# Commands

Made from the commands; `LOPA_BENCH_UPDATE_DOCS=1 pytest tests/cli/test_docs.py` writes it anew. `lopa-bench COMMAND
--help` prints the same. Settings can also stand in a file, see [sweeps](sweeps.md).

Exit codes of all commands: 0 done, 1 a check failed or something regressed, 2 a mistake in what was asked or something
that is missing, 3 not comparable, 130 or 143 stopped.
"""
OTHER = "Options"


def reference(command: Any, program: str = "lopa-bench") -> str:
    """Return the Markdown page of `command`, a group whose commands have help texts that end with an example."""
    leaves = list(_leaves(command, (program,)))
    links = [f"[{name.removeprefix(program + ' ')}](#{name.replace(' ', '-')})" for name, _ in leaves]
    return "\n".join([HEAD, " · ".join(links), "", *(line for name, one in leaves for line in _section(name, one))])


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield every command under a group with its words."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command
        return
    for name, one in inner.items():
        yield from _leaves(one, (*path, name))


def _section(name: str, command: Any) -> Iterator[str]:
    """Yield one command's lines: what it does, an example, and its arguments and options by panel."""
    about, _, example = (command.help or "").partition("Example:")
    yield f"## {name}\n"
    for paragraph in about.strip().split("\n\n"):
        yield " ".join(paragraph.split()) + "\n"
    if example:
        yield f"```console\n{' '.join(example.split())}\n```\n"
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if parameter.name != "help" and not getattr(parameter, "hidden", False):
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or OTHER, []).append(parameter)
    for panel, parameters in panels.items():
        yield f"| {panel} | default | meaning |\n| :--- | :--- | :--- |"
        yield "\n".join(_row(one) for one in parameters) + "\n"


def _row(parameter: Any) -> str:
    is_option = parameter.opts[0].startswith("-")
    word = parameter.metavar or parameter.name.upper()
    if not is_option:
        name = word
    elif getattr(parameter, "is_flag", False):
        name = ", ".join([*parameter.opts, *parameter.secondary_opts])
    else:
        name = f"{', '.join(parameter.opts)} {word}"
    meaning = " ".join((getattr(parameter, "help", "") or "").split())
    notes = ["needed"] if parameter.required else []
    notes += ["may be repeated"] if getattr(parameter, "multiple", False) and "repeat" not in meaning else []
    notes += [f"also {parameter.envvar} of the environment"] if isinstance(parameter.envvar, str) else []
    ending = f" ({'; '.join(notes)})" if notes else ""
    return f"| `{name}` | {_default(parameter)} | {_escaped(meaning + ending)} |"


def _default(parameter: Any) -> str:
    value = parameter.default
    is_flag = getattr(parameter, "is_flag", False)
    if value is None or callable(value) or value == [] or value == () or value == "" or (is_flag and not value):
        return ""
    return f"`{_escaped('yes' if is_flag else str(value))}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
