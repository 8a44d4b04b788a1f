"""Which names of PyTorch generated source may hold.

Types of operators come from files that nobody vouches for, and PyTorch's modules hold more than operators: what they
import themselves, readers and writers of files, compilers. So a type is one name behind a module of operators, and not
one of those.
"""

from __future__ import annotations

import keyword
import operator
import re

__all__ = ["is_argument", "is_call", "is_custom", "is_layer", "is_method", "is_value"]

_WORD = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)

_FUNCTIONS = frozenset(
    {"F", "torch", "torch.fft", "torch.linalg", "torch.special", "torchaudio.functional", "torchvision.ops"}
)
"""Modules whose names in small letters are operators."""

_LAYERS = frozenset({"nn", "nn.intrinsic.quantized", "nn.quantized", "nn.quantized.dynamic", "torchvision.ops"})
"""Modules whose names in capital letters are layers."""

_REFUSED = frozenset(
    [
        *("apply_", "compile", "cond", "dump", "fork", "from_file", "frombuffer", "import_ir_module"),
        *("import_ir_module_from_buffer", "load", "map_", "numpy", "save", "storage", "tofile", "typed_storage"),
        *("untyped_storage", "vmap", "wait", "while_loop"),
    ]
)
"""Names beside operators that read and write files, take functions, or lead out of PyTorch."""

_SLOTS = frozenset(name.strip("_") for name in operator.__all__)
"""Operators of Python, which TorchScript has under the names of their methods."""

_VALUE = re.compile(
    r"torch\.(bool|byte|char|short|int|long|half|float|double|c(half|float|double)|(q?u?int|b?float|complex)\d\w*"
    r"|(contiguous|preserve)_format|channels_last(_3d)?|strided|sparse_(coo|csr|csc|bsr|bsc)"
    r"|per_(tensor|channel)_\w+)\Z",
    re.ASCII,
)


def is_argument(name: str) -> bool:
    """Whether Python takes a name for an argument."""
    return _WORD.match(name) is not None and not keyword.iskeyword(name)


def _is_operator(name: str) -> bool:
    return is_argument(name) and name[0] != "_" and name not in _REFUSED


def is_call(type: str) -> bool:
    """Whether a type is a function of PyTorch, such as ``torch.fft.rfft``."""
    home, _, name = type.rpartition(".")
    return home in _FUNCTIONS and _is_operator(name)


def is_layer(type: str) -> bool:
    """Whether a type is a class of layers, such as ``nn.Conv2d``."""
    home, _, name = type.rpartition(".")
    return home in _LAYERS and is_argument(name) and name[0].isupper()


def is_method(name: str) -> bool:
    """Whether a tensor's method of that name is an operator."""
    return _is_operator(name)


def is_custom(home: str, name: str, *overload: str) -> bool:
    """Whether ``torch.ops.home.name`` is an operator, perhaps with an overload behind it."""
    known = name.strip("_") in _SLOTS if name.startswith("__") else _is_operator(name.removeprefix("_"))
    return known and all(map(_is_operator, (home, *overload)))


def is_value(text: str) -> bool:
    """Whether text is a dtype, a memory format or a layout, such as ``torch.half``."""
    return _VALUE.match(text) is not None
