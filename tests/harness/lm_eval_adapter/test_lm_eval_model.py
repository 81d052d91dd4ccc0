"""The program as a model of lm-eval: in this process, and from lm-eval's own command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import EOS, ByteTokenizer, ScriptedDecoder, Step

from lopa_bench.errors import ConfigError, DecodeError
from lopa_bench.harness.answering import Answerer
from lopa_bench.harness.lm_eval_adapter.model import AnsweringLM, LopaBenchLM, stop_words


def model(text: str = "four. Question: next", error: Exception | None = None) -> AnsweringLM:
    tokens = [*text.encode(), EOS]
    decoder = ScriptedDecoder([Step(tuple(range(len(tokens))), tuple(tokens), error=error)], max_new_tokens=100)
    return AnsweringLM(Answerer(decoder, ByteTokenizer()))  # type: ignore[arg-type]


def request(prompt: str = "2 + 2?", **arguments: Any) -> Any:
    return SimpleNamespace(args=(prompt, arguments), doc_id=0, task_name="sums", idx=0)


@pytest.mark.parametrize(
    ("until", "words"), [("Q:", ("Q:",)), (["Q:"], ("Q:",)), (["", "Q:"], ("Q:",)), (None, ()), ([], ()), ("", ())]
)
def test_a_stop_string_and_a_list_of_one_are_the_same(until: Any, words: tuple[str, ...]) -> None:
    assert stop_words(until) == words


def test_answers_are_cut_at_the_tasks_stop_strings() -> None:
    lm = model()
    assert lm.generate_until([request(until=["Question:"]), request(until=[])], disable_tqdm=True) == [
        "four. ",
        "four. Question: next",
    ]
    info = lm.get_model_info()["lopa_bench"]
    assert (info["useful_tokens"], info["rounds"], info["tpf"]) == (40, 2, 20.0)


def test_an_answer_that_went_wrong_is_never_scored() -> None:
    with pytest.raises(DecodeError, match="document 0 of sums: NaN"):
        model(error=DecodeError("NaN logits")).generate_until([request()], disable_tqdm=True)


def test_another_length_than_the_decoders_is_told(caplog: pytest.LogCaptureFixture) -> None:
    model().generate_until([request(max_gen_toks=512)], disable_tqdm=True)
    assert "at most 512 new tokens, the decoder was made for 100" in caplog.text


@pytest.mark.parametrize("kind", ["loglikelihood", "loglikelihood_rolling"])
def test_likelihoods_are_refused_in_a_sentence(kind: str) -> None:
    with pytest.raises(ConfigError, match="Monte-Carlo"):
        getattr(model(), kind)([request()])


def test_chat_templates_are_the_tokenizers() -> None:
    lm = model()
    assert lm.chat_template() is None
    assert lm.tokenizer_name == "bytes"
    lm.answerer.tokenizer.chat_template = {"default": "A", "tool": "B"}
    assert (lm.chat_template(True), lm.chat_template("tool")) == ("A", "B")
    with pytest.raises(ConfigError, match="no chat template 'x'; it has default, tool"):
        lm.chat_template("x")


def test_it_is_made_from_lm_evals_arguments(diffusion_checkpoint: Path) -> None:
    lm = LopaBenchLM.create_from_arg_string(
        f"decoder=lopa,branches=3,model={diffusion_checkpoint},max_new_tokens=8,block_size=4,threads=1",
        {"batch_size": 1, "device": "cpu"},
    )
    assert (lm.answerer.decoder.config.branches, lm.answerer.decoder.config.max_new_tokens) == (3, 8)
    [text] = lm.generate_until([request(until=["\n"])], disable_tqdm=True)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [("decoder=lopa,brnches=3", "did you mean 'branches'"), ("branches=3", "no decoder was named")],
)
def test_arguments_that_do_not_fit_are_refused(arguments: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        LopaBenchLM.create_from_arg_string(arguments)


def test_registering_keeps_lm_evals_own_models() -> None:
    from lm_eval.api.registry import get_model, model_registry

    from lopa_bench.harness.lm_eval_plugin import register

    register()
    register()
    assert get_model("lopa-bench") is LopaBenchLM
    assert "hf" in model_registry


def local_gsm8k(folder: Path, data_dir: Path) -> Path:
    """Write the definition that makes lm-eval's gsm8k read local files."""
    import lm_eval.tasks

    folder.mkdir()
    definition = {
        "include": str(Path(lm_eval.tasks.__file__).parent / "gsm8k" / "gsm8k.yaml"),
        "task": "gsm8k_local",
        "tag": None,
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {
            "data_files": {split: str(data_dir / f"gsm8k_{split}.jsonl.gz") for split in ("train", "test")}
        },
        "num_fewshot": 1,
    }
    (folder / "gsm8k_local.yaml").write_text(json.dumps(definition))
    return folder


@pytest.mark.slow
def test_lm_evals_own_command_knows_the_model(diffusion_checkpoint: Path, tmp_path: Path, data_dir: Path) -> None:
    installed = [file.name for file in metadata.files("lopa-bench") or []]
    if "lopa_bench_lm_eval.pth" not in installed and not _found_on_path():
        pytest.skip("this installation is older than the model's registration; install the package again")
    tasks = local_gsm8k(tmp_path / "tasks", data_dir)
    command = [sys.executable, "-m", "lm_eval", "--model", "lopa-bench", "--tasks", "gsm8k_local", "--limit", "2"]
    command += ["--include_path", str(tasks), "--output_path", str(tmp_path / "out"), "--log_samples", "--model_args"]
    command += [f"decoder=lopa,branches=2,model={diffusion_checkpoint},max_new_tokens=8,block_size=4,threads=1"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **offline}, cwd=tmp_path, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    [results] = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(results.read_text())
    assert found["n-samples"]["gsm8k_local"]["effective"] == 2
    assert found["config"]["lopa_bench"]["options"]["branches"] == 2
    assert {"exact_match,strict-match", "exact_match,flexible-extract"} <= set(found["results"]["gsm8k_local"])


def _found_on_path() -> bool:
    return any((Path(folder) / "lopa_bench_lm_eval.pth").exists() for folder in sys.path)
