"""Texts that a model, a file or a user may have written, made harmless for where they are shown."""

from __future__ import annotations

import re

ORDERS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)  # turn what follows around, or end the line
COMMANDS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
COMMANDS |= {code: f"\\u{code:04x}" for code in ORDERS}
"""Characters that a terminal or browser obeys instead of showing them, and how they are written."""

LATEX_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "_": r"\_",
        "%": r"\%",
        "&": r"\&",
        "$": r"\$",
        "#": r"\#",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "Δ": r"$\Delta$",
        "τ": r"$\tau$",
        "μ": r"$\mu$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "≈": r"$\approx$",
        "\u2212": "$-$",
        "∅": r"$\emptyset$",
        "→": r"$\rightarrow$",
        "↵": r"$\hookleftarrow$",
        "⏎": r"$\hookleftarrow{}$",
        "…": r"\ldots{}",
        "\n": " ",
        "\t": " ",
    }
)
# What LaTeX's own fonts have beyond ASCII, by the tables of its T1 and TS1 encodings; all else would stop it.
_FOREIGN = re.compile(
    "[^\x00-\x7f\u00a0-\u00b7\u00b9-\u0125\u0128-\u0137\u0139-\u013e\u0141-\u0148\u014a-\u017e"
    "\u2010-\u2015\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2030\u2031\u2039\u203a\u20ac\u2116\u2122\u2190-\u2193"
    f"{''.join(chr(code) for code in LATEX_ESCAPES if code > 0x7F)}]"
)


def visible(text: str) -> str:
    """Return a text that a model may have written with every character shown and none obeyed by the terminal."""
    return text.translate(COMMANDS)


def escape_latex(text: str) -> str:
    """Return `text` with everything LaTeX would read as a command made literal.

    Letters that LaTeX's own fonts lack, as Chinese ones, stand as their numbers.
    """
    known = _FOREIGN.sub(lambda one: f"\uffffU+{ord(one[0]):04X}\uffff", visible(text))
    escaped = re.sub("\uffff(.+?)\uffff", r"\\texttt{\1}", known.translate(LATEX_ESCAPES))
    escaped = escaped.replace("--", "-{}-").replace("--", "-{}-")  # a flag's two hyphens are no dash
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped[:1] in ("[", "*") else escaped  # `\\ [` is read as a length


def escape_markdown(text: str) -> str:
    """Return `text` with what would end a cell, set it in bold or vanish as a tag made literal, on one line."""
    for sign in "\\|*<":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ").translate(COMMANDS)
