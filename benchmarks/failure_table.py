"""What becomes of a run of several processes when one of them fails, as a table; exit 1 when a promise is broken.

Promises: the job ends within --comm-timeout + 5 seconds of the fault with one sentence that names rank, round and
operation; a rank that gives no sign while it reads its weights or judges ends it within LOPA_BENCH_QUIET_S + 5 seconds
and is named with what it was about; no process is left; answers that were finished are stored; the same command, with
another number of processes, completes the run and it comes out as an undisturbed one. What concerns one answer only
(memory, NaN) costs that answer on all processes; slow reading or judging costs nothing; memory that fails where the
others cannot be told ends the job without waiting for --comm-timeout.

    python benchmarks/failure_table.py --times 10
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lopa_bench.errors import LopaBenchError
from lopa_bench.harness.distributed.launch import launch
from lopa_bench.harness.distributed.watch import QUIET
from lopa_bench.results.store import StoredRun, list_runs
from lopa_bench.results.tables import Column, Table

HERE = Path(__file__).resolve().parent
TIMEOUT_S, QUIET_S, MARGIN_S = 3.0, 15.0, 5.0
WEIGHTS, JUDGING = "weights", "judging"
NUM_SAMPLES = 4


@dataclass(frozen=True)
class Fault:
    """A kind of fault, where it happens, and how the work is spread over how many processes."""

    kind: str
    rank: int
    decoder: str = "lopa"
    call: int | str = 24
    tensor: int = 1
    devices: int = 2
    warmup: int = 0

    @property
    def is_of_one_answer(self) -> bool:
        """Whether the run goes on after it."""
        return self.kind in ("nan", "memory", "memory-scores", "slow")

    @property
    def is_quiet(self) -> bool:
        """Whether it is a hang where no rank waits for a message of another."""
        return self.call in (WEIGHTS, JUDGING) and self.kind not in ("stop", "slow")

    @property
    def phase(self) -> str:
        """Where in the run it happens."""
        return self.call if isinstance(self.call, str) else "warm-up" if self.warmup else "answer"

    @property
    def shared(self) -> str:
        """What the processes share."""
        if self.tensor == 1:
            return "branches" if self.decoder == "lopa" else "samples"
        return "network" if self.tensor == self.devices else "branches and network"


FAULTS = (
    Fault("raise", 0), Fault("raise", 1), Fault("kill", 0), Fault("kill", 1), Fault("stop", 0), Fault("stop", 1),
    Fault("loop", 0), Fault("loop", 1), Fault("sleep", 1), Fault("orphan", 1), Fault("memory", 0), Fault("memory", 1),
    Fault("nan", 0), Fault("nan", 1), Fault("raise", 1, "d2f"), Fault("kill", 1, "d2f"), Fault("kill", 0, "d2f"),
    Fault("stop", 1, "d2f"), Fault("stop", 0, "d2f"), Fault("loop", 1, "d2f"),
    *(Fault(kind, rank, tensor=2) for kind in ("memory", "nan", "raise", "kill") for rank in (0, 1)),
    Fault("memory-scores", 1, tensor=2), Fault("memory-between", 0, tensor=2), Fault("memory-between", 1, tensor=2),
    Fault("stop", 1, tensor=2), Fault("memory", 1, "d2f", tensor=2), Fault("kill", 1, "d2f", tensor=2),
    *(Fault(kind, 3, call=12, tensor=2, devices=4) for kind in ("memory", "memory-between", "nan", "kill")),
    *(Fault(kind, 1, tensor=2) for kind in ("loop", "sleep")), Fault("sleep", 0, tensor=2),
    *(Fault(kind, 3, call=12, tensor=2, devices=4) for kind in ("loop", "sleep", "stop", "raise")),
    *(Fault("sleep", rank, call=4, warmup=1) for rank in (0, 1)), Fault("sleep", 1, "d2f", call=4, warmup=1),
    Fault("sleep", 1, call=4, tensor=2, warmup=1), Fault("loop", 1, "d2f", call=4, warmup=1),
    *(Fault("sleep", 1, decoder, call=WEIGHTS) for decoder in ("lopa", "d2f")), Fault("stop", 1, call=WEIGHTS),
    Fault("sleep", 0, call=JUDGING), Fault("sleep", 1, "d2f", call=JUDGING),
    Fault("slow", 0, call=JUDGING), Fault("slow", 1, "d2f", call=JUDGING), Fault("slow", 1, call=WEIGHTS),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What was seen: seconds from the fault to the end, exit code, sentence, and broken promises."""

    seconds: float
    code: int
    sentence: str
    broken: tuple[str, ...]


def words(fault: Fault, root: Path) -> list[str]:
    return [
        "run", "-t", "mini-maths", "-d", fault.decoder, "-n", str(NUM_SAMPLES), "--warmup", str(fault.warmup),
        "--threads", "1", "--runs-dir", str(root), "--comm-timeout", f"{TIMEOUT_S:g}", "--json",
        *(["--branches", "4"] if fault.decoder == "lopa" else []),
    ]  # fmt: skip


def trial(fault: Fault, folder: Path, resume_with: int | None = None) -> Outcome:
    """Run into a fault and look at what is left; go on with another number of processes where that is asked."""
    root = folder / "runs"
    os.environ.update(FAULT=f"{fault.kind} {fault.rank} {fault.call}", FAULT_FOLDER=str(folder))
    os.environ.pop(QUIET, None)
    if fault.is_quiet:
        os.environ[QUIET] = str(QUIET_S)
    arguments = [*words(fault, root), "--devices", str(fault.devices), "--tensor-parallel", str(fault.tensor)]
    code, sentence = _launched(fault, arguments, fault.devices, folder)
    ended = time.monotonic()
    if not (folder / "fault").exists():
        return Outcome(0.0, code, sentence, (f"ended before the fault, with {code}: {sentence or 'no word'}",))
    began = float((folder / "fault").read_text())
    if fault.kind == "orphan":
        time.sleep(2.0)
    broken = []
    allowed = TIMEOUT_S + MARGIN_S if fault.kind != "memory-between" else TIMEOUT_S
    allowed = QUIET_S + MARGIN_S if fault.is_quiet else allowed
    if not fault.is_of_one_answer and ended - began > allowed:
        broken.append(f"took {ended - began:.1f} s, not {allowed:g}")
    if left := [file.stem for file in folder.glob("*.pid") if _is_alive(int(file.read_text()))]:
        broken.append(f"ranks {', '.join(left)} are left")
    [run] = list_runs(root)
    broken += _of_one_answer(fault, code, run) if fault.is_of_one_answer else _of_all(fault, code, sentence, run)
    if resume_with is not None:
        broken += _resumed(fault, root, resume_with)
    return Outcome(ended - began, code, sentence, tuple(broken))


def _launched(fault: Fault, arguments: list[str], devices: int, folder: Path) -> tuple[int, str]:
    if fault.kind == "orphan":
        code = "import sys; from lopa_bench.harness.distributed.launch import launch; "
        code += f"launch({arguments!r}, {devices}, {TIMEOUT_S}, "
        place = {**os.environ, "TMPDIR": str(folder)}
        source = f"{code}[{str(HERE / 'faulty_rank.py')!r}])"
        done = subprocess.run([sys.executable, "-c", source], env=place, stderr=subprocess.DEVNULL, check=False)
        return done.returncode, ""
    try:
        with Path(os.devnull).open("w") as nowhere, _to(nowhere.fileno()), _scratch_in(folder):
            return launch(arguments, devices, TIMEOUT_S, [str(HERE / "faulty_rank.py")]), ""
    except LopaBenchError as error:
        return error.exit_code, str(error)


@contextlib.contextmanager
def _scratch_in(folder: Path):  # type: ignore[no-untyped-def]
    """Let the launcher keep its files, and a fault's traceback, where they are removed with everything else."""
    kept, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = kept


@contextlib.contextmanager
def _to(descriptor: int):  # type: ignore[no-untyped-def]
    """Let this process and its children write elsewhere."""
    kept = [os.dup(1), os.dup(2)]
    try:
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _of_all(fault: Fault, code: int, sentence: str, run: StoredRun) -> list[str]:
    broken = []
    if fault.kind != "orphan":
        if code != 1:
            broken.append(f"exit code {code}")
        missing = [word for word in _to_be_named(fault) if word not in sentence]
        if missing:
            broken.append(f"does not name {' and '.join(missing)}: {sentence}")
        if fault.kind == "memory-between" and "memory did not suffice" not in sentence:
            broken.append(f"does not say that it was memory: {sentence}")
    is_early = fault.warmup or fault.call in (WEIGHTS, JUDGING)
    if not (run.samples or is_early) or run.status not in ("interrupted", "failed"):
        broken.append(f"{len(run.samples)} answers stored, status {run.status}")
    return broken


def _to_be_named(fault: Fault) -> list[str]:
    """What the sentence on a fault must say: rank, round and operation."""
    rank = f"rank {fault.rank} "
    if fault.call == WEIGHTS:
        return [rank, "reading the weights"]
    if fault.call == JUDGING:
        return [rank, "judging"]
    return [rank, "warm-up, round " if fault.warmup else "answer mini-maths-", ", round ", ", computing"]


def _of_one_answer(fault: Fault, code: int, run: StoredRun) -> list[str]:
    failed = [sample.why for sample in run.samples if sample.status == "error"]
    expected = 0 if fault.kind == "slow" else 1
    if code != expected or len(run.samples) != NUM_SAMPLES or len(failed) != expected:
        return [f"exit code {code}, {len(run.samples)} answers, {len(failed)} of them failed"]
    return []


def _resumed(fault: Fault, root: Path, devices: int) -> list[str]:
    """Complete the run with the program itself and compare it with one that nothing disturbed."""
    base = [sys.executable, "-m", "lopa_bench.cli.app", *words(fault, root)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FAULT")}
    done = subprocess.run([*base, "--devices", str(devices)], capture_output=True, env=environment, check=False)
    runs = list_runs(root)
    if done.returncode or len(runs) != 1:
        return [f"the same command with {devices} processes: exit {done.returncode}, {len(runs)} runs"]
    subprocess.run([*base, "--new"], capture_output=True, env=environment, check=True)
    resumed, whole = ([_told(run, index) for index in range(NUM_SAMPLES)] for run in list_runs(root))
    return [] if resumed == whole else ["the resumed run differs from an undisturbed one"]


def _told(run: StoredRun, index: int) -> tuple[object, ...]:
    sample = run.samples[index]
    return sample.id, sample.token_ids, sample.work, sample.tokens, sample.scores, sample.text_kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--only", help="this kind alone")
    parser.add_argument("--shared", help="where this is shared alone, such as network")
    parser.add_argument("--phase", help="what is done meanwhile, such as warm-up, weights or judging")
    chosen = parser.parse_args()
    rows, sentences = [], []
    for fault in FAULTS:
        if chosen.only not in (None, fault.kind) or chosen.shared not in (None, fault.shared):
            continue
        if chosen.phase not in (None, fault.phase):
            continue
        outcomes = []
        for number in range(chosen.times):
            with tempfile.TemporaryDirectory() as folder:
                outcomes.append(trial(fault, Path(folder), resume_with=(1, 3)[number % 2] if number < 2 else None))
        broken = [words for outcome in outcomes for words in outcome.broken]
        rows.append(
            {
                "fault": fault.kind,
                "rank": fault.rank,
                "shared": fault.shared,
                "phase": fault.phase,
                "times": len(outcomes),
                "longest": None if fault.is_of_one_answer else max(outcome.seconds for outcome in outcomes),
                "kept": not broken,
            }
        )
        sentences += [f"{fault.kind} on rank {fault.rank}: {outcomes[0].sentence}"] * bool(outcomes[0].sentence)
        sentences += [f"BROKEN, {fault.kind} on rank {fault.rank}: {one}" for one in broken]
        print(rows[-1], *broken, file=sys.stderr, flush=True)
    columns = [
        Column("fault", "fault"), Column("rank", "on rank"), Column("shared", "shared"), Column("phase", "in"),
        Column("times", "times"),
        Column("longest", "longest s to the end", 1), Column("kept", "all promises kept"),
    ]  # fmt: skip
    from lopa_bench.cli.options import print_table

    print_table(Table(columns, rows, f"faults, --comm-timeout {TIMEOUT_S:g}"), "table")
    print("\n".join(sentences))
    return 0 if all(row["kept"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
