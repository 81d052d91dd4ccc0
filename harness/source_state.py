"""Which commit this program is of: asked of git in a source tree, written into a wheel when it is built.

The build step loads this file by itself, so that it imports nothing but the standard library.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

BUILT_FROM = "built_from.json"
"""The file of a wheel or source archive, beside this one, that says what it was built from; a checkout has none."""


def git_state() -> tuple[str | None, bool | None]:
    """Return the commit of this program and whether it was changed since; both None where that is not known."""
    here = Path(__file__).resolve().parent
    return ask_git(here.parent) if (here.parent / ".git").exists() else read_state(here / BUILT_FROM)


def ask_git(root: Path) -> tuple[str | None, bool | None]:
    """Return the commit that the tree at `root` has checked out and whether a file of it was changed since.

    Both are None where git does not say: it is not installed, or `root` is no repository of its own.
    """
    if not (root / ".git").exists():  # a repository around it would name a commit of something else
        return None, None
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
        return commit, bool(_git(root, "status", "--porcelain", "--untracked-files=no").strip())
    except (OSError, subprocess.SubprocessError):
        return None, None


def write_state(path: Path, state: tuple[str | None, bool | None]) -> None:
    """Write commit and changes to `path`, None too: a wheel that was built without git says that it was."""
    commit, changed = state
    path.write_text(json.dumps({"git_commit": commit, "git_dirty": changed}) + "\n", encoding="utf-8")


def read_state(path: Path) -> tuple[str | None, bool | None]:
    """Return what `write_state` wrote; both None without such a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found["git_commit"], found["git_dirty"]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def source_words() -> str:
    """Return the commit in words, such as `commit 0123456789, changed`, or why there is none."""
    commit, changed = git_state()
    if commit is not None:
        return f"commit {commit[:10]}{', changed' if changed else ''}"
    built = (Path(__file__).resolve().parent / BUILT_FROM).is_file()
    return f"commit unknown: {'built without git' if built else 'no git here'}"


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True, timeout=10).stdout
