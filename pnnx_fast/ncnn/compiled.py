"""Models of parts of a net: from blobs that are known to blobs that are wanted, for given shapes.

The layers in between are traced into a graph of the project's operators, optimised and made a model. Everything here is
by blob number; Mats and names are the business of the extractor. Quantised blobs are int8, inside of models and between
them: by their type layers know that they are.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import PnnxFastError, ShapeError
from pnnx_fast.ir import Operand, dtypes
from pnnx_fast.ir.mapped import require_unchanged
from pnnx_fast.ncnn.habits import Habit, Way
from pnnx_fast.ncnn.layer import BuiltinLayer, Layer
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.memory import unpacked
from pnnx_fast.ncnn.option import Option
from pnnx_fast.ncnn.room import Caches, Room, caches_of
from pnnx_fast.ncnn.tracer import Tracer
from pnnx_fast.ncnn.values import UNFORESEEN
from pnnx_fast.runtime.annotate import Annotator
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.session import Model, default_isa

if TYPE_CHECKING:
    from pnnx_fast.runtime.executable import Runnable

__all__ = ["NetCompiler", "Part", "run_layer"]

CACHED_MODELS = 24
MOST_FACTS = 256

# Layers that move values without computing, so that integers may pass as they are.
_ANY_TYPE = frozenset(
    {
        "Embed", "Split", "Noop", "Reshape", "Flatten", "Squeeze", "ExpandDims", "Crop", "Slice", "Concat",
        "Permute", "DeepCopy", "Packing", "Tile", "Cast", "BinaryOp",
    }
)  # fmt: skip


# Integers that layers take as they are; to others they are floats. Some layers compute with quantised ones, or make
# floats of them where theirs are weights of floats. The rest moves what there is, so it stays what it was.
_COMPUTING = ("Convolution", "ConvolutionDepthWise", "InnerProduct", "MultiHeadAttention", "ReLU", "SDPA")
_MOVING = ("CopyTo", "Diag", "Dropout", "Flip", "Padding", "PixelShuffle", "Reorg", "ShuffleChannel")
_INTEGERS: dict[str, tuple[str, ...]] = dict.fromkeys(_COMPUTING, ("i8",)) | dict.fromkeys(_MOVING, ("i8", "i32"))

# Layers that take a cache of the past, which is not there in the beginning, and what passes it on.
_MAY_BE_ABSENT = frozenset({"MultiHeadAttention", "SDPA", "Split", "Noop"})


@dataclass(frozen=True, slots=True)
class Part:
    """A program, the blobs it takes, and those it gives, each with its place among the outputs.

    Attributes
    ----------
    program : Runnable
    inputs : tuple of int
        Numbers of blobs.
    outputs : tuple of (int, int)
        Numbers of blobs and places.
    room : Room, optional
        How inputs are filled up, for growing caches.
    """

    program: Runnable
    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    room: Room | None = None

    def run(self, known: Mapping[int, Array]) -> dict[int, Array]:
        """Compute the outputs from known blobs."""
        given, room = [], self.room
        for i in self.inputs:
            array = known[i] if room is None else room.filled(i, known[i])
            given.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
        results = self.program.run(given)
        if room is not None:
            return {b: np.asarray(room.joined(b, results[i], known.__getitem__)) for b, i in self.outputs}
        return {blob: np.asarray(results[i]) for blob, i in self.outputs}


class NetCompiler:
    """Makes and keeps models of parts of one net.

    Parameters
    ----------
    layers : sequence of Layer
    producers : sequence of int
        By blob, the layer that makes it, -1 for none.

    Examples
    --------
    >>> from pnnx_fast.ncnn.net import Net
    >>> net = Net()
    >>> net.load_param_mem("7767517\\n2 2\\nInput in 0 1 x\\nReLU act 1 1 x y\\n"), net.load_model_mem(b"")
    (0, 0)
    >>> compiler, given = NetCompiler(net.layers(), [-1, 1]), {0: np.float32([[-1, 2]])}
    >>> compiler.needed(given, [1])
    [1]
    >>> compiler.part(given, [1], extra=False, threads=1).run(given)[1]
    array([[0., 2.]], dtype=float32)
    """

    def __init__(self, layers: Sequence[Layer], producers: Sequence[int]) -> None:
        self.layers, self.producers = layers, producers
        self._isa = default_isa()
        self._annotate = Annotator(self._isa)
        self._constants = Constants()
        self._models: OrderedDict[Any, Part] = OrderedDict()
        self._habits: dict[frozenset[tuple[int, int]], Habit] = {}
        self._ways: dict[Any, Way] = {}
        self._facts: dict[Any, Any] = {}
        self._lock = threading.RLock()

    def _once(self, what: str, known: Iterable[int], targets: Sequence[int], find: Callable[[], Any]) -> Any:
        """What depends on no values or shapes, only on which blobs are known and wanted, is found once."""
        key = what, frozenset(known), tuple(targets)
        found = self._facts.get(key)
        return _kept(self._facts, key, MOST_FACTS, find) if found is None else found

    def needed(self, known: Iterable[int], targets: Sequence[int]) -> Sequence[int]:
        """Layers that lead from known blobs to targets, producers first.

        Raises
        ------
        ShapeError
            When no layer makes a blob. Inputs that were not given are left to the layers that want them.
        """
        order: Sequence[int] = self._once("needed", known, targets, lambda: self._order(known, targets))
        return order

    def boundary(self, known: Iterable[int], targets: Sequence[int]) -> Layer | None:
        """Return the first needed layer that must run by itself.

        It is the application's, or other layers wait for its outputs, whose shape depends on data.
        """

        def find() -> int:
            needed = self.needed(known, targets)
            used = {b for i in needed for b in self.layers[i].bottoms}
            alone = (i for i in needed if _stands_alone(self.layers[i], used))
            return next(alone, -1)

        index: int = self._once("boundary", known, targets, find)
        return None if index < 0 else self.layers[index]

    def _order(self, known: Iterable[int], targets: Iterable[int]) -> list[int]:
        have, order, state = set(known), list[int](), dict[int, bool]()
        stack = [(blob, False) for blob in targets]
        while stack:
            blob, done = stack.pop()
            index = self.producers[blob]
            if done:
                state[index] = True
                order.append(index)
                continue
            if blob in have or state.get(index):
                continue
            if index >= 0 and self.layers[index].type == "Input":
                continue
            if index < 0:
                raise ShapeError(f"blob {blob} is needed and no layer makes it")
            if index in state:
                raise ShapeError(f"layer {self.layers[index].name} depends on itself")
            state[index] = False
            stack.append((blob, True))
            stack += [(b, False) for b in self.layers[index].bottoms]
        return order

    def part(self, known: Mapping[int, Array], targets: Sequence[int], extra: bool, threads: int) -> Part:
        """Return the model from known blobs to targets; with ``extra`` it also gives what other layers will need."""
        needed = self.needed(known, targets)
        ends = self._once(
            "all ends" if extra else "ends", known, targets, lambda: self._ends(needed, known, targets, extra)
        )
        inputs, wanted = ends
        shapes = {b: known[b].shape for b in inputs}
        room = None if self._caches is None else self._caches.room(shapes, wanted)
        given = {b: known[b] if room is None else _filled(room, b, known[b]) for b in inputs}
        key = (_signature(given, inputs), room and room.length, tuple(wanted), threads)
        with self._lock:
            part = self._models.get(key)
            if part is None:
                part = self._build(needed, given, wanted, threads, room)
                self._models[key] = part
                if len(self._models) > CACHED_MODELS:
                    self._models.popitem(last=False)
                    self._ways.clear()
            self._models.move_to_end(key)
        return part

    def way(self, given: Mapping[int, Array], threads: int) -> Way:
        """Return what is known of runs from these inputs."""
        key = threads, *[(b, v.shape, v.dtype) for b, v in given.items()]
        found = self._ways.get(key)  # without the lock, which a look alone does not need
        if found is None:
            situation = frozenset([(b, v.ndim) for b, v in given.items()])
            with self._lock:
                habit = _kept(self._habits, situation, MOST_FACTS, Habit)
                found = _kept(self._ways, key, CACHED_MODELS, lambda: Way(habit))
        return found

    def whole(self, known: Mapping[int, Array], targets: Sequence[int], threads: int) -> Part | None:
        """Return the model from all known blobs to targets, None when layers on the way must run by themselves."""
        alone = self.boundary(known, targets)
        return None if alone is not None else self.part(known, targets, False, threads)

    def _ends(
        self, needed: Sequence[int], known: Iterable[int], targets: Sequence[int], extra: bool
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Blobs that layers take from outside, and those they make for targets or, with ``extra``, for others."""
        known, made = set(known), {top for i in needed for top in self.layers[i].tops}
        within = {b for i in needed for b in self.layers[i].bottoms}
        inputs = dict.fromkeys(b for i in needed for b in self.layers[i].bottoms if b not in made and b in known)
        inputs |= dict.fromkeys(b for b in targets if b not in made)
        for blob in set(inputs) - known:
            raise ShapeError(f"input blob {blob} has not been given")
        if not extra:
            return list(inputs), list(targets)
        inside = set(needed)
        used = {b for i, layer in enumerate(self.layers) if i not in inside for b in layer.bottoms}
        return list(inputs), [*targets, *(b for b in sorted(made & used | made - within) if b not in targets)]

    @cached_property
    def _caches(self) -> Caches | None:
        return caches_of(self.layers, self.producers)

    @cached_property
    def _taken(self) -> frozenset[int]:
        """Blobs that layers take."""
        return frozenset(b for layer in self.layers for b in layer.bottoms)

    def _walk(
        self, needed: Sequence[int], known: Mapping[int, Array], targets: Sequence[int], room: Room | None
    ) -> tuple[Tracer, list[Operand]]:
        """Trace layers into a graph; returns the tracer and the operands of targets."""
        t = Tracer(self._annotate, room is not None)
        operands: dict[int, Operand | None] = {
            blob: t.input(array.shape, dtypes.by_numpy[str(array.dtype)].text) for blob, array in known.items()
        }
        for index in needed:
            self._trace(t, self.layers[index], operands)
        return t, [x for x in (operands[b] for b in targets) if x is not None]

    def _build(
        self, needed: Sequence[int], known: Mapping[int, Array], targets: Sequence[int], threads: int, room: Room | None
    ) -> Part:
        layers = [layer for layer in map(self.layers.__getitem__, needed) if isinstance(layer, BuiltinLayer)]
        require_unchanged({file for layer in layers for file in layer.files})  # tracing reads weights, too
        t, wanted = self._walk(needed, known, targets, room)
        places: dict[tuple[Operand, int | None], int] = {}
        outputs = []
        for blob, operand in zip(targets, wanted, strict=True):
            # What no layer takes is handed to the application, which may write to it: it shares no memory.
            place = operand, None if blob in self._taken else blob
            outputs.append((blob, places.setdefault(place, len(places))))
        for operand, _ in places:
            t.output(operand)
        model = Model(t.graph, threads, isa=self._isa, constants=self._constants)
        program = model.program(list(known.values()))
        return Part(program, tuple(known), tuple(outputs), room)

    def _trace(self, t: Tracer, layer: Layer, operands: dict[int, Operand | None]) -> None:
        """Emit the operators of one layer."""
        assert isinstance(layer, BuiltinLayer)
        t.layer = layer.name or f"{layer.type}_{layer.tops[0] if layer.tops else ''}"
        where = layer.where
        if layer.build is None:
            raise ShapeError("load_model has not been called", operator=where)
        bottoms = [operands.get(b) for b in layer.bottoms]
        if None in bottoms and layer.type not in _MAY_BE_ABSENT:
            raise ShapeError(f"input blob {layer.bottoms[bottoms.index(None)]} has not been given", operator=where)
        if layer.type not in _ANY_TYPE and "." not in layer.type:
            kept = _INTEGERS.get(layer.type, ())
            bottoms = [x if x is None or x.dtype in kept else t.as_float(x) for x in bottoms]
        made: Any
        try:
            # Odd weights give infinities and NaN, as they do in ncnn, and no warnings of numpy.
            with np.errstate(all="ignore"):
                made = layer.build(t, *bottoms)
        except PnnxFastError as error:
            raise ShapeError(str(error), operator=where) from error
        except UNFORESEEN as error:
            shapes = [None if x is None else x.shape for x in bottoms]
            raise ShapeError(f"cannot take blobs of shapes {shapes}: {error}", operator=where) from error
        if made is None or isinstance(made, Operand):
            made = [made]
        outputs: list[Operand | None] = list(itertools.islice(made, len(layer.tops)))
        if len(outputs) < len(layer.tops):
            raise ShapeError("fewer outputs than blobs", operator=where, expected=len(layer.tops), actual=len(outputs))
        operands.update(zip(layer.tops, outputs, strict=False))


def _kept(memory: dict[Any, Any], key: Any, most: int, make: Callable[[], Any]) -> Any:
    """Return what a memory holds, or make it; a full memory begins anew."""
    if key not in memory and len(memory) >= most:
        memory.clear()
    return memory.setdefault(key, make())  # whole also when threads come at once


def _stands_alone(layer: Layer, used: set[int]) -> bool:
    dynamic = isinstance(layer, BuiltinLayer) and layer.definition.dynamic
    return not isinstance(layer, BuiltinLayer) or (dynamic and not used.isdisjoint(layer.tops))


def _signature(known: Mapping[int, Array], blobs: Iterable[int]) -> tuple[Any, ...]:
    return tuple([(b, (v := known[b]).shape, v.dtype) for b in blobs])


def _filled(room: Room, blob: int, array: Array) -> Array:
    """What a program is made for instead of a blob: of its shape with room, without values."""
    shape = room.shape(blob, array.shape)
    return array if shape == array.shape else np.broadcast_to(array.dtype.type(0), shape)


def run_layer(layer: BuiltinLayer, bottoms: Sequence[Mat], count: int, opt: Option) -> list[Mat]:
    """Run one layer by itself.

    Parameters
    ----------
    layer : BuiltinLayer
    bottoms : sequence of Mat
    count : int
        Number of outputs.
    opt : Option
        Its number of threads is used.

    Returns
    -------
    list of Mat

    Raises
    ------
    ShapeError
        When an input is empty or the layer cannot take them.

    Examples
    --------
    >>> from pnnx_fast.ncnn.layer import create_layer
    >>> run_layer(create_layer("AbsVal"), [Mat(np.float32([-1, 2]))], 1, Option())[0].numpy()
    array([1., 2.], dtype=float32)
    """
    if any(m._a is None for m in bottoms):
        raise ShapeError("an input of the layer is empty", operator=layer.type)
    key = (len(bottoms), count)
    if key not in layer.alone:
        layer.alone[key] = _compiler_of(layer, *key)
    compiler = layer.alone[key]
    known = {i: np.ascontiguousarray(unpacked(m._a, m._pack)) for i, m in enumerate(bottoms) if m._a is not None}
    tops = list(range(len(bottoms), len(bottoms) + count))
    made = compiler.part(known, tops, False, max(1, opt.num_threads)).run(known)
    return [Mat._of(np.array(made[i])) for i in tops]


def _compiler_of(layer: BuiltinLayer, bottoms: int, tops: int) -> NetCompiler:
    copy = BuiltinLayer(layer.definition)
    copy.build, copy.name, copy.files = layer.build_alone(), layer.name, layer.files
    copy.bottoms = list(range(bottoms))
    copy.tops = list(range(bottoms, bottoms + tops))
    return NetCompiler([copy], [*[-1] * bottoms, *[0] * tops])
