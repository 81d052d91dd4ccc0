"""How the authors of D2F, Fast-dLLM and LoPA turn a HumanEval answer into a program (their script comes from Dream).

Written from a description of what it does, and kept as it is where one would do otherwise: at most 100 lines are looked
at, what stands before the dot of an attribute is not searched for names, and a function without `return` is dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from lopa_bench.tasks.longest_code import longest_code

MAX_LINES = 100
FENCE = "```"


def authors_program(prompt: str, text: str, entry_point: str) -> str:
    """Return the program: the prompt, the answer's first fenced block or all of it, then only what is needed.

    Raises:
        CleanupFailed: the parser gave up.
    """
    answer = text.split(f"{FENCE}python\n", 1)[-1].split(FENCE)[0]
    return keep_needed(longest_lines(f"{prompt}\n{answer}"), entry_point)


def longest_lines(text: str) -> str:
    """Return the longest run of lines that parses, of the first hundred; "" when there is none."""
    text = text.replace("\t", "    ").replace("\r\n", "\n").replace("\r", "\n").strip()
    lines = text.splitlines()[:MAX_LINES]
    found = longest_code(lines, min_lines=1)
    return "" if found is None else "\n".join(lines[found[0] : found[1] + 1])


def keep_needed(code: str, entry_point: str) -> str:
    """Return the imports and those definitions that the entry point leads to, written anew."""
    imports: list[ast.stmt] = []
    definitions: dict[str, ast.stmt] = {}
    for node in ast.parse(code).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif (name := _defined_name(node)) is not None:
            definitions[name] = node  # a later one takes an earlier one's place in the order
    needed = _reachable(entry_point, {name: _used_names(node) for name, node in definitions.items()})
    kept = imports + [node for name, node in definitions.items() if name in needed]
    return "\n".join(map(ast.unparse, kept))


def _defined_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.FunctionDef):
        return node.name if any(isinstance(inner, ast.Return) for inner in ast.walk(node)) else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _used_names(node: ast.AST) -> set[str]:
    names, waiting = set(), [node]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.Name):
                names.add(child.id)
            elif isinstance(child, ast.Attribute):
                names.add(child.attr)
            else:
                waiting.append(child)
    return names


def _reachable(start: str, uses: Mapping[str, set[str]]) -> set[str]:
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(uses.get(name, ()))
    return found
