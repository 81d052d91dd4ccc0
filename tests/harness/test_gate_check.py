"""The script that shows the gates on real runs: its faults are what they say, and a broken promise ends in 1."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lopa_bench.decoders.canvas import Canvas
from lopa_bench.decoders.rounds import Round
from lopa_bench.errors import DecodeError
from lopa_bench.results.schema import SampleRecord

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def loaded(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look themselves up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def faults() -> ModuleType:
    return loaded("gate_faults")


@pytest.fixture(scope="module")
def script(faults: ModuleType) -> ModuleType:
    return loaded("gate_check")


def answer(tokens: tuple[int, ...] = (11, 12, 13, 9)) -> tuple[Canvas, Iterator[Round]]:
    """A canvas that ten rounds fill, with the EOS 9 at the end."""
    canvas = Canvas([1, 2], max_new_tokens=8, mask_id=0, eos_id=9, stop_at_eos=True)
    canvas.tokens += tokens
    return canvas, iter([Round(index, (index,), (5,), 4, 4) for index in range(10)])


def test_more_rounds_fill_nothing_and_are_one_in_ten(faults: ModuleType) -> None:
    canvas, steps = answer()
    rounds = list(faults.more_rounds()(steps, canvas))
    assert len(rounds) == 11 and [one.positions for one in rounds].count(()) == 1
    assert canvas.answer == [11, 12, 13, 9]


def test_every_second_answer_is_damaged_and_keeps_its_length(faults: ModuleType) -> None:
    wrapper = faults.damaged()
    found = []
    for _ in range(4):
        canvas, steps = answer()
        assert len(list(wrapper(steps, canvas))) == 10
        found.append(canvas.answer)
    assert found == [[13, 12, 11, 9], [11, 12, 13, 9]] * 2


def test_slower_rounds_take_the_work_that_they_were_given(faults: ModuleType) -> None:
    canvas, steps = answer()
    start = time.thread_time()
    assert len(list(faults.slower(0.002)(steps, canvas))) == 10
    assert time.thread_time() - start >= 0.02


def test_the_second_answer_after_the_warm_up_fails(faults: ModuleType) -> None:
    wrapper = faults.failing()
    for _ in range(2):
        assert len(list(wrapper(*reversed(answer())))) == 10
    with pytest.raises(DecodeError, match="injected"):
        list(wrapper(*reversed(answer())))


def test_answers_are_lost_with_their_tokens_or_by_their_score_alone(faults: ModuleType) -> None:
    answers = [SampleRecord(id=str(index), token_ids=(1, 2), correct=score) for index, score in enumerate((0, 1, 1, 1))]

    def became(change: Any) -> list[tuple[float | None, bool]]:
        after = [one.model_copy(update=change(one)) for one in answers]
        return [(one.correct, one.token_ids == (1, 2)) for one in after]

    assert became(faults.lost(2)) == [(0, True), (0, False), (0, False), (1, True)]
    assert became(faults.scored_lower) == [(0, True)] * 4


@pytest.mark.parametrize(("num_right", "code"), [(4, 3), (5, 3), (6, 1), (8, 1)])
def test_that_all_answers_are_lost_elsewhere_is_due_to_be_no_pass(
    faults: ModuleType, num_right: int, code: int
) -> None:
    due = {kind: due for kind, due, *_ in faults.elsewhere(num_right)}
    assert due["elsewhere: all lost"] == code and due["elsewhere: one lost"] == 0
    assert due["elsewhere: scored lower"] == 1 and due["elsewhere: the same"] == 0


def test_a_decoder_is_itself_again_afterwards(faults: ModuleType) -> None:
    kind = faults.decoder_type("d2f")
    plain = kind._rounds
    with pytest.raises(ValueError), faults.wrapped("d2f", faults.damaged()):
        assert kind._rounds is not plain
        raise ValueError
    assert kind._rounds is plain


def main(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gate_check.py", *words])
    return int(script.main())


def test_a_broken_promise_ends_in_1_and_is_told(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that lets everything pass."""
    first = SimpleNamespace(path="0001-x")
    for name in ("accept", "repeat", "unlike"):
        monkeypatch.setattr(script.Cell, name, lambda self, *_: None)
    monkeypatch.setattr(script, "call", lambda *words: (0, json.dumps({"results": []}), ""))
    monkeypatch.setattr(script.Cell, "inject", lambda self: self.check("no samples", 1, [first], "it has no samples"))
    assert main(script, monkeypatch, "--decoder", "d2f") == 1
    out, err = capsys.readouterr()
    assert "0 of 2" in out and "BROKEN, mini-maths d2f, no samples: exit 0" in err


@pytest.mark.parametrize(
    ("code", "words", "kept"), [(1, "it has no samples", True), (1, "else", False), (3, "", False)]
)
def test_exit_code_and_sentence_must_both_be_right(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, words: str, kept: bool
) -> None:
    found = [{"gate": "run", "outcome": "regressed", "reason": words}]
    monkeypatch.setattr(script, "call", lambda *_: (code, json.dumps({"results": found}), ""))
    cell = script.Cell(tmp_path, "mini-maths", "d2f", 2, 3)
    run: Any = SimpleNamespace(path="0001-x")
    cell.check("no samples", 1, [run], "it has no samples")
    assert [one.kept for one in cell.trials] == [kept]


@pytest.mark.slow
def test_all_promises_that_no_clock_decides_are_kept_on_one_decoder(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the speed gate says depends on how fast the machine happens to be, which no test may."""
    main(script, monkeypatch, *["--decoder", "d2f", "--task", "mini-code", "--limit", "3", "--times", "1", "--json"])
    trials = json.loads(capsys.readouterr().out)["trials"]
    timed = {"clean repeats: speeds", "slower than the band", "slower within the band", script.BUSY}
    assert timed < {one["kind"] for one in trials}
    untimed = [one for one in trials if one["kind"] not in timed and not one["words"].startswith("tokens/s: ")]
    assert len(untimed) >= 12 and [one for one in untimed if not one["kept"]] == []
