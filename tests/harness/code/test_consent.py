from __future__ import annotations

import pytest

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness.code.consent import VARIABLE, has_consent, require_consent


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_without_consent_one_line_says_why_and_how() -> None:
    with pytest.raises(
        PrerequisiteError, match=r"runs the programs .*--allow-code-execution or LOPA_BENCH_ALLOW"
    ) as told:
        require_consent("humaneval+")
    assert "\n" not in str(told.value)
    assert told.value.exit_code == 2


def test_flag_and_variable_are_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    require_consent("mbpp", allowed=True)
    for word in ("1", "true", " YES "):
        monkeypatch.setenv(VARIABLE, word)
        require_consent("mbpp")


@pytest.mark.parametrize("word", ["", "0", "no", "false"])
def test_other_words_are_none(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, word)
    assert not has_consent()
