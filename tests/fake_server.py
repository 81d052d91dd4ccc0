"""A small real HTTP server with OpenAI-style completions, that can misbehave in every way a test asks for."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny-model"


@dataclass
class Behaviour:
    """What the server does; `trouble` is taken from the front, one for each completion that is asked for.

    A trouble is a status to answer with, the bytes of an answer, or one of `close` (no answer at all), `cut` (half an
    answer), `garbage`, `slow` (stops in the middle), `no choices`.
    """

    text: str = "four. Question: next"
    models: tuple[str, ...] | None = (MODEL,)
    version: str | None = "1.2.3"
    streams: bool = True
    usage: bool = True
    key: str | None = None
    retry_after: str | None = None
    stop_reason: str | None = None
    finish_reason: str = "stop"
    pause_s: float = 0.0
    trouble: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def log_message(self, *_: Any) -> None:
        pass

    def _json(self, status: int, value: Any, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        does = self.behaviour
        if does.key is not None and self.headers.get("Authorization") != f"Bearer {does.key}":
            self._json(401, {"error": {"message": "no key"}})
        elif self.path == "/v1/models" and does.models is not None:
            self._json(200, {"data": [{"id": name} for name in does.models]})
        elif self.path == "/version" and does.version is not None:
            self._json(200, {"version": does.version})
        else:
            self._json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        does = self.behaviour
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with does.lock:
            does.requests.append(asked)
            does.headers.append(dict(self.headers))
            does.at_once += 1
            does.most_at_once = max(does.most_at_once, does.at_once)
            trouble = does.trouble.pop(0) if does.trouble else None
        time.sleep(does.pause_s)
        with does.lock:  # before the answer: whoever has it may ask again before this thread goes on
            does.at_once -= 1
        self._complete(asked, trouble)

    def _complete(self, asked: dict[str, Any], trouble: Any) -> None:
        does = self.behaviour
        if trouble == "close":
            self.connection.close()
        elif isinstance(trouble, int):
            after = {} if does.retry_after is None else {"Retry_After": does.retry_after}
            self._json(trouble, {"error": {"message": f"trouble {trouble}"}}, **after)
        elif isinstance(trouble, bytes):
            self._raw(trouble, "text/event-stream" if trouble.startswith(b"data:") else "application/json")
        elif trouble == "garbage":
            self._raw(b"<html>not JSON</html>", "application/json")
        elif trouble == "no choices":
            self._json(200, {"choices": []})
        elif asked.get("stream") and not does.streams:
            self._json(400, {"error": {"message": "stream_options is not known here"}})
        elif asked.get("stream"):
            self._stream(asked, trouble)
        else:
            self._whole(trouble)

    def _raw(self, body: bytes, kind: str, length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def _usage(self) -> dict[str, int]:
        return {"prompt_tokens": 11, "completion_tokens": len(self.behaviour.text.split())}

    def _whole(self, trouble: Any) -> None:
        does = self.behaviour
        choice = {"text": does.text, "finish_reason": does.finish_reason, "stop_reason": does.stop_reason}
        answer = {"choices": [choice], **({"usage": self._usage()} if does.usage else {})}
        body = json.dumps(answer).encode()
        self._raw(body[: len(body) // 2] if trouble == "cut" else body, "application/json", len(body))

    def _stream(self, asked: dict[str, Any], trouble: Any) -> None:
        does = self.behaviour
        self._raw(b": a comment\n\n", "text/event-stream; charset=utf-8")
        words = [word + " " for word in does.text.split(" ")]
        words[-1] = words[-1][:-1]
        for index, word in enumerate(words):
            if trouble == "cut" and index == 1:
                return
            if trouble == "slow" and index == 1:
                does.released.wait(100)
                return
            last = index == len(words) - 1
            choice = {"text": word, "finish_reason": does.finish_reason if last else None}
            if last:
                choice["stop_reason"] = does.stop_reason
            self._event({"choices": [choice], "usage": None})
        if does.usage and asked.get("stream_options", {}).get("include_usage"):
            self._event({"choices": [], "usage": self._usage()})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, value: Any) -> None:
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Serve at a free port and give the base address."""
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        behaviour.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
