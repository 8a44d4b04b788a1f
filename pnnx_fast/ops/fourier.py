"""Fourier transforms: the functions of torch.fft, and the one transform that all of them and spectrograms are made of.

Lengths with a large prime factor become convolutions by transforms of another length (Bluestein's method). Very long
lines, and few of them, are numpy steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_RANK
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops.elementwise import intermediate, store
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axes_of, axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor

KINDS = {
    "fft": (False, "full"),
    "ifft": (True, "full"),
    "rfft": (False, "half"),
    "irfft": (True, "real"),
    "hfft": (False, "real"),
    "ihfft": (True, "half"),
}
"""Of each transform: whether it is an inverse one; and its result: a full spectrum, its first half, or real numbers."""

DIMENSIONS: dict[str, tuple[str | None, str, str | None]] = {
    "fft": (None, "fft", None),
    "ifft": (None, "ifft", None),
    "rfft": ("rfft", "fft", None),
    "irfft": (None, "ifft", "irfft"),
    "hfft": (None, "fft", "hfft"),
    "ihfft": ("ihfft", "ifft", None),
}
"""Of several dimensions: the transform of the last one where that comes first, that of the others, and of the last one
where that comes last."""


def complex_type(dtype: DType) -> DType:
    """Type of spectra of such numbers."""
    return np.dtype(np.complex128 if dtype in (np.float64, np.complex128) else np.complex64)


def real_type(dtype: DType) -> DType:
    """Type of the parts of spectra of such numbers."""
    return np.dtype(np.float64 if dtype in (np.float64, np.complex128) else np.float32)


def parts_of(x: Tensor) -> Tensor:
    """View of complex numbers as real ones, with a last dimension of size two."""
    return Tensor(x.buffer, (*x.shape, 2), real_type(x.dtype), [*(2 * s for s in x.strides), 1], x.offset)


def emit_transform(
    b: Builder,
    x: Tensor,
    y: Tensor,
    n: int,
    *,
    inverse: bool = False,
    scale: float = 1.0,
    window: Tensor | None = None,
    first: int = 0,
) -> None:
    """Emit transforms of ``n`` places along the last dimension of ``x`` into that of ``y``; both may be strided.

    Where ``x`` has fewer places, they are the transform's from ``first`` on, times the window; zeros are the others.
    Real ``y`` takes a Hermitian spectrum, of which ``x`` has the first half. Results are not divided, but multiplied by
    ``scale``, and as many are written as ``y`` has places.
    """
    if real_type(x.dtype) != real_type(y.dtype):
        raise ShapeError("a transform keeps the precision", expected=x.dtype, actual=y.dtype)
    if 0 in y.shape:
        return
    x_parts, y_parts = (2 if t.dtype.kind == "c" else 1 for t in (x, y))
    kernel = f"fourier_f{8 * real_type(x.dtype).itemsize}"
    fields: dict[str, Any] = {
        "rank": x.ndim - 1, "shape": x.shape[:-1], "n": n, "inverse": int(inverse), "scale": scale,
        "x_parts": x_parts, "xs": [s * x_parts for s in x.strides[:-1]], "xsn": x.strides[-1] * x_parts,
        "y_parts": y_parts, "ys": [s * y_parts for s in y.strides[:-1]], "ysn": y.strides[-1] * y_parts,
        "given": x.shape[-1], "first": first, "wanted": y.shape[-1],
    }  # fmt: skip
    plan = b.plan(kernel, **fields)
    if not plan.variant and _emit_chirps(b, x, y, window, fields):
        return
    if not plan.variant:
        compute = _in_numpy(n, inverse, scale, first, y)
        b.copy(b.host(compute, [x] if window is None else [x, window], [(y.shape, y.dtype)])[0], y)
        return
    flops = math.prod(x.shape[:-1]) * n * math.log2(n) * (5 if x_parts == y_parts else 2.5)
    roots = b.cached(("roots of unity", n, kernel), lambda: _roots(n).astype(complex_type(x.dtype)))
    b.step(
        kernel,
        flops=int(flops),
        label=plan.label,
        x=x,
        window=window,
        roots=roots,
        y=y,
        scratch=b.scratch(plan.scratch_bytes),
        **fields,
    )


def _roots(n: int) -> Array:
    return np.asarray(np.exp(-2j * np.pi / n * np.arange(n)))


def _smooth(least: int) -> int:
    """A length of at least so many places with small factors alone."""
    return min(k << max((-(-least // k) - 1).bit_length(), 0) for k in (1, 3, 5, 9))


def _chirp(n: int, count: int, inverse: bool) -> Array:
    """exp(-i pi k k / n), or its conjugate, for the first places."""
    k = np.arange(count, dtype=np.int64)
    return np.asarray(np.exp((1j if inverse else -1j) * np.pi / n * (k * k % (2 * n))))


def _emit_chirps(b: Builder, x: Tensor, y: Tensor, window: Tensor | None, fields: dict[str, Any]) -> bool:
    """Emit transforms as convolutions with chirps; False where the kernel does not take those either.

    2 j k = j j + k k - (k - j)(k - j), so that the transform is a convolution between two products.
    """
    n, inverse, scale, first = fields["n"], bool(fields["inverse"]), fields["scale"], fields["first"]
    size, lines = _smooth(2 * n - 1), x.shape[:-1]
    takes = real_type(x.dtype) == np.float32 and x.ndim < MAX_RANK
    if not takes or not b.plan("fourier_f32", **fields | {"n": size}).variant:
        return False
    real, given, kind = y.dtype.kind != "c", x.shape[-1], np.complex64

    def before() -> Array:
        factors, k = _chirp(n, n, inverse)[first : first + given], np.arange(given)
        # Places of a half spectrum stand for their mirrors, too.
        return (factors * np.where((k == 0) | (2 * k == n), 1, 2) if real else factors).astype(kind)

    def between() -> Array:
        chirp = np.zeros(size, np.complex128)
        chirp[:n] = _chirp(n, n, not inverse)
        chirp[size - n + 1 :] = chirp[1:n][::-1]
        return np.asarray(np.fft.fft(chirp) * (scale / size)).astype(kind)

    key = (n, inverse, first, given, scale, real)
    inner, outer = (b.cached((name, *key), make) for name, make in (("before", before), ("between", between)))
    last = b.cached(("behind", n, inverse), lambda: _chirp(n, n, inverse).astype(kind)).narrow(0, 0, y.shape[-1])
    text, values = "mul(@0,@1)", [x, inner]
    if window is not None:
        text, values = "mul(mul(@0,@2),@1)", [x, inner, window]
    chirps = intermediate(b, text, *values)
    spectrum, line = b.empty((*lines, size), kind), b.empty((*lines, y.shape[-1]), kind)
    emit_transform(b, chirps, spectrum, size, first=first)
    emit_transform(b, intermediate(b, "mul(@0,@1)", spectrum, outer), line, size, inverse=True)
    if real:
        parts = [parts_of(t).select(t.ndim, i) for i in (0, 1) for t in (line, last)]
        store(b, "sub(mul(@0,@1),mul(@2,@3))", parts, y)
    else:
        b.copy(intermediate(b, "mul(@0,@1)", line, last), y)
    return True


def _in_numpy(n: int, inverse: bool, scale: float, first: int, y: Tensor) -> Callable[..., Array]:
    real, wanted = y.dtype.kind != "c", y.shape[-1]

    def compute(x: Array, window: Array | None = None) -> Array:
        if window is not None:
            x = x * window
        if real:
            if not x.shape[-1]:
                return np.zeros((*x.shape[:-1], n), y.dtype)  # where numpy leaves what memory held
            return np.asarray(np.fft.irfft(x if inverse else x.conj(), n, norm="forward") * scale)
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(first, n - first - x.shape[-1])])
        spectrum = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
        return np.asarray(spectrum[..., :wanted] * scale)

    return compute


def _scale(n: int, norm: str | None, inverse: bool) -> float:
    if norm not in (None, "forward", "backward", "ortho"):
        raise ParameterError(f"unknown normalisation {norm!r}", parameter="norm")
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if inverse == (norm != "forward") else 1.0


def transform(b: Builder, x: Tensor, axis: int, n: int, kind: str, norm: str | None, last: bool) -> Tensor:
    """One transform along a dimension; its result is that of the operator if it is the last one."""
    inverse, output = KINDS[kind]
    if n < 1:
        raise ShapeError("a transform needs at least one sample", actual=n)
    if output == "half" and x.dtype.kind == "c":
        raise ShapeError("the transform takes real numbers", actual=x.dtype)
    wide = complex_type(x.dtype) if output == "real" or x.dtype.kind == "c" else real_type(x.dtype)
    x = x if x.dtype == wide else b.cast(x, wide)
    half = n // 2 + 1
    shape = list(x.shape)
    shape[axis] = half if output == "half" else n
    y = (b.result if last else b.empty)(shape, real_type(x.dtype) if output == "real" else complex_type(x.dtype))
    given = x.narrow(axis, 0, min(x.shape[axis], half if output == "real" else n))
    order = [d for d in range(x.ndim) if d != axis] + [axis]
    scale = _scale(n, norm, inverse)
    emit_transform(b, given.permute(order), y.permute(order), n, inverse=inverse, scale=scale)
    return y


def _one(name: str) -> None:
    """Register the transform of one dimension."""

    def one(b: Builder, input: Tensor, *, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        require_dims(input, 1)
        axis = axis_of(dim, input.ndim)
        whole = 2 * (input.shape[axis] - 1) if KINDS[name][1] == "real" else input.shape[axis]
        return transform(b, input, axis, n or whole, name, norm, last=True)

    one.__doc__ = f"The transform {name} over one dimension. torch.fft.{name}."
    operator(f"torch.fft.{name}")(one)


def _sizes(x: Tensor, s: Ints | None, dim: Ints | None, real: bool) -> list[tuple[int, int]]:
    """Dimensions and lengths of a transform over several of them."""
    sizes = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is not None:
        axes = axes_of(dim, x.ndim)
    else:
        axes = list(range(x.ndim - len(sizes) if sizes is not None else 0, x.ndim))
    if not axes:
        raise ShapeError("a transform needs at least one dimension", actual=[])
    given = sizes or [-1] * len(axes)
    if len(given) != len(axes):
        raise ShapeError("as many sizes as dimensions are needed", expected=len(axes), actual=len(given))
    require_dims(x, 1)
    full = [x.shape[a] if n == -1 else n for a, n in zip(axes, given, strict=True)]
    if real and given[-1] == -1:
        full[-1] = 2 * (x.shape[axes[-1]] - 1)
    return list(zip(axes, full, strict=True))


def _several(name: str) -> None:
    """Register the two-dimensional and the n-dimensional form of a transform."""
    before, others, after = DIMENSIONS[name]

    def run(b: Builder, x: Tensor, s: Ints | None, dim: Ints | None, norm: str | None) -> Tensor:
        sizes = _sizes(x, s, dim, KINDS[name][1] == "real")
        steps = [(*sizes[-1], before)] if before else []
        steps += [(*size, others) for size in (sizes if before is after else sizes[:-1])]
        steps += [(*sizes[-1], after)] if after else []
        for i, (axis, n, kind) in enumerate(steps):
            x = transform(b, x, axis, n, kind, norm, last=i == len(steps) - 1)
        return x

    def two(
        b: Builder, input: Tensor, *, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None
    ) -> Tensor:
        return run(b, input, s, dim, norm)

    def many(
        b: Builder, input: Tensor, *, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None
    ) -> Tensor:
        return run(b, input, s, dim, norm)

    two.__doc__ = f"The transform {name} over two dimensions. torch.fft.{name}2."
    many.__doc__ = f"The transform {name} over several dimensions. torch.fft.{name}n."
    operator(f"torch.fft.{name}2")(two)
    operator(f"torch.fft.{name}n")(many)


for _name in KINDS:
    _one(_name)
    _several(_name)
