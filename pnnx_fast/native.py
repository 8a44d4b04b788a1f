"""Operators in C, or in anything that makes C functions (numba, Cython, ctypes, cffi).

``pnnx_fast/op.h`` (in ``get_include()``) is the interface. A registered operator becomes a step of the compiled
program, which calls its ``run`` without the GIL. This module mirrors the structs of the header; the executor does not
know it.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pnnx_fast
from pnnx_fast._types import Array
from pnnx_fast.errors import NativeOperatorError, ParameterError, ShapeError
from pnnx_fast.ir import Parameter
from pnnx_fast.ir.dtypes import by_code, by_numpy
from pnnx_fast.native_abi import (
    ABI,
    BOOL,
    FLOAT,
    FLOATS,
    FUNCTIONS,
    INT,
    INTS,
    LAYOUTS,
    MAX_RANK,
    STRINGS,
    CFunction,
    CInfo,
    COp,
    CParam,
    CTensor,
    CWeight,
    address_of,
)
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

__all__ = ["TENSOR", "address_of", "define", "get_include", "load_library", "register"]

TENSOR = np.dtype(
    [
        *((name, np.intp) for name in ("data", "shape", "strides")),
        *((name, np.int32) for name in ("rank", "dtype", "layout", "reserved")),
    ]
)
"""``pf_op_tensor`` as a record, for numba: ``numba.carray(inputs, count, TENSOR)``; the first three are addresses."""

Infer = Callable[[Sequence[tuple[tuple[int, ...], np.dtype[Any]]], Mapping[str, Any]], Sequence[tuple[Any, Any]]]
"""Shape inference in Python: (shape, dtype) of the inputs, parameters -> (shape, dtype) of the results."""


def get_include() -> str:
    """Return the folder to give to the C compiler, so that ``#include <pnnx_fast/op.h>`` works.

    Returns
    -------
    str

    Raises
    ------
    FileNotFoundError
        When the header is not installed.

    Examples
    --------
    >>> os.path.isfile(os.path.join(get_include(), "pnnx_fast", "op.h"))
    True
    """
    homes = [Path(p) / "include" for p in pnnx_fast.__path__]
    homes.append(Path(__file__).parents[1] / "csrc" / "include")  # a checkout
    for home in homes:
        if (home / "pnnx_fast" / "op.h").is_file():
            return str(home)
    raise FileNotFoundError("pnnx_fast/op.h is not installed")


def load_library(path: str | os.PathLike[str], *, override: bool = False) -> list[str]:
    """Register all operators of a shared library that exports ``pnnx_fast_operator``; return their types.

    Parameters
    ----------
    path : path
        The library. It is code that runs in this process.
    override : bool
        Whether types may be taken already.

    Returns
    -------
    list of str
        The types.

    Raises
    ------
    OSError
        When the library cannot be loaded.
    ParameterError
        When it does not export the function, was made for another interface, or a type is taken.

    Examples
    --------
    >>> load_library("./twice.so")  # doctest: +SKIP
    ['mine.Twice']

    A library without operators, such as an extension module, is refused:

    >>> from pnnx_fast._core import text
    >>> load_library(text.__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pnnx_fast.errors.ParameterError: ... does not export pnnx_fast_operator
    """
    # A name without a slash would be looked up where the system keeps libraries, and nowhere else.
    library = ctypes.CDLL(os.path.abspath(path) if os.path.exists(path) else os.fspath(path))
    try:
        entry = library.pnnx_fast_operator
    except AttributeError:
        raise ParameterError(f"{os.fspath(path)} does not export pnnx_fast_operator") from None
    entry.argtypes, entry.restype = [ctypes.c_int32], ctypes.c_void_p
    found: list[str] = []
    index = 0
    while (address := entry(index)) is not None:
        found += register(address, override=override, keep=library)
        index += 1
    return found


def register(source: Any, *types: str, override: bool = False, keep: object = None) -> list[str]:
    """Register the ``pf_op`` that a pointer points to.

    Parameters
    ----------
    source : int, ctypes object, cffi pointer or PyCapsule
        Address of a ``pf_op``; it is copied.
    *types : str
        Operator types, by default those that the ``pf_op`` names.
    override : bool
        Whether types may be taken already.
    keep : object, optional
        Something that must live as long as the functions, such as their library.

    Returns
    -------
    list of str
        The types.

    Raises
    ------
    ParameterError
        When ``source`` is not a pointer, the ``pf_op`` was made for another interface or names no layout that there
        is, or a type is taken.

    Examples
    --------
    >>> from pnnx_fast.native_abi import ABI, FUNCTIONS, COp
    >>> from pnnx_fast.ops.registry import unregister
    >>> run = FUNCTIONS["run"](lambda state, inputs, nin, outputs, nout, host: 0)
    >>> op = COp(abi=ABI, size=ctypes.sizeof(COp), type=b"mine.Nothing", run=address_of(run))
    >>> register(op, keep=run)
    ['mine.Nothing']
    >>> unregister("mine.Nothing")
    """
    op = COp.from_address(address_of(source))
    if op.abi != ABI or op.size < ctypes.sizeof(COp):
        raise ParameterError(f"the native operator was made for interface {op.abi}, this is {ABI}")
    if not 0 <= op.layout < len(LAYOUTS):
        raise ParameterError(f"the native operator asks for layout {op.layout}, of 0 to {len(LAYOUTS) - 1}")
    names = list(types) or (op.type or b"").decode().split()
    copy = COp.from_buffer_copy(op)
    return _register(_NativeOp(copy, (source, keep), None), names, override)


def define(
    *types: str,
    run: Any,
    infer: Any = None,
    init: Any = None,
    release: Any = None,
    layout: str = "plain",
    override: bool = False,
) -> list[str]:
    """Register an operator from single functions.

    Parameters
    ----------
    *types : str
        Operator types.
    run, init, release : function pointers
        A ctypes function, a numba ``cfunc``, a cffi pointer, a PyCapsule (as in the ``__pyx_capi__`` of a Cython
        module) or an address, with the signatures of ``op.h``.
    infer : function pointer or Python function, optional
        A Python function gets a list of (shape, dtype) and the parameters, and returns a list of (shape, dtype).
    layout : {"plain", "channels_last", "strided"}
        Memory layout of the tensors that ``run`` gets.
    override : bool
        Whether types may be taken already.

    Returns
    -------
    list of str
        The types.

    Raises
    ------
    ParameterError
        When a function is not callable from C, the layout is unknown, or a type is taken.

    Examples
    --------
    >>> from pnnx_fast.native_abi import FUNCTIONS
    >>> from pnnx_fast.ops.registry import unregister
    >>> @FUNCTIONS["run"]
    ... def run(state, inputs, nin, outputs, nout, host):
    ...     x, y = ((ctypes.c_float * 3).from_address(t[0].data) for t in (inputs, outputs))
    ...     y[:] = [2 * value for value in x]
    ...     return 0
    >>> define("mine.Twice", run=run)
    ['mine.Twice']
    >>> graph = pnnx_fast.Graph.parse('''7767517
    ... 3 2
    ... pnnx.Input  in    0 1 x #x=(3)f32
    ... mine.Twice  twice 1 1 x y
    ... pnnx.Output out   1 0 y
    ... ''')
    >>> pnnx_fast.Model(graph)(np.float32([1, 2, 3]))
    array([2., 4., 6.], dtype=float32)
    >>> unregister("mine.Twice")
    """
    if layout not in LAYOUTS:
        raise ParameterError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    given = {"init": init, "run": run, "release": release}
    python = infer if callable(infer) and not isinstance(infer, CFunction) and not hasattr(infer, "address") else None
    if python is None:
        given["infer"] = infer
    op = COp(abi=ABI, size=ctypes.sizeof(COp), layout=LAYOUTS.index(layout))
    for name, source in given.items():
        setattr(op, name, address_of(source) if source is not None else None)
    return _register(_NativeOp(op, (run, infer, init, release), python), list(types), override)


def _register(op: _NativeOp, types: list[str], override: bool) -> list[str]:
    if not types:
        raise ParameterError("the native operator names no type")
    if not op.record.run:
        raise ParameterError(f"the native operator {types[0]} has no function run")
    taken = [name for name in types if registry.find(name) is not None]
    if taken and not override:
        raise ParameterError(f"operator {taken[0]} is registered already")
    registry.operator(*types, override=override, schema=False)(op)
    return types


class _NativeOp:
    """An operator written outside of pnnx_fast. Lowering calls it for each occurrence in a graph."""

    def __init__(self, record: COp, keep: object, infer: Infer | None) -> None:
        self.record, self.keep, self._infer = record, keep, infer

    def __call__(
        self, b: Builder, *inputs: Value, parameters: Mapping[str, Any], attributes: Mapping[str, Tensor]
    ) -> Results:
        weights = tuple((k, attributes[k].identity) for k in sorted(attributes))
        key = ("native", self, repr(sorted(parameters.items())), weights)
        state: _State = b.kept(key, lambda: _State(self, parameters, attributes))
        layout = self.record.layout
        given = tuple(_ordered(b, _as_tensor(b, x), layout) for x in inputs)
        infos, scratch = self._results(state, given, b.output_count)
        order = "channels_last" if LAYOUTS[layout] == "channels_last" else "plain"
        outputs = tuple(
            b.result(shape, dtype, order if len(shape) >= 3 else "plain", i)  # type: ignore[arg-type]
            for i, (shape, dtype) in enumerate(infos)
        )
        b.step(
            "native",
            run=self.record.run,
            state=state.pointer,
            keep=state,
            scratch=b.scratch(scratch),
            inputs=given,
            outputs=outputs,
            forms=tuple((t.shape, t.strides, _code(t.dtype), _layout(t)) for t in (*given, *outputs)),
        )
        return Results(outputs)

    def _results(self, state: _State, given: Sequence[Tensor], count: int) -> tuple[list[tuple[Any, Any]], int]:
        if self._infer is not None:
            found = list(self._infer([(t.shape, t.dtype) for t in given], state.parameters))
            if len(found) != count:
                raise ShapeError(
                    "infer gave another number of results than the graph has", expected=count, actual=len(found)
                )
            return [(tuple(int(n) for n in shape), np.dtype(dtype)) for shape, dtype in found], 0
        if not self.record.infer:
            if count != 1 or not given:
                raise ShapeError("a native operator without infer has one result", expected=1, actual=count)
            return [(given[0].shape, given[0].dtype)], 0
        tensors = (CTensor * len(given))(*(_describe(t, state) for t in given))
        infos = (CInfo * count)()
        scratch = ctypes.c_int64(0)
        code = FUNCTIONS["infer"](self.record.infer)(
            state.pointer, tensors, len(given), infos, count, ctypes.byref(scratch)
        )
        if code:
            raise NativeOperatorError(code, function="infer")
        return [_read_info(info) for info in infos], max(scratch.value, 0)


class _State:
    """What ``init`` made for one set of parameters and weights; ``release`` is called when a model lets go of it."""

    def __init__(self, op: _NativeOp, parameters: Mapping[str, Any], attributes: Mapping[str, Tensor]) -> None:
        self.parameters = dict(parameters)
        self.memory: list[Any] = [op]
        pointer = ctypes.c_void_p()
        if op.record.init:
            params = (CParam * len(parameters))(*(self._param(k, v) for k, v in parameters.items()))
            weights = (CWeight * len(attributes))(*(self._weight(k, t.numpy()) for k, t in attributes.items()))
            self.memory += [params, weights]
            code = FUNCTIONS["init"](op.record.init)(
                ctypes.byref(pointer), params, len(parameters), weights, len(attributes)
            )
            if code:
                raise NativeOperatorError(code, function="init")
        self.pointer = pointer.value or 0
        if op.record.release:
            weakref.finalize(self, _release, FUNCTIONS["release"](op.record.release), self.pointer, self.memory)

    def _param(self, name: str, value: Any) -> CParam:
        kind = Parameter(value).type
        items = list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
        if kind > STRINGS:
            raise ParameterError("native operators take no complex parameters", parameter=name)
        record = CParam(name=name.encode(), type=kind, count=len(items))
        if kind in (BOOL, INT, INTS) and all(isinstance(v, int) for v in items):
            record.ints = (ctypes.c_int64 * len(items))(*(int(v) for v in items))
        elif kind in (FLOAT, FLOATS):
            record.floats = (ctypes.c_double * len(items))(*(float(v) for v in items))
        else:
            record.strings = (ctypes.c_char_p * len(items))(*(str(v).encode() for v in items))
            record.type = STRINGS if kind >= INTS else kind
        return record

    def _weight(self, name: str, array: Array) -> CWeight:
        array = np.require(array, requirements=["C", "A"])
        self.memory.append(array)
        strides = [s // array.itemsize for s in array.strides]
        tensor = self.tensor(array.shape, strides, _code(array.dtype), 0)
        tensor.data = array.__array_interface__["data"][0]
        return CWeight(name=name.encode(), tensor=tensor)

    @staticmethod
    def tensor(shape: Sequence[int], strides: Sequence[int], code: int, layout: int) -> CTensor:
        """Make the C form of a tensor without data; ctypes keeps the arrays alive with it. Strides count elements."""
        kind = ctypes.c_int64 * max(len(shape), 1)
        return CTensor(shape=kind(*shape), strides=kind(*strides), rank=len(shape), dtype=code, layout=layout)


def _release(function: Any, pointer: int, memory: list[Any]) -> None:
    function(pointer)
    memory.clear()


def _describe(t: Tensor, state: _State) -> CTensor:
    return state.tensor(t.shape, t.strides, _code(t.dtype), _layout(t))


def _as_tensor(b: Builder, value: Value) -> Tensor:
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "bif":
        raise ParameterError(f"a native operator takes tensors and numbers, not {value!r}")
    return b.constant(array.astype(np.float32) if array.dtype.kind == "f" else array)


def _ordered(b: Builder, t: Tensor, layout: int) -> Tensor:
    if t.ndim > MAX_RANK:
        raise ShapeError(f"native operators take up to {MAX_RANK} dimensions", actual=t.ndim)
    if LAYOUTS[layout] == "strided":
        return t
    return b.channels_last(t) if LAYOUTS[layout] == "channels_last" and t.ndim >= 3 else b.contiguous(t)


def _layout(t: Tensor) -> int:
    if t.is_contiguous:
        return LAYOUTS.index("plain")
    return LAYOUTS.index("channels_last" if t.ndim >= 3 and t.strides[1] == 1 else "strided")


def _code(dtype: np.dtype[Any]) -> int:
    return by_numpy[dtype.name].code


def _read_info(info: CInfo) -> tuple[tuple[int, ...], np.dtype[Any]]:
    row = by_code.get(info.dtype)
    if (
        row is None
        or row.numpy is None
        or not 0 <= info.rank <= MAX_RANK
        or min(info.shape[: info.rank], default=0) < 0
    ):
        raise ShapeError(f"infer gave dtype {info.dtype} and shape {info.shape[: max(info.rank, 0)]}")
    return tuple(info.shape[: info.rank]), np.dtype(row.numpy)
