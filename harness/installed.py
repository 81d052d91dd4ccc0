"""Versions of installed packages, each looked up once in a process: finding one takes milliseconds."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def version_of(package: str) -> str | None:
    """Return the installed version of a package, None where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
