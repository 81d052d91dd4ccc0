"""A stored run asked for again: the specification that its record stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from lopa_bench.errors import ConfigError
from lopa_bench.harness.distributed.launched_run import run_on_its_devices
from lopa_bench.harness.settings import RunSpec, resolve
from lopa_bench.results.comparison.differences import INCIDENTAL, RECORDED_ELSEWHERE
from lopa_bench.results.schema import RunRecord, Setting
from lopa_bench.results.store import StoredRun

ASKED = ("flag", "file", "environment")
NOT_ASKED_AGAIN = ("runs_dir", "trace", "options", "command", "dry_run", "fresh")


def spec_of(record: RunRecord) -> RunSpec:
    """Return what a run was asked, so that it can be asked again: what came from a flag, a file, a preset.

    Raises:
        ConfigError: this version of the program would settle a setting otherwise than the run did.
    """
    settings = record.configuration
    names = {one.name for one in fields(RunSpec)} - set(NOT_ASKED_AGAIN)
    asked: dict[str, Any] = {name: one.value for name, one in _asked(settings).items() if name in names}
    for name in ("task", "decoder", "model", "preset", "convention", "limit"):
        if name in settings and settings[name].value is not None and settings[name].origin != "preset":
            asked[name] = settings[name].value
    options = {name: one.value for name, one in _asked(settings).items() if name in record.decoder.options}
    spec = RunSpec(**asked, options=options)
    _require_same(record, resolve(spec).all)
    return spec


def _asked(settings: dict[str, Setting]) -> dict[str, Setting]:
    return {name: one for name, one in settings.items() if one.origin in ASKED and one.value is not None}


def _require_same(record: RunRecord, now: dict[str, Setting]) -> None:
    where = INCIDENTAL | (RECORDED_ELSEWHERE - {"task", "decoder", "model"})
    for name, then in record.configuration.items():
        if name not in where and name in now and now[name].value != then.value:
            raise ConfigError(
                f"run {record.id} cannot be repeated by this version: {name} was {then.value!r} and would be "
                f"{now[name].value!r}; give the settings by flags instead"
            )


@contextmanager
def threads_kept() -> Iterator[None]:
    """Put the number of CPU threads back at the end, whatever a run set it to."""
    import torch

    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def run_again(spec: RunSpec, runs_dir: Path, **changes: Any) -> StoredRun:
    """Run a specification anew, whatever is stored, with some fields changed."""
    with threads_kept():
        result = run_on_its_devices(replace(spec, **changes, runs_dir=runs_dir, fresh=True, dry_run=False))
    assert result.run is not None  # only a dry run has none
    return result.run
