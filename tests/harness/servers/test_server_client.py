"""The client of completions servers against a real one on this machine that misbehaves."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from fake_server import MODEL, Behaviour, serving

from lopa_bench.errors import ConfigError, DecodeError, PrerequisiteError
from lopa_bench.harness.servers import client as server_client
from lopa_bench.harness.servers.answers import Passing, refusal
from lopa_bench.harness.servers.client import ATTEMPTS, ServerClient

Make = Callable[..., tuple[ServerClient, Behaviour, list[float]]]
ASKED = {"model": MODEL, "prompt": "What is 2 + 2?", "max_tokens": 8}


@pytest.fixture
def make() -> Iterator[Make]:
    """Start a server and return a client of it; the client's waits are only noted."""
    with ExitStack() as stack:

        def start(*, timeout_s: float = 20.0, api_key: str | None = None, **changes: Any) -> Any:
            behaviour = Behaviour(**changes)
            waits: list[float] = []
            url = stack.enter_context(serving(behaviour))
            client = ServerClient(url, timeout_s=timeout_s, api_key=api_key, wait=waits.append)
            return client, behaviour, waits

        yield start


@pytest.fixture
def dead_url() -> str:
    """An address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def test_a_stream_is_read_to_its_end_with_the_servers_own_count(make: Make) -> None:
    client, does, _ = make(pause_s=0.02)
    found = client.complete(ASKED)
    assert (found.text, found.num_tokens, found.num_prompt_tokens, found.num_pieces) == (does.text, 3, 11, 3)
    assert (found.finish_reason, found.num_retries) == ("stop", 0)
    assert found.first_token_s is not None and 0.02 <= found.first_token_s <= found.total_s
    assert does.requests == [{**ASKED, "stream": True, "stream_options": {"include_usage": True}}]


def test_a_server_that_does_not_stream_is_asked_again_without(make: Make) -> None:
    client, does, waits = make(streams=False, stop_reason="Question:")
    for _ in range(2):
        found = client.complete(ASKED)
        assert (found.text, found.num_tokens, found.first_token_s, found.stop) == (does.text, 3, None, "Question:")
    assert ["stream" in one for one in does.requests] == [True, False, False]
    assert waits == []


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("trouble", [429, 500, 503, "close", "cut"])
def test_what_may_pass_is_tried_again_with_growing_waits(make: Make, trouble: Any, streams: bool) -> None:
    client, does, waits = make(streams=streams)
    client.complete(ASKED)
    does.trouble = [trouble, trouble]
    found = client.complete(ASKED)
    assert (found.text, found.num_tokens, found.num_retries) == (does.text, 3, 2)
    assert waits == [0.5, 1.0]


def test_the_server_says_how_long_to_wait(make: Make) -> None:
    client, _, waits = make(trouble=[429], retry_after="7")
    client.complete(ASKED)
    assert waits == [7.0]


def test_trouble_without_end_is_an_error_of_the_sample(make: Make) -> None:
    client, does, _ = make(trouble=[500] * 20)
    with pytest.raises(DecodeError, match=f"the server failed {ATTEMPTS} times: it answered 500: trouble 500"):
        client.complete(ASKED)
    assert len(does.requests) == ATTEMPTS


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("garbage", "is not JSON: <html>not JSON</html>"),
        ("no choices", "holds no completion"),
        (404, "refused the request; it answered 404: trouble 404"),
        (302, "refused the request; it answered 302"),
    ],
)
def test_an_unusable_answer_is_an_error_of_the_sample_at_once(make: Make, trouble: Any, words: str) -> None:
    client, does, waits = make(trouble=[trouble])
    with pytest.raises(DecodeError, match=words):
        client.complete(ASKED)
    assert (len(does.requests), waits) == (1, [])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"[" * 200_000, "not JSON"),
        (b'{"choices": [{"text": "' + b"x" * 3000 + b'"}]}', "more than 0 MiB"),
        (b'data: {"choices": [{"text": "' + b"x" * 3000 + b'"}]}\n\n', "more than 0 MiB"),
        (b'data: {"choices": [{"text": "x"}]}\n\n' * 200, "more than 0 MiB"),
    ],
)
def test_an_answer_without_measure_is_an_error_of_the_sample(
    make: Make, monkeypatch: pytest.MonkeyPatch, answer: bytes, words: str
) -> None:
    if "MiB" in words:
        monkeypatch.setattr(server_client, "MOST_BYTES", 2000)
    client, _, _ = make(trouble=[answer])
    with pytest.raises(DecodeError, match=words):
        client.complete(ASKED)


def test_a_long_line_comes_whole(make: Make) -> None:
    text = "é" * 500_000
    piece = json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}, ensure_ascii=False)
    client, _, _ = make(trouble=[f"data: {piece}\n\ndata: [DONE]\n\n".encode()])
    found = client.complete(ASKED)
    assert (found.text, found.num_pieces) == (text, 1)


def test_halves_of_characters_are_joined_and_lone_ones_replaced(make: Make) -> None:
    pieces = [
        r'{"choices": [{"text": "\ud83d"}]}',
        r'{"choices": [{"text": "\ude00 \ud83d", "finish_reason": "stop"}]}',
    ]
    stream = "".join(f"data: {one}\n\n" for one in [*pieces, "[DONE]"]).encode()
    client, _, _ = make(trouble=[stream, pieces[1].encode()])
    assert client.complete(ASKED).text == "\N{GRINNING FACE} \ufffd"
    assert client.complete(ASKED).text == "\ufffd \ufffd"


def test_a_count_that_cannot_be_is_none(make: Make) -> None:
    answer = {"choices": [{"text": "four"}], "usage": {"completion_tokens": 10**400, "prompt_tokens": -1}}
    client, _, _ = make(trouble=[json.dumps(answer).encode()])
    found = client.complete(ASKED)
    assert (found.num_tokens, found.num_prompt_tokens) == (None, None)


@pytest.mark.parametrize("said", [{"error": None}, {"error": ["why"]}, {"error": 5}, {"detail": [{"msg": "why"}]}, {}])
def test_a_refusal_may_say_anything(said: dict[str, Any]) -> None:
    response: Any = SimpleNamespace(status=503, reason="busy", headers={"Retry-After": "\u00b2"})
    problem = refusal(response, json.dumps(said))
    assert isinstance(problem, Passing) and problem.after_s is None
    assert "it answered 503" in str(problem)


def test_an_answer_that_takes_too_long_is_an_error_of_the_sample(make: Make) -> None:
    client, _, waits = make(trouble=["slow"], timeout_s=0.3)
    with pytest.raises(DecodeError, match=r"timeout: the server gave no whole answer within 0\.3 s"):
        client.complete(ASKED)
    assert waits == []


def test_a_server_that_is_gone_ends_the_run(dead_url: str) -> None:
    waits: list[float] = []
    with pytest.raises(PrerequisiteError, match=r"no longer answers .*; the same command goes on once it is back"):
        ServerClient(dead_url, wait=waits.append).complete(ASKED)
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_a_dead_port_is_told_in_a_sentence(dead_url: str) -> None:
    with pytest.raises(PrerequisiteError, match=f"no server answers at {dead_url} .*; start it, or correct --base-url"):
        ServerClient(dead_url).model_names()


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_that_the_server_gave_up_is_none(make: Make, streams: bool) -> None:
    client, _, _ = make(finish_reason="abort", streams=streams)
    with pytest.raises(DecodeError, match="gave the answer up"):
        client.complete(ASKED)


def test_models_and_version_are_the_servers_own(make: Make) -> None:
    client, _, _ = make(models=("a", "b"))
    assert (client.model_names(), client.version()) == (["a", "b"], "1.2.3")
    silent, _, _ = make(models=None, version=None)
    assert (silent.model_names(), silent.version()) == (None, "")


def test_the_key_is_sent_and_a_wrong_one_told(make: Make) -> None:
    client, does, _ = make(key="secret", api_key="secret")
    assert client.model_names() == [MODEL]
    client.complete(ASKED)
    assert does.headers[0]["Authorization"] == "Bearer secret"
    with pytest.raises(PrerequisiteError, match=r"refuses this key; name the variable .* with --api-key-env"):
        ServerClient(client.base_url).model_names()


def test_proxies_of_the_environment_are_not_used(make: Make, monkeypatch: pytest.MonkeyPatch, dead_url: str) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, dead_url)
    client, does, _ = make()
    assert client.complete(ASKED).text == does.text


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://h/v1?x=1",
        "http://me:pw@h/v1",
        "http://a..b/v1",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no server's address; give one such as"):
        ServerClient(url)
