"""What may be done to a loaded network to make it faster, in the order in which it must be done."""

from __future__ import annotations

from dataclasses import dataclass

from lopa_bench.models.network import Transformer


@dataclass(frozen=True, slots=True)
class Acceleration:
    """What is asked.

    Attributes:
        quantize: a method of `quantize`, or None.
        merge_qkv: merge query, key and value into one product, and gate and up (see `merged`).
        compile: compile the layers (see `compiled`).
    """

    quantize: str | None = None
    merge_qkv: bool = False
    compile: bool = False

    def check(self, device: str, tensor_parallel: int = 1) -> None:
        """Refuse before weights are read what could not be done later.

        Raises:
            ConfigError: no such method, or ways that do not go together.
            PrerequisiteError: a compiler is missing.
        """
        if self.quantize is not None:
            from lopa_bench.models.quantize import check_method

            check_method(self.quantize)
        if self.compile:
            from lopa_bench.models.compiled import check_compile

            check_compile(device, tensor_parallel)

    def apply(self, network: Transformer) -> list[str]:
        """Change a network that has its weights, in place.

        Returns:
            What was really done, for records.
        """
        done = []
        if self.merge_qkv:
            from lopa_bench.models.merged import merge_projections

            merge_projections(network)
            done.append("merged q, k, v and gate, up")
        if self.quantize is not None:
            from lopa_bench.models.quantize import quantize

            done.append(str(quantize(network, self.quantize)))
        if self.compile:
            from lopa_bench.models.compiled import compile_network

            done.append(compile_network(network))
        return done
