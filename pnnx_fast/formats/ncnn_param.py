"""ncnn's text ``.param`` files: layers, blobs and numbered parameters, read and written byte for byte.

``ncnn_param_bin`` does the same for the binary form; ``pnnx_fast.ncnn`` builds nets from either. Nothing here knows
what a layer means, so files with unknown types are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from pnnx_fast._core import text as _text
from pnnx_fast._types import Array
from pnnx_fast.errors import FormatError, ParameterError

__all__ = [
    "ANY",
    "ARRAY",
    "ARRAY_MARK",
    "INT",
    "MAGIC",
    "MAX_STRING",
    "SLOTS",
    "STRING",
    "LayerRecord",
    "NcnnParam",
    "ParamSlots",
    "Slot",
    "pattern",
    "read_text",
    "unique",
    "write_text",
]

MAGIC = 7767517
SLOTS, MAX_STRING, ARRAY_MARK = _text.NCNN_SLOTS, _text.NCNN_TEXT, _text.NCNN_ARRAY
SPARE_BLOBS = _text.NCNN_SPARE_BLOBS
_BARE_STRING = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")

NULL, ANY, INT, FLOAT, ARRAY, INTS, FLOATS, STRING = _text.NCNN_CODES
"""ncnn's codes of parameter types. ANY and ARRAY hold bits of which nobody knows whether they are int or float."""

Kinds = Mapping[int, Literal["i", "f"]]
"""By parameter number whether a layer type reads it as integers or as floats."""


class Slot(NamedTuple):
    r"""One parameter: a type code and an int, float, str or tuple of int and float.

    Codes ANY and ARRAY hold 32-bit patterns as ints. ``token`` is the text as the file had it.

    Examples
    --------
    >>> param = read_text(b"7767517\n1 1\nInput in 0 1 x 0=8 -23301=2,0.5,1.5\n")
    >>> param.layers[0].params.slot(0)
    Slot(code=2, value=8, token='0=8')
    >>> param.layers[0].params.slot(1).value
    (0.5, 1.5)
    """

    code: int
    value: Any
    token: str | None = None


class ParamSlots:
    """The numbered parameters of a layer.

    Numbers are 0 to 31. Reading converts by value: an int slot asked for a float gives its value, a float slot asked
    for an int gives the default, as do scalars asked for arrays and arrays asked for scalars.

    Examples
    --------
    >>> slots = ParamSlots()
    >>> slots.set(0, 3)
    >>> slots.get_float(0, 1.5), slots.get_int(1, 7), slots.type(0)
    (3.0, 7, 2)
    """

    __slots__ = ("_slots",)

    def __init__(self, slots: Mapping[int, Slot] | None = None) -> None:
        self._slots: dict[int, Slot] = dict(slots or {})

    def __iter__(self) -> Iterator[int]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: int) -> bool:
        return id in self._slots

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParamSlots) and self._slots == other._slots

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return " ".join(f"{id}={slot.value!r}" for id, slot in self._slots.items())

    def slot(self, id: int) -> Slot | None:
        """Return what a slot holds, None when it is unset."""
        return self._slots.get(id)

    def type(self, id: int) -> int:
        """Return ncnn's type code of a slot, 0 when it is unset."""
        slot = self._slots.get(id)
        return NULL if slot is None else slot.code

    def get_int(self, id: int, default: int = 0) -> int:
        """Return a slot as an int."""
        slot = self._slots.get(id)
        return slot.value if slot is not None and slot.code in (ANY, INT) else default

    def get_float(self, id: int, default: float = 0.0) -> float:
        """Return a slot as a float; an int slot gives its value."""
        slot = self._slots.get(id)
        if slot is None or slot.code not in (ANY, INT, FLOAT):
            return default
        return _as_float(slot.value) if slot.code == ANY else float(slot.value)

    def get_ints(self, id: int, default: Iterable[int] = ()) -> tuple[int, ...]:
        """Return an array slot as ints; floats in it are truncated."""
        slot = self._slots.get(id)
        if slot is None or slot.code not in (ARRAY, INTS, FLOATS):
            return tuple(default)
        return tuple(int(v) for v in slot.value)

    def get_floats(self, id: int, default: Iterable[float] = ()) -> tuple[float, ...]:
        """Return an array slot as floats."""
        slot = self._slots.get(id)
        if slot is None or slot.code not in (ARRAY, INTS, FLOATS):
            return tuple(default)
        return tuple(_as_float(v) if slot.code == ARRAY else float(v) for v in slot.value)

    def get_string(self, id: int, default: str = "") -> str:
        """Return a string slot."""
        slot = self._slots.get(id)
        return slot.value if slot is not None and slot.code == STRING else default

    def bits(self, id: int) -> Array | None:
        """Return the elements of an array slot as the int32 patterns that ncnn holds, None for other slots."""
        slot = self._slots.get(id)
        if slot is None or slot.code not in (ARRAY, INTS, FLOATS):
            return None
        return np.array([pattern(v) for v in slot.value], np.int64).astype(np.uint32).view(np.int32)

    def set(self, id: int, value: Any) -> None:
        """Set a slot to an int, float, str or a sequence of int and float.

        Raises
        ------
        ParameterError
            When the number is outside 0 to 31, or the value does not fit.
        """
        if not 0 <= id < SLOTS:
            raise ParameterError(f"parameter number {id} is outside 0 to {SLOTS - 1}")
        self._slots[id] = _slot_of(value)

    def set_slot(self, id: int, slot: Slot) -> None:
        """Set a slot to a value whose type code is known."""
        self._slots[id] = slot

    def clear(self) -> None:
        """Unset all slots."""
        self._slots.clear()


def pattern(value: float) -> int:
    """Return the 32 bits of an int or float as an unsigned number.

    Examples
    --------
    >>> hex(pattern(1.0)), hex(pattern(-1))
    ('0x3f800000', '0xffffffff')
    """
    if isinstance(value, int):
        return value & 0xFFFFFFFF
    return int(np.float32(value).view(np.uint32))


def _as_float(bits: int) -> float:
    return float(np.array(bits & 0xFFFFFFFF, np.uint32).view(np.float32))


def _slot_of(value: Any) -> Slot:
    if isinstance(value, str):
        return Slot(STRING, value)
    if isinstance(value, (bool, int, np.integer)):
        if not -(2**31) <= int(value) < 2**31:
            raise ParameterError(f"{value} does not fit in 32 bits")
        return Slot(INT, int(value))
    if isinstance(value, (float, np.floating)):
        return Slot(FLOAT, float(np.float32(value)))
    items = tuple(_slot_of(item).value for item in value)
    if any(isinstance(item, (str, tuple)) for item in items):
        raise ParameterError("an array holds ints and floats only")
    return Slot(FLOATS if items and isinstance(items[-1], float) else INTS, items)


class LayerRecord:
    """One line of a file: a layer's type and name, the numbers of its blobs, its parameters.

    Parameters
    ----------
    type : str or int
        A name, or in a binary file the number of a type that an application registered.
    name : str
    bottoms, tops : iterable of int
        Places in ``blob_names`` of what it reads and what it makes.
    params : ParamSlots, optional

    Examples
    --------
    >>> layer = LayerRecord("ReLU", "act", [0], [1])
    >>> layer.params.set(0, 0.5)
    >>> layer
    LayerRecord(ReLU act: [0] -> [1], 0=0.5)
    """

    __slots__ = ("_origin", "bottoms", "name", "params", "tops", "type")

    def __init__(
        self,
        type: str | int,
        name: str = "",
        bottoms: Iterable[int] = (),
        tops: Iterable[int] = (),
        params: ParamSlots | None = None,
    ) -> None:
        self.type, self.name = type, name
        self.bottoms, self.tops = list(bottoms), list(tops)
        self.params = ParamSlots() if params is None else params
        self._origin: tuple[str, Any] | None = None

    def __repr__(self) -> str:
        return f"LayerRecord({self.type} {self.name}: {self.bottoms} -> {self.tops}, {self.params})"


class NcnnParam:
    """The contents of a ``.param`` file.

    Attributes
    ----------
    layers : list of LayerRecord
        In order of execution.
    blob_names : list of str
        In order of first appearance; empty strings in what came from a binary file.
    blob_count : int
        Slots that the header declares, at least as many as there are names.

    Examples
    --------
    >>> layers = [LayerRecord("Input", "in", [], [0]), LayerRecord("ReLU", "act", [0], [1])]
    >>> param = NcnnParam(layers, ["x", "y"])
    >>> param
    <NcnnParam: 2 layers, 2 blobs>
    >>> write_text(param).split()[-6:]
    [b'ReLU', b'act', b'1', b'1', b'x', b'y']
    """

    __slots__ = ("_header", "_tail", "blob_count", "blob_names", "layers")

    def __init__(self, layers: Iterable[LayerRecord] = (), blob_names: Iterable[str] = (), blob_count: int = 0) -> None:
        self.layers, self.blob_names = list(layers), list(blob_names)
        self.blob_count = max(blob_count, len(self.blob_names))
        self._header: tuple[str, int, int] | None = None
        self._tail = ""

    def __repr__(self) -> str:
        return f"<NcnnParam: {len(self.layers)} layers, {self.blob_count} blobs>"


def read_text(data: bytes, path: str | None = None) -> NcnnParam:
    r"""Read the text form.

    Parameters
    ----------
    data : bytes
    path : str, optional
        The file, for errors.

    Returns
    -------
    NcnnParam

    Raises
    ------
    FormatError
        Naming line and column of what does not follow the format.

    Examples
    --------
    >>> param = read_text(b"7767517\n2 2\nInput in 0 1 x\nReLU act 1 1 x y 0=0.5\n")
    >>> param.blob_names, param.layers[1]
    (['x', 'y'], LayerRecord(ReLU act: [0] -> [1], 0=0.5))
    """
    try:
        blob_count, rows, end = _text.read_ncnn_layers(data, path)
    except FormatError as error:
        if b"\npnnx.Input " not in data:
            raise
        raise FormatError("this is a model of PNNX; pnnx_fast.load runs it", path=path, line=error.line) from error
    param = NcnnParam()
    numbers: dict[str, int] = {}
    for kind, name, bottoms, tops, raw, begin, stop in rows:
        slots = {id: Slot(value[0], _frozen(value[1]), token) for id, (value, token) in raw.items()}
        layer = LayerRecord(kind, name, params=ParamSlots(slots))
        layer.bottoms = [_number(param.blob_names, numbers, bottom) for bottom in bottoms]
        # A top always takes a new slot; a name that comes again hides the earlier blob only for ncnn's own search.
        for top in tops:
            layer.tops.append(len(param.blob_names))
            numbers.setdefault(top, len(param.blob_names))
            param.blob_names.append(top)
        if len(param.blob_names) > blob_count:
            line = data.count(b"\n", 0, max(stop - 1, 0)) + 1
            raise FormatError(f"layer {name}: more blobs than the {blob_count} of the header", path=path, line=line)
        layer._origin = data[begin:stop].decode("utf-8", "surrogateescape"), _state(layer, param.blob_names)
        param.layers.append(layer)
    param.blob_count = blob_count
    first = rows[0][5]
    param._header = data[:first].decode("utf-8", "surrogateescape"), len(rows), blob_count
    param._tail = data[end:].decode("utf-8", "surrogateescape")
    return param


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _number(names: list[str], numbers: dict[str, int], name: str) -> int:
    if name not in numbers:
        numbers[name] = len(names)
        names.append(name)
    return numbers[name]


def _state(layer: LayerRecord, names: list[str]) -> Any:
    """What decides whether a layer is still as its text says."""
    blobs = [names[i] if i < len(names) else "" for i in (*layer.bottoms, *layer.tops)]
    slots = {id: layer.params.slot(id) for id in layer.params}
    return layer.type, layer.name, len(layer.bottoms), blobs, slots


def write_text(param: NcnnParam, kinds: Mapping[str, Kinds] | None = None) -> bytes:
    r"""Return the text form; lines that nothing changed since reading come out byte for byte.

    Parameters
    ----------
    param : NcnnParam
    kinds : mapping, optional
        By layer type how it reads its parameters, for those that a binary file holds without a type. Without it a
        pattern that would be a float of ordinary size is taken for one.

    Returns
    -------
    bytes

    Raises
    ------
    ParameterError
        When a name or string cannot be expressed in the format.

    Examples
    --------
    >>> param = read_text(b"7767517\n2 2\nInput in 0 1 x\nReLU act 1 1 x y\n")
    >>> param.layers[1].params.set(0, 0.5)
    >>> print(write_text(param).decode())
    7767517
    2 2
    Input in 0 1 x
    ReLU                     act                      1 1 x y 0=0.5
    <BLANKLINE>
    """
    names = _complete_names(param)
    header = param._header
    changed = header is None or header[1:] != (len(param.layers), param.blob_count)
    parts = [f"{MAGIC}\n{len(param.layers)} {param.blob_count}\n" if changed or header is None else header[0]]
    for i, layer in enumerate(param.layers):
        if layer._origin is not None and layer._origin[1] == _state(layer, param.blob_names):
            parts.append(layer._origin[0])
            continue
        if not parts[-1].endswith("\n"):
            parts.append("\n")
        parts.append(_line(layer, layer.name or f"layer_{i}", names, (kinds or {}).get(str(layer.type), {})))
    return "".join([*parts, param._tail]).encode("utf-8", "surrogateescape")


def unique(taken: set[str], *candidates: str) -> str:
    """Return the first candidate that is not taken, else the last one with underscores behind it; it is taken then.

    Parameters
    ----------
    taken : set of str
        Gets the name.
    *candidates : str

    Examples
    --------
    >>> taken = {"x", "x_1"}
    >>> unique(taken, "x", "x_2"), unique(taken, "x", "x_1"), sorted(taken)
    ('x_2', 'x_1_', ['x', 'x_1', 'x_1_', 'x_2'])
    """
    name = next((word for word in candidates if word not in taken), candidates[-1])
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _complete_names(param: NcnnParam) -> list[str]:
    """Blob names, with numbers where a binary file gave none."""
    taken = set(param.blob_names)
    given = [*param.blob_names, *[""] * (param.blob_count - len(param.blob_names))]
    return [name or unique(taken, str(i), f"blob_{i}") for i, name in enumerate(given)]


def _line(layer: LayerRecord, name: str, names: list[str], kinds: Kinds) -> str:
    if not isinstance(layer.type, str):
        raise ParameterError(f"layer {name}: the text form needs the name of type {layer.type}")
    bottoms, tops = [names[i] for i in layer.bottoms], [names[i] for i in layer.tops]
    for word in (layer.type, name, *bottoms, *tops):
        if not word or len(word.encode("utf-8", "surrogateescape")) > MAX_STRING or len(word.split()) != 1:
            raise ParameterError(f"layer {name}: the name {word!r} is empty, too long or holds a blank")
    head = f"{layer.type:<24s} {name:<24s} {len(bottoms)} {len(tops)}"
    params = [_token(name, id, layer.params.slot(id), kinds.get(id)) for id in layer.params]
    return " ".join([head, *bottoms, *tops, *params]) + "\n"


def _token(layer: str, id: int, slot: Slot | None, kind: str | None) -> str:
    assert slot is not None
    if slot.token is not None:
        return slot.token
    if slot.code == STRING:
        text = slot.value
        if len(text.encode("utf-8", "surrogateescape")) > MAX_STRING or re.search(r'["\r\n]', text):
            raise ParameterError(f"layer {layer}: the string {text!r} cannot be written")
        return f"{id}={text}" if _BARE_STRING.match(text) else f'{id}="{text}"'
    if slot.code in (ANY, INT, FLOAT):
        return f"{id}={_number_text(slot.value, slot.code == ANY, kind)}"
    items = [_number_text(v, slot.code == ARRAY, kind) for v in slot.value]
    return f"{-ARRAY_MARK - id}=" + ",".join([str(len(items)), *items])


def _number_text(value: float, untyped: bool, kind: str | None) -> str:
    if untyped:
        bits = int(value)
        real = _as_float(bits)
        ordinary = 1e-20 < abs(real) < 1e20 and abs(bits) > 1 << 23
        # A pattern that is no number cannot be written as one, whatever reads it.
        value = real if np.isfinite(real) and (kind == "f" or (kind is None and ordinary)) else bits
    if type(value) is float:
        if not np.isfinite(value):
            raise ParameterError(f"{value} cannot be written as a parameter")
        return _text.format_float(value)
    return str(value)
