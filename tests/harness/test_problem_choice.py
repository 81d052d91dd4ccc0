"""Which problems a run asks, and that the choice never changes a prompt."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError
from lopa_bench.harness.problem_choice import (
    SUBSETS,
    as_ranges,
    choose,
    count_of,
    from_ranges,
    outline,
    parse_limit,
    resolve,
    settled,
    with_more,
)
from lopa_bench.harness.task_source import find_task
from lopa_bench.tasks.base import Entry

TEN = [Entry(f"sums-{index:04d}", other_id=f"Sums/{index}") for index in range(10)]


@pytest.mark.parametrize(
    ("given", "limit"), [(None, None), (3, 3), ("3", 3), ("0.5", 0.5), (0.25, 0.25), ("1e-2", 0.01)]
)
def test_a_limit_is_a_number_or_a_part(given: object, limit: object) -> None:
    assert parse_limit(given) == limit
    assert type(parse_limit(given)) is type(limit)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0", "--limit 0 is too small"),
        (-2, "--limit -2 is too small"),
        ("1.0", "neither a whole number of problems nor a part"),
        ("-0.5", "neither a whole number"),
        ("nan", "neither a whole number"),
        ("ten", "--limit ten is no number"),
        ("", "is no number"),
    ],
)
def test_other_limits_are_refused(given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_limit(given)


def test_a_part_is_rounded_up_and_never_more_than_there_is() -> None:
    assert count_of(0.5, 7) == 4
    assert count_of(0.0001, 7) == 1
    assert count_of(20, 7) == 7
    assert resolve(TEN, limit=0.25) == [0, 1, 2]
    assert resolve(TEN) == list(range(10))


@pytest.mark.parametrize(
    ("samples", "indices"),
    [
        ("3,7", [3, 7]),
        ("7, 3,3", [3, 7]),
        ("2-4,9", [2, 3, 4, 9]),
        ("sums-0003,Sums/5", [3, 5]),
        ("0-0", [0]),
    ],
)
def test_samples_are_positions_ranges_and_ids(samples: str, indices: list[int]) -> None:
    assert resolve(TEN, samples=samples) == indices


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ("10", "10 is not there: positions go from 0 to 9"),
        ("5-12", "5-12 is not there"),
        ("7-3", "7-3 ends before it begins"),
        ("sums-003", r"no problem is called 'sums-003' \(did you mean 'sums-00\d\d'\?\)"),
        ("-1", "no problem is called '-1'.* give ids such as sums-0000"),
        (" , ", "names no problem"),
    ],
)
def test_what_is_not_there_is_told(samples: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve(TEN, samples=samples)


@pytest.mark.parametrize(
    "asked", [{"limit": 3, "samples": "1"}, {"limit": 3, "subset": "smoke"}, {"samples": "1", "subset": "smoke"}]
)
def test_two_ways_to_say_it_exclude_each_other(asked: dict[str, Any]) -> None:
    one, other = asked
    with pytest.raises(ConfigError, match=f"--{one} and --{other} both say which problems to ask; give one"):
        settled(**{"limit": None, "samples": None, "subset": None, **asked})


def test_ranges_there_and_back() -> None:
    assert as_ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert from_ranges("0-2,5,7-8") == [0, 1, 2, 5, 7, 8]


def test_a_subset_holds_every_kind_in_its_share_and_the_smaller_subset() -> None:
    kinds = ["a"] * 300 + ["b"] * 90 + ["c"] * 10
    entries = [Entry(f"x-{index}", kind) for index, kind in enumerate(kinds)]
    smoke, small = resolve(entries, subset="smoke"), resolve(entries, subset="small")
    assert (len(smoke), len(small)) == (SUBSETS["smoke"], SUBSETS["small"])
    assert set(smoke) < set(small)
    shares = Counter(kinds[index] for index in small)
    assert abs(shares["a"] - 75) <= 1 and abs(shares["b"] - 22.5) <= 1.5 and abs(shares["c"] - 2.5) <= 1.5
    assert resolve(entries[::2] + entries[1::2], subset="smoke") != list(range(20)), "not the first ones"
    assert resolve(TEN, subset="small") == list(range(10)), "a task with fewer gives all it has"


# The rule decides which problems these are; a change of it would make runs of before and after incomparable.
FIXED = {
    "mini-maths": "31,35,48,64,85,126,143,161,207,214,227,273,280,287,296,367,375,387,390,397",
    "gsm8k": "5,323,364,421,529,566,576,628,712,750,828,939,1025-1026,1093,1127,1163,1264,1266,1313",
    "humaneval": "7,20,24,38,40,43,49,51,54,69,75,102,104-105,107,120,128,136,153-154",
    "mbpp+": "7,14,54,64,69,116,129,134,154,205,217,224,256,269,276,294,296,362,367,375",
}


@pytest.mark.parametrize("name", FIXED)
def test_the_smoke_subset_is_always_the_same(name: str, data_dir: Path) -> None:
    task = find_task(name, data_dir=None if name.startswith("mini") else data_dir)
    choice = choose(task, subset="smoke")
    assert choice.indices == FIXED[name]
    assert choice.line == f"20 of {choice.num_available} (subset smoke): {choice.indices}"


def test_all_forms_of_the_same_data_ask_the_same_problems(data_dir: Path) -> None:
    outlines = [outline(find_task(name, data_dir=data_dir)) for name in ("gsm8k", "gsm8k-cot")]
    assert resolve(outlines[0], subset="small") == resolve(outlines[1], subset="small")


@pytest.mark.parametrize("name", ["gsm8k", "mbpp", "mini-maths"])
def test_a_problem_has_the_same_prompt_whoever_else_is_asked(name: str, data_dir: Path) -> None:
    def prompts(**asked: Any) -> dict[str, str]:
        task = find_task(name, data_dir=None if name.startswith("mini") else data_dir)
        return {document.id: document.prompt for document in choose(task, **asked).documents}

    ten, alone, subset = prompts(limit=10), prompts(samples="7"), prompts(subset="smoke")
    [(one, prompt)] = alone.items()
    assert ten[one] == prompt
    assert len(ten) == 10 and len(subset) == 20
    reference = prompts(limit=max(int(one.rpartition("-")[2]) for one in subset) + 1)
    assert {one: reference[one] for one in subset} == subset


def test_the_first_problem_stands_for_the_way_prompts_are_built(data_dir: Path) -> None:
    task = find_task("gsm8k", data_dir=data_dir)
    choice = choose(task, samples="3,7")
    assert [one.id for one in choice.documents] == ["gsm8k-0003", "gsm8k-0007"]
    assert (choice.first.id, choice.num_available, choice.rule) == ("gsm8k-0000", 1319, "those named")
    more = with_more(choice, task, "0-1,7")
    assert more.indices == "0-1,3,7"
    assert [one.id for one in more.documents] == [f"gsm8k-{index:04d}" for index in (0, 1, 3, 7)]


def test_a_long_choice_is_shortened_in_its_line() -> None:
    choice = choose(find_task("mini-maths"), samples=",".join(map(str, range(0, 400, 2))))
    assert len(choice.line) < 200 and choice.line.endswith(", ...")
    assert len(from_ranges(choice.indices)) == 200
