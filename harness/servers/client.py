"""A client of the OpenAI-style completions that SGLang, vLLM and LMDeploy offer, measured from outside.

Only the host of the base address is ever spoken to: no proxy of the environment is used and no redirection followed.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from lopa_bench.errors import ConfigError, DecodeError, PrerequisiteError
from lopa_bench.harness.servers.answers import (
    Completion,
    Passing,
    Unreachable,
    choice_of,
    completion_of,
    read_json,
    refusal,
    text_of,
    whole_characters,
)

ATTEMPTS = 5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
CHECK_S = 20.0
"""Most seconds for the questions before a run."""
MOST_BYTES = 64 * 2**20
"""Most bytes of one answer, with all that is around its text."""


def address(base_url: str) -> SplitResult:
    """Return the parts of a base address.

    Raises:
        ConfigError: it is none.
    """
    parts = urlsplit(base_url.rstrip("/"))
    try:
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        str(parts.hostname).encode("idna")
    except ValueError:  # of ports that are none, and of names that cannot be looked up
        complete = False
    if not complete or parts.query or parts.fragment or parts.username:
        raise ConfigError(f"--base-url {base_url} is no server's address; give one such as http://127.0.0.1:8000/v1")
    return parts


class ServerClient:
    """Asks one server; several threads may share a client.

    Args:
        base_url: up to and with `/v1`.
        api_key: sent as a bearer token when given.
        timeout_s: most seconds for one request, from connecting to the last byte.
        wait: how retries wait, and `now` the clock; for tests.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 600.0,
        wait: Callable[[float], object] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeout_s = timeout_s
        self._address = address(base_url)
        self._api_key = api_key
        self._stopped = threading.Event()
        self._wait, self._now = wait or self._stopped.wait, now
        self._streams = True
        self._open: set[Any] = set()

    def model_names(self) -> list[str] | None:
        """The models that the server has, None where it does not tell.

        Raises:
            PrerequisiteError: it cannot be reached, or does not let us in.
        """
        try:
            with self._sent("GET", f"{self._address.path}/models", None, CHECK_S) as (response, deadline):
                status, text = response.status, self._text(response, deadline)
        except (Passing, DecodeError, OSError) as problem:
            raise PrerequisiteError(
                f"no server answers at {self.base_url} ({problem}); start it, or correct --base-url"
            ) from None
        if status in (401, 403):
            raise PrerequisiteError(
                f"the server at {self.base_url} refuses this key; name the variable that holds the right one "
                "with --api-key-env"
            )
        entries = read_json(text).get("data") if status == 200 else None
        if not isinstance(entries, list):
            return None
        return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]

    def version(self) -> str:
        """What the server says of its version, "" where it says nothing."""
        root = self._address.path.removesuffix("/v1")
        for path in ("/version", "/get_server_info"):
            try:
                with self._sent("GET", root + path, None, CHECK_S) as (response, deadline):
                    found = read_json(self._text(response, deadline)) if response.status == 200 else {}
            except (Passing, DecodeError, OSError):
                continue
            if isinstance(found.get("version"), str):
                return whole_characters(found["version"])
        return ""

    def complete(self, body: Mapping[str, Any]) -> Completion:
        """Ask for one completion, again when the server is busy, breaks off or cannot be reached.

        Raises:
            DecodeError: no usable answer, or none in time.
            PrerequisiteError: the server is gone.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self._once(body, attempt)
            except Passing as problem:
                if self._stopped.is_set():
                    raise DecodeError("stopped") from None
                if attempt + 1 < ATTEMPTS:
                    backoff = min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S)
                    self._wait(backoff if problem.after_s is None else min(problem.after_s, LONGEST_WAIT_S))
                    continue
                if isinstance(problem, Unreachable):
                    raise PrerequisiteError(
                        f"the server at {self.base_url} no longer answers ({problem}); "
                        "the same command goes on once it is back"
                    ) from None
                raise DecodeError(f"the server failed {ATTEMPTS} times: {problem}") from None
        raise AssertionError("unreachable")

    def abort(self) -> None:
        """Break off all requests under way, so that nobody waits for them."""
        self._stopped.set()
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _once(self, body: Mapping[str, Any], num_retries: int) -> Completion:
        streams = self._streams
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}} if streams else dict(body)
        start = self._now()
        with self._sent("POST", f"{self._address.path}/completions", asked, self.timeout_s) as (response, deadline):
            if response.status != 200:
                text = self._text(response, deadline)
                if not (streams and response.status in (400, 422) and "stream" in text):
                    raise refusal(response, text)
                self._streams = False  # asked again below, at once
            elif "text/event-stream" in response.headers.get("Content-Type", ""):
                return self._streamed(response, deadline, start, num_retries)
            else:
                found = read_json(self._text(response, deadline))
                return completion_of(found, text_of(found), None, None, self._now() - start, num_retries)
        return self._once(body, num_retries)

    def _streamed(
        self, response: http.client.HTTPResponse, deadline: _Deadline, start: float, num_retries: int
    ) -> Completion:
        """Read a stream of events, each a JSON object with the next part of the text."""
        texts: list[str] = []
        last: dict[str, Any] = {}
        first_token_s = None
        ended = False
        for line in self._lines(response, deadline):
            if not line.startswith("data:"):
                continue
            content = line.removeprefix("data:").strip()
            if content == "[DONE]":
                ended = True
                break
            event = read_json(content)
            piece = text_of(event)
            if piece and first_token_s is None:
                first_token_s = self._now() - start
            texts += [piece] if piece else []
            # The usage comes last, in an event without a choice.
            last = {**last, **{key: value for key, value in event.items() if value}}
        if not ended and "error" not in last and choice_of(last).get("finish_reason") is None:
            raise Passing("its answer broke off")
        return completion_of(last, "".join(texts), len(texts), first_token_s, self._now() - start, num_retries)

    @contextmanager
    def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float
    ) -> Iterator[tuple[http.client.HTTPResponse, _Deadline]]:
        """Send a request and give the answer's head; the connection is closed at the end.

        Raises:
            Passing: the connection broke; Unreachable when there never was one.
            DecodeError: the time is over.
        """
        secure = self._address.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(str(self._address.hostname), self._address.port, timeout=timeout_s)
        headers = {"Accept": "application/json, text/event-stream", "Connection": "close"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        too_late = DecodeError(f"timeout: the server gave no whole answer within {timeout_s:g} s")
        opened = None
        try:
            ends = time.monotonic() + timeout_s
            try:
                connection.connect()
            except TimeoutError:
                raise Unreachable(f"no connection within {timeout_s:g} s") from None
            except OSError as problem:
                raise Unreachable(problem.strerror or str(problem)) from None
            self._open.add(opened := connection.sock)
            deadline = _Deadline(opened, ends)
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            with connection.getresponse() as response:
                yield response, deadline
        except TimeoutError:
            raise too_late from None
        except (http.client.HTTPException, OSError) as problem:
            raise Passing(f"the connection broke ({type(problem).__name__})") from None
        finally:
            self._open.discard(opened)
            connection.close()

    @classmethod
    def _text(cls, response: http.client.HTTPResponse, deadline: _Deadline) -> str:
        expected = response.length
        found = b"".join(cls._parts(response, deadline))
        if expected is not None and len(found) < expected:
            raise Passing("its answer broke off")
        return found.decode(errors="replace")

    @classmethod
    def _lines(cls, response: http.client.HTTPResponse, deadline: _Deadline) -> Iterator[str]:
        rest: list[bytes] = []  # joined only at a line's end: a line may come in thousands of parts
        for part in cls._parts(response, deadline):
            first, *more = part.split(b"\n")
            rest.append(first)
            for begun in more:
                yield b"".join(rest).decode(errors="replace").strip()
                rest = [begun]
        if any(rest):
            yield b"".join(rest).decode(errors="replace").strip()

    @staticmethod
    def _parts(response: http.client.HTTPResponse, deadline: _Deadline) -> Iterator[bytes]:
        """Yield what the server sends, as it comes; DecodeError when there is no end to it."""
        num_bytes = 0
        while True:
            deadline.apply()
            part = response.read1(1 << 16)
            if not part:
                return
            num_bytes += len(part)
            if num_bytes > MOST_BYTES:
                raise DecodeError(f"the server sent more than {MOST_BYTES >> 20} MiB in one answer")
            yield part


class _Deadline:
    """When a request must be over; `apply` gives the socket the time that is left."""

    def __init__(self, opened: Any, ends: float) -> None:
        self._opened, self._ends = opened, ends

    def apply(self) -> None:
        """Let the next read wait no longer than that."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._opened.settimeout(left)
