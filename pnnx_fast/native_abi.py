"""The structs of ``pnnx_fast/op.h`` for ctypes, and addresses of whatever Python calls a C function or pointer.

Used by `native` alone. Names and order of fields are those of the header.
"""

from __future__ import annotations

import ctypes
import importlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint32, c_void_p
from typing import Any

from pnnx_fast.errors import ParameterError

__all__ = [
    "ABI",
    "FUNCTIONS",
    "LAYOUTS",
    "MAX_RANK",
    "CFunction",
    "CInfo",
    "COp",
    "CParam",
    "CTensor",
    "CWeight",
    "address_of",
]

CFunction: type[Any] = ctypes.CFUNCTYPE(None).__mro__[1]
"""Base of all function pointers of ctypes."""
ABI = 1
MAX_RANK = 8
LAYOUTS = ("plain", "channels_last", "strided")
BOOL, INT, FLOAT, STRING, INTS, FLOATS, STRINGS = range(1, 8)
"""Types of parameters; an empty one is 0."""


class CTensor(ctypes.Structure):
    """pf_op_tensor."""

    _fields_ = [
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("rank", c_int32),
        ("dtype", c_int32),
        ("layout", c_int32),
        ("reserved", c_int32),
    ]


class CInfo(ctypes.Structure):
    """pf_op_info."""

    _fields_ = [("shape", c_int64 * MAX_RANK), ("rank", c_int32), ("dtype", c_int32)]


class CParam(ctypes.Structure):
    """pf_op_param."""

    _fields_ = [
        ("name", c_char_p),
        ("ints", POINTER(c_int64)),
        ("floats", POINTER(c_double)),
        ("strings", POINTER(c_char_p)),
        ("type", c_int32),
        ("count", c_int32),
    ]


class CWeight(ctypes.Structure):
    """pf_op_weight."""

    _fields_ = [("name", c_char_p), ("tensor", CTensor)]


class COp(ctypes.Structure):
    """pf_op, with functions as addresses."""

    _fields_ = [
        ("abi", c_uint32),
        ("size", c_uint32),
        ("type", c_char_p),
        ("layout", c_int32),
        ("reserved", c_int32),
        ("init", c_void_p),
        ("infer", c_void_p),
        ("run", c_void_p),
        ("release", c_void_p),
    ]


FUNCTIONS: dict[str, Any] = {
    "init": ctypes.CFUNCTYPE(c_int, POINTER(c_void_p), POINTER(CParam), c_int32, POINTER(CWeight), c_int32),
    "infer": ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(CTensor), c_int32, POINTER(CInfo), c_int32, POINTER(c_int64)),
    "run": ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(CTensor), c_int32, POINTER(CTensor), c_int32, c_void_p),
    "release": ctypes.CFUNCTYPE(None, c_void_p),
}
"""Types of the functions of a pf_op."""


_FIRST_ADDRESS = 4096
"""No system maps the first page: smaller numbers are no addresses but mistakes."""


def address_of(source: Any) -> int:
    """Return the address behind any of Python's forms of a C pointer or function.

    Parameters
    ----------
    source : int, ctypes function, pointer or struct, cffi pointer, PyCapsule, or object with an ``address``
        The last is what a numba ``cfunc`` is.

    Examples
    --------
    >>> address_of(ctypes.c_void_p(4096))
    4096
    """
    address: int | None = None
    if isinstance(source, int):
        address = source
    elif isinstance(source, (ctypes.Structure, ctypes.Array)):
        address = ctypes.addressof(source)
    elif isinstance(source, (CFunction, ctypes._Pointer, c_void_p)):
        address = ctypes.cast(source, c_void_p).value
    elif type(source).__name__ == "PyCapsule":
        address = _capsule_pointer(source)
    elif type(source).__module__ == "_cffi_backend":
        address = int(importlib.import_module("cffi").FFI().cast("uintptr_t", source))
    elif isinstance(getattr(source, "address", None), int):
        address = source.address
    if address is None or not _FIRST_ADDRESS <= address < 1 << 64:
        raise ParameterError(f"{source!r} is no C function or pointer")
    return address


def _capsule_pointer(capsule: Any) -> int | None:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = [ctypes.py_object], c_char_p
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, c_char_p], c_void_p
    address: int | None = pointer(capsule, name(capsule))
    return address
