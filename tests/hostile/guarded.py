"""Runs stored calls of operators with a page behind each block of memory that must not be touched.

What a kernel reads or writes beyond the end of an input, a result, packed weights or an activation ends the process,
and views that leave their buffer are found before. Activations and weights end at the next 64 bytes, as anywhere.

Usage: python guarded.py ISA [DTYPE ...]. Without dtypes the calls are made as they are stored, and must give what is
stored; with them all arrays are of another type, which must end in a result or in an error of the package. The type
``canary`` stands for an operator that writes behind its result.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import mmap
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
from graph_of_one import run
from test_operator_goldens import ENTRIES, check, results

from pnnx_fast import native
from pnnx_fast._core import program as core
from pnnx_fast._memory import check_memory
from pnnx_fast.errors import PnnxFastError
from pnnx_fast.native_abi import FUNCTIONS
from pnnx_fast.ops.symbolic import Buffer, Tensor
from pnnx_fast.runtime import constants, executable, program

PAGE = mmap.PAGESIZE
ISA = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] in core.ISAS else core.ISAS[-1]
LIBC = ctypes.CDLL(None)


def up(nbytes: int, unit: int) -> int:
    return -(-max(nbytes, 1) // unit) * unit


def pages(nbytes: int, guards: Iterable[int]) -> np.ndarray:
    """Whole pages, of which those at some offsets are out of bounds."""
    block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(block, np.uint8)
    whole[:] = 0x7D  # floats of 2e37: what is read before it is written shows in the results
    for offset in guards:
        assert LIBC.mprotect(ctypes.c_void_p(whole.ctypes.data + offset), ctypes.c_size_t(PAGE), 0) == 0
    return whole


def guarded_bytes(nbytes: int, unit: int = 64) -> np.ndarray:
    """Bytes that end where a guard begins, or less than a unit before it."""
    size = up(nbytes, PAGE)
    start = size - up(nbytes, unit)
    return pages(size + PAGE, [size])[start : start + nbytes]


def guarded(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return guarded_bytes(nbytes, 1).view(dtype).reshape(shape) if nbytes else np.empty(shape, dtype)


def plan_arena(spans: Mapping[Buffer, Any], pairs: object = ()) -> tuple[dict[Buffer, int], int]:
    """A place of its own for each buffer, with a guard behind it."""
    offsets, at = {}, 0
    for buffer in spans:
        at += up(up(buffer.nbytes, 64), PAGE)
        offsets[buffer] = at - up(buffer.nbytes, 64)
        at += PAGE
    return offsets, at


def make_arena(self: Any) -> np.ndarray:
    check_memory(self.arena_bytes, "activations of a run")
    offsets: Mapping[Buffer, int] = getattr(self, "_offsets", {})
    return pages(up(self.arena_bytes, PAGE), [at + up(buffer.nbytes, 64) for buffer, at in offsets.items()])


def guarded_run(self: Any, given: Sequence[np.ndarray], clock: Any = None, results: Any = None) -> Any:
    inputs = [guarded(a.shape, a.dtype) for a in given]
    for copy, a in zip(inputs, given, strict=True):
        copy[...] = a
    check_memory(sum(int(np.prod(s, dtype=object)) * d.itemsize for s, d in self.output_types), "results of a run")
    if results is None:
        results = [guarded(shape, dtype) for shape, dtype in self.output_types]
    self._arenas = []  # every run gets memory of its own
    return run_program(self, inputs, clock, results)


def require_inside(t: Tensor, kernel: str) -> None:
    """Stop where a view leaves its buffer."""
    if not t.size:
        return
    steps = [(n - 1) * s * t.dtype.itemsize for n, s in zip(t.shape, t.strides, strict=True)]
    first = t.offset + sum(s for s in steps if s < 0)
    last = t.offset + sum(s for s in steps if s > 0) + t.dtype.itemsize
    if first < 0 or last > t.buffer.nbytes:
        sys.exit(f"{kernel}: bytes {first} to {last} of a {t.buffer.kind} buffer of {t.buffer.nbytes}")


def require_scratch(kernel: str, fields: Mapping[str, Any], nbytes: int) -> None:
    """Stop where a kernel plans to use more memory between than it is given, or none because it cannot do the shape."""
    known = {key: (0, 0) if isinstance(value, Tensor) else value for key, value in fields.items()}
    with contextlib.suppress(KeyError):  # a kernel without a plan
        wanted = core.plan(ISA, kernel, known, 1)[2]
        if wanted > nbytes or (wanted == 0 and "affine" in kernel):
            sys.exit(f"{kernel}: {nbytes} bytes of scratch, {wanted} are wanted")


def pack_values(step: Any, reference: Any) -> dict[str, Any]:
    for t in step.tensors:
        require_inside(t, step.kernel)
    if step.kernel == "strips":
        for kernel, fields, lines, _ in step.fields["stages"]:
            for count in range(1, (lines or step.fields["lines"]) + 1):
                part = {"n": 1, "oh": count} if "oh" in fields else {}
                require_scratch(kernel, {**fields, **part}, nbytes_of(fields))
    elif step.kernel != "native":
        require_scratch(step.kernel, step.fields, nbytes_of(step.fields))
    return pack_program_values(step, reference)


def nbytes_of(fields: Mapping[str, Any]) -> int:
    scratch = fields.get("scratch")
    return 0 if scratch is None else scratch.nbytes


run_program, pack_program_values = executable.Executable.run, program.pack_values


def install() -> None:
    """Have the runtime take its memory from here."""
    program.plan_arena, program.pack_values = plan_arena, pack_values
    executable.Executable._make_arena = make_arena  # type: ignore[method-assign]
    executable.Executable.run = guarded_run  # type: ignore[method-assign]
    constants.aligned_bytes, constants.CHUNK, constants.SETTLED = guarded_bytes, 1, 1 << 40


def cast(value: Any, dtype: np.dtype[Any]) -> Any:
    """Stored arguments with all arrays of another type."""
    if isinstance(value, list):
        return [cast(v, dtype) for v in value]
    return value.astype(dtype).view(type(value)) if isinstance(value, np.ndarray) else value


def write_behind() -> None:
    """Run an operator that is known to be wrong."""

    @FUNCTIONS["run"]  # type: ignore[untyped-decorator]
    def wrong(state: Any, x: Any, nx: int, y: Any, ny: int, host: Any) -> int:
        ctypes.cast(y[0].data, ctypes.POINTER(ctypes.c_float))[y[0].shape[0]] = 1
        return 0

    native.define("test.wrong", run=wrong)
    run("test.wrong", np.zeros(3, np.float32))


def main(isa: str, *dtypes: str) -> None:
    faulthandler.enable()
    install()
    if dtypes == ("canary",):
        write_behind()
        return
    for entry in ENTRIES:
        if not dtypes:
            print(entry["kind"], flush=True)
            check(results(entry, isa=isa), entry["outputs"])
        for name in dtypes:
            print(entry["kind"], name, flush=True)
            with contextlib.suppress(PnnxFastError), np.errstate(all="ignore"):
                fields = ("args", "inputs", "weights")
                results(entry | {key: cast(entry[key], np.dtype(name)) for key in fields if key in entry}, isa=isa)


if __name__ == "__main__":
    main(*sys.argv[1:])
