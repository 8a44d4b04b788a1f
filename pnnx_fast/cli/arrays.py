"""Inputs of the command line: numpy files, pictures, random arrays."""

from __future__ import annotations

import lzma
import math
import sys
import tokenize
import zlib
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from pnnx_fast._memory import check_memory
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError, no_such

if TYPE_CHECKING:
    from pnnx_fast.runtime.session import Model, TensorInfo

__all__ = ["given_sizes", "is_picture", "load_inputs", "random_inputs", "zero_inputs"]

PICTURES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".webp"}

_UNREADABLE = (
    *(OSError, ValueError, TypeError, EOFError, OverflowError, RuntimeError, SyntaxError, tokenize.TokenError),
    *(BadZipFile, zlib.error, lzma.LZMAError),
)
"""What numpy lets through of the readers of headers (its own, and Python's parser) and of archives."""


Sizes = Mapping[str, list[int]]
"""Sizes by the name of the input."""


def given_sizes(names: Sequence[str], given: Sequence[tuple[str, list[int]]]) -> Sizes:
    """What ``--size`` says, by the names of inputs; a single input needs no name."""
    alone = names[0] if len(names) == 1 else ""
    found = {name or alone: sizes for name, sizes in given}
    for name in found:
        if name not in names:
            wrong = f"there is no input {name!r}" if name else "name the input, as in NAME=1,3,224,224"
            raise ArgumentTypeError(f"--size: {wrong}; the inputs are {', '.join(names)}")
    return found


def random_inputs(model: Model, sizes: Sizes, batch: int | None = None, seed: int = 0) -> list[Array]:
    """One array an input in its recorded shape; free sizes become 1, ``batch`` replaces the first dimension."""
    rng = np.random.default_rng(seed)
    arrays = []
    for shape, dtype in _recorded(model, sizes, batch):
        drawn = (
            rng.standard_normal(shape) if dtype.kind in "fc" else rng.integers(0, 2 if dtype.kind == "b" else 10, shape)
        )
        arrays.append(np.asarray(drawn).astype(dtype))
    return arrays


def zero_inputs(model: Model, sizes: Sizes) -> list[Array]:
    """Arrays like those of :func:`random_inputs` where only sizes matter: nothing touches their memory."""
    return [np.zeros(shape, dtype) for shape, dtype in _recorded(model, sizes)]


def _recorded(model: Model, sizes: Sizes, batch: int | None = None) -> Iterator[tuple[list[int], DType]]:
    for info in model.inputs:
        noted = sizes.get(info.name, info.shape)
        if noted is None:
            raise ParameterError(f"the model does not record the shape of input {info.name}; give --size or --input")
        shape = list(noted)
        if batch is not None and shape:
            shape[0] = batch
        if min(shape, default=0) < 0:
            shape = [1 if n < 0 else n for n in shape]
            print(f"pnnx-fast: free sizes of input {info.name} are taken as 1: {shape}; give --size", file=sys.stderr)
        check_memory(8 * math.prod(shape), f"input {info.name}")
        yield shape, info.dtype or np.dtype(np.float32)


def is_picture(path: str) -> bool:
    """Whether a file is a picture, by its name."""
    return Path(path).suffix.lower() in PICTURES


def load_inputs(model: Model, paths: list[str], sizes: Sizes, args: Any) -> list[Array]:
    """Arrays from ``.npy`` and ``.npz`` files and pictures, one an input of the model.

    Those of archives have names; the others are for the inputs that are left, in their order.
    """
    given: dict[str, Array] = {}
    unnamed: list[Array | str] = []  # a picture is read when its input is known
    for path in paths:
        if Path(path).is_dir():
            raise ParameterError(f"{path} is a folder; inputs are .npy or .npz files or pictures")
        if is_picture(path):
            unnamed.append(path)
            continue
        if Path(path).suffix.lower() not in (".npy", ".npz"):
            raise ParameterError(f"{path}: inputs are .npy or .npz files or pictures")
        named, others = _stored(path, [info.name for info in model.inputs])
        for name in named.keys() & given.keys():
            raise ParameterError(f"{path}: there is an array for input {name!r} already")
        given |= named
        unnamed += others
    left = [info for info in model.inputs if info.name not in given]
    if len(left) != len(unnamed):
        raise ShapeError("wrong number of inputs", expected=len(model.inputs), actual=len(given) + len(unnamed))
    for info, value in zip(left, unnamed, strict=True):
        shape = sizes.get(info.name)
        wanted = info if shape is None else info._replace(shape=tuple(shape))
        given[info.name] = _picture(value, wanted, args) if isinstance(value, str) else value
    for name, asked in sizes.items():
        if list(given[name].shape) != asked:
            raise ArgumentTypeError(f"--size: {asked} for input {name}, which is {list(given[name].shape)}")
    return [given[info.name] for info in model.inputs]


def _stored(path: str, names: list[str]) -> tuple[dict[str, Array], list[Array]]:
    """Arrays of a file of numpy: those of an archive by name, and those without the name of an input in order."""
    with open(path, "rb") as file:
        try:
            found = np.load(file)
            arrays = {"": found} if isinstance(found, np.ndarray) else dict(found)
        except _UNREADABLE as error:
            raise ParameterError(f"{path}: not a readable file of numpy ({error})") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ParameterError(f"{path}: {name} is not an array of numpy")
    unknown = [name for name in arrays if name not in names]
    if unknown and len(unknown) < len(arrays):
        raise ParameterError(f"{path}: {no_such('input', unknown[0], names)}")
    return {name: arrays[name] for name in arrays if name in names}, [arrays[name] for name in unknown]


def _picture(path: str, info: TensorInfo, args: Any) -> Array:
    try:
        from PIL import Image
    except ImportError:
        raise ParameterError("reading pictures needs Pillow: pip install 'pnnx_fast[cli]'") from None
    shape = info.shape
    if shape is None or len(shape) != 4 or shape[1] not in (1, 3):
        raise ParameterError(f"input {info.name} is not a picture: shape {shape}")
    try:
        with Image.open(path) as image:
            converted = image.convert("RGB" if shape[1] == 3 else "L")
    except FileNotFoundError:
        raise
    except (OSError, Image.DecompressionBombError) as error:
        raise ParameterError(f"{path}: not a readable picture ({error})") from None
    if shape[2] > 0 and shape[3] > 0:
        converted = converted.resize((shape[3], shape[2]), Image.Resampling.BILINEAR)
    pixels = np.asarray(converted, dtype=np.float32)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if args.bgr:
        pixels = pixels[:, :, ::-1]
    for option, values in (("--mean", args.mean), ("--scale", args.scale)):
        if len(values) not in (1, shape[1]):
            wanted = "1 number" if shape[1] == 1 else f"1 or {shape[1]} numbers"
            raise ArgumentTypeError(f"{option} wants {wanted}, not {len(values)}")
    pixels = (pixels - np.float32(args.mean)) * np.float32(args.scale)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]).astype(info.dtype or np.float32)
