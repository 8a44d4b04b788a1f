"""Numbers that a file writes as words: with the conversion that the converter's trace shows, or with a dtype."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["typed_number", "without_casts"]

_CAST = r"int\(-?\d{1,18}\)\Z"
_TYPED = r"(torch\.[a-z]\w{0,15}),(-?\d[\d.e+-]{0,30})\Z"


def without_casts(value: Any) -> Any:
    """The value of a parameter in which numbers need no conversion, alone or in a list: ``int(4)`` is 4."""
    if isinstance(value, str):
        return int(value[4:-1]) if value.startswith("int(") and re.match(_CAST, value, re.ASCII) else value
    if not isinstance(value, list) or str not in map(type, value):
        return value
    return [without_casts(item) for item in value]


def typed_number(value: Any) -> tuple[str, float] | None:
    """Dtype and number of a parameter that was a tensor without dimensions made of a size: ``torch.int,2``."""
    match = re.match(_TYPED, value, re.ASCII) if isinstance(value, str) and "," in value else None
    try:
        return (match[1], float(match[2]) if re.search("[.e]", match[2]) else int(match[2])) if match else None
    except ValueError:
        return None
