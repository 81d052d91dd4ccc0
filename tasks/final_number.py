"""The number in which a worked answer ends."""

from __future__ import annotations

import re
from decimal import Decimal

NUMBER = r"-?\$?[0-9][0-9,]*(?:\.[0-9]+)?"
MARKED = re.compile(rf"####[ \t]*({NUMBER})")
ANYWHERE = re.compile(NUMBER)


def marked_number(text: str) -> str | None:
    """Return the last number that directly follows `####`, as GSM8K's answers give it; None when there is none."""
    return _last(MARKED, text)


def last_number(text: str) -> str | None:
    """Return the last number anywhere in `text`, None when there is none."""
    return _last(ANYWHERE, text)


def same_number(found: str | None, target: str) -> bool:
    """Tell whether two numbers in digits are equal; `12`, `12.0` and `012` are."""
    return found is not None and Decimal(found) == Decimal(target)


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return found[-1].replace(",", "").replace("$", "") if found else None
