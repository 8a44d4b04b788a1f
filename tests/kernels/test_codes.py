"""What Python reads of the lists of codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pnnx_fast._core.program import codes

SOURCE = Path(__file__).parents[2] / "csrc/kernels/codes.h"


def test_lists_are_those_of_the_header() -> None:
    text = SOURCE.read_text("utf-8")
    rows = re.findall(r'C\((\w+), \w+, "([^"]+)"\)', text)
    names = re.findall(r"X\((\w+), (\w+)\)", text[text.index("#define PF_CODE_LISTS") :])
    assert {group for group, _ in rows} == {group for _, group in names}
    for name, group in names:
        listed = [row for where, row in rows if where == group]
        assert codes(name) == {row: code for code, row in enumerate(listed)}


def test_unknown_list() -> None:
    with pytest.raises(KeyError, match="no list of codes 'colours'"):
        codes("colours")
