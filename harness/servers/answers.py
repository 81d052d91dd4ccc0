"""What a completions server says, read: an answer, an event of a stream, a refusal."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lopa_bench.errors import DecodeError

MOST_TOKENS = 10**9
"""A larger count of tokens is no count."""


@dataclass(frozen=True)
class Completion:
    """One answer as the server gave it.

    `num_tokens` and `num_prompt_tokens` are what the server counted, None where it does not say; `num_pieces` how many
    parts of a stream held text, None where nothing was streamed. `first_token_s` and `total_s` run from sending the
    request that was answered in the end; `num_retries` tells how many were sent before it.
    """

    text: str
    num_tokens: int | None
    num_prompt_tokens: int | None
    num_pieces: int | None
    first_token_s: float | None
    total_s: float
    finish_reason: str | None
    stop: str | None
    num_retries: int = 0


class Passing(Exception):
    """A failure that may be gone at the next attempt; `after_s` is how long the server asks to wait."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s


class Unreachable(Passing):
    """No connection could be made at all."""


def completion_of(
    found: Mapping[str, Any],
    text: str,
    num_pieces: int | None,
    first_token_s: float | None,
    total_s: float,
    retries: int,
) -> Completion:
    """Return what an answer, or a stream's events laid over each other, comes to.

    Raises:
        DecodeError: there is no completion in it.
    """
    choice = choice_of(found)
    if "error" in found or not choice:
        raise DecodeError(f"the server's answer holds no completion: {shortened(json.dumps(found))}")
    usage = found.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    # vLLM's and SGLang's names for the string that ended the answer.
    stop = next((choice[key] for key in ("stop_reason", "matched_stop") if isinstance(choice.get(key), str)), None)
    finish = choice.get("finish_reason")
    if finish in ("abort", "error"):
        raise DecodeError(f"the server gave the answer up (finish_reason {finish})")
    return Completion(
        text=whole_characters(text),
        num_tokens=_count(usage.get("completion_tokens")),
        num_prompt_tokens=_count(usage.get("prompt_tokens")),
        num_pieces=num_pieces,
        first_token_s=first_token_s,
        total_s=total_s,
        finish_reason=None if finish is None else str(finish),
        stop=stop,
        num_retries=retries,
    )


def choice_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of an answer or event, empty where there is none."""
    choices = found.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def text_of(found: Mapping[str, Any]) -> str:
    """Return the text of the first choice."""
    text = choice_of(found).get("text")
    return text if isinstance(text, str) else ""


def whole_characters(text: str) -> str:
    """Return a text with the halves of characters that a server's pieces or escapes left joined, lone ones replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
    return value if is_count else None


def read_json(text: str) -> dict[str, Any]:
    """Read an object that the server sent.

    Raises:
        DecodeError: it is none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DecodeError(f"the server's answer is not JSON: {shortened(text) or 'it is empty'}")
    return found


def refusal(response: http.client.HTTPResponse, text: str) -> Exception:
    """Return what an answer other than 200 means: worth another attempt, or not."""
    try:
        said = read_json(text)
    except DecodeError:
        said = {}
    error = said.get("error", said)
    message = (error.get("message") or error.get("detail") or text) if isinstance(error, dict) else error or text
    line = f"it answered {response.status}: {shortened(str(message)) or response.reason}"
    if response.status == 429 or response.status >= 500:
        after = response.headers.get("Retry-After", "")
        return Passing(line, float(after) if after.replace(".", "", 1).isdecimal() else None)
    return DecodeError(f"the server refused the request; {line}")


def shortened(text: str, most: int = 200) -> str:
    """Return a text as one line of bearable length."""
    line = " ".join(whole_characters(text).split())
    return line if len(line) <= most else line[:most] + "..."
