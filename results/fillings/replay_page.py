"""The filling of one answer as a page of HTML that plays, needs nothing from a network and prints."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from lopa_bench.results.characters import visible as visible_text
from lopa_bench.results.fillings.replay import NEWLINE_SIGN, Replay, colour_of, ink_on, runs_of, visible
from lopa_bench.results.jsonl import replace_file, sentence_on_os_error

TEMPLATE = "templates/trace.html.j2"


def write_page(shown: Replay, path: Path) -> None:
    """Write the page to `path`; ResultsError when it cannot be written."""
    with sentence_on_os_error("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, visible_text(page(shown)).encode())


def page(shown: Replay) -> str:
    """Return the page."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    source = resources.files("lopa_bench.results").joinpath(TEMPLATE).read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True).from_string(source)
    rounds = [
        {"index": one.index, "count": len(one.positions), "pieces": _pieces(shown, index)}
        for index, one in enumerate(shown.trace.rounds)
    ]
    return template.render(
        facts=shown.facts(),
        num_rounds=shown.num_rounds,
        has_branches=any(slot.looked_ahead for slot in shown.slots),
        rounds=rounds,
        data=Markup(_in_script(document(shown))),
    )


def document(shown: Replay) -> dict[str, Any]:
    """Return what the page plays, as JSON values: its slots and rounds."""
    open_slots = 0
    rounds = []
    for index, one in enumerate(shown.trace.rounds):
        open_slots = max(open_slots, one.num_slots or max(one.positions, default=-1) + 1)
        colour = colour_of(index, shown.num_rounds)
        rounds.append(
            {
                "count": len(one.positions),
                "open": open_slots,
                "colour": colour,
                "ink": ink_on(colour),
                "winner": one.winner,
                "branches": [
                    {
                        "position": branch.position,
                        "text": None if branch.token is None else _line(shown.trace.spell(branch.token)),
                        "score": branch.score,
                        "filled": branch.num_filled,
                    }
                    for branch in one.branches
                ],
            }
        )
    slots = [
        {
            "position": slot.position,
            "text": visible(slot.text),
            "round": slot.round,
            "ahead": slot.looked_ahead,
            "behind": slot.behind_end,
        }
        for slot in shown.slots
    ]
    return {"slots": slots, "rounds": rounds}


def _pieces(shown: Replay, index: int) -> str:
    pieces = runs_of(shown.trace.rounds[index], shown.trace)
    return " | ".join(f"{first}:{_line(text)}" for first, text in pieces)


def _line(text: str) -> str:
    return visible(text).replace(f"{NEWLINE_SIGN}\n", NEWLINE_SIGN)


def _in_script(content: dict[str, Any]) -> str:
    """Return JSON that cannot end the script element it stands in, whatever a model wrote."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
