"""Replays reference decodings and compares tokens and calls: the proof that the decoders are the authors' own.

A case names a decoder, a model folder, the settings under the names of the program that made it, a prompt, and what
came out; docs/verify.md has the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lopa_bench.decoders.communication import BranchGroup
from lopa_bench.decoders.lopa import LoPADecoder
from lopa_bench.decoders.registry import create
from lopa_bench.decoders.rounds import Round
from lopa_bench.errors import CommunicationError, ConfigError, LopaBenchError, TaskDataError, nearest
from lopa_bench.models.language_model import LanguageModel
from lopa_bench.models.loading import load_model
from lopa_bench.models.tensor_parallel import TensorGroup

DECODERS = ("vanilla", "fast-dllm", "d2f", "lopa")
REQUIRED = ("decoder", "model", "config", "prompt", "tokens")
COMPARED = ("forwards", "rounds", "branch_forwards", "input_lengths")
TOLD = ("id", "source", "reported_steps")
# Likeness to a known field from which on an unknown one is a slip, which would leave a count uncompared.
SLIP = 0.9


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case came out; `difference` is empty when it is equal in tokens and in calls.

    `skipped` says why it does not apply to the way that branches are spread.
    """

    id: str
    decoder: str
    equal_tokens: bool
    equal_calls: bool
    difference: str = ""
    skipped: str = ""

    @property
    def equal(self) -> bool:
        """Equal in everything."""
        return self.equal_tokens and self.equal_calls


@dataclass(slots=True)
class Tally:
    """Counts of one decoder."""

    decoder: str
    num_cases: int = 0
    num_equal_tokens: int = 0
    num_equal_calls: int = 0
    num_skipped: int = 0
    failures: list[CaseResult] = field(default_factory=list)

    def add(self, result: CaseResult) -> None:
        """Count one case; one that does not apply is counted apart."""
        if result.skipped:
            self.num_skipped += 1
            return
        self.num_cases += 1
        self.num_equal_tokens += result.equal_tokens
        self.num_equal_calls += result.equal_calls
        if not result.equal:
            self.failures.append(result)


def read_cases(path: Path, decoder: str | None = None) -> list[dict[str, Any]]:
    """The cases of a file, of one decoder when asked.

    Raises:
        TaskDataError: no such file, not a list of cases, a field missing, or no case of that decoder.
    """
    if decoder is not None and decoder not in DECODERS:
        raise TaskDataError(f"decoder {decoder!r} has no reference cases; choose {', '.join(DECODERS)}")
    try:
        cases = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TaskDataError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise TaskDataError(f"{path} is not JSON: {error}") from None
    if not isinstance(cases, list):
        raise TaskDataError(f"{path} holds no list of cases")
    for number, case in enumerate(cases):
        _check_case(case, number, path)
    chosen = [case for case in cases if decoder in (None, case["decoder"])]
    if not chosen:
        raise TaskDataError(f"{path} holds no case of decoder {decoder!r}" if decoder else f"{path} holds no cases")
    return chosen


def _check_case(case: Any, number: int, path: Path) -> None:
    if not isinstance(case, dict):
        raise TaskDataError(f"case {number} of {path} is no object")
    missing = [key for key in REQUIRED if key not in case]
    if missing:
        raise TaskDataError(f"case {case.get('id', number)} of {path} lacks {', '.join(missing)}")
    for key in case:
        meant = get_close_matches(key, (*REQUIRED, *COMPARED, *TOLD), n=1, cutoff=SLIP)
        if meant and meant[0] != key:
            raise TaskDataError(f"case {case.get('id', number)} of {path} has '{key}'; is '{meant[0]}' meant?")
    for key, holds, wanted in (
        ("model", isinstance(case["model"], str), "the name of a folder"),
        ("config", isinstance(case["config"], dict), "an object"),
        ("prompt", _is_ids(case["prompt"]), "a list of token ids"),
        ("tokens", _is_ids(case["tokens"]), "a list of token ids"),
    ):
        if not holds:
            raise TaskDataError(f"case {case.get('id', number)} of {path}: {key} must be {wanted}")
    name = case["decoder"]
    if name not in DECODERS:
        raise TaskDataError(f"case {case.get('id', number)}: unknown decoder {name!r}{nearest(str(name), DECODERS)}")


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value)


def verify(
    path: Path,
    *,
    models_dir: Path | None = None,
    decoder: str | None = None,
    device: str = "cpu",
    on_result: Callable[[CaseResult], None] = lambda result: None,
    group: BranchGroup | None = None,
    tensor_group: TensorGroup | None = None,
) -> list[Tally]:
    """Run the cases of a file.

    Args:
        path: the cases.
        models_dir: where their model folders lie; beside the file when not given.
        decoder: only the cases of this one.
        device: where to run.
        on_result: told of every case as it ends.
        group: the processes that share the branches of lopa's rounds, each of which calls this.
        tensor_group: the processes that hold the network together, each of which calls this.

    Returns:
        One tally per decoder, in the file's order.

    Raises:
        TaskDataError: the file or a model is missing or damaged.
    """
    cases = read_cases(path, decoder)
    folder = models_dir or path.parent
    _check_models(cases, folder, path)
    models: dict[str, LanguageModel] = {}
    tallies: dict[str, Tally] = {}
    for case in cases:
        if case["model"] not in models:
            models[case["model"]] = load_model(folder / case["model"], device=device, tensor_group=tensor_group)
        result = run_case(case, models[case["model"]], group)
        tallies.setdefault(case["decoder"], Tally(case["decoder"])).add(result)
        on_result(result)
    return list(tallies.values())


def _check_models(cases: list[dict[str, Any]], folder: Path, path: Path) -> None:
    """Refuse to begin where a model is missing: half a verdict is none."""
    names = sorted({case["model"] for case in cases})
    missing = [name for name in names if not (folder / name / "config.json").is_file()]
    if missing:
        raise TaskDataError(
            f"{path} needs models that {folder} lacks: {', '.join(missing)}; "
            "give the folder that holds them: --models-dir"
        )


def run_case(case: dict[str, Any], model: LanguageModel, group: BranchGroup | None = None) -> CaseResult:
    """Decode one case's prompt and compare."""
    name = case["decoder"]
    case_id = str(case.get("id", "?"))
    try:
        decoder_name, preset, options = translate(case, model)
        decoder = create(decoder_name, model, options, preset)
        if isinstance(decoder, LoPADecoder):
            decoder.group = group
            if group is not None and group.cache_protocol == "single-phase" and decoder.config.full_attention:
                return CaseResult(case_id, name, False, False, skipped="under full attention branches write other keys")
        generation = decoder.decode(case["prompt"])
        rounds = generation.run()
    except CommunicationError:
        raise
    except LopaBenchError as error:
        return CaseResult(case_id, name, False, False, f"{type(error).__name__}: {error}")
    tokens, wanted = generation.answer, case["tokens"]
    differences = list(_token_difference(tokens, wanted)) + list(_call_differences(case, rounds))
    equal_tokens = tokens == wanted
    return CaseResult(case_id, name, equal_tokens, len(differences) == (not equal_tokens), "; ".join(differences))


def _token_difference(tokens: list[int], wanted: list[int]) -> Iterator[str]:
    if tokens == wanted:
        return
    for position, (ours, theirs) in enumerate(zip(tokens, wanted, strict=False)):
        if ours != theirs:
            yield f"token {position}: {ours} instead of {theirs}"
            return
    yield f"{len(tokens)} tokens instead of {len(wanted)}"


def _call_differences(case: dict[str, Any], rounds: list[Round]) -> Iterator[str]:
    """Compare every count that the case records."""
    # Their loop verifies two equal anchors in the round after one without a candidate; ours verifies it once.
    doubled = sum(before.no_candidate for before in rounds[:-1])
    ours = {
        "forwards": sum(one.model_calls for one in rounds),
        "rounds": len(rounds),
        "branch_forwards": sum(one.branch_forwards for one in rounds),
    }
    for key, count in ours.items():
        wanted = case.get(key, count)
        if key == "branch_forwards" and case["decoder"] == "lopa":
            if wanted not in (count, count + doubled):
                yield f"{key}: {count} instead of {wanted}"
        elif wanted != count:
            yield f"{key}: {count} instead of {wanted}"
    lengths = [one.input_length for one in rounds]
    if case.get("input_lengths", lengths) != lengths:
        yield f"input lengths: {lengths} instead of {case['input_lengths']}"


def translate(case: dict[str, Any], model: LanguageModel) -> tuple[str, str, dict[str, Any]]:
    """Decoder, convention and options that say what the case's program did."""
    settings = dict(case["config"])
    shifted = model.config.logit_shift
    if case["decoder"] == "lopa":
        return "lopa", "lopa-dream", _translate_lopa(settings)
    if case["decoder"] == "d2f":
        return "d2f", "d2f-dream" if shifted else "d2f-llada", settings
    return _translate_canvas(settings, shifted)


def _translate_lopa(settings: dict[str, Any]) -> dict[str, Any]:
    """Drop what that program accepts and ignores; a forced base winner is our control `select` anchor."""
    for ignored in ("max_branches_kept", "branch_confidence_decay", "alg", "alg_temp", "diffusion_steps"):
        settings.pop(ignored, None)
    if not settings.pop("base_branch_competition", True):
        settings["branching_factor"] = 1  # that program then keeps the winner alone
    for mode in ("branch_verification_mode", "use_uncertainty_logic"):
        if not settings.pop(mode, True):
            raise ConfigError(f"{mode} = false is a mode of that program that is not offered here")
    if settings.pop("verification_force_base_winner", False):
        settings["select"] = "anchor"
    return settings


def _translate_canvas(settings: dict[str, Any], dream: bool) -> tuple[str, str, dict[str, Any]]:
    """Vanilla and Fast-dLLM share two programs, which the settings tell apart."""
    cached = settings.get("cache", "none") != "none"
    if dream and not cached and settings.get("alg") != "confidence_threshold":
        settings.pop("cache", None)
        for unused in ("threshold", "block_length"):
            settings.pop(unused, None)
        return "vanilla", "dream", settings
    if dream:
        if settings.get("alg") != "confidence_threshold":
            # The cached loop ranks by negative entropy whatever algorithm it is told.
            settings["alg"] = "entropy"
        settings.setdefault("threshold", 0.9)
        return "fast-dllm", "fast-dllm-dream", settings
    if "factor" in settings and settings["factor"] is not None:
        settings["threshold"] = None
    settings.setdefault("threshold", None)
    return "fast-dllm", "fast-dllm-llada", settings
