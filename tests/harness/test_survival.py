"""Runs that meet what a long run meets: no memory, no numbers, masks left, hours to go."""

from __future__ import annotations

import gc
import shutil
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import ScriptedDecoder, Step, write_checkpoint

from lopa_bench.errors import PrerequisiteError
from lopa_bench.harness import identity
from lopa_bench.harness.driver import generate
from lopa_bench.harness.progress import Silent
from lopa_bench.harness.runner import run
from lopa_bench.harness.settings import RunSpec
from lopa_bench.results.schema import Why
from lopa_bench.results.store import load_run

Start = Callable[..., RunSpec]


class Listener(Silent):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_memory_that_runs_out_costs_one_sample_and_the_run_goes_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lopa_bench.models.language_model import LanguageModel

    new_cache, num_calls = LanguageModel.new_cache, 0

    def sometimes(self: LanguageModel, capacity: int) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return new_cache(self, capacity)

    monkeypatch.setattr(LanguageModel, "new_cache", sometimes)
    result = run(start())
    assert result.run is not None and result.summary is not None and result.has_errors
    bad = result.run.samples[1]
    assert (bad.status, bad.why, bad.correct) == ("error", "out_of_memory", None)
    assert bad.error == "out_of_memory: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert (result.run.status, result.num_new, result.summary.n) == ("finished with errors", 3, 2)
    [reason] = [one for one in result.summary.reasons if one.word == "out_of_memory"]
    assert (reason.count, reason.of, reason.ids) == (1, 3, ("mini-maths-0001",))
    again = run(start())
    assert (again.num_new, again.has_errors) == (1, False)


def test_a_network_that_gives_no_numbers_is_judged_on_nothing(
    start: Start, tmp_path: Path, diffusion_checkpoint: Path
) -> None:
    from safetensors.torch import load_file, save_file

    broken = Path(shutil.copytree(diffusion_checkpoint, tmp_path / "broken"))
    [file] = broken.glob("*.safetensors")
    weights = load_file(file)
    weights["model.norm.weight"] = torch.full_like(weights["model.norm.weight"], float("nan"))
    save_file(weights, file)
    result = run(start(model=str(broken)))
    assert result.run is not None and result.summary is not None
    assert [(one.status, one.why, one.correct) for one in result.run.samples] == [("error", "NaN logits", None)] * 3
    assert (result.run.status, result.summary.n) == ("finished with errors", 0)
    assert result.summary.metrics["accuracy"].value is None
    [reason] = result.summary.reasons
    assert (reason.word, reason.count, len(reason.ids)) == ("NaN logits", 3, 3)


def test_a_mask_left_in_an_answer_is_an_error_of_that_sample(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.decoders import base

    watched, num_calls = base.watched, 0

    def cut_short(rounds: Iterator[Any], *more: Any) -> Iterator[Any]:
        nonlocal num_calls
        num_calls += 1
        return islice(watched(rounds, *more), 2 if num_calls == 3 else None)

    with monkeypatch.context() as patch:
        patch.setattr(base, "watched", cut_short)
        result = run(start())
    assert result.run is not None
    *_, bad = result.run.samples
    assert (bad.status, bad.why, bad.correct, bad.masks_left > 0) == ("error", "masks left", None, True)
    assert result.run.status == "finished with errors"
    again = run(start())
    assert (again.num_new, again.has_errors) == (1, False)


DECODERS: dict[str, dict[str, Any]] = {
    "ar": {"max_new_tokens": 12},
    "vanilla": {"max_new_tokens": 12, "block_size": 4},
    "fast-dllm": {"max_new_tokens": 12, "block_size": 4, "cache": "dual"},
    "d2f": {"max_new_tokens": 12, "block_size": 4},
    "lopa": {"max_new_tokens": 12, "block_size": 4, "branches": 3},
}


def bytes_held() -> int:
    """Bytes of all tensors that anything refers to."""
    gc.collect()
    with warnings.catch_warnings():  # some objects warn when they are looked at
        warnings.simplefilter("ignore")
        tensors = [one for one in gc.get_objects() if isinstance(one, torch.Tensor)]
        return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}.values())


def test_a_decoder_leaves_no_memory_behind_for_the_next(
    start: Start, diffusion_checkpoint: Path, causal_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lopa_bench.models.cache import KVCache

    caches: list[weakref.ref[KVCache]] = []
    make = KVCache.__init__

    def remembered(self: KVCache, *rest: Any, **more: Any) -> None:
        caches.append(weakref.ref(self))
        make(self, *rest, **more)

    monkeypatch.setattr(KVCache, "__init__", remembered)
    run(start(limit=1))  # what is made once and kept, as tables of positions
    before, held = bytes_held(), []
    for decoder, options in DECODERS.items():
        model = causal_checkpoint if decoder == "ar" else diffusion_checkpoint
        run(replace(start(), decoder=decoder, model=str(model), options=options, limit=2))
        held.append(bytes_held())
    assert len(caches) >= 2 * 4, "decoders with a cache make one for each answer"
    assert [one() for one in caches if one() is not None] == []
    assert all(abs(now - before) <= before / 100 for now in held), (before, held)


def test_a_failed_answer_holds_no_cache_either(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.models.cache import KVCache
    from lopa_bench.models.language_model import LanguageModel

    caches: list[weakref.ref[KVCache]] = []
    alive: list[int] = []
    new_cache = LanguageModel.new_cache

    def remembered(self: LanguageModel, capacity: int) -> KVCache:
        gc.collect()
        alive.append(sum(one() is not None for one in caches))
        cache = new_cache(self, capacity)
        caches.append(weakref.ref(cache))
        return cache

    def exhausted(self: LanguageModel, *rest: Any, **more: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(LanguageModel, "new_cache", remembered)
    monkeypatch.setattr(LanguageModel, "predict", exhausted)
    result = run(start())
    assert result.run is not None
    assert [one.why for one in result.run.samples] == ["out_of_memory"] * 3
    assert alive == [0, 0, 0]


def exhaust_torch() -> None:
    torch.empty(1 << 50)


def exhaust_numpy() -> None:
    np.empty(1 << 50)


@pytest.mark.parametrize("exhaust", [exhaust_torch, exhaust_numpy])
def test_what_allocators_really_raise_is_known(exhaust: Callable[[], None]) -> None:
    outcome = generate(ScriptedDecoder([Step()], before=exhaust), [1, 2, 3])
    assert outcome.why == Why.OUT_OF_MEMORY and outcome.error is not None
    assert "allocate" in outcome.error and "\n" not in outcome.error


def test_weights_that_do_not_fit_are_one_sentence(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.harness.model_source import ModelSource

    def exhaust(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 14 GiB.\nSee the manual.")

    monkeypatch.setattr(ModelSource, "load", exhaust)
    with pytest.raises(
        PrerequisiteError, match=r"0\.0 GiB in float32, do not fit the memory of cpu: CUDA out of memory"
    ):
        run(start())
    assert load_run("last", start().runs_dir or "").status == "failed"


def stop_a_run(spec: RunSpec) -> None:
    """Leave a run with one answer of those asked for."""

    class Impatient(Silent):
        def sampled(self, *_: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, Impatient())


def test_what_keeps_a_stopped_run_from_being_gone_on_with_is_named(
    start: Start, tmp_path: Path, diffusion_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Path(shutil.copytree(diffusion_checkpoint, tmp_path / "model"))
    spec = start(model=str(model))
    stop_a_run(spec)
    listener = Listener()
    with monkeypatch.context() as patch:
        patch.setattr(identity, "code_hash", lambda: "changed")
        assert run(spec, listener).num_new == 3
    words = (
        "run 0001-mini-maths-lopa-2-branches-model has the same settings and is unfinished, but cannot be gone on with"
    )
    assert f"{words}: lopa-bench's code changed since; a new run begins" in listener.notes
    other = write_checkpoint(tmp_path / "other", seed=1)
    shutil.copytree(other, model, dirs_exist_ok=True)
    assert run(spec, listener).num_new == 3
    assert f"{words}: the weights changed since; a new run begins" in listener.notes
    assert len(list((tmp_path / "runs").glob("0*"))) == 3


def test_a_stopped_run_that_is_asked_for_less_stays_unfinished(start: Start) -> None:
    stop_a_run(start(limit=4))
    fewer = run(start(limit=2))
    assert fewer.run is not None and fewer.summary is not None
    assert (fewer.num_new, fewer.run.status, fewer.summary.n) == (1, "interrupted", 2)
    assert "unfinished: 2 of 4 samples" in fewer.summary.warnings
    again = run(start(limit=2))
    assert again.run is not None
    assert (again.num_new, again.run.status, again.run.record.resumed) == (0, "interrupted", fewer.run.record.resumed)
    whole = run(start(limit=4))
    assert whole.run is not None
    assert (whole.num_new, whole.run.status, whole.run.path) == (2, "finished", fewer.run.path)


def test_a_run_of_other_settings_is_no_news(start: Start) -> None:
    stop_a_run(start())
    listener = Listener()
    run(start(options={"branches": 3}), listener)
    assert [note for note in listener.notes if "gone on with" in note] == []


@pytest.mark.parametrize("package", ["torch", "lopa-bench"])
def test_another_version_of_a_package_makes_another_run(
    start: Start, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    from lopa_bench.harness import environment

    assert run(start(limit=1)).num_new == 1
    assert run(start(limit=1)).num_new == 0
    versions = environment.versions
    monkeypatch.setattr(environment, "versions", lambda names: versions(names) | {package: "0.0.0"})
    assert run(start(limit=1)).num_new == 1


def test_a_long_run_is_announced(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from lopa_bench.harness import forecast

    listener = Listener()
    run(start(), listener)
    assert [note for note in listener.notes if "left" in note or "will take" in note] == []
    monkeypatch.setattr(forecast, "LONG_S", 0.0)
    monkeypatch.setattr(forecast, "SHORT_S", 0.0)
    run(start(limit=8, fresh=True), listener)
    [warning] = [note for note in listener.notes if "will take" in note]
    assert warning.startswith("this will take about ") and "7 samples of about" in warning
    assert len([note for note in listener.notes if "left (corrected from 3 samples: " in note]) == 1
