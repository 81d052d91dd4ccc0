"""Parts of the documentation that are made from the code, and rewritten when LOPA_BENCH_UPDATE_DOCS is set."""

from __future__ import annotations

import os
from pathlib import Path


def check_section(page: Path, section: str, made: str) -> None:
    """Assert that what stands between a page's marks of `section` is what the code makes of it."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {section}: begin -->\n", f"<!-- {section}: end -->"
    expected = f"{begin}{made}\n{end}"
    start, stop = text.index(begin), text.index(end) + len(end)
    if os.environ.get("LOPA_BENCH_UPDATE_DOCS"):
        page.write_text(text[:start] + expected + text[stop:], encoding="utf-8")
        return
    assert text[start:stop] == expected, "out of date; run it again with LOPA_BENCH_UPDATE_DOCS=1"
