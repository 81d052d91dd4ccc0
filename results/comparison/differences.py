"""What differs between two runs, sorted by what it can do to their figures.

*Semantic* differences are meant to change answers: decoder, options, weights, how prompts are put. *Environment*
differences are not, yet can: device, number format, library versions, the program's commit. *Incidental* ones cannot:
where files lie, how many problems were asked. A setting that this module does not know is semantic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from lopa_bench.results.schema import DecoderInfo, Environment, RunRecord
from lopa_bench.results.sittings import UNTIMED_PACKAGES, mixture, places_of

Kind = Literal["semantic", "environment", "incidental"]

INCIDENTAL = frozenset(
    {"runs_dir", "data_dir", "offline", "warmup", "preset", "limit", "samples", "subset", "problems", "force_adapter",
     "convention", "allow_code_execution", "isolation", "min_call_s", "live", "api_key_env", "request_timeout",
     "cache_protocol", "comm_timeout"}
)  # fmt: skip
# Those of which the record says elsewhere what they came to, and those that are looked at with the environment.
RECORDED_ELSEWHERE = frozenset(
    {"task", "decoder", "model", "adapter", "seed", "device", "dtype", "threads", "batch_size", "trace", "base_url",
     "concurrency", "devices", "branch_parallel", "tensor_parallel", "data_parallel"}
)  # fmt: skip
# Settings of the network that the speed depends on, whatever they do to answers; 0 and none are the same here.
OF_NETWORK = ("quantize", "compile", "merge_qkv")


@dataclass(frozen=True)
class Difference:
    """One setting with its two values, as text."""

    name: str
    before: str
    after: str
    kind: Kind
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.before} vs {self.after}"


def differences(before: RunRecord, after: RunRecord) -> list[Difference]:
    """Return everything that differs between two runs, the semantic first; tasks and prompts are not looked at."""
    found = [*_decoding(before, after), *_weights(before, after), *_seed(before, after)]
    found += _environment(before, after)
    order = {"semantic": 0, "environment": 1, "incidental": 2}
    return sorted(found, key=lambda one: order[one.kind])


def semantic(found: list[Difference]) -> list[Difference]:
    """Return the differences that are meant to change answers."""
    return [one for one in found if one.kind == "semantic"]


def _decoding(before: RunRecord, after: RunRecord) -> Iterator[Difference]:
    """Yield the decoder and every setting; what only one of two decoders has belongs to the decoder."""
    same_decoder = before.decoder.name == after.decoder.name
    if not same_decoder:
        yield Difference("decoder", before.decoder.name, after.decoder.name, "semantic")
    old, new = before.configuration, after.configuration
    for name in sorted({*old, *new} - RECORDED_ELSEWHERE):
        one, other = old.get(name), new.get(name)
        if one is not None and other is not None and one.value == other.value:
            continue
        values = (show(one.value) if one else "-", show(other.value) if other else "-")
        if name in INCIDENTAL:
            yield Difference(name, *values, "incidental")
        elif same_decoder and (one is None or other is None):
            known = one or other
            added = known is not None and known.origin == "default"
            remark = "one version of the program has no such setting" if added else ""
            yield Difference(name, *values, "environment" if added else "semantic", remark)
        elif same_decoder:
            yield Difference(name, *values, "semantic")
        elif one is not None and other is not None:
            own = one.origin == other.origin == "default"
            yield Difference(
                name, *values, "incidental" if own else "semantic", "each decoder's own default" if own else ""
            )


def _weights(before: RunRecord, after: RunRecord) -> Iterator[Difference]:
    old, new = before.model, after.model
    if (old.hash or old.name) != (new.hash or new.name):
        same_name = f"{new.name}, other weights"
        yield Difference("model", old.name, same_name if old.name == new.name else new.name, "semantic")
    else:
        if old.name != new.name:
            yield Difference("model", old.name, new.name, "incidental", "the same weights")
        if old.tokenizer_hash != new.tokenizer_hash:
            yield Difference("tokenizer", old.tokenizer_hash[:12] or "-", new.tokenizer_hash[:12] or "-", "semantic")
    if (old.adapter_hash or old.adapter) != (new.adapter_hash or new.adapter):
        values = [f"{one.adapter or '-'} {one.adapter_hash[:8]}".strip() for one in (old, new)]
        yield Difference("adapter", values[0], values[1], "semantic")


def _seed(before: RunRecord, after: RunRecord) -> Iterator[Difference]:
    if before.seed != after.seed:
        drawn = draws(before) or draws(after)
        kind: Kind = "semantic" if drawn else "incidental"
        yield Difference("seed", str(before.seed), str(after.seed), kind, "" if drawn else "nothing is drawn")


def draws(run: RunRecord) -> bool:
    """Tell whether a run's answers depend on random numbers, as far as its options say."""
    options = run.decoder.options
    chance = (options.get("temperature"), options.get("alg_temp"))
    return any(bool(value) for value in chance) or "random" in (options.get("remasking"), options.get("select"))


def _environment(before: RunRecord, after: RunRecord) -> Iterator[Difference]:
    old, new = before.environment, after.environment

    def both(value: Callable[[Environment], object]) -> tuple[str, str]:
        """Of a run that was made in several sittings, what all of them had."""
        one, other = (sorted({show(value(place)) for place in places_of(run)}) for run in (before, after))
        return " and ".join(one), " and ".join(other)

    pairs: dict[str, tuple[object, object]] = {
        "device": both(device_words),
        "dtype": (old.dtype, new.dtype),
        "threads": both(lambda place: place.num_threads),
        "batch_size": (old.batch_size, new.batch_size),
        "world_size": _processes(before, after),
        "communication": _communication(before, after),
        "accelerations": _accelerations(before, after),
        "trace": (_traced(before), _traced(after)),
        "base_url": (_value(before, "base_url"), _value(after, "base_url")),
        "concurrency": (_value(before, "concurrency"), _value(after, "concurrency")),
        "data": (before.task.source, after.task.source),
        "commit": (_commit(old), _commit(new)),
        "python": (old.python, new.python),
    }
    for name in sorted({name for run in (before, after) for place in places_of(run) for name in place.packages}):
        pairs[name] = both(lambda place, name=name: place.packages.get(name, "-"))  # type: ignore[misc]
    for name, (one, other) in pairs.items():
        if one != other:
            yield Difference(name, show(one), show(other), "environment")
    if old.platform != new.platform:
        yield Difference("platform", old.platform, new.platform, "incidental")


def _processes(before: RunRecord, after: RunRecord) -> tuple[str, str]:
    """Return how many processes there were, and what they shared where both records tell."""
    pair = before.environment, after.environment
    told = all(place.groups or place.world_size == 1 for place in pair)
    one, other = (_shared(place) if told else str(place.world_size) for place in pair)
    return one, other


def _shared(place: Environment) -> str:
    """Return "4 (bp 2, tp 2)"."""
    words = ", ".join(f"{name} {place.groups[name]}" for name in sorted(place.groups) if place.groups[name] > 1)
    return f"{place.world_size} ({words})" if words else str(place.world_size)


def _communication(before: RunRecord, after: RunRecord) -> tuple[str, str]:
    """Return the backends and cache protocols; one process has none, and that is told by their number."""
    pair = before.environment.communication, after.environment.communication
    return pair if all(pair) else ("", "")


def _accelerations(before: RunRecord, after: RunRecord) -> tuple[str, str]:
    """Return what came of the same wish to speed a network up; other wishes are settings of their own."""
    if _of_network(before) != _of_network(after):
        return "", ""
    one, other = ("; ".join(run.environment.accelerations) for run in (before, after))
    return (one, other) if one and other else ("", "")


def _of_network(run: RunRecord) -> dict[str, object]:
    return {name: _value(run, name) or None for name in OF_NETWORK}


def _traced(run: RunRecord) -> bool:
    return bool(_value(run, "trace"))


def _value(run: RunRecord, name: str) -> object:
    setting = run.configuration.get(name)
    return None if setting is None else setting.value


def _commit(place: Environment) -> str:
    return (place.git_commit or "-")[:10] + (" changed" if place.git_dirty else "")


def device_words(place: Environment) -> str:
    """Return a device's name, and how many there were of it."""
    name = place.device_name or place.device or "unknown"
    return name if place.num_devices == 1 else f"{place.num_devices} x {name}"


def show(value: object) -> str:
    """Return a setting's value as text."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def speed_obstacle(before: RunRecord, after: RunRecord) -> str | None:
    """Return why two runs' speeds must not be set side by side, "x not comparable: H200 vs A100"; None when they may.

    Device, number format, threads, batch, processes and what they share, their communication, what was done to the
    network and the libraries that compute must agree, in all sittings; neither run may have kept a trace, which takes
    time.
    """
    reasons = [f"the device of {run.id} was not recorded" for run in (before, after) if not run.environment.device]
    reasons += [
        f"{run.id} was made in several sittings with {words}" for run in (before, after) if (words := mixture(run))
    ]
    reasons += [*_unlike_machines(before.environment, after.environment), *_unlike_work(before, after)]
    if _traced(before) != _traced(after):
        reasons.append("only one of them kept a trace")
    return "x not comparable: " + "; ".join(reasons) if reasons else None


def _unlike_machines(old: Environment, new: Environment) -> Iterator[str]:
    """Yield in what the machines and libraries of two runs differ that answers took their time on."""
    if old.device and new.device and device_words(old) != device_words(new):
        yield f"{device_words(old)} vs {device_words(new)}"
    if old.dtype != new.dtype:
        yield f"{old.dtype} vs {new.dtype}"
    for unit, one, other in (
        ("threads", old.num_threads, new.num_threads),
        ("batch", old.batch_size, new.batch_size),
    ):
        if one != other:
            yield f"{unit} {one} vs {other}"
    for name in sorted({*old.packages, *new.packages} - UNTIMED_PACKAGES):
        one_version, other_version = (place.packages.get(name, "none") for place in (old, new))
        if one_version != other_version:
            yield f"{name} {one_version} vs {other_version}"


def _unlike_work(before: RunRecord, after: RunRecord) -> Iterator[str]:
    """Yield in what two runs differ of how the work was shared, and of what was done to the network before."""
    pairs: list[tuple[str, object, object]] = [
        ("processes", *_processes(before, after)),
        ("communication", *_communication(before, after)),
        *((name.replace("_", " "), _value(before, name) or None, _value(after, name) or None) for name in OF_NETWORK),
        ("network", *_accelerations(before, after)),
        ("server", _value(before, "base_url"), _value(after, "base_url")),
        ("requests at a time", _value(before, "concurrency"), _value(after, "concurrency")),
    ]
    for unit, one, other in pairs:
        if one != other:
            yield f"{unit} {show(one)} vs {show(other)}"


def scope(decoder: DecoderInfo) -> str | None:
    """Return which slots a round of this decoder chooses from; None where the record does not tell.

    docs/decoders.md has the same in its column "chosen from".
    """
    rule, cache = decoder.options.get("rule"), decoder.options.get("cache")
    if decoder.name == "vanilla":
        return "the whole answer" if rule == "dream" else "one block"
    if decoder.name == "fast-dllm":
        return "the whole answer" if (rule, cache) == ("dream", "none") else "one block"
    if decoder.name in ("d2f", "lopa"):
        return "one block" if decoder.options.get("base") == "vanilla" else "all open blocks"
    return "the next slot" if decoder.name == "ar" else None


def scope_warning(before: RunRecord, after: RunRecord) -> str | None:
    """Return a sentence when one run chooses within a block and the other over the whole answer, as with a cache."""
    old, new = scope(before.decoder), scope(after.decoder)
    if {old, new} != {"one block", "the whole answer"}:
        return None
    return (
        f"scope: {before.id} chooses its slots from {old}, {after.id} from {new}; "
        "a difference may come from that rather than from the setting that was changed"
    )
