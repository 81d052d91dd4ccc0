from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [path for path in (ROOT / "results").rglob("*.py") if path.stem != "__init__"]
MODULES = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES)
HEAVY = ("torch", "transformers", "numpy", "scipy", "pandas", "matplotlib", "rich")


def test_reading_results_loads_nothing_heavy() -> None:
    lines = [f"import lopa_bench.{module}" for module in MODULES]
    lines += ["import sys", f"print([name for name in {HEAVY!r} if name in sys.modules])"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert len(MODULES) >= 10
    assert done.stdout.strip() == "[]"
