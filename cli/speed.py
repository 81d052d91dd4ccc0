"""`lopa-bench speed`: what more devices would bring, predicted from rates measured here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lopa_bench.cli import options as shared
from lopa_bench.errors import ConfigError

if TYPE_CHECKING:
    from lopa_bench.harness.speed.speed import SpeedAnswer
    from lopa_bench.results.tables import Table

Model = Annotated[
    str, typer.Option("--model", "-m", help="mid, dream-7b, or a checkpoint, of which only config.json is read.")
]
Branches = Annotated[str, typer.Option(help="Branches per round, such as 1,8; up to 16 devices share them.")]
Tpf = Annotated[str | None, typer.Option(help="Tokens per round at each of them, such as 3.1,8. Default: 1.")]
Run = Annotated[str | None, typer.Option("--run", help="Take branches and TPF from a stored run instead.")]
Window = Annotated[int, typer.Option(help="Positions that a branch sends through the network in a round.")]
Cached = Annotated[int, typer.Option(help="Positions in the cache.")]
Grid = Annotated[bool, typer.Option("--devices-grid", help="Every bp x tp, not only one axis at a time.")]
Check = Annotated[bool, typer.Option("--check/--no-check", help="Hold the model against rounds measured here.")]
Link = Annotated[
    str | None, typer.Option(help="MICROSECONDS,GB/S of the link between devices, where it is not to be measured.")
]


def speed(
    model: Model = "mid",
    branches: Branches = "1,8,16",
    tpf: Tpf = None,
    run: Run = None,
    runs_dir: Annotated[Path, typer.Option(help="Where runs are stored.")] = Path("runs"),
    window: Window = 64,
    cached: Cached = 256,
    device: Annotated[str, typer.Option(help="Device to measure.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16, float16.")] = "float32",
    threads: Annotated[int, typer.Option(help="CPU threads of one device.")] = 1,
    grid: Grid = False,
    check: Check = True,
    link: Link = None,
    json: shared.Json = False,
    csv: shared.Csv = False,
    markdown: shared.Markdown = False,
    latex: shared.Latex = False,
) -> None:
    """Predict milliseconds a round and tokens/s for 1 to 16 devices from rates measured here in seconds.

    Says 0.8x where more devices would be slower, and how far the prediction is from what two processes here need.

    Example: lopa-bench speed --model dream-7b --branches 1,8 --tpf 3.1,8.5 --no-check
    """
    from lopa_bench.harness.environment import choose_device
    from lopa_bench.harness.speed.speed import SpeedQuestion, answer, tokens_per_round_of

    format = shared.chosen_format(json=json, csv=csv, markdown=markdown, latex=latex)
    known = tokens_per_round_of(run, runs_dir) if run else _tokens_per_round(branches, tpf)
    question = SpeedQuestion(
        model=model,
        tokens_per_round=known,
        window=window,
        cached=cached,
        dtype=dtype,
        device=choose_device(device),
        threads=threads,
        grid=grid,
        check=check,
        link=None if link is None else _link(link),
    )
    found = answer(question)
    if format == "json":
        shared.print_json(_document(found))
        return
    tables = [_predicted(found), *([_checked(found)] if found.checked else [])]
    shared.print_tables(tables[:1] if format in ("csv", "latex") else tables, format)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option} {text!r} is no list of numbers, such as 1,8") from None


def _tokens_per_round(branches: str, tpf: str | None) -> dict[int, float]:
    counts = _numbers("--branches", branches)
    tokens = _numbers("--tpf", tpf) if tpf else [1.0] * len(counts)
    if any(count != int(count) for count in counts):
        raise ConfigError(f"--branches {branches} must be whole numbers")
    if len(tokens) != len(counts):
        raise ConfigError(f"--tpf {tpf} gives {len(tokens)} numbers for the {len(counts)} of --branches {branches}")
    return dict(zip(map(int, counts), tokens, strict=True))


def _link(text: str) -> tuple[float, float]:
    values = _numbers("--link", text)
    if len(values) != 2 or min(values) <= 0:
        raise ConfigError(f"--link {text} must be two numbers above 0: microseconds and GB/s, such as 20,50")
    return values[0] * 1e-6, values[1] * 1e9


def _rows(found: SpeedAnswer) -> list[dict[str, Any]]:
    from lopa_bench.harness.speed.model import speed_up

    alone = {one.branches: one for one in found.predictions if one.devices == 1}
    rows = []
    for one in found.predictions:
        times = speed_up(one, alone[one.branches])
        rows.append(
            {
                "branches": one.branches,
                "bp": one.bp,
                "tp": one.tp,
                "devices": one.devices,
                "ms_per_round": 1000 * one.seconds,
                "communication": one.comm_s / one.seconds,
                "tokens_per_s": one.tokens_s,
                "speed_up": times,
                "efficiency": times / one.devices,
            }
        )
    return rows


def _predicted(found: SpeedAnswer) -> Table:
    from lopa_bench.results.tables import Column, Table

    columns = [
        Column("branches", "branches"),
        Column("bp", "bp"),
        Column("tp", "tp"),
        Column("devices", "devices"),
        Column("ms_per_round", "ms/round", 2),
        Column("communication", "of it talking %", 1, 100),
        Column("tokens_per_s", "tokens/s", 1),
        Column("speed_up", "speed-up", 2),
        Column("efficiency", "efficiency %", 0, 100),
    ]
    machine = found.machine
    rates = ", ".join(f"{rate / 1e9:.0f} at {rows} rows" for rows, rate in sorted(machine.flops.items()))
    notes = [
        f"measured: GFLOP/s of the layers' products {rates}; a layer takes at least {1e6 * machine.layer_s:.0f} µs",
        *found.notes,
    ]
    if machine.link_latency_s is not None and machine.link_bytes_s is not None:
        notes.insert(1, f"link: {1e6 * machine.link_latency_s:.0f} µs, {machine.link_bytes_s / 1e9:.2f} GB/s")
    return Table(columns, _rows(found), "predicted", notes)


def _check_rows(found: SpeedAnswer) -> list[dict[str, Any]]:
    return [
        {
            "model": one.model,
            "branches": one.branches,
            "bp": one.bp,
            "tp": one.tp,
            "predicted_ms": 1000 * one.predicted_s,
            "measured_ms": 1000 * one.measured_s,
            "deviation": one.deviation,
            "predicted_speed_up": found.checked[0].predicted_s / one.predicted_s,
            "measured_speed_up": found.checked[0].measured_s / one.measured_s,
        }
        for one in found.checked
    ]


def _checked(found: SpeedAnswer) -> Table:
    from lopa_bench.results.tables import Column, Table

    columns = [
        Column("model", "model"),
        Column("branches", "branches"),
        Column("bp", "bp"),
        Column("tp", "tp"),
        Column("predicted_ms", "predicted ms", 2),
        Column("measured_ms", "measured ms", 2),
        Column("deviation", "deviation %", 0, 100, signed=True),
        Column("predicted_speed_up", "predicted speed-up", 2),
        Column("measured_speed_up", "measured speed-up", 2),
    ]
    return Table(columns, _check_rows(found), "held against rounds measured here")


def _document(found: SpeedAnswer) -> dict[str, Any]:
    from dataclasses import asdict

    machine = asdict(found.machine)
    return {"machine": machine, "predicted": _rows(found), "checked": _check_rows(found), "notes": list(found.notes)}
