"""Do `compare`, `noise` and `check` keep their promises on real runs of the five decoders?

Of each decoder on each mini task: a run, its noise floor, a baseline accepted from it; then clean repeats, which must
raise no alarm, and one injected fault of each kind, which must. Every verdict is that of the commands themselves, by
exit code and by the gate that they name. Exit 1 when a promise is broken; when stopped, what was tried is printed.

Faults that a program can have are put into the decoder, by a wrapper of its `_rounds`, and run to the end:

- slower: every round is followed by useless work, as much as it takes to fall beyond the calibrated band, or to stay
  within; measured again, some times, where `check` asks for it because the machine was busier;
- more rounds: after every ninth round one that fills nothing, so that tokens and scores stay as they are;
- damaged answers: the tokens of every second answer are put in reverse order, so that counts stay as they are;
- an error: the second answer ends in one.

Faults of what is stored, and runs of another place, are copies of the first run written by the store's own writer with
changed samples or record; a number that no writer writes (NaN) is put into the file of such a copy.

    python benchmarks/gate_check.py --limit 4 --times 20
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gate_faults import busy_machine, call, damaged, elsewhere, failing, lucky, more_rounds, slower, wrapped

from lopa_bench.cli.app import INTERRUPTED
from lopa_bench.harness.demo import DECODERS, TASKS
from lopa_bench.harness.loaded_models import models_kept
from lopa_bench.results.comparison.baseline import cell_name
from lopa_bench.results.comparison.baseline_file import read_baseline
from lopa_bench.results.comparison.load import load_of, queued_share
from lopa_bench.results.comparison.noise import find_noise
from lopa_bench.results.comparison.speed_gate import MOST_QUEUED, TWO_SIDED_LEVEL, calibrated
from lopa_bench.results.schema import SampleRecord, WorkLedger
from lopa_bench.results.store import StoredRun, list_runs
from lopa_bench.results.tables import Column, Row, Table
from lopa_bench.results.writer import create_run

BOUNDS = ("--max-drop", "acc=1pt", "--tpf", "exact", "--forwards", "0%", "--tps", "15%")
UNTIMED = BOUNDS[:-2]
LOOSE = ("--max-drop", "acc=1pt", "--tpf", "2%", "--forwards", "2%", "--tps", "15%")
SLOW_RUNS, ATTEMPTS = 3, 5
CLEAN, BUSY = "clean repeat: check", "a busy machine"


@dataclass(frozen=True)
class Trial:
    """One promise put to the test: what was done, which exit code was due, and what was seen."""

    task: str
    decoder: str
    kind: str
    due: str
    seen: int
    kept: bool
    words: str


class Cell:
    """A decoder on a task, its folder of runs, and what was tried with it."""

    def __init__(self, root: Path, task: str, decoder: str, limit: int, repeats: int) -> None:
        self.root, self.task, self.decoder, self.limit, self.repeats = root, task, decoder, limit, repeats
        self.baseline = root / "baseline.json"
        self.trials: list[Trial] = []
        self.beyond = 0

    def tried(self, kind: str, due: int, seen: int, words: str, kept: bool = True, also: int | None = None) -> None:
        """Keep a trial and tell of a broken promise at once."""
        is_kept = kept and seen in (due, also)
        text = str(due) if also is None else f"{due} or {also}"
        self.trials.append(Trial(self.task, self.decoder, kind, text, seen, is_kept, " ".join(words.split())))
        if not is_kept:
            print(f"BROKEN, {self.task} {self.decoder}, {kind}: exit {seen}, {words}", file=sys.stderr, flush=True)

    def run(self, folder: str = "runs") -> StoredRun:
        """Run the cell anew, whatever is stored."""
        words = ("run", "-t", self.task, "-d", self.decoder, "-n", str(self.limit), "--device", "cpu", "--new")
        code, _, err = call(*words, "--runs-dir", str(self.root / folder))
        stored = list_runs(self.root / folder)
        if code == 2 or not stored:
            raise SystemExit(f"{' '.join(words)}: {err}")
        return stored[-1]

    def check(
        self,
        kind: str,
        due: int,
        runs: Sequence[StoredRun],
        *says: str,
        bounds: Sequence[str] = BOUNDS,
        also: int | None = None,
    ) -> None:
        """Hold runs to the baseline: exit `due`, or `also`, is due, and a sentence with all of `says`."""
        code, words = self.verdict(runs, bounds)
        self.tried(kind, due, code, words, all(part in words for part in says), also)

    def verdict(self, runs: Sequence[StoredRun], bounds: Sequence[str] = BOUNDS) -> tuple[int, str]:
        """What `check` says of runs: its exit code, and the gates that failed with their reasons."""
        asked = ("-b", str(self.baseline), *(str(run.path) for run in runs), "--runs-dir", str(self.root / "runs"))
        code, out, err = call("check", *asked, *bounds, "--json")
        results = json.loads(out)["results"] if out else []
        named = [one for one in results if one["outcome"] in ("regressed", "not comparable")]
        return code, "; ".join(f"{one['gate']}: {one['reason']}" for one in named) or err

    def copied(
        self,
        change: Callable[[SampleRecord], dict[str, Any]] = lambda one: {},
        record: Mapping[str, Any] = MappingProxyType({}),
        keep: int | None = None,
        edit: tuple[str, str] | None = None,
    ) -> StoredRun:
        """Write a changed copy of the first run by the store's own writer."""
        with create_run(self.root / "copies", "copy", self.first.record.model_copy(update=record)) as writer:
            for one in self.first.samples[:keep]:
                writer.append(one.model_copy(update=change(one)))
            writer.finish()
        if edit is not None:
            file = writer.path / "samples.jsonl"
            file.write_text(file.read_text().replace(*edit, 1))
        return list_runs(self.root / "copies")[-1]

    def accept(self) -> None:
        """A run, its noise floor, and a baseline made of it."""
        self.first = self.run()
        runs = ("--runs-dir", str(self.root / "runs"))
        code, _, err = call("noise", "1", "--repeats", str(self.repeats), *runs, "--json")
        self.tried("noise", 0, code, err, find_noise(self.root / "runs", self.first.record) is not None)
        code, _, err = call(
            "baseline", "accept", "1", "--why", "to hold repeats to", "--out", str(self.baseline), *runs
        )
        self.tried("baseline accept", 0, code, err)

    def repeat(self, times: int) -> None:
        """Equal code and settings again and again; the last three runs together, so that the speed is gated too."""
        for _ in range(times):
            self.run()
            self.check(CLEAN, 0, list_runs(self.root / "runs")[-3:], also=3)
            code, out, err = call("compare", "1", "last", "--runs-dir", str(self.root / "runs"), "--json")
            pair = json.loads(out)["pairs"][0] if out else {"verdict": err, "remark": ""}
            verdict, remark = pair["verdict"], pair["remark"]
            self.tried("clean repeat: compare", 0, code, verdict, verdict in ("same answers", "not distinguishable"))
            self.beyond += remark.startswith("beyond") and ";" not in remark
        self.tried(
            "clean repeats: speeds", 0, 0, f"{self.beyond} of {times} beyond the noise", 2 * self.beyond <= times
        )

    def slow_down(self, kind: str, due: int, *says: str, share: float, more: float, also: int | None = None) -> None:
        """Run slower by the calibrated band's factor to the power of `share`, times `more`.

        Again, some times, while the machine is too busy to tell, or `check` says that it was.
        """
        cell = read_baseline(self.baseline).cells[cell_name(self.first.record)]
        is_told = bool(cell.unhindered)
        band = calibrated(cell, find_noise(self.root / "runs", self.first.record), unhindered=is_told)
        assert band is not None
        factor = more * band.factor(TWO_SIDED_LEVEL, len(cell.speeds)) ** share
        samples = self.first.samples
        passed_s = sum(one.tokens.useful for one in samples) / (cell.unhindered if is_told else cell.speeds)[0]
        for _ in range(ATTEMPTS):
            with wrapped(self.decoder, slower((factor - 1) * passed_s / sum(one.work.rounds for one in samples))):
                runs = [self.run("slow") for _ in range(SLOW_RUNS)]
            if max(queued_share(run.samples) or 0.0 for run in runs) <= MOST_QUEUED and self.verdict(runs)[0] != 3:
                break
        self.check(kind, due, runs, *says, also=also)

    def inject(self) -> None:
        """One fault of each kind, each by the exit code and the words that it is due."""
        for kind, wrapper, says in (
            ("answers damaged", damaged(), ["accuracy: "]),
            ("11 % more rounds", more_rounds(), ["tpf: ", "rounds: ", "model calls: ", "positions: "]),
            ("an answer in error", failing(), ["ended in an error"]),
        ):
            with wrapped(self.decoder, wrapper):
                run = self.run("faulty")
            self.check(kind, 1, [run], *says)
        self.slow_down("slower than the band", 1, "tokens/s: ", share=1.0, more=2.0)
        self.check("a score missing", 1, [self.copied(lambda _: {"correct": None})], "accuracy is missing")
        timeless = [self.copied(lambda _: {"reused": True}) for _ in range(3)]
        self.check("the speed missing", 1, timeless, "tokens/s: ", "missing")
        self.check("rounds missing", 1, [self.copied(lambda _: {"work": WorkLedger()})], "TPF and work are missing")
        score = f'"correct":{self.first.samples[0].correct}'
        self.check("NaN", 1, [self.copied(edit=(score, '"correct":NaN'))], "samples cannot be read")
        self.check("no samples", 1, [self.copied(keep=0)], "it has no samples")
        self.check("a sample short", 1, [self.copied(keep=self.limit - 1)], f"{self.limit - 1} of {self.limit}")

    def unlike(self) -> None:
        """What must not be set beside the baseline, and what must be without an alarm."""
        task, place = self.first.record.task, self.first.record.environment
        older = self.copied(record={"task": task.model_copy(update={"version": "0"})})
        self.check("another task version", 3, [older], "the task's version is 0")
        for what, change in (("device", {"device": "cuda", "device_name": "H200"}), ("dtype", {"dtype": "bfloat16"})):
            other = self.copied(record={"environment": place.model_copy(update=change)})
            self.check(f"another {what}", 3, [other], "tokens/s: ", list(change.values())[-1])
        processor = {"environment": place.model_copy(update={"device_name": "another processor"})}
        for kind, due, became, says in elsewhere(sum(one.correct == 1 for one in self.first.samples)):
            self.check(kind, due, [self.copied(became, processor)], *says, bounds=UNTIMED)
        code, _, err = call("check", "-b", str(self.root / "nowhere.json"), str(self.first.path))
        self.tried("no baseline yet", 3, code, err, "there is no baseline" in err and "baseline accept" in err)
        self.slow_down("slower within the band", 0, share=1 / 3, more=1.05, also=3)
        with busy_machine():
            busy = [self.run("busy") for _ in range(SLOW_RUNS)]
        self.check(BUSY, 0, busy, also=3)
        self.check("a lucky gain", 0, [self.copied(lucky) for _ in range(3)], bounds=LOOSE)


def table(trials: Sequence[Trial], lines: Sequence[str]) -> Table:
    """Kinds of trials by decoders: how many ended as they had to."""
    decoders = list(dict.fromkeys(one.decoder for one in trials))
    rows: list[Row] = []
    for kind in dict.fromkeys(one.kind for one in trials):
        row: Row = {"kind": kind, "due": next(one.due for one in trials if one.kind == kind)}
        for decoder in decoders:
            own = [one.kept for one in trials if (one.kind, one.decoder) == (kind, decoder)]
            row[decoder] = f"{sum(own)} of {len(own)}"
        rows.append(row)
    columns = [Column("kind", "what was done"), Column("due", "exit due"), *(Column(one, one) for one in decoders)]
    return Table(columns, rows, "trials that ended as they had to, with the gate named", tuple(lines))


def notes(cells: Sequence[Cell], times: int) -> list[str]:
    """Say what else the machine did, from what the runs themselves kept, and what the table's counts leave open."""
    runs = [run for cell in cells for run in list_runs(cell.root / "runs")]
    lines = []
    for what, share in (("other work had the processors", load_of), ("there was no processor", queued_share)):
        known = [value for run in runs if (value := share(run.samples)) is not None]
        words = f"for {min(known):.0%} to {max(known):.0%} of the time" if known else "unknown"
        lines.append(f"{what}: {words}, in {len(known)} of {len(runs)} runs")
    for kind in (CLEAN, BUSY):
        seen = [one.seen for cell in cells for one in cell.trials if one.kind == kind]
        lines.append(f"{kind}: ok {seen.count(0)} times, not comparable {seen.count(3)} times")
    beyond = sum(cell.beyond for cell in cells)
    lines.append(f"clean repeats whose speed `compare` called beyond the noise: {beyond} of {times * len(cells)}")
    return lines


def tried_cells(folder: Path, asked: argparse.Namespace) -> Iterator[Cell]:
    """Yield each cell when all has been tried with it."""
    for decoder, task in itertools.product(asked.decoder or DECODERS, asked.task or TASKS):
        cell = Cell(folder / f"{task}-{decoder}", task, decoder, asked.limit, asked.repeats)
        start = time.monotonic()
        cell.accept()
        cell.repeat(asked.times)
        cell.inject()
        cell.unlike()
        broken = sum(not one.kept for one in cell.trials)
        words = f"{task} {decoder}: {len(cell.trials)} trials, {broken} broken"
        print(f"{words}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        yield cell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=4, help="problems of each run")
    parser.add_argument("--times", type=int, default=20, help="clean repeats")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of the noise floor")
    parser.add_argument("--decoder", action="append", choices=DECODERS, help="this one alone; may repeat")
    parser.add_argument("--task", action="append", choices=TASKS, help="this one alone; may repeat")
    parser.add_argument("--json", action="store_true", help="print every trial as JSON")
    asked = parser.parse_args()
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as folder, models_kept(), contextlib.suppress(KeyboardInterrupt):
        for cell in tried_cells(Path(folder), asked):
            cells.append(cell)
            lines = notes(cells, asked.times)
    if not cells:
        return INTERRUPTED
    trials = [one for cell in cells for one in cell.trials]
    if asked.json:
        print(json.dumps({"trials": [asdict(one) for one in trials], "notes": lines}, indent=2))
    else:
        from lopa_bench.cli.options import print_table

        print_table(table(trials, lines), "table")
    num_due = len(asked.decoder or DECODERS) * len(asked.task or TASKS)
    if len(cells) < num_due:
        print(f"stopped after {len(cells)} of {num_due} cells", file=sys.stderr)
        return INTERRUPTED
    return 0 if all(one.kept for one in trials) else 1


if __name__ == "__main__":
    sys.exit(main())
