"""An operator written in Python and compiled by numba: it runs inside the program, between kernels, without the GIL.

python examples/numba_op.py
"""

from __future__ import annotations

import numpy as np
from numba import carray, cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

import pnnx_fast
from pnnx_fast import native

F32 = 1  # PF_OP_F32 of op.h


@intrinsic
def pointer(typing_context, address):
    """The address in a field of a record as a pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@cfunc(types.int32(types.voidptr, types.voidptr, types.int32, types.voidptr, types.int32, types.voidptr))
def running_sum(state, inputs, ninputs, outputs, noutputs, host):
    """Sums along the last axis: row by row, each element is added to the one before."""
    x, y = carray(inputs, ninputs, native.TENSOR)[0], carray(outputs, noutputs, native.TENSOR)[0]
    if ninputs != 1 or x["rank"] < 1 or x["dtype"] != F32:  # the model file decides what arrives
        return 1
    shape = carray(pointer(x["shape"]), x["rank"], np.int64)
    count = 1
    for size in shape:
        count *= size
    source, target = carray(pointer(x["data"]), count, np.float32), carray(pointer(y["data"]), count, np.float32)
    length = shape[x["rank"] - 1]
    for i in range(count):
        target[i] = source[i] + (target[i - 1] if i % length else np.float32(0))
    return 0


GRAPH = """7767517
4 3
pnnx.Input         in   0 1 x #x=(2,4)f32
example.RunningSum sums 1 1 x y
F.relu             act  1 1 y z
pnnx.Output        out  1 0 z
"""

if __name__ == "__main__":
    native.define("example.RunningSum", run=running_sum)
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(GRAPH))
    print(model(np.float32([[1, 2, 3, 4], [-1, -1, 5, 1]])).tolist())
