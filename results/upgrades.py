"""Reading records of other schema versions: older ones are upgraded step by step, newer ones are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from lopa_bench.errors import ResultsError, SchemaTooNew
from lopa_bench.results.schema import SCHEMA_VERSION, Record

Kind = Literal["run", "sample", "trace", "summary"]
RecordT = TypeVar("RecordT", bound=Record)
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def _nothing_waited(summary: dict[str, Any]) -> dict[str, Any]:
    """Answers were made one at a time, so that a latency is the same by the definition that counts waiting too."""
    metrics = dict(summary.get("metrics", {}))
    if "latency_s" in metrics:
        metrics["latency_s"] = {**metrics["latency_s"], "version": 2}
    return {**summary, "metrics": metrics}


# UPGRADES[kind][v] turns the JSON object of version v into that of version v + 1; a kind without a step for v did not
# change there. `schema_version` itself is set by `upgrade`. Version 2 added fields to traces, ledgers and environment,
# all with a default that says "not known" or "none".
UPGRADES: dict[Kind, dict[int, Upgrade]] = {"run": {}, "sample": {}, "trace": {}, "summary": {1: _nothing_waited}}


def check_version(raw: Mapping[str, Any], where: str) -> int:
    """Return the schema version of a run's or summary's JSON object; SchemaTooNew if a later program wrote it."""
    version = raw.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ResultsError(f"{where} has no schema_version; it is not a run record of lopa-bench")
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"{where} has schema version {version}, this program reads up to {SCHEMA_VERSION}; upgrade lopa-bench"
        )
    return version


def upgrade(kind: Kind, raw: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return `raw`, written under schema `version`, as the current version would have written it."""
    upgraded = dict(raw)
    for step in range(version, SCHEMA_VERSION):
        change = UPGRADES[kind].get(step)
        try:
            upgraded = change(upgraded) if change else upgraded
        except (TypeError, ValueError, AttributeError) as error:
            raise ResultsError(f"a {kind} of schema version {version} is damaged: {error}") from error
    if "schema_version" in raw:
        upgraded["schema_version"] = SCHEMA_VERSION
    return upgraded


def parse(kind: type[RecordT], raw: Mapping[str, Any], where: str) -> RecordT:
    """Build a `kind` from JSON values; what does not fit raises ResultsError naming `where` and the first bad field."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole"
        raise ResultsError(f"{where} is not a {kind.__name__}: {field}: {first['msg']}; was it edited?") from error
