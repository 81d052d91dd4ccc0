"""The build steps that add files to what setuptools builds: see `BuildPy` and `Sdist`."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from types import ModuleType

from setuptools.command.build_py import build_py  # type: ignore[import-untyped]
from setuptools.command.sdist import sdist  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PTH = "lopa_bench_lm_eval.pth"
# Nothing of Python may fail to start because of this line, whatever state the installation is in.
LINE = (
    "import importlib.util as u; u.find_spec('lopa_bench') and u.find_spec('lopa_bench.harness.lm_eval_plugin') "
    "and __import__('lopa_bench.harness.lm_eval_plugin', fromlist=['install']).install()\n"
)


class BuildPy(build_py):
    """Setuptools' own step, and two files more, neither of which is ever written to the source tree.

    `lopa_bench_lm_eval.pth` lies at the top of site-packages, of editable installs too; see `lm_eval_plugin`. A wheel
    holds its commit besides (`source_state`), which an editable install asks git for.
    """

    def run(self) -> None:
        """Build the packages, then write the files to where the wheel is put together."""
        super().run()
        folder = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        (Path(folder) / PTH).write_text(LINE, encoding="utf-8")
        if not self.editable_mode:
            write_commit(ROOT, Path(self.build_lib) / "lopa_bench" / "harness")


class Sdist(sdist):
    """Setuptools' own step, and the commit in the archive, from which wheels are built without git."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Gather the archive's files in `base_dir`, then write the commit there."""
        super().make_release_tree(base_dir, files)
        write_commit(ROOT, Path(base_dir) / "harness")


def write_commit(root: Path, folder: Path) -> None:
    """Write into `folder` which commit the tree at `root` is of, and warn where neither git nor the tree says."""
    source_state = _source_state()
    state = source_state.ask_git(root)
    if state[0] is None:  # an archive says what it was packed from
        state = source_state.read_state(root / "harness" / source_state.BUILT_FROM)
    if state[0] is None:
        logging.getLogger(__name__).warning("built without git: runs of this installation will name no commit")
    source_state.write_state(folder / source_state.BUILT_FROM, state)


def _source_state() -> ModuleType:
    """Return the module beside this one; where a wheel is built, the packages are not there to be imported."""
    spec = importlib.util.spec_from_file_location("source_state", Path(__file__).with_name("source_state.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
