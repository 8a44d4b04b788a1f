"""The one table of PNNX data types: text in files, type code, bytes an element, numpy and torch names.

Readers, writers, attributes and the runtime all ask here. The table knows nothing of files or graphs.
"""

from __future__ import annotations

__all__ = ["COMPUTED_AS", "DTYPES", "FLOATS", "DTypeInfo", "by_code", "by_numpy", "by_text"]


class DTypeInfo:
    """One row: what a data type is called in files, in numpy and in PyTorch, and how large it is.

    Attributes
    ----------
    text : str
        Name in ``.pnnx.param`` files, e.g. ``"f32"``.
    code : int
        Number in PNNX's C++ API.
    size : int
        Bytes an element.
    numpy : str or None
        numpy name, ``None`` where numpy has no such type.
    torch : str
        Name of the PyTorch dtype without ``torch.``.
    integer : bool
        PNNX counts bool among the integers.
    """

    __slots__ = ("code", "integer", "numpy", "size", "text", "torch")

    def __init__(self, text: str, code: int, size: int, numpy: str | None, torch: str, integer: bool) -> None:
        self.text, self.code, self.size = text, code, size
        self.numpy, self.torch, self.integer = numpy, torch, integer

    @property
    def computed(self) -> str:
        """numpy name of the type in which values are computed: a larger one where numpy has no such type."""
        return self.numpy or COMPUTED_AS[self.text]

    @property
    def spelled(self) -> str:
        """What parameters hold: PyTorch's short name, such as ``torch.half``."""
        return f"torch.{_SHORT.get(self.torch, self.torch)}"


_SHORT = {
    "float32": "float", "float64": "double", "float16": "half", "int16": "short", "int32": "int", "int64": "long",
}  # fmt: skip

DTYPES: tuple[DTypeInfo, ...] = (
    DTypeInfo("f32", 1, 4, "float32", "float32", False),
    DTypeInfo("f64", 2, 8, "float64", "float64", False),
    DTypeInfo("f16", 3, 2, "float16", "float16", False),
    DTypeInfo("i32", 4, 4, "int32", "int32", True),
    DTypeInfo("i64", 5, 8, "int64", "int64", True),
    DTypeInfo("i16", 6, 2, "int16", "int16", True),
    DTypeInfo("i8", 7, 1, "int8", "int8", True),
    DTypeInfo("u8", 8, 1, "uint8", "uint8", True),
    DTypeInfo("bool", 9, 1, "bool", "bool", True),
    DTypeInfo("c64", 10, 8, "complex64", "complex64", False),
    DTypeInfo("c128", 11, 16, "complex128", "complex128", False),
    DTypeInfo("c32", 12, 4, None, "complex32", False),
    DTypeInfo("bf16", 13, 2, None, "bfloat16", False),
)

FLOATS = ("f32", "f64", "f16", "bf16")
"""Types of real floating-point numbers."""

COMPUTED_AS = {"bf16": "float32", "c32": "complex64"}
"""numpy names of the larger types in which those are computed that numpy lacks."""

by_text: dict[str, DTypeInfo] = {row.text: row for row in DTYPES}
by_code: dict[int, DTypeInfo] = {row.code: row for row in DTYPES}
by_numpy: dict[str, DTypeInfo] = {row.numpy: row for row in DTYPES if row.numpy is not None}
