"""Makes `lm_eval --model lopa-bench` known to lm-eval, which has no entry points for models of other packages.

Installing this package puts a line into site-packages (`lopa_bench_lm_eval.pth`) that calls `install` at the start of
Python. Nothing of lm-eval is imported then: the model is registered at the moment lm-eval's evaluator is.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec

NAME = "lopa-bench"
TARGET = "lopa_bench.harness.lm_eval_adapter.model:LopaBenchLM"
TRIGGER = "lm_eval.evaluator"


def register() -> None:
    """Add the model to lm-eval's registry beside its own; harmless when it is there already."""
    importlib.import_module("lm_eval.models")  # fills the registry, which lm-eval itself does only while it is empty
    from lm_eval.api.registry import model_registry

    if NAME not in model_registry:
        model_registry.register(NAME, target=TARGET)


class _Watcher:
    """Stands first in the import system and registers the model when the evaluator is asked for."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Find nothing; only watch."""
        if name == TRIGGER:
            register()
        return None


def install() -> None:
    """Wait for lm-eval's evaluator, or register at once when it is imported already."""
    if TRIGGER in sys.modules:
        register()
    elif not any(isinstance(one, _Watcher) for one in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())
