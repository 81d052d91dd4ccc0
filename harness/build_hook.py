"""The build step that adds `lopa_bench_lm_eval.pth` to a wheel, editable ones too; see `lm_eval_plugin`."""

from __future__ import annotations

from pathlib import Path

from setuptools.command.build_py import build_py  # type: ignore[import-untyped]

PTH = "lopa_bench_lm_eval.pth"
# Nothing of Python may fail to start because of this line, whatever state the installation is in.
LINE = (
    "import importlib.util as u; u.find_spec('lopa_bench') and u.find_spec('lopa_bench.harness.lm_eval_plugin') "
    "and __import__('lopa_bench.harness.lm_eval_plugin', fromlist=['install']).install()\n"
)


class BuildPy(build_py):
    """Setuptools' own step, and the one file that must lie at the top of site-packages."""

    def run(self) -> None:
        """Build the packages, then write the file to where the wheel is put together."""
        super().run()
        folder = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        (Path(folder) / PTH).write_text(LINE, encoding="utf-8")
