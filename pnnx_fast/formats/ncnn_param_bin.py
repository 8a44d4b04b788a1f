"""ncnn's binary ``.param.bin`` files: 32-bit little-endian words without any names, and the ``.id.h`` beside them.

Layer types are numbers in ncnn's list, blobs are numbers, parameters are bits without a type. Used by
``pnnx_fast.ncnn`` and the command line.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pnnx_fast.errors import FormatError, LimitError, ParameterError
from pnnx_fast.formats.ncnn_param import (
    ANY,
    ARRAY,
    ARRAY_MARK,
    INT,
    MAGIC,
    MAX_STRING,
    SLOTS,
    SPARE_BLOBS,
    STRING,
    LayerRecord,
    NcnnParam,
    Slot,
    pattern,
    unique,
)
from pnnx_fast.formats.ncnn_types import CUSTOM_BIT, type_name, type_number

__all__ = ["id_header", "names_from_header", "read_binary", "write_binary"]

_END = -233
_STRING_MARK = ARRAY_MARK + 100


class _Words:
    """A cursor over little-endian words that never reads outside the data."""

    def __init__(self, data: bytes | memoryview, path: str | None) -> None:
        self.data, self.path, self.at = memoryview(data).cast("B"), path, 0

    def fail(self, reason: str, at: int | None = None, error: type[FormatError] = FormatError) -> FormatError:
        return error(reason, path=self.path, offset=self.at if at is None else at)

    def word(self, what: str) -> int:
        if self.at + 4 > len(self.data):
            raise self.fail(f"the file ends before {what}")
        (value,) = struct.unpack_from("<i", self.data, self.at)
        self.at += 4
        return int(value)

    def words(self, count: int, what: str) -> tuple[int, ...]:
        if count < 0 or count > (len(self.data) - self.at) // 4:
            raise self.fail(f"{count} words of {what} do not fit in the file", self.at - 4, LimitError)
        values = struct.unpack_from(f"<{count}i", self.data, self.at)
        self.at += 4 * count
        return values

    def text(self, size: int) -> str:
        padded = (size + 3) // 4 * 4
        if not 0 <= size <= MAX_STRING or self.at + padded > len(self.data):
            raise self.fail(f"a string of {size} bytes", self.at - 4, LimitError)
        raw = bytes(self.data[self.at : self.at + padded])
        self.at += padded
        return raw.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def read_binary(data: bytes | memoryview, path: str | None = None) -> NcnnParam:
    r"""Read the binary form.

    Parameters
    ----------
    data : bytes or memoryview
    path : str, optional
        The file, for errors.

    Returns
    -------
    NcnnParam
        Without names of layers and blobs; parameters have the codes ANY and ARRAY, or STRING.

    Raises
    ------
    FormatError
        Naming the byte offset of what does not follow the format.

    Examples
    --------
    >>> from pnnx_fast.formats.ncnn_param import read_text
    >>> data = write_binary(read_text(b"7767517\n2 2\nInput in 0 1 x\nReLU act 1 1 x y 0=0.5\n"))
    >>> param = read_binary(data)
    >>> param, param.layers[1].type, hex(param.layers[1].params.slot(0).value)
    (<NcnnParam: 2 layers, 2 blobs>, 'ReLU', '0x3f000000')
    """
    words = _Words(data, path)
    magic = words.word("the magic number")
    if magic != MAGIC:
        raise words.fail(f"the magic number is {magic}, not {MAGIC}", 0)
    layer_count, blob_count = words.word("the number of layers"), words.word("the number of blobs")
    if layer_count <= 0 or blob_count <= 0:
        raise words.fail(f"{layer_count} layers and {blob_count} blobs", 4)
    # Each layer has four words, and a blob that the file means to use is named in some word.
    if layer_count > len(words.data) // 16 or blob_count - SPARE_BLOBS > len(words.data) // 4:
        raise words.fail(f"{layer_count} layers and {blob_count} blobs are too many", 4, LimitError)
    layers = [_read_layer(words, blob_count) for _ in range(layer_count)]
    used = 1 + max((i for layer in layers for i in (*layer.bottoms, *layer.tops)), default=-1)
    return NcnnParam(layers, [""] * used, blob_count)


def _read_layer(words: _Words, blob_count: int) -> LayerRecord:
    start = words.at
    number = words.word("a layer type")
    name = type_name(number)
    if name is None and (number < 0 or not number & CUSTOM_BIT):
        raise words.fail(f"there is no layer type {number}", start)
    n_bottoms, n_tops = words.word("a number of bottom blobs"), words.word("a number of top blobs")
    layer = LayerRecord(number if name is None else name)
    for blobs, count in ((layer.bottoms, n_bottoms), (layer.tops, n_tops)):
        begin = words.at
        blobs.extend(words.words(count, "blob numbers"))
        wrong = [i for i in blobs if not 0 <= i < blob_count]
        if wrong:
            raise words.fail(f"blob number {wrong[0]} of {blob_count}", begin)
    while (mark := words.word("the end of the parameters")) != _END:
        _read_slot(words, layer, mark)
    return layer


def _read_slot(words: _Words, layer: LayerRecord, mark: int) -> None:
    at = words.at - 4
    base = _STRING_MARK if mark <= -_STRING_MARK else ARRAY_MARK if mark <= -ARRAY_MARK else 0
    id = -mark - base if base else mark
    if not 0 <= id < SLOTS:
        raise words.fail(f"parameter number {id} is outside 0 to {SLOTS - 1}", at)
    if base == _STRING_MARK:
        slot = Slot(STRING, words.text(words.word("the length of a string")))
    elif base:
        slot = Slot(ARRAY, words.words(words.word("the length of an array"), "an array"))
    else:
        slot = Slot(ANY, words.word("a parameter"))
    layer.params.set_slot(id, slot)


def write_binary(param: NcnnParam, custom_types: Sequence[str] = ()) -> bytes:
    r"""Return the binary form.

    Parameters
    ----------
    param : NcnnParam
    custom_types : sequence of str
        Names of the types that the application will register, in the order of registration.

    Returns
    -------
    bytes

    Raises
    ------
    ParameterError
        When a layer type is neither built in nor among ``custom_types``.

    Examples
    --------
    >>> from pnnx_fast.formats.ncnn_param import read_text
    >>> param = read_text(b"7767517\n2 2\nInput in 0 1 x\nMine m 1 1 x y\n")
    >>> data = write_binary(param, custom_types=["Mine"])
    >>> len(data), [layer.type for layer in read_binary(data).layers]
    (56, ['Input', 256])
    """
    out = [struct.pack("<3i", MAGIC, len(param.layers), param.blob_count)]
    for layer in param.layers:
        number = _number(layer, custom_types)
        blobs = (*layer.bottoms, *layer.tops)
        out.append(struct.pack(f"<{3 + len(blobs)}i", number, len(layer.bottoms), len(layer.tops), *blobs))
        for id in layer.params:
            slot = layer.params.slot(id)
            assert slot is not None
            out.append(_slot_bytes(layer, id, slot))
        out.append(struct.pack("<i", _END))
    return b"".join(out)


def _number(layer: LayerRecord, custom_types: Sequence[str]) -> int:
    if isinstance(layer.type, int):
        return layer.type
    number = type_number(layer.type)
    if number < 0 and layer.type in custom_types:
        number = CUSTOM_BIT | list(custom_types).index(layer.type)
    if number < 0:
        raise ParameterError(f"layer {layer.name}: no number for the type {layer.type}; name it in custom_types")
    return number


def _slot_bytes(layer: LayerRecord, id: int, slot: Slot) -> bytes:
    if slot.code == STRING:
        raw = slot.value.encode("utf-8", "surrogateescape")
        if len(raw) > MAX_STRING:
            raise ParameterError(f"layer {layer.name}: a string of {len(raw)} bytes")
        return struct.pack("<2i", -_STRING_MARK - id, len(raw)) + bytes(raw) + bytes(-len(raw) % 4)
    if isinstance(slot.value, tuple):
        items = [pattern(v) for v in slot.value]
        return struct.pack(f"<2i{len(items)}I", -ARRAY_MARK - id, len(items), *items)
    return struct.pack("<iI", id, pattern(int(slot.value) if slot.code == INT else slot.value))


def id_header(param: NcnnParam, name: str) -> str:
    r"""Return the C header with the numbers of layers and blobs under sanitised names, each of which is there once.

    Parameters
    ----------
    param : NcnnParam
        From a text file, so that there are names.
    name : str
        Of the model; becomes the name of the namespace and of the include guard.

    Returns
    -------
    str

    Examples
    --------
    >>> from pnnx_fast.formats.ncnn_param import read_text
    >>> print(id_header(read_text(b"7767517\n1 1\nInput in-0 0 1 x\n"), "net"))
    #ifndef NCNN_INCLUDE_GUARD_net_id_h
    #define NCNN_INCLUDE_GUARD_net_id_h
    namespace net_id {
    const int LAYER_in_0 = 0;
    const int BLOB_x = 0;
    } // namespace net_id
    #endif // NCNN_INCLUDE_GUARD_net_id_h
    <BLANKLINE>
    """
    space = _sanitised(name)
    guard = f"NCNN_INCLUDE_GUARD_{space}_id_h"
    lines = [f"#ifndef {guard}", f"#define {guard}", f"namespace {space}_id {{"]
    for kind, names in (("LAYER", (layer.name for layer in param.layers)), ("BLOB", param.blob_names)):
        distinct = _distinct(enumerate(map(_sanitised, names)))
        lines += [f"const int {kind}_{word} = {i};" for i, word in distinct]
    return "\n".join([*lines, f"}} // namespace {space}_id", f"#endif // {guard}", ""])


def _sanitised(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def _distinct(names: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Numbers and names; a name that was there before gets its number behind it."""
    taken: set[str] = set()
    for index, name in names:
        yield index, unique(taken, name, f"{name}_{index}")


def names_from_header(param: NcnnParam, header: str) -> Mapping[str, int]:
    r"""Give layers and blobs of a binary file the names of its ``.id.h``; returns name to blob number.

    ncnn2mem gives different blobs the same name when they differ in signs alone. A text would take them for one blob,
    so all but the first get their number behind the name.

    Parameters
    ----------
    param : NcnnParam
        From a binary file; changed in place.
    header : str
        Text of the ``.id.h``.

    Returns
    -------
    mapping of str to int
        Numbers of blobs by name.

    Examples
    --------
    >>> from pnnx_fast.formats.ncnn_param import read_text
    >>> named = read_text(b"7767517\n2 2\nInput in 0 1 x\nReLU act 1 1 x y\n")
    >>> param = read_binary(write_binary(named))
    >>> names_from_header(param, id_header(named, "net")), param.layers[1].name
    ({'x': 0, 'y': 1}, 'act')
    """
    found: dict[str, dict[int, str]] = {"LAYER": {}, "BLOB": {}}
    for kind, name, number in re.findall(r"const int (LAYER|BLOB)_(\w+) = (\d{1,9});", header):
        found[kind][int(number)] = name
    for index, name in _distinct(found["LAYER"].items()):
        if index < len(param.layers):
            param.layers[index].name = name
    blobs = {name: index for index, name in _distinct(found["BLOB"].items()) if index < len(param.blob_names)}
    for name, index in blobs.items():
        param.blob_names[index] = name
    return blobs
