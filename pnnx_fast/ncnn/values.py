"""What a layer function reads: numbered parameters with defaults, and weights in the order of the file.

A layer function runs twice: when parameters are loaded, with weights that have a shape only, so that wrong parameters
show at once; and when weights are loaded. It must not look into values of weights before it builds operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.formats.ncnn_param import ParamSlots
from pnnx_fast.ir import Attribute
from pnnx_fast.ir.mapped import MappedFile, file_of

__all__ = ["UNFORESEEN", "AbsentWeights", "LoadedWeights", "Params", "WeightLoader", "Weights"]

UNFORESEEN = MemoryError, ArithmeticError, ValueError, IndexError, TypeError
"""What numpy raises about shapes nobody thought of; some errors of this project are of these types, too."""

MOST_ELEMENTS = 1 << 40
_BITS = 1 << 23

# Inside of Params these names are methods.
Integer = int
Real = float


class Params:
    """Parameters of one layer; remembers as what each was read.

    ``blobs`` is how many input blobs the layer needs, None for any number: one or None by its type, unless the layer
    function says more.

    Examples
    --------
    >>> slots = ParamSlots()
    >>> slots.set(0, 64)
    >>> p = Params(slots)
    >>> p.count(0), p.float(1, 0.5), p.has(1), p.kinds
    (64, 0.5, False, {0: 'i', 1: 'f'})
    >>> p.choice(0, 0, 3)
    Traceback (most recent call last):
    pnnx_fast.errors.ParameterError: parameter 0 is 64, it must be one of 0 to 2
    """

    def __init__(self, slots: ParamSlots, blobs: Integer | None = 1) -> None:
        self._slots = slots
        self.blobs = blobs
        self.kinds: dict[Integer, Literal["i", "f"]] = {}

    def has(self, id: Integer) -> bool:
        """Whether a slot is set."""
        return id in self._slots

    def int(self, id: Integer, default: Integer = 0) -> Integer:
        """Integer parameter."""
        self.kinds[id] = "i"
        return self._slots.get_int(id, default)

    def flag(self, id: Integer, default: Integer = 0) -> bool:
        """Integer parameter that is true when it is not 0."""
        return self.int(id, default) != 0

    def count(self, id: Integer, default: Integer = 0, least: Integer = 1) -> Integer:
        """Integer parameter that must not be smaller than ``least``."""
        value = self.int(id, default)
        if value < least:
            raise ParameterError(f"parameter {id} is {value}, it must be at least {least}")
        return value

    def axes(
        self, ids: Sequence[Integer], default: Integer | Sequence[Integer] = 0, least: Integer | None = None
    ) -> tuple[Integer, ...]:
        """Integers of axes, the slowest first; ``ids`` name the fastest one first, as files do.

        A ``default`` is either that of the fastest axis, which the others then have for theirs, or one for each axis;
        none of the values may be smaller than ``least``.
        """
        if isinstance(default, Integer):
            default = (self.int(ids[0], default),) * len(ids)
        values = tuple(self.int(id, value) for id, value in zip(reversed(ids), default, strict=True))
        if least is not None and min(values) < least:
            raise ParameterError(f"parameter {ids[0]} is {min(values)}, it must be at least {least}")
        return values

    def choice(self, id: Integer, default: Integer, count: Integer) -> Integer:
        """Integer parameter from 0 to ``count`` - 1."""
        value = self.int(id, default)
        if not 0 <= value < count:
            raise ParameterError(f"parameter {id} is {value}, it must be one of 0 to {count - 1}")
        return value

    def float(self, id: Integer, default: Real = 0.0) -> Real:
        """Floating-point parameter."""
        self.kinds[id] = "f"
        return self._slots.get_float(id, default)

    def ints(self, id: Integer, default: Iterable[Integer] = ()) -> tuple[Integer, ...]:
        """Array of integers."""
        self.kinds[id] = "i"
        return self._slots.get_ints(id, default)

    def floats(self, id: Integer, default: Iterable[Real] = ()) -> tuple[Real, ...]:
        """Array of floats; integers too large for what they would mean are the bits of floats."""
        self.kinds[id] = "f"
        bits, values = self._slots.bits(id), self._slots.get_floats(id, default)
        if bits is None:
            return values
        as_floats = bits.view(np.float32)
        return tuple(float(as_floats[i]) if abs(v) >= _BITS else v for i, v in enumerate(values))

    def string(self, id: Integer, default: str = "") -> str:
        """String parameter."""
        return self._slots.get_string(id, default)


class WeightLoader(Protocol):
    """What weights are read from: ``formats.ncnn_bin.WeightReader`` or an application's ModelBin."""

    def load(self, count: int, type: int) -> Array:
        """Return the next ``count`` elements; type 0 has a tag in the file, 1 is float32, 2 is int8."""


class Weights(Protocol):
    """The weights of one layer, in the order in which the layer asks for them."""

    def load(self, *shape: int, type: int = 0) -> Attribute:
        """Return the next weight in the given shape, slowest dimension first; float32, or int8 as it is stored."""


class AbsentWeights:
    """Weights of which only the shape is known; their values must not be looked at.

    ``asked`` tells whether there are any.

    Examples
    --------
    >>> w = AbsentWeights()
    >>> w.load(3, 2).shape, w.asked
    ((3, 2), True)
    """

    def __init__(self) -> None:
        self.asked = False

    def load(self, *shape: int, type: int = 0) -> Attribute:
        """See Weights."""
        self.asked = True
        _check(shape)
        attribute = Attribute()
        attribute.dtype, attribute.shape = "f32", shape
        return attribute


class LoadedWeights:
    """Weights that are read; ``files`` are those that some of them are views of.

    Examples
    --------
    >>> from pnnx_fast.formats.ncnn_bin import BytesSource, WeightReader
    >>> w = LoadedWeights(WeightReader(BytesSource(np.float32([1, 2]).data)))
    >>> w.load(2, type=1).numpy()
    array([1., 2.], dtype=float32)
    """

    def __init__(self, loader: WeightLoader) -> None:
        self._loader = loader
        self.files: set[MappedFile] = set()

    def load(self, *shape: int, type: int = 0) -> Attribute:
        """See Weights."""
        count = _check(shape)
        array = np.asarray(self._loader.load(count, type)).reshape(-1)
        if array.size != count:
            raise ParameterError(f"{count} weights are wanted, {array.size} were loaded")
        if array.dtype != np.int8 and array.dtype != np.float32:
            return Attribute.owning(array.astype(np.float32).reshape(shape))
        if (file := file_of(array)) is not None:
            self.files.add(file)
        return Attribute(array.reshape(shape))


def _check(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        if size < 0 or count * max(size, 1) > MOST_ELEMENTS:
            raise ParameterError(f"weights of shape {list(shape)}")
        count *= size
    return count
