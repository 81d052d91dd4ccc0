"""How the child that runs a program is kept apart: by bubblewrap where that works, else by limits alone."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HERE = Path(__file__).resolve().parent
WORKER = HERE / "sandbox_worker.py"
REFEREE = HERE / "sandbox_referee.py"
KEEPER = HERE / "sandbox_keeper.py"
EVALPLUS = HERE / "evalplus_worker.py"
LOADED = tuple(HERE / name for name in ("plain_values.py", "value_digest.py", "sandbox_guard.py", "sandbox_child.py"))

NOBODY = 65534
INSIDE = "/sandbox"
SCRATCH = "/scratch"
SHARED_MEMORY = "/dev/shm"
SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin")
FLAGS = ("-P", "-s", "-S", "-B")
UNGUARDED = (
    "programs run WITHOUT isolation, under limits alone: they can read what this user can and may get round the guard"
)

Kind = Literal["bubblewrap", "limits"]


@dataclass(frozen=True)
class Limits:
    """What one program may use. The time of a single call is the judge's to set; these bound the whole.

    `memory_bytes` of address space, `cpu_s` of processor time and `wall_s` from its start to its end, `file_bytes` a
    file, `scratch_bytes` in all files together (bubblewrap only), `num_processes` with threads, `num_files` open.
    """

    memory_bytes: int = 4 * 2**30
    cpu_s: int = 240
    wall_s: float = 300.0
    file_bytes: int = 16 * 2**20
    scratch_bytes: int = 64 * 2**20
    num_processes: int = 16
    num_files: int = 64

    def by_resource(self) -> dict[str, int]:
        """Return the limits that the child sets itself, by the names of `resource`."""
        limits = {
            "cpu": self.cpu_s,
            "fsize": self.file_bytes,
            "nproc": self.num_processes,
            "nofile": self.num_files,
            "core": 0,
        }
        if sys.platform != "darwin":  # macOS refuses this one; there the processor time bounds the memory too
            limits["as"] = self.memory_bytes
        return limits


@dataclass(frozen=True)
class Isolation:
    """A way of starting the child.

    `user` is the user id that the child takes on, None when it keeps its own. `warning` says what is missing.
    `prefix` is bubblewrap's command up to the scratch folder, which it may be able to bound (`bounds_scratch`).
    """

    kind: Kind
    name: str
    user: int | None = None
    warning: str | None = None
    prefix: tuple[str, ...] = field(default=(), repr=False)
    bounds_scratch: bool = False

    def command(self, script: Path, limits: Limits, scratch: str, tell: int) -> list[str]:
        """Return the command that starts `script` in the child's place; bubblewrap tells its process on `tell`."""
        if self.kind == "bubblewrap":
            size = ["--size", str(limits.scratch_bytes)] if self.bounds_scratch else []
            folders = [word for folder in self.writable(script) for word in (*size, "--tmpfs", folder)]
            rest = ["--remount-ro", "/", "--chdir", SCRATCH, python(), *FLAGS, f"{INSIDE}/{script.name}"]
            return [*self.prefix, "--info-fd", str(tell), *folders, *rest]
        return [python(), *FLAGS, str(KEEPER), scratch, python(), *FLAGS, str(script)]

    def writable(self, script: Path) -> list[str]:
        """Return the folders that a script may write in, in bubblewrap: the package's evaluator shares memory."""
        return [SCRATCH, SHARED_MEMORY] if script == EVALPLUS else [SCRATCH]


def python() -> str:
    """Return the interpreter itself, not the link to it in a virtual environment."""
    return os.path.realpath(sys.executable)


def package_folders() -> list[str]:
    """Return the folders that programs may import installed packages from."""
    paths = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    return sorted(path for path in paths if Path(path).is_dir())


def environment(scratch: str) -> dict[str, str]:
    """Return the whole environment of the child; the hash seed makes the order in sets the same every time."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    return {"PYTHONHASHSEED": "0", "HOME": scratch, "TMPDIR": scratch, "LC_ALL": "C.UTF-8", **threads}


def limits_only(reason: str) -> Isolation:
    """Return the fallback: limits, a guard in the interpreter, and a keeper that ends whatever is left."""
    user = NOBODY if os.getuid() == 0 and others_can_run() else None
    as_root = ", and AS ROOT" if os.getuid() == 0 and user is None else ""
    return Isolation("limits", "limits only", user, f"{UNGUARDED}{as_root} ({reason})")


def others_can_run() -> bool:
    """Whether a user without rights can read the interpreter, the packages and our own files."""
    needed = [python(), sys.base_prefix, str(HERE), *package_folders()]
    return all(_is_open(Path(path)) for path in needed)


def _is_open(path: Path) -> bool:
    modes = [part.stat().st_mode for part in (path, *path.parents)]
    return bool(modes[0] & stat.S_IROTH) and all(mode & stat.S_IXOTH for mode in modes)


def bubblewrap() -> Isolation | str:
    """Return isolation by bubblewrap, or why there is none here. Says nothing of whether it starts: try it."""
    tool = shutil.which("bwrap")
    if sys.platform != "linux":
        return f"bubblewrap does not exist for {sys.platform}"
    if tool is None:
        return "bubblewrap is not installed: `apt-get install bubblewrap`"
    try:
        probe = subprocess.run(
            [tool, "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, text=True, timeout=60
        )
        knows = subprocess.run([tool, "--help"], capture_output=True, text=True, timeout=60)
        version = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if probe.returncode:
        return f"bubblewrap does not work here: {first_line(probe.stderr)}"
    has_size = "--size " in knows.stdout + knows.stderr
    is_root = os.getuid() == 0
    prefix = _bubblewrap_prefix(tool, is_root)
    return Isolation("bubblewrap", version or "bubblewrap", NOBODY if is_root else None, None, prefix, has_size)


def _bubblewrap_prefix(tool: str, is_root: bool) -> tuple[str, ...]:
    """Everything up to the scratch folder.

    As root the child takes on the user nobody itself, which a user name space would only pretend: the kernel exempts
    the real root from the limit on processes.
    """
    rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    users = rights if is_root else ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    arguments = [
        tool, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", *users,
        "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr",
    ]  # fmt: skip
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/nix/store"):
        arguments += ["--ro-bind-try", name, name]
    for folder in dict.fromkeys([sys.base_prefix, sys.base_exec_prefix, *package_folders()]):
        if not folder.startswith("/usr/") and folder != "/usr":
            if is_root:  # bubblewrap makes the folders above for the owner alone, and the child will be another
                above = [str(path) for path in reversed(Path(folder).parents) if str(path) != "/"]
                arguments += [word for path in above for word in ("--perms", "0755", "--dir", path)]
            arguments += ["--ro-bind", folder, folder]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    for script in (WORKER, REFEREE, EVALPLUS, *LOADED):
        arguments += ["--ro-bind", str(script), f"{INSIDE}/{script.name}"]
    return tuple(arguments)


def first_line(text: str) -> str:
    """Return the first line of a tool's complaint."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def readable_folders(kind: Kind) -> Sequence[str]:
    """Return the folders that the guard lets programs read; bubblewrap shows no others anyway."""
    if kind == "bubblewrap":
        return ()
    return [sys.base_prefix, sys.base_exec_prefix, *package_folders(), str(HERE)]
