"""What `show` makes of a stored run: one sample whole, why answers are not right, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

Call = Any


@pytest.fixture
def small(diffusion_checkpoint: Path) -> list[str]:
    return [
        "run", "-t", "mini-maths", "-d", "lopa", "-m", str(diffusion_checkpoint), "-n", "4", "--warmup", "0",
        "--branches", "2", "--max-new-tokens", "8", "--block-length", "4", "--threads", "1",
    ]  # fmt: skip


def stored(name: str = "samples.jsonl") -> list[dict[str, Any]]:
    [folder] = Path("runs").glob("0001-*")
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_one_sample_is_printed_whole(call: Call, small: list[str]) -> None:
    call(*small)
    one = stored()[1]
    code, out, _ = call("show", "1", "--sample", "mini-maths-0001")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "mini-maths-0001 of run 0001-mini-maths-lopa-2-branches-tiny-diffusion"
    assert lines[1].startswith("verdict: not right; ") and "(" in lines[1]
    for title, text in (("prompt", one["prompt"]), ("raw answer", one["text"]), ("target", one["target"])):
        start = lines.index(f"{title}:")
        assert [line[4:] for line in lines[start + 1 :]][: text.count("\n") + 1] == text.split("\n")
    tokens, work = one["tokens"], one["work"]
    assert f"tokens: prompt {tokens['prompt']}, useful {tokens['useful']}, committed 8, kept {tokens['kept']}" in lines
    assert any(
        line.startswith(f"work: prefill_calls {work['prefill_calls']}, rounds {work['rounds']}, ") for line in lines
    )
    assert any(line.startswith("time: prefill_s ") for line in lines)
    assert f"token ids: {' '.join(map(str, one['token_ids']))}" in lines
    assert call("show", "1", "--sample", "1")[1] == out, "by its number alone"
    assert json.loads(call("show", "1", "--sample", "mini-maths-0001", "--json")[1]) == one


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mini-math-0001", "has no sample 'mini-math-0001' (did you mean 'mini-maths-0001'?)"),
        ("77", "has no sample '77'; it holds mini-maths-0000 to mini-maths-0003"),
    ],
)
def test_a_sample_that_is_not_there_names_the_nearest(call: Call, small: list[str], name: str, words: str) -> None:
    call(*small)
    code, out, err = call("show", "1", "--sample", name)
    assert (code, out) == (2, "") and words in err


def test_one_thing_is_shown_at_a_time(call: Call, small: list[str]) -> None:
    call(*small)
    code, out, err = call("show", "last", "--metrics", "--count-as", "d2f")
    assert (code, out) == (2, "") and "--metrics and --count-as exclude each other" in err


def test_one_sample_is_no_table(call: Call, small: list[str]) -> None:
    call(*small)
    code, _, err = call("show", "1", "--sample", "1", "--csv")
    assert code == 2 and "one sample is not a table: leave --csv out, or use --json" in err


def test_reasons_have_counts_meanings_and_samples(call: Call, small: list[str]) -> None:
    _, out, _ = call(*small)
    assert "not right: 4 of 4 answers; one may have several reasons" in out
    words = {word for sample in stored() for word in [sample["why"]]}
    for word in words:
        [line] = [line for line in out.splitlines() if line.startswith(f"  {word} ")]
        ids = [sample["id"] for sample in stored() if sample["why"] == word][:3]
        assert ", ".join(ids) in line and line.endswith(")")
    shown = call("show", "1")[1]
    assert all(line in shown for line in out.splitlines() if line.startswith(("  ", "not right")))
    reasons = json.loads(call("show", "1", "--json")[1])["summary"]["reasons"]
    assert {one["word"] for one in reasons} >= words and all(one["meaning"] for one in reasons)


def test_samples_without_a_verdict_make_the_run_fail_and_say_so(
    call: Call, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lopa_bench.models.language_model import LanguageModel

    new_cache, num_calls = LanguageModel.new_cache, 0

    def sometimes(self: LanguageModel, capacity: int) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 2:
            raise MemoryError
        return new_cache(self, capacity)

    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "new_cache", sometimes)
        code, out, err = call(*small)
    assert code == 1 and "Traceback" not in err
    assert "not right: 3 of 3 answers, 1 more without a verdict" in out
    assert "  out_of_memory 1 (25%): mini-maths-0001 (the device had no room for this sample;" in out
    assert "note: errors=1 (25%), not scored: mini-maths-0001" in out
    shown = call("show", "1")[1]
    assert "status: finished with errors" in shown
    page = call("show", "1", "--sample", "1")[1].splitlines()
    assert page[1].startswith("verdict: none, the sample could not be judged; out_of_memory (")
    assert "error: out_of_memory: no more could be allocated" in page
    assert "finished with errors" in call("list", "runs")[1]
    code, out, _ = call(*small)
    assert code == 0 and "out_of_memory" not in out
    assert "status: finished\n" in call("show", "1")[1]


def test_a_run_of_an_earlier_version_has_its_reasons_too(call: Call) -> None:
    frozen = Path(__file__).parents[1] / "results" / "data" / "v1" / "0007-mini-maths-lopa"
    code, out, _ = call("show", str(frozen))
    assert code == 0 and "  wrong format 1 (50%): mini-maths-0001 (" in out
    page = call("show", str(frozen), "--sample", "0")[1]
    assert "prompt: (not stored: the run was made by an earlier version)" in page


def test_an_answer_commands_no_terminal(call: Call, small: list[str]) -> None:
    call(*small)
    [samples] = Path("runs").glob("0001-*/samples.jsonl")
    first, *rest = (json.loads(line) for line in samples.read_text().splitlines())
    first |= {"text": "red \x1b[31m\r\nand\ttab", "text_kept": "red \x1b[31m", "extracted": "\x1b]0;title\x07"}
    samples.write_text("".join(json.dumps(one) + "\n" for one in (first, *rest)))
    page = call("show", "1", "--sample", "0")[1]
    assert r"  | red \x1b[31m\x0d" in page and "  | and\ttab" in page
    assert r"  | \x1b]0;title\x07" in page
    assert "\x1b" not in page + call("show", "1", "--samples")[1]
