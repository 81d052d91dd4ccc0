"""The small part of Python that a judged program may use, checked on its syntax tree before anything runs.

A program is one function of plain statements over numbers, texts, lists, sets and dicts. Attributes exist only as
calls of a few methods, builtins only as a few names, and neither dunder names, imports, classes, exceptions,
`**` nor shifts exist at all: there is no path from such a program to an object that could do harm. What is left to
bound is time and memory, which the worker's limits do (`program_worker`).
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator

BUILTINS = frozenset((
    "abs", "all", "any", "bool", "chr", "dict", "divmod", "enumerate", "filter", "float", "int", "isinstance",
    "len", "list", "map", "max", "min", "ord", "range", "reversed", "round", "set", "sorted", "str", "sum",
    "tuple", "zip",
))  # fmt: skip
METHODS = frozenset((
    "add", "append", "capitalize", "clear", "copy", "count", "discard", "endswith", "extend", "find", "get",
    "index", "insert", "isalnum", "isalpha", "isdigit", "islower", "isspace", "istitle", "isupper", "items",
    "join", "keys", "lower", "lstrip", "pop", "remove", "replace", "reverse", "rfind", "rstrip", "setdefault",
    "sort", "split", "splitlines", "startswith", "strip", "swapcase", "title", "update", "upper", "values",
))  # fmt: skip
# `format` and `format_map` are missing on purpose: their mini-language reads attributes.

STATEMENTS = (
    ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Break, ast.Continue,
    ast.Pass, ast.Expr,
)  # fmt: skip
EXPRESSIONS = (
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.Name, ast.Attribute, ast.Constant,
    ast.Subscript, ast.Slice, ast.Starred, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.keyword, ast.Lambda, ast.arguments, ast.arg,
    ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip
OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor, ast.UAdd,
    ast.USub, ast.Not, ast.Invert, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip

MAX_CHARACTERS = 4000
MAX_DEPTH = 40
MAX_INTEGER = 10**9
MAX_TEXT = 200


class ProgramError(Exception):
    """A text that is not run; `why` is "not extracted", "syntax error" or "outside the subset"."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(f"{why}: {detail}")
        self.why = why


def extract_function(text: str) -> str:
    """Return the first function at the left margin of `text`, a fenced block's inside first where there is one.

    What stands before it and from the next unindented line on is prose or other code and never looked at. Raises
    ProgramError when there is none.
    """
    fenced = re.search(r"^```\w*\n(.*?)(?:^```|\Z)", text, re.DOTALL | re.MULTILINE)
    body = fenced.group(1) if fenced and re.search(r"^def\b", fenced.group(1), re.MULTILINE) else text
    start = re.search(r"^def\b", body, re.MULTILINE)
    if start is None:
        raise ProgramError("not extracted", "no line starts with def")
    first, *rest = body[start.start() :].split("\n")
    lines = [first]
    for line in rest:
        if line.strip() and not line.startswith((" ", "\t", ")")):  # ")" ends a long list of parameters
            break
        lines.append(line)
    return "\n".join(lines).rstrip()


def restrict(source: str) -> tuple[str, str]:
    """Check `source`, the text of one function, and return its name and the code that may be run.

    The code is written anew from the checked tree, without annotations, so that what runs is what was checked.
    Raises ProgramError for a text that is not in the subset.
    """
    if len(source) > MAX_CHARACTERS:
        raise ProgramError("outside the subset", f"longer than {MAX_CHARACTERS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise ProgramError("syntax error", str(error)) from None
    except (RecursionError, MemoryError):
        raise ProgramError("outside the subset", "nested too deeply to be parsed") from None
    function = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(function, ast.FunctionDef):
        raise ProgramError("outside the subset", "not one function definition")
    if function.decorator_list or getattr(function, "type_params", None):
        raise ProgramError("outside the subset", "a decorator or type parameter")
    function.returns = None
    bound = {function.name}
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    _Checker(bound).check_function(function)
    try:
        return function.name, ast.unparse(tree)
    except ValueError as error:  # an f-string that cannot be written with one kind of quotes
        raise ProgramError("outside the subset", str(error)) from None


class _Checker:
    """Walks one function; `bound` holds the names that the function gives a value itself."""

    def __init__(self, bound: set[str]) -> None:
        self._bound = bound

    def check_function(self, function: ast.FunctionDef) -> None:
        """Raise ProgramError when anything in `function` is not in the subset."""
        self._check_name(function.name)
        for node in (function.args, *function.body):
            self._check(node, 1)

    def _check(self, node: ast.AST, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ProgramError("outside the subset", f"nested more than {MAX_DEPTH} deep")
        if not isinstance(node, (*STATEMENTS, *EXPRESSIONS, *OPERATORS)):
            raise ProgramError("outside the subset", type(node).__name__)
        children = ast.iter_child_nodes(node)
        if isinstance(node, ast.Call):
            children = self._check_call(node)
        elif isinstance(node, ast.Attribute):
            raise ProgramError("outside the subset", f"attribute {node.attr}")
        elif isinstance(node, ast.Name):
            self._check_name(node.id)
        elif isinstance(node, ast.Constant):
            _check_constant(node.value)
        elif isinstance(node, ast.arguments):
            _check_arguments(node)
        elif isinstance(node, ast.arg):
            self._check_name(node.arg)
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(value=None)
        elif isinstance(node, ast.comprehension) and node.is_async:
            raise ProgramError("outside the subset", "an asynchronous comprehension")
        elif isinstance(node, ast.FormattedValue) and (node.format_spec is not None or node.conversion != -1):
            raise ProgramError("outside the subset", "a format specification")
        for child in children:
            self._check(child, depth + 1)

    def _check_call(self, node: ast.Call) -> Iterator[ast.AST]:
        """Check what is special to a call and return what else there is to check in it."""
        if isinstance(node.func, ast.Attribute) and node.func.attr not in METHODS:
            raise ProgramError("outside the subset", f"method {node.func.attr}")
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ProgramError("outside the subset", "** in a call")
            self._check_name(keyword.arg)
        called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        return iter([called, *node.args, *node.keywords])

    def _check_name(self, name: str) -> None:
        """Allow the function's own names and the listed builtins; an unknown name fails when it is run."""
        is_barred = name not in BUILTINS and name not in self._bound and hasattr(builtins, name)
        if "__" in name or is_barred:
            raise ProgramError("outside the subset", f"name {name}")


def _check_arguments(arguments: ast.arguments) -> None:
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs or arguments.kwonlyargs:
        raise ProgramError("outside the subset", "parameters other than plain ones")
    if any(not isinstance(default, ast.Constant) for default in arguments.defaults):
        raise ProgramError("outside the subset", "a default that is not a constant")


def _check_constant(value: object) -> None:
    if value is None or isinstance(value, (bool, float)):
        return
    if isinstance(value, int) and value <= MAX_INTEGER:
        return
    if isinstance(value, str) and len(value) <= MAX_TEXT:
        return
    raise ProgramError("outside the subset", f"a constant of type {type(value).__name__} or of that size")
