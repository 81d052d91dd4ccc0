"""The noise of a real cell on a tiny random network, and a stored run asked for again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import ConfigError, ModelError
from lopa_bench.harness.noise import measure_noise, parse_variants
from lopa_bench.harness.repeating import run_again, spec_of
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.comparison.noise import cell_key, find_noise
from lopa_bench.results.schema import RunRecord, Setting
from lopa_bench.results.store import StoredRun, list_runs

Start = Callable[..., RunSpec]


@pytest.fixture
def start(tmp_path: Path, diffusion_checkpoint: Path) -> Start:
    def spec(**changes: Any) -> RunSpec:
        options = {"max_new_tokens": 12, "block_size": 4, "branches": 2, **changes.pop("options", {})}
        small = {"task": "mini-maths", "decoder": "lopa", "model": str(diffusion_checkpoint), "limit": 2, "warmup": 0}
        return RunSpec(runs_dir=tmp_path / "runs", options=options, **{**small, "threads": 1, **changes})

    return spec


def stored(spec: RunSpec) -> StoredRun:
    found = run(spec).run
    assert found is not None
    return found


@pytest.mark.slow
def test_repeats_and_variants_are_measured_stored_and_found(start: Start, tmp_path: Path) -> None:
    import torch

    cell = stored(start())
    heard: list[str] = []
    variants = parse_variants(["dtype=float64", "threads=2"])
    measured = measure_noise(
        spec_of(cell.record), tmp_path / "runs", repeats=3, variants=variants, stored=cell, told=heard.append
    )
    assert torch.get_num_threads() == 1
    assert heard[0] == "1 of 5: the same again" and heard[3:] == ["4 of 5: dtype = float64", "5 of 5: threads = 2"]
    assert [one.identical for one in measured.cell.repeats] == [2, 2, 2]
    assert all(one.tokens == 1.0 and one.first_divergence is None for one in measured.cell.repeats)
    assert measured.stored is not None and measured.stored.identical == 2
    assert len(measured.cell.speeds) == 3 and all(speed > 0 for speed in measured.cell.speeds)
    assert [one.repeat.setting for one in measured.cell.variants] == ["dtype = float64", "threads = 2"]
    assert measured.path.parent == tmp_path / "runs" / "noise"
    assert find_noise(tmp_path / "runs", cell.record) == measured.cell
    assert len(list_runs(tmp_path / "runs")) == 1, "repeats are not among the user's runs"
    assert len(list_runs(tmp_path / "runs" / "noise" / "runs")) == 5


@pytest.mark.parametrize(("change", "is_told"), [({}, False), ({"trace": True}, True)], ids=["as it is", "traced"])
def test_a_stored_run_that_the_floor_does_not_count_for_is_told(
    start: Start, tmp_path: Path, change: dict[str, Any], is_told: bool
) -> None:
    cell = stored(start(**change))
    heard: list[str] = []
    measured = measure_noise(spec_of(cell.record), tmp_path / "runs", repeats=2, stored=cell, told=heard.append)
    assert any("does not count for run 1" in line for line in heard) == is_told
    assert (find_noise(tmp_path / "runs", cell.record) == measured.cell) != is_told


def test_batches_are_a_setting_that_ought_not_to_matter(start: Start, tmp_path: Path) -> None:
    spec = replace(start(decoder="vanilla", limit=3), options={"max_new_tokens": 8, "block_size": 4})
    measured = measure_noise(spec, tmp_path, repeats=2, variants=parse_variants(["batch-size=2"]))
    [batched] = measured.cell.variants
    assert (batched.repeat.setting, batched.identical, batched.samples) == ("batch_size = 2", 3, 3)


def test_a_stored_run_is_asked_for_again_with_all_it_was_asked(start: Start, tmp_path: Path) -> None:
    first = stored(start(options={"tau_conf": 0.3, "branches": 3}, seed=5, trace=True))
    again = run_again(spec_of(first.record), tmp_path / "again")
    assert cell_key(again.record) == cell_key(changed(first.record, trace=False)) != cell_key(first.record)
    assert [one.token_ids for one in again.samples] == [one.token_ids for one in first.samples]
    assert (again.record.seed, again.record.decoder.options["tau_conf"]) == (5, 0.3)
    assert not again.record.configuration["trace"].value


@pytest.mark.parametrize("preset", ["lopa-dist-base-gsm8k-s12", "lopa-dream-gsm8k"])
def test_a_preset_is_asked_for_again_by_its_name(start: Start, preset: str) -> None:
    from lopa_bench.harness.settings import resolve

    asked = RunSpec(preset=preset, model="bundled:d2f", options={"tau_conf": 0.8})
    settings = resolve(asked)
    record = stored(start()).record
    record = record.model_copy(
        update={
            "configuration": settings.all,
            "decoder": record.decoder.model_copy(
                update={"options": {name: one.value for name, one in settings.options.items()}}
            ),
        }
    )
    spec = spec_of(record)
    assert (spec.preset, spec.model, spec.options) == (preset, "bundled:d2f", {"tau_conf": 0.8})
    assert {name: one.value for name, one in resolve(spec).all.items()} == {
        name: one.value for name, one in settings.all.items()
    }


def changed(record: RunRecord, **values: Any) -> RunRecord:
    settings = {name: Setting(value=value) for name, value in values.items()}
    return record.model_copy(update={"configuration": {**record.configuration, **settings}})


def test_a_run_under_other_defaults_is_not_repeated_as_if_it_were_the_same(start: Start) -> None:
    record = stored(start()).record
    with pytest.raises(ConfigError, match=r"cannot be repeated by this version: tau_act was 0\.5 and would be 0\.95"):
        spec_of(changed(record, tau_act=0.5))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("dtype=bfloat16", {"dtype": "bfloat16"}),
        ("threads=2", {"threads": 2}),
        ("batch-size=4", {"batch_size": 4}),
        ("device=cuda:1", {"device": "cuda:1"}),
    ],
)
def test_settings_that_ought_not_to_matter(word: str, expected: dict[str, Any]) -> None:
    assert parse_variants([word]) == [expected]


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("dtyp=bfloat16", "did you mean 'dtype'"),
        ("tau_conf=0.5", "is no setting that ought not to matter"),
        ("threads=0", "is no number of 1 or more"),
        ("threads=two", "is no number of 1 or more"),
        ("threads", "--vary 'threads' is not of the form key=value"),
    ],
)
def test_what_may_change_answers_is_no_noise(word: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_variants([word])


def test_one_repeat_shows_no_noise(start: Start, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        measure_noise(start(), tmp_path, repeats=1)


def test_a_variant_that_cannot_run_is_told_before_anything_runs(start: Start, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="dtype 'float7' is not one of"):
        measure_noise(start(), tmp_path, repeats=2, variants=[{"dtype": "float7"}])
    assert not (tmp_path / "noise").exists()
