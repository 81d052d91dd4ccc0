"""The authors' own decodings, and that `verify` tells when one is not met."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.cli.app import main
from lopa_bench.decoders.registry import resolve
from lopa_bench.errors import TaskDataError
from lopa_bench.harness.verify import COMPARED, DECODERS, REQUIRED, TOLD, read_cases, translate, verify
from lopa_bench.models.loading import load_model

Case = dict[str, Any]


@pytest.fixture(scope="session")
def cases(golden_dir: Path) -> list[Case]:
    return json.loads((golden_dir / "cases.json").read_text())


@pytest.fixture
def case_file(tmp_path: Path) -> Callable[[Any], Path]:
    def write(content: Any) -> Path:
        path = tmp_path / "cases.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def exit_code(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["verify", *map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_reference_case_is_equal_in_tokens_and_calls(golden_dir: Path, decoder: str) -> None:
    [tally] = verify(golden_dir / "cases.json", decoder=decoder)
    assert tally.failures == []
    assert tally.num_cases == tally.num_equal_tokens == tally.num_equal_calls > 0


@pytest.fixture
def one(cases: list[Case]) -> Case:
    return next(case for case in cases if case["decoder"] == "d2f")


def test_an_equal_case_exits_zero(golden_dir: Path, one: Case, case_file: Callable[[Any], Path], capsys: Any) -> None:
    assert exit_code(case_file([one]), "--models-dir", golden_dir, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["equal"] is True
    assert document["decoders"] == [
        {"decoder": "d2f", "cases": 1, "equal_tokens": 1, "equal_calls": 1, "not_applicable": 0, "failures": []}
    ]


def test_a_changed_token_is_named_and_exits_one(
    golden_dir: Path, one: Case, case_file: Callable[[Any], Path], capsys: Any
) -> None:
    tokens = [*one["tokens"]]
    was, tokens[5] = tokens[5], (tokens[5] + 1) % 90
    path = case_file([one, {**one, "id": "changed", "tokens": tokens}])
    assert exit_code(path, "--models-dir", golden_dir) == 1
    assert f"changed: token 5: {was} instead of {tokens[5]}" in capsys.readouterr().out
    [tally] = verify(path, models_dir=golden_dir)
    assert (tally.num_cases, tally.num_equal_tokens, tally.num_equal_calls) == (2, 1, 2)


@pytest.mark.parametrize("key", ["forwards", "input_lengths"])
def test_a_changed_count_is_named_and_exits_one(
    golden_dir: Path, one: Case, case_file: Callable[[Any], Path], capsys: Any, key: str
) -> None:
    wrong = one["forwards"] + 1 if key == "forwards" else [3]
    path = case_file([{**one, "id": "changed", key: wrong}])
    assert exit_code(path, "--models-dir", golden_dir) == 1
    assert f"instead of {wrong}" in capsys.readouterr().out.replace("\n", " ")
    [tally] = verify(path, models_dir=golden_dir)
    assert (tally.num_equal_tokens, tally.num_equal_calls) == (1, 0)


def test_lopas_rounds_and_branch_forwards_are_compared(
    golden_dir: Path, cases: list[Case], case_file: Callable[[Any], Path]
) -> None:
    lopa = next(case for case in cases if case["decoder"] == "lopa" and case["branch_forwards"] > case["rounds"])
    for key in ("rounds", "branch_forwards"):
        path = case_file([{**lopa, key: lopa[key] + 50}])
        [tally] = verify(path, models_dir=golden_dir)
        assert f"{key}: {lopa[key]} instead of {lopa[key] + 50}" in tally.failures[0].difference


def test_settings_that_cannot_be_read_are_a_failure_of_their_case_alone(
    golden_dir: Path, one: Case, case_file: Callable[[Any], Path]
) -> None:
    broken = {**one, "id": "broken", "config": {**one["config"], "blok_size": 8}}
    [tally] = verify(case_file([broken, one]), models_dir=golden_dir)
    assert (tally.num_cases, tally.num_equal_tokens) == (2, 1)
    assert "did you mean 'block_size'" in tally.failures[0].difference


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ({}, "holds no list of cases"),
        ([], "holds no cases"),
        ([3], "case 0 of .* is no object"),
    ],
)
def test_a_broken_file_exits_two(content: Any, message: str, case_file: Callable[[Any], Path], capsys: Any) -> None:
    path = case_file(content)
    with pytest.raises(TaskDataError, match=message):
        verify(path)
    assert exit_code(path) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_file_that_is_not_there_exits_two(tmp_path: Path) -> None:
    assert exit_code(tmp_path / "absent.json") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "abc"}, "prompt must be a list of token ids"),
        ({"prompt": [1, 2.5]}, "prompt must be a list of token ids"),
        ({"tokens": None}, "tokens must be a list of token ids"),
        ({"config": None}, "config must be an object"),
        ({"model": 3}, "model must be the name of a folder"),
        ({"decoder": "lopaa"}, "did you mean 'lopa'"),
    ],
)
def test_a_case_of_the_wrong_kind_is_named(
    one: Case, case_file: Callable[[Any], Path], change: Case, message: str
) -> None:
    with pytest.raises(TaskDataError, match=message) as caught:
        verify(case_file([{**one, "id": "odd", **change}]))
    assert "odd" in str(caught.value)


def test_a_missing_field_is_named(one: Case, case_file: Callable[[Any], Path]) -> None:
    with pytest.raises(TaskDataError, match="lacks prompt"):
        verify(case_file([{key: value for key, value in one.items() if key != "prompt"}]))


def test_a_decoder_without_cases_exits_two(golden_dir: Path, one: Case, case_file: Callable[[Any], Path]) -> None:
    assert exit_code(case_file([one]), "--models-dir", golden_dir, "--decoder", "lopa") == 2
    assert exit_code(case_file([one]), "--models-dir", golden_dir, "--decoder", "ar") == 2


def test_a_slip_in_a_fields_name_is_told_and_a_remark_is_not(one: Case, case_file: Callable[[Any], Path]) -> None:
    """A count under a misspelled name would never be compared."""
    with pytest.raises(TaskDataError, match="has 'forwads'; is 'forwards' meant"):
        read_cases(case_file([{**one, "forwads": 3}]))
    assert read_cases(case_file([{**one, "made_on": "a laptop"}]))


def test_missing_models_are_told_before_any_case_runs(one: Case, case_file: Callable[[Any], Path], capsys: Any) -> None:
    path = case_file([one])
    assert exit_code(path) == 2
    said = capsys.readouterr().err
    assert f"lacks: {one['model']}; give the folder that holds them: --models-dir" in said
    assert len(said.strip().splitlines()) == 1


def test_lopa_without_competition_keeps_one_branch(golden_dir: Path, cases: list[Case]) -> None:
    """What `base_branch_competition` false is in LoPA's Dream script, whatever the branching factor."""
    case = next(case for case in cases if case["decoder"] == "lopa" and case["config"]["branching_factor"] > 2)
    model = load_model(golden_dir / case["model"])
    alone, many = (
        resolve(name, options, convention)
        for name, convention, options in (
            translate({**case, "config": {**case["config"], "base_branch_competition": wanted}}, model)
            for wanted in (False, True)
        )
    )
    assert (alone.branches, many.branches) == (1, case["config"]["branching_factor"] + 1)
    assert asdict(alone) | {"branches": None} == asdict(many) | {"branches": None}


def test_the_page_says_what_is_read(case_file: Callable[[Any], Path]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "verify.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    fields = {name: needed.strip() == "yes" for names, needed in rows for name in re.findall("`(.*?)`", names)}
    assert fields == {**dict.fromkeys(REQUIRED, True), **dict.fromkeys((*COMPARED, *TOLD), False)}
    example = page[page.index("    [{") : page.index("}]") + 2]
    assert len(read_cases(case_file(example))) == 1
