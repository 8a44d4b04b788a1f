"""Constants of a model: weights as they lie in the file, aligned copies, packed weights. Shared by all its programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from pnnx_fast._core import store
from pnnx_fast._memory import Tally, aligned_bytes
from pnnx_fast._types import Array
from pnnx_fast.ir import Attribute
from pnnx_fast.ir.mapped import is_mapped, release
from pnnx_fast.ir.parameter import typed_number, without_casts
from pnnx_fast.ops._dtype import dtype_of
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value, tensors_in
from pnnx_fast.runtime.packing import PackQueue, PackTask

__all__ = ["Constants"]

CHUNK, MOST_CHUNKS = 64 << 20, 4
"""Packed weights share mappings of this size, so that small ones lie on huge pages too; mappings with room to fill."""

SHAREABLE, SAMPLE, PIECE = 4096, 64, 1 << 18
"""Bytes of a weight from which on others of the same content are looked for, of what is compared at first, and then."""

SETTLED = 1 << 20
"""Bytes up to which a program has a copy of a constant that it reads as the file has it. These are biases, scales and
small tables, some hundred kilobytes of a model's hundred megabytes: with them programs read nothing from a file that
others may write to. Larger ones are tables of embeddings, of which a call reads some rows: they stay mapped."""

MOST_ALIKE = 16
"""Weights that a further one is compared with: files in which all of them seem alike must not take quadratic time."""


class Constants:
    """Interned constant tensors; thread-safe.

    Weights stay. What is made of constants, such as packed weights, is shared by the programs that use it, and goes
    with the last of them: much of it depends on the sizes of an input.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._attributes: dict[int, tuple[Attribute, Tensor]] = {}
        self._alike: dict[Hashable, list[tuple[Attribute, Tensor]]] = {}
        self._cached: WeakValueDictionary[Hashable, Buffer] = WeakValueDictionary()
        self._kept: dict[Hashable, Any] = {}
        self._folded: dict[Hashable, Value] = {}
        self._in_use = Tally()
        """Of constants that operators have made."""
        self._lasting: set[Buffer] = set()
        self._left: list[Array] = []
        """Views of files that there are copies of now: programs that read any alignment may have an address in them."""
        self._chunks: list[Array] = []
        self._queue = PackQueue()
        self.weights_bytes = 0
        """Of the model."""
        self.arenas: list[Array] = []
        """Memory for activations that no call uses just now, of the programs that these constants are for."""
        self.tuner: Any = None
        """The :class:`~pnnx_fast.runtime.autotune.Tuner` of a model that is tuned."""
        self._lock = threading.RLock()

    @cached_property
    def random(self) -> np.random.Generator:
        """Source of random numbers."""
        return np.random.default_rng(self._seed)

    def tensor(self, array: Array) -> Tensor:
        """Return a tensor over the array's own memory (made C-contiguous)."""
        array = np.asarray(array, order="C")
        return Tensor(Buffer("const", array.nbytes, array), array.shape, array.dtype)

    def parameter(self, value: Any) -> Any:
        """Return what an operator gets for a parameter: its value, or a tensor for a number with a dtype."""
        if not isinstance(value, str):
            return without_casts(value) if isinstance(value, list) else value
        number = typed_number(value)
        return without_casts(value) if number is None else self.tensor(np.array(number[1], dtype_of(number[0], "f4")))

    def attribute(self, attribute: Attribute) -> Tensor:
        """Return the tensor of a weight: the same object at every call and for all weights of the same content."""
        with self._lock:
            known = self._attributes.get(id(attribute))
            if known is None:
                known = self._attributes[id(attribute)] = (attribute, self._interned(attribute))
                self._lasting.add(known[1].buffer)
            return known[1]

    def _interned(self, attribute: Attribute) -> Tensor:
        # The converter writes the weights of a layer that is called several times once for each call.
        if attribute.nbytes < SHAREABLE:
            return self.tensor(attribute.numpy())
        content = memoryview(attribute.data).cast("B")
        places = (0, content.nbytes // 2, content.nbytes - SAMPLE)
        sample = b"".join([content[at : at + SAMPLE] for at in places])
        alike = self._alike.setdefault((attribute.dtype, attribute.shape, sample), [])
        for other, tensor in alike:
            array = np.frombuffer(content, np.uint8)
            if _same(array, np.frombuffer(other.data, np.uint8)):
                release(array)
                return tensor
        tensor = self.tensor(attribute.numpy())
        if len(alike) < MOST_ALIKE:
            alike.append((attribute, tensor))
        return tensor

    def cached(self, key: Hashable, make: Callable[[], Array]) -> Tensor:
        """Return the tensor of a key, made once as long as its buffer is in use."""
        with self._lock:
            buffer = self._cached.get(key)
            if buffer is None:
                buffer = self._cached[key] = self.tensor(make()).buffer
                buffer.origin = key
        array = buffer.array
        assert array is not None
        return Tensor(buffer, array.shape, array.dtype)

    def folded(self, key: Hashable, inputs: Sequence[Value], make: Callable[[], Value]) -> Value:
        """Return what an operator makes of constants: once if these stay, else anew."""
        if key in self._folded:
            return self._folded[key]
        made = make()
        for buffer in {t.buffer for t in tensors_in(made)} - {t.buffer for t in tensors_in(inputs)}:
            self._in_use.add(buffer, buffer.nbytes)
        self._in_use.check(0, "what is computed of constants")
        if not all(self._lasts(x) for x in inputs) or not all(t.is_constant for t in tensors_in(made)):
            return made
        with self._lock:
            self._lasting.update(t.buffer for t in tensors_in(made))
            return self._folded.setdefault(key, made)

    def _lasts(self, value: Value) -> bool:
        if isinstance(value, (list, tuple)):
            return all(self._lasts(v) for v in value)
        return isinstance(value, Tensor) and value.buffer in self._lasting

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the object of a key, made once."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            return self._kept[key]

    def packed(
        self,
        key: Hashable,
        isa: str,
        kernel: str,
        weight: Tensor,
        nbytes: int,
        fields: Mapping[str, Any],
        nthreads: int,
    ) -> Tensor:
        """Return the tensor that a packing kernel makes of a weight; its values are there after :meth:`pack`."""

        def make() -> Array:
            source = np.ascontiguousarray(weight.numpy())
            whole = weight.buffer.array
            if whole is not None and not np.may_share_memory(source, whole):
                self._queue.copied(whole)
            target = self.allocate(nbytes)
            self._queue.add(PackTask(isa, kernel, source, target, fields), nthreads)
            return target

        return self.cached(key, make)

    def pack(self, nthreads: int) -> None:
        """Pack all weights that :meth:`packed` promised."""
        with self._lock:
            self._queue.flush(nthreads)

    def allocate(self, nbytes: int) -> Array:
        """Return memory for packed weights."""
        if nbytes > CHUNK // 2:
            return aligned_bytes(nbytes)
        with self._lock:
            # What large weights left over in a mapping is for small ones: its last huge page is in memory as a whole.
            place = next((i for i, rest in enumerate(self._chunks) if nbytes <= rest.size), len(self._chunks))
            if place == len(self._chunks):
                self._chunks.append(aligned_bytes(CHUNK))
            rest = self._chunks[place]
            self._chunks[place] = rest[-(-nbytes // 64) * 64 :]
            # A mapping goes when nothing in it is in use, and is not to be filled any more.
            self._chunks = [left for left in self._chunks if left.size][-MOST_CHUNKS:]
        return rest[:nbytes]

    def address(self, tensor: Tensor, aligned: bool = True) -> int:
        """Address of a constant's first element, which programs keep; if need be in a copy, see :meth:`settle`."""
        return (tensor.buffer.address or self.settle(tensor.buffer, aligned)) + tensor.offset

    def settle(self, buffer: Buffer, aligned: bool = True) -> int:
        """Return where programs read a constant.

        Small ones that a file holds, and those that it holds unaligned, are an aligned copy from now on.
        """
        with self._lock:
            array = buffer.array
            assert array is not None
            start = store.address(array)
            unaligned = start % max(array.itemsize, 1) != 0
            if (aligned and unaligned) or (array.nbytes <= SETTLED and is_mapped(array)):
                copy = aligned_bytes(array.nbytes)
                copy[:] = array.reshape(-1).view(np.uint8)
                buffer.array = copy.view(array.dtype).reshape(array.shape)
                self._left.append(array)
                release(array)
                start, unaligned = store.address(copy), False
            if not unaligned:
                buffer.address = start
            return start


def _same(a: Array, b: Array) -> bool:
    # In pieces, so that what numpy makes of a comparison stays small.
    return all(np.array_equal(a[at : at + PIECE], b[at : at + PIECE]) for at in range(0, a.size, PIECE))
