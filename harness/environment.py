"""Where a run runs: versions, devices and the backends they talk through, and why one is missing."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lopa_bench.errors import PrerequisiteError, nearest
from lopa_bench.harness.distributed.backends import BACKENDS
from lopa_bench.harness.distributed.spread_settings import DEFAULTS
from lopa_bench.harness.installed import version_of
from lopa_bench.harness.source_state import git_state
from lopa_bench.results.schema import Environment

PACKAGES = (
    "lopa-bench", "torch", "transformers", "tokenizers", "safetensors", "huggingface-hub", "peft", "lm-eval",
    "evalplus", "datasets", "numpy", "scipy", "pandas", "matplotlib", "pydantic", "typer",
)  # fmt: skip
RECORDED = ("lopa-bench", "torch", "transformers", "tokenizers", "lm-eval", "datasets", "numpy")


@dataclass(frozen=True)
class Backend:
    """A kind of device and how its processes talk; `why` says what is missing when it is not there."""

    device: str
    communication: str
    available: bool
    names: tuple[str, ...]
    why: str | None = None


def versions(names: Iterable[str] = PACKAGES) -> dict[str, str | None]:
    """Return the installed version of each package, None where there is none."""
    return {name: version_of(name) for name in names}


def backends() -> list[Backend]:
    """Return all kinds of device this program knows, available or not."""
    return [_cuda(), _npu(), _cpu()]


def _cuda() -> Backend:
    import torch

    nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
    if torch.cuda.is_available():
        names = tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        return Backend("cuda", "nccl", True, names, None if nccl else "this torch was built without NCCL")
    if torch.version.cuda is None:
        return Backend("cuda", "nccl", False, (), f"torch {torch.__version__} was built without CUDA")
    return Backend("cuda", "nccl", False, (), "no CUDA device or driver was found")


def _npu() -> Backend:
    timeouts = BACKENDS["npu"].timeout_words(DEFAULTS["comm_timeout"])
    if importlib.util.find_spec("torch_npu") is None:
        return Backend("npu", "hccl", False, (), f"torch_npu is not installed (Ascend devices need it); {timeouts}")
    import torch

    try:
        importlib.import_module("torch_npu")
        npu = torch.npu  # type: ignore[attr-defined]
        names = tuple(npu.get_device_name(index) for index in range(npu.device_count()))
    except Exception as error:  # whatever a half-installed driver may raise
        return Backend("npu", "hccl", False, (), f"torch_npu does not work here: {error}")
    return Backend("npu", "hccl", bool(names), names, timeouts if names else "no Ascend device was found")


def _cpu() -> Backend:
    import torch

    gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()
    why = None if gloo else "this torch was built without gloo, so runs of several processes are not possible"
    return Backend("cpu", "gloo", True, (processor_name(),), why)


def choose_device(asked: str) -> str:
    """Return the device for "auto" (the best there is) or check the one that was asked for.

    Raises:
        PrerequisiteError: it is not there; says why.
    """
    found = {backend.device: backend for backend in backends()}
    if asked == "auto":
        return next(name for name in ("cuda", "npu", "cpu") if found[name].available)
    kind = asked.partition(":")[0]
    if kind not in found:
        raise PrerequisiteError(f"device '{asked}' is unknown{nearest(kind, found)}; there are {', '.join(found)}")
    if not found[kind].available:
        raise PrerequisiteError(f"device '{asked}' cannot be used: {found[kind].why}; try --device cpu")
    index = asked.partition(":")[2]
    if index and (not index.isdigit() or int(index) >= len(found[kind].names)):
        raise PrerequisiteError(f"device '{asked}' is not there: {kind} has {len(found[kind].names)} of them")
    return asked


def choose_dtype(asked: str, device: str, bundled: bool) -> str:
    """Return the dtype for "auto": bfloat16 on an accelerator, float32 on a CPU and for the bundled models."""
    if asked != "auto":
        return asked
    return "float32" if bundled or device.startswith("cpu") else "bfloat16"


def describe(device: str, dtype: str, batch_size: int = 1) -> Environment:
    """Return the environment of a run on `device`, as it is recorded; `batch_size` answers are made at once."""
    import torch

    kind, _, index = device.partition(":")
    names = next(backend.names for backend in backends() if backend.device == kind)
    commit, dirty = git_state()
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        packages={name: version for name, version in versions(RECORDED).items() if version},
        device=kind,
        device_name=names[int(index or 0)] if names else "",
        dtype=dtype,
        num_threads=torch.get_num_threads(),
        batch_size=batch_size,
        git_commit=commit,
        git_dirty=dirty,
    )


def describe_server(server: str, concurrency: int) -> Environment:
    """Return the environment of a run that a server answers; its device and precision are not known here."""
    commit, dirty = git_state()
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        packages={
            name: version for name, version in versions(("lopa-bench", "lm-eval", "datasets")).items() if version
        },
        device="server",
        device_name=server,
        batch_size=concurrency,
        git_commit=commit,
        git_dirty=dirty,
    )


@cache
def processor_name() -> str:
    """Return the CPU's name, as far as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
