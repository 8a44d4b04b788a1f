"""Extractor: one run of a net, from the blobs that are given to those that are asked for.

Only what an asked blob needs is computed, and nothing twice: the first run keeps what other blobs will need. When blobs
of a net have been asked for together before, they are computed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import PnnxFastError, ShapeError
from pnnx_fast.ncnn.compiled import NetCompiler
from pnnx_fast.ncnn.habits import Way
from pnnx_fast.ncnn.layer import BuiltinLayer, Layer
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.memory import unpacked
from pnnx_fast.ncnn.option import Option, warn
from pnnx_fast.ncnn.values import UNFORESEEN

if TYPE_CHECKING:
    from pnnx_fast.ncnn.net import Net

__all__ = ["Extractor"]

_FLOAT = np.dtype(np.float32)
_HELD = frozenset(("float16", "int8", "uint8", "int16", "int32", "bool"))
_HANDED_AS_FLOATS = frozenset(map(np.dtype, (np.bool_, np.float16, np.float64)))


class Extractor:
    """One run of a net: give blobs with ``input``, get blobs with ``extract``. Net.create_extractor makes it.

    Examples
    --------
    >>> from pnnx_fast.ncnn import Net
    >>> net = Net()
    >>> net.load_param_mem("7767517\\n2 2\\nInput in 0 1 x\\nReLU act 1 1 x y\\n"), net.load_model_mem(b"")
    (0, 0)
    >>> with net.create_extractor() as ex:
    ...     code = ex.input("x", Mat(np.float32([-1, 2])))
    ...     ex.extract("y")[1].numpy()
    array([0., 2.], dtype=float32)
    """

    _net: Net
    _opt: Option
    _given: dict[int, Array]
    _made: dict[int, Array]
    _way: Way | None

    __slots__ = ("__weakref__", "_given", "_made", "_net", "_opt", "_way")

    def __init__(self) -> None:
        raise TypeError("ncnn.Extractor: No constructor defined! Use Net.create_extractor()")

    @classmethod
    def _of(cls, net: Net) -> Extractor:
        self = cls.__new__(cls)
        self._net, self._opt = net, net.opt.shared()
        self._given, self._made, self._way = {}, {}, None
        return self

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *args: object) -> None:
        self.clear()

    # -- settings ----------------------------------------------------------------------------------------------

    def set_light_mode(self, enable: bool) -> None:
        """Accept ncnn's option to drop intermediate values; it has no effect."""
        self._set("lightmode", bool(enable))

    def set_num_threads(self, num_threads: int) -> None:
        """Set the number of threads of this run."""
        self._set("num_threads", int(num_threads))

    def set_blob_allocator(self, allocator: Any) -> None:
        """Remembered only."""
        self._set("blob_allocator", allocator)

    def set_workspace_allocator(self, allocator: Any) -> None:
        """Remembered only."""
        self._set("workspace_allocator", allocator)

    def set_kvcache_allocator(self, allocator: Any) -> None:
        """Remembered only."""
        self._set("kvcache_allocator", allocator)

    def set_kvcache_max_seqlen_hint(self, max_seqlen_hint: int) -> None:
        """Remembered only."""
        self._set("kvcache_max_seqlen_hint", int(max_seqlen_hint))

    def _set(self, name: str, value: Any) -> None:
        self._opt = self._opt.copy()
        setattr(self._opt, name, value)
        self._way = None

    def clear(self) -> None:
        """Forget everything; the extractor can no longer be used."""
        self._net = type(self._net)()
        self._given, self._made, self._way = {}, {}, None

    # -- inputs and outputs ------------------------------------------------------------------------------------

    def input(self, blob_name: str | int = "", mat: Mat | None = None, **others: Any) -> int:
        """Give a blob; what was computed before is forgotten.

        Parameters
        ----------
        blob_name : str or int
            Name or number, of any blob. ``blob_index`` is another name of this parameter.
        mat : Mat
            Its memory is not copied. An empty Mat takes the blob back. ``in`` is another name of this parameter.

        Returns
        -------
        int
            0, or -1 and a warning when there is no such blob or the Mat is packed.

        Raises
        ------
        TypeError
            When it is no Mat.
        """
        if others:  # not by a decorator, which every call would pay for
            blob_name, mat = others.pop("blob_index", blob_name), others.pop("in", mat)
        if others or not isinstance(mat, Mat):
            got = ", ".join([type(mat).__name__, *others])
            raise TypeError(f"input(): incompatible function arguments: a Mat is wanted, not {got}")
        number = self._net._numbers.get(blob_name, -1)  # type: ignore[arg-type]
        if number < 0 and (number := self._find(blob_name, "input")) < 0:
            return -1
        if mat._pack != 1:
            warn(f"input {blob_name} has elempack {mat._pack}, not 1")
            return -1
        array, given = mat._a, self._given
        # What was computed from other inputs no longer holds. An empty Mat is like no input.
        self._made, self._way = {}, None
        if array is not None and array.size:
            try:
                given[number] = _as_input(array)
            except ShapeError as error:
                warn(f"input {blob_name}: {error}")
                return -1
        elif number in given:
            del given[number]
        return 0

    @overload
    def extract(self, blob_name: str | int, type: int = 0) -> tuple[int, Mat]: ...

    @overload
    def extract(self, blob_name: str | int, feat: Mat, type: int = 0) -> int: ...

    def extract(self, blob_name: str | int = "", *args: Any, **kwargs: Any) -> Any:
        """Compute a blob.

        Parameters
        ----------
        blob_name : str or int
            Name or number, of any blob. ``blob_index`` is another name of this parameter.
        feat : Mat, optional
            Receives the blob; then only the code is returned.
        type : int
            With 1, quantised blobs stay int8.

        Returns
        -------
        (int, Mat) or int
            0 and the blob; -1 when there is no such blob and -100 when it cannot be computed, with an empty Mat and a
            warning that says why.

        Raises
        ------
        TypeError
            When the arguments are others.
        """
        if not args and not kwargs:
            return self._extract(blob_name, 0)
        blob_name, values = kwargs.pop("blob_index", blob_name), list(args)
        feat = kwargs.get("feat", values.pop(0) if values and isinstance(values[0], Mat) else None)
        kind = int(kwargs.get("type", values.pop(0) if values else 0))
        if values or not kwargs.keys() <= {"feat", "type"}:
            raise TypeError(f"extract(): incompatible function arguments: {[*values, *kwargs]}")
        code, mat = self._extract(blob_name, kind)
        if feat is None:
            return code, mat
        feat._share(mat)
        return code

    def _find(self, blob: str | int, what: str) -> int:
        """Return the number of a blob that is named by its number, -1 and a warning where there is none."""
        if isinstance(blob, str):
            names = self._net.input_names() if what == "input" else self._net.output_names()
            warn(f"{what}: there is no blob {blob!r}; try one of {names}")
            return -1
        if 0 <= blob < len(self._net._blobs):
            return int(blob)
        warn(f"{what}: there is no blob {blob}")
        return -1

    def _extract(self, blob: str | int, kind: int) -> tuple[int, Mat]:
        number = self._net._numbers.get(blob, -1)  # type: ignore[arg-type]
        if number < 0 and (number := self._find(blob, "extract")) < 0:
            return -1, Mat()
        try:
            value = self._value(number)
        except PnnxFastError as error:
            warn(f"extract {self._net.blobs()[number].name or number}: {error}")
            return -100, Mat()
        return 0, Mat._of(_as_output(value, kind))

    # -- computing ---------------------------------------------------------------------------------------------

    def _value(self, number: int) -> Array:
        given = self._given.get(number)
        if given is not None:
            return given.copy()
        way = self._way
        if way is None:
            way = self._way = self._net._compile().way(self._given, self._opt.num_threads)
        value = self._made.get(number)
        if value is None:
            value = self._compute(way, number)
        way.habit.asked(number)
        # What other layers may still need is copied, as the application may write to what it gets.
        return value.copy() if self._net._blobs[number].consumer >= 0 else value

    def _compute(self, way: Way, number: int) -> Array:
        """Compute a blob, together with those that this net's applications have asked for beside it."""
        usual, made = way.habit.usual, self._made
        try:
            part = None if made else way.parts.get(usual)
            if part is not None and number in usual:
                self._made = part.run(self._given)
            elif number in usual and made.keys().isdisjoint(usual):
                self._compute_usual(way, usual, number)
            else:
                usual = ()
                self._reach([number], True)
        except _FAILURES:
            if not usual:
                raise
            self._reach([number], True)
        else:
            if len(usual) > 1:
                way.habit.computed(usual)
        return self._made[number]

    def _compute_usual(self, way: Way, usual: tuple[int, ...], number: int) -> None:
        """Compute what is usually asked for at once, unless the application's own layers would run too early."""
        compiler, known = self._net._compile(), self._known()
        part = compiler.whole(known, usual, self._threads())
        if part is not None:
            if known is self._given:
                way.keep(usual, part)
            self._made.update(part.run(known))
            return
        together = all(isinstance(compiler.layers[i], BuiltinLayer) for i in compiler.needed(known, usual))
        self._reach(usual if together else [number], not together)

    def _reach(self, targets: Sequence[int], extra: bool) -> None:
        """Compute blobs; layers that must run by themselves are boundaries between models."""
        compiler = self._net._compile()
        while (layer := compiler.boundary(self._known(), targets)) is not None:
            missing = [b for b in layer.bottoms if b not in self._known()]
            if missing:
                self._reach(missing, True)
            self._run_alone(compiler, layer)
        known = self._known()
        wanted = [b for b in targets if b not in known]
        if wanted:
            self._run_part(compiler, wanted, extra)

    def _run_part(self, compiler: NetCompiler, targets: Sequence[int], extra: bool) -> None:
        known = self._known()
        try:
            self._made.update(compiler.part(known, targets, extra, self._threads()).run(known))
        except PnnxFastError:
            raise
        except UNFORESEEN as error:
            raise ShapeError(f"these blobs cannot be computed: {error}") from error

    def _known(self) -> dict[int, Array]:
        return {**self._made, **self._given} if self._made else self._given

    def _threads(self) -> int:
        return max(1, int(self._opt.num_threads))

    def _run_alone(self, compiler: NetCompiler, layer: Layer) -> None:
        known = self._known()
        if isinstance(layer, BuiltinLayer):
            self._run_part(compiler, layer.tops, False)
            return
        bottoms = [Mat._of(known[b].copy()) for b in layer.bottoms]
        tops = _call_custom(layer, bottoms, self._opt.copy())
        if len(tops) < len(layer.tops):
            raise ShapeError("number of top blobs", expected=len(layer.tops), actual=len(tops), operator=layer.where)
        for number, mat in zip(layer.tops, tops, strict=False):
            if not isinstance(mat, Mat) or mat._a is None:
                raise ShapeError("a top blob stayed empty", operator=layer.where)
            self._made[number] = _as_input(np.ascontiguousarray(unpacked(mat._a, mat._pack)))


_FAILURES = PnnxFastError, *UNFORESEEN


def _call_custom(layer: Layer, bottoms: list[Mat], opt: Option) -> list[Mat]:
    """Run an application's layer on Mats of its own."""
    where = layer.where
    if layer.support_inplace and type(layer).forward is Layer.forward:
        code = layer.forward_inplace(bottoms[0] if layer.one_blob_only else bottoms, opt)
        tops = bottoms
    else:
        tops = [Mat() for _ in layer.tops]
        if layer.one_blob_only:
            code = layer.forward(bottoms[0], tops[0], opt)
        else:
            code = layer.forward(bottoms, tops, opt)
    if code:
        raise ShapeError(f"forward returned {code}", operator=where)
    return tops


def _as_input(array: Array) -> Array:
    """An input in a type that models take: large integers keep their lower bits, other numbers become float32."""
    dtype = array.dtype
    if dtype == _FLOAT or dtype.name in _HELD:
        return array
    if dtype.kind not in "fiu":
        raise ShapeError("elements of an unknown type", actual=dtype)
    return array.astype(np.int32 if dtype.kind in "iu" else np.float32)


def _as_output(array: Array, kind: int) -> Array:
    """A blob in the type in which it is handed out."""
    dtype = array.dtype
    if dtype == _FLOAT:
        return array
    if dtype in _HANDED_AS_FLOATS or (dtype == np.int8 and kind != 1):
        return array.astype(np.float32)
    return array.astype(np.int32) if dtype.itemsize == 8 and dtype.kind in "iu" else array
