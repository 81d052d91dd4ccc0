"""`lopa-bench verify`: what is refused before a process is started; the replays themselves are in tests/decoders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CASE = {"model": "tiny", "config": {"max_new_tokens": 8}, "prompt": [1], "tokens": [2]}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--decoder", "d2f", "--devices", "2"), "2 devices share lopa's branches, and decoder d2f has none"),
        (("--decoder", "lopa", "--devices", "2", "--comm-timeout", "nan"), "--comm-timeout nan is no time to wait"),
        (
            ("--decoder", "lopa", "--devices", "3", "--tensor-parallel", "2"),
            "3 devices cannot be 1 (data) x 1 (branch)",
        ),
        (("--decoder", "lopa", "--devices", "2", "--cache-protocol", "x"), "cache protocol 'x' is not one of"),
    ],
    ids=str,
)
def test_devices_that_cannot_share_the_cases_are_refused(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setattr(
        "lopa_bench.harness.distributed.launch.launch", lambda *_, **__: pytest.fail("processes were started")
    )
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([{**CASE, "decoder": decoder} for decoder in ("d2f", "lopa")]))
    code, out, err = call("verify", str(file), *words)
    assert code == 2 and not out and sentence in err and err.count("\n") == 1
