"""The page that tells what is covered names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_files_exist() -> None:
    text = (ROOT / "docs" / "coverage.md").read_text("utf-8")
    paths = set(re.findall(r"`((?:pnnx_fast|tests|csrc)/[\w/.]*)`", text))
    assert len(paths) > 30
    assert not [path for path in paths if not (ROOT / path).exists()]
