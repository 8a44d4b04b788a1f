from collections.abc import Mapping, Set
from typing import Any, Self

from typing_extensions import disjoint_base

FLOAT_STYLES: tuple[str, ...]
UNPARSED: int
NONE: int
BOOL: int
INT: int
FLOAT: int
STRING: int
COMPLEX: int
LIST_CODES: dict[int, int]
NCNN_CODES: tuple[int, ...]
NCNN_SLOTS: int
NCNN_SPARE_BLOBS: int
NCNN_TEXT: int
NCNN_ARRAY: int

@disjoint_base
class ParameterStorage:
    __slots__ = ("_code", "_raw", "_value")

    _code: int
    _raw: str | None
    _value: Any

    def copy(self) -> Self: ...

def parse_value(text: str) -> tuple[int, Any]: ...
def to_float32(x: float) -> float: ...
def format_float(x: float, style: str = "2026", wide: bool = False) -> str: ...
def format_complex(x: complex) -> str: ...
def read_operators(
    data: bytes,
    path: str | None,
    pattern: bool,
    max_operators: int,
    max_bytes: int,
    classes: tuple[type, ...],
    sizes: Mapping[str, int],
    raw_keys: Set[str],
) -> tuple[list[Any], dict[str, Any], list[tuple[Any, str, int, int]], int]: ...
def write_operators(ops: list[Any], operand_count: int, sizes: Mapping[str, int], raw_keys: Set[str]) -> bytes: ...
def unwritable(ops: list[Any], sizes: Mapping[str, int], raw_keys: Set[str]) -> list[str]: ...
def read_ncnn_layers(
    data: bytes, path: str | None = None
) -> tuple[int, list[tuple[str, str, list[str], list[str], dict[int, tuple[tuple[int, Any], str]], int, int]], int]: ...
