"""Verdicts on published rows, from runs made up for the purpose: what decides, what is listed, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lopa_bench.errors import PrerequisiteError, ResultsError
from lopa_bench.harness.reproduction.figures import devices_per_answer
from lopa_bench.harness.reproduction.reproduce import (
    Reproduction,
    Target,
    check_prerequisites,
    exit_code,
    from_stored,
    judge,
    targets,
)
from lopa_bench.harness.reproduction.table import expected_table, result_table
from lopa_bench.harness.settings import RunSpec, resolve
from lopa_bench.results.published_figures import select, table_ids
from lopa_bench.results.schema import (
    DecoderInfo,
    Environment,
    ModelInfo,
    RunRecord,
    SampleRecord,
    TaskInfo,
    TimeLedger,
    TokenLedger,
    WorkLedger,
)
from lopa_bench.results.store import StoredRun, load_run
from lopa_bench.results.summary import summarise
from lopa_bench.results.writer import create_run
from lopa_bench.tasks.presets import get_preset

A100, H200 = "NVIDIA A100-SXM4-80GB", "NVIDIA H200"
Make = Callable[..., StoredRun]


def one_target(table: str, row: str, task: str, **asked: Any) -> Target:
    [found] = targets(table, RunSpec(**asked), rows=[row], tasks=[task])
    return found


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """Store a run of a preset: `right` of `n` answers, each of `committed` slots in `rounds` rounds."""

    def make(
        preset: str, *, right: float, n: int = 400, available: int = 400, committed: int = 505, rounds: int = 49,
        device: str = A100, seconds: float = 5.0, num_devices: int = 1,
        options: dict[str, Any] | None = None, **changes: Any,
    ) -> StoredRun:  # fmt: skip
        chosen = get_preset(preset)
        settled = resolve(RunSpec(preset=preset, options=options or {}), needs_task=False, environment={})
        record = RunRecord(
            configuration=settled.all,
            task=TaskInfo(name=chosen.task, metric="exact_match", num_documents=n, num_available=available),
            model=ModelInfo(name=chosen.model, adapter=chosen.adapter, hash="sha256:0", family="dream", eos_token_id=2),
            decoder=DecoderInfo(
                name=chosen.decoder, options={name: one.value for name, one in settled.options.items()}
            ),
            seed=chosen.seed,
            environment=Environment(
                device="cuda", device_name=device, dtype="bfloat16", num_devices=num_devices,
                packages={"lm-eval": "0.4.8", "transformers": "4.49.0"},
            ),
        ).model_copy(update=changes)  # fmt: skip
        samples = [
            SampleRecord(
                id=f"{index:04d}",
                token_ids=(7,) * committed,
                tokens=TokenLedger(prompt=9, useful=committed, committed=committed, kept=committed),
                work=WorkLedger(rounds=rounds, model_calls=rounds, branch_forwards=rounds, positions=rounds),
                time=TimeLedger(decode_s=seconds, first_round_s=0.0),
                correct=float(index < right * n),
            )
            for index in range(n)
        ]
        with create_run(tmp_path / "runs", preset, record) as writer:
            writer.replace_samples(samples)
            writer.finish(summarise(writer.record, samples))
        return load_run(writer.path)

    return make


def judged(target: Target, run: StoredRun) -> Reproduction:
    return judge(target, run, [sample.id for sample in run.samples])


LOPA = ("lopa-table1", "D2F-Dream LoPA", "gsm8k")


def test_a_row_whose_figures_come_out_is_reproduced(made: Make) -> None:
    done = judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.738))
    assert (done.verdict, done.why) == ("reproduced", "")
    figures = {one.published.metric: one for one in done.figures}
    assert figures["score"].measured == pytest.approx(73.8, abs=0.3) and figures["score"].n == 400
    assert figures["tpf"].measured == pytest.approx(505 / 50)  # the program counts one round more
    assert figures["tpf"].deviation == pytest.approx(0.0, abs=1e-9)
    assert not [one for one in done.differences if one.blocks]
    assert exit_code([done]) == 0


def test_a_score_or_a_tpf_that_is_off_is_not_reproduced(made: Make) -> None:
    low = judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.60))
    assert (low.verdict, low.why) == ("not reproduced", "outside its tolerance: score")
    slow = judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.738, rounds=60))
    assert (slow.verdict, slow.why) == ("not reproduced", "outside its tolerance: tpf")
    assert exit_code([low, slow]) == 1


def test_the_tolerance_is_that_of_the_device(made: Make) -> None:
    """The same settings differ by up to 5 points between GPU types: on the published one that is a failure."""
    here = judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.69, n=1319, available=1319))
    there = judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.69, n=1319, available=1319, device=H200))
    assert (here.verdict, there.verdict) == ("not reproduced", "reproduced")
    assert "device: 8 x A100 -> NVIDIA H200" in list(map(str, there.differences))
    assert not [one for one in here.differences if one.name == "device"]


def test_too_few_problems_tell_nothing_and_it_says_how_many_do(made: Make) -> None:
    done = judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.75, n=20))
    assert done.verdict == "not comparable" and exit_code([done]) == 3
    assert "n = 20 tells a score to ±" in done.why and "take 72 or more" in done.why
    assert "n: all 400 -> 20" in list(map(str, done.differences))
    assert judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.75, n=100)).verdict == "reproduced"


def test_every_setting_that_differs_is_listed(made: Make) -> None:
    """ "1-2 points below the paper, what did I miss?" gets its answer."""
    run = made(
        "lopa-dream-gsm8k", right=0.7, n=200, device=H200, options={"tau_conf": 0.8},
        model=ModelInfo(name="some/other-7B", adapter=None), seed=3,
    )  # fmt: skip
    place = run.record.environment.model_copy(
        update={"dtype": "float32", "packages": {"lm-eval": "0.4.13", "transformers": "5.24.0"}}
    )
    run = replace(run, record=run.record.model_copy(update={"environment": place}))
    done = judged(one_target(*LOPA), run)
    listed = {one.name: (one.published, one.here, one.blocks) for one in done.differences}
    assert listed["model"] == ("Dream-org/Dream-v0-Instruct-7B", "some/other-7B", True)
    assert listed["adapter"] == ("SJTU-Deng-Lab/D2F_Dream_Instruct_7B_Lora", "none", True)
    assert listed["tau_conf"] == ("0.9", "0.8", True)
    assert listed["device"] == ("8 x A100", "NVIDIA H200", False)
    assert listed["dtype"] == ("bfloat16", "float32", False)
    assert listed["n"] == ("all 400", "200", False)
    assert listed["lm-eval"] == ("0.4.8", "0.4.13", False)
    assert listed["transformers"] == ("4.49.0", "5.24.0", False)
    assert listed["convention"][0] == "lopa-dream"
    assert "seed" not in listed  # nothing is drawn at temperature 0
    assert [one.blocks for one in done.differences] == sorted((one.blocks for one in done.differences), reverse=True)
    assert done.why == "model differs; adapter differs; tau_conf differs"


def test_a_folder_of_the_checkpoints_name_is_taken_for_it(made: Make) -> None:
    model = ModelInfo(name="/models/Dream-v0-Instruct-7B", adapter="/models/D2F_Dream_Instruct_7B_Lora/")
    done = judged(one_target(*LOPA), made("lopa-dream-gsm8k", right=0.738, model=model))
    assert done.verdict == "reproduced"
    assert any("taken for it by its name" in one.here for one in done.differences if one.name == "model")


def test_speeds_are_judged_on_the_published_device_alone(made: Make) -> None:
    row = ("d2f-table2", "D2F-Dream", "gsm8k-cot")
    right = {"right": 0.776, "committed": 256, "seconds": 256 / 91.2}
    here = judged(one_target(*row), made("d2f-dream-gsm8k-cot", **right, device="NVIDIA A100-PCIE-40GB"))
    figures = {one.published.metric: one for one in here.figures}
    assert here.verdict == "reproduced"
    assert figures["tps"].is_within and figures["latency_s"].is_within
    assert figures["gen_length"].measured == 256 and figures["gen_length"].is_within is None
    there = judged(one_target(*row), made("d2f-dream-gsm8k-cot", **{**right, "seconds": 1.0}, device=H200))
    figures = {one.published.metric: one for one in there.figures}
    assert there.verdict == "reproduced" and figures["tps"].is_within is None
    assert figures["tps"].remark == "not judged: 8 x A100-PCIe-40GB vs NVIDIA H200"
    slow = judged(one_target(*row), made("d2f-dream-gsm8k-cot", **{**right, "seconds": 5.0}, device=A100))
    assert slow.verdict == "not reproduced" and "tps" in slow.why


def test_branch_parallel_speeds_need_as_many_devices(made: Make) -> None:
    rows = {row.row: row for row in select("lopa-table4", tasks=["gsm8k"])}
    numbers = {name: devices_per_answer(rows[f"Base {name}"]) for name in ("S1", "S12", "S13")}
    assert numbers == {"S1": 4, "S12": 8, "S13": 16}
    target = one_target("lopa-table4", "Base S12", "gsm8k")
    run = {"right": 0.6088, "committed": 512, "seconds": 512 / 619.33, "device": H200}
    alone = judged(target, made("lopa-dist-base-gsm8k-s12", **run))
    eight = judged(target, made("lopa-dist-base-gsm8k-s12", **run, num_devices=8))
    speeds = [{one.published.metric: one for one in done.figures}["tps_mean"] for done in (alone, eight)]
    assert speeds[0].remark == "not judged: 8 devices an answer vs 1" and speeds[1].is_within


def test_what_the_paper_leaves_open_cannot_be_held_against_a_run(made: Make) -> None:
    target = one_target("lopa-table1", "Dream Vanilla", "gsm8k")
    done = judged(target, made("vanilla-dream-instruct-gsm8k", right=0.726, rounds=511, committed=512))
    assert done.verdict == "not comparable" and "does not state" in done.why
    ascend = one_target("lopa-table4", "Base S18", "gsm8k")
    assert "W8A8" in judged(ascend, made("lopa-dist-base-gsm8k-s18", right=0.6255)).why


def test_rows_without_a_preset_are_not_comparable_and_keep_the_others(made: Make, tmp_path: Path) -> None:
    made("d2f-dream-humaneval", right=0.543, device=H200)
    found = targets("d2f-table2", RunSpec(), rows=["dLLM-Cache", "D2F-Dream"], tasks=["humaneval"])
    done = from_stored(found, tmp_path / "runs")
    assert [(one.verdict, one.run is not None) for one in done] == [
        ("not comparable", False), ("reproduced", True),
    ]  # fmt: skip
    assert "no preset: dLLM-Cache is another method" in done[0].why and exit_code(done) == 3


def test_the_newest_stored_run_of_a_preset_is_taken(made: Make, tmp_path: Path) -> None:
    made("lopa-dream-gsm8k", right=0.6)
    newest = made("lopa-dream-gsm8k", right=0.738)
    [done] = from_stored([one_target(*LOPA)], tmp_path / "runs")
    assert done.run is not None and done.run.path == newest.path and done.verdict == "reproduced"
    [missing] = from_stored([one_target("lopa-table1", "D2F-Dream LoPA", "mbpp")], tmp_path / "runs")
    assert missing.verdict == "not comparable" and "no finished run of preset lopa-dream-mbpp" in missing.why


def test_a_missing_checkpoint_is_told_before_anything_runs(data_dir: Path, tmp_path: Path) -> None:
    target = one_target(*LOPA, data_dir=data_dir, runs_dir=tmp_path / "runs", offline=True)
    with pytest.raises(PrerequisiteError) as caught:
        check_prerequisites([target])
    words = str(caught.value)
    assert "lopa-table1/d2f-dream-lopa/gsm8k needs Dream-org/Dream-v0-Instruct-7B with adapter" in words
    assert "--model bundled" in words and "\n" not in words
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "table", [name for name in table_ids() if name not in ("lopa-table5", "lopa-table6", "d2f-table8")]
)
def test_every_row_settles_on_its_preset_and_on_a_bundled_model(table: str) -> None:
    for target in targets(table, RunSpec()):
        if target.preset is None:
            continue
        assert target.spec is not None and target.spec.preset == target.preset.name
    for target in targets(table, RunSpec(model="bundled"))[::7]:
        if target.spec is None or target.preset is None:
            continue
        here = resolve(target.spec, environment={})
        there = resolve(RunSpec(preset=target.preset.name), needs_task=False, environment={})
        assert here["task"] in ("mini-maths", "mini-code") and str(here["model"]).startswith("bundled:")
        assert {name: one.value for name, one in here.options.items()} == {
            name: one.value for name, one in there.options.items()
        }


def test_figures_read_off_a_plot_are_marked(tmp_path: Path) -> None:
    found = targets("lopa-figure4", RunSpec(), rows=["14 branches", "13 branches"], tasks=["gsm8k"])
    table = result_table(from_stored(found, tmp_path))
    assert [(row["row"], row["kind"]) for row in table.rows if row["metric"] == "tpf"] == [
        ("14 branches", "quoted"), ("13 branches", "digitised"),
    ]  # fmt: skip
    assert "expected (quoted or digitised)" in [column.title for column in table.columns]
    assert "kind" in [column.title for column in table.columns]


@pytest.mark.parametrize(
    ("table", "rows", "words"),
    [
        ("lopa-tabel1", [], "did you mean 'lopa-table1'"),
        ("lopa-table1", ["D2F-Dream LoPAA"], "did you mean 'D2F-Dream LoPA'"),
        ("lopa-table5", [], "has settings and no results"),
    ],
)
def test_what_is_not_there_is_named(table: str, rows: list[str], words: str) -> None:
    with pytest.raises(ResultsError, match=words):
        targets(table, RunSpec(), rows=rows)


def test_the_tables_say_what_is_quoted_and_what_was_measured(made: Make, tmp_path: Path) -> None:
    made("lopa-dream-gsm8k", right=0.6, device=H200)
    found = targets("lopa-table1", RunSpec(), rows=["D2F-Dream LoPA"], tasks=["gsm8k", "mbpp"])
    expected = expected_table(found)
    assert {row["preset"] for row in expected.rows} == {"lopa-dream-gsm8k", "lopa-dream-mbpp"}
    table = result_table(from_stored(found, tmp_path / "runs"))
    rows = {(row["task"], row["metric"]): row for row in table.rows}
    assert rows["gsm8k", "score"]["expected"] == 73.8 and rows["gsm8k", "score"]["verdict"] == "not reproduced"
    assert rows["mbpp", "tpf"]["measured"] is None and rows["mbpp", "tpf"]["n"] == 0
    notes = "\n".join(table.notes)
    assert "expected: LoPA, arXiv 2512.16229, Table 1; nothing in that column was measured here" in notes
    assert [column.title for column in table.columns][3] == "expected (quoted)"
    assert "not reproduced: D2F-Dream LoPA gsm8k: outside its tolerance: score" in notes
    assert "differs: device: 8 x A100 -> NVIDIA H200" in notes
