"""A whole PNNX model: finds the two files, binds weights to attributes, writes both files safely.

The codec behind ``Graph.load`` and ``Graph.save``. Text is the business of ``pnnx_param``, the container of
weights that of ``store_zip``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import IO, Any, Literal

from pnnx_fast._files import bin_path, param_path
from pnnx_fast._types import PathLike, Source, Target
from pnnx_fast.errors import FormatError, GraphError, ParameterError
from pnnx_fast.formats import pnnx_param
from pnnx_fast.formats.pnnx_param import DEFAULT_LIMITS, Limits, WeightPlace
from pnnx_fast.formats.store_zip import StoreZipReader, StoreZipWriter, write_all
from pnnx_fast.ir import Attribute, Graph, Operator
from pnnx_fast.ir.mapped import files_of, require_unchanged

__all__ = ["load", "parse", "problems", "python", "save", "write_weights"]

# Old archives count offsets in 32 bits; names and headers need some of them.
_ZIP32_BYTES, _ZIP32_ENTRIES = 1 << 31, 65534

_TO_CONVERT = (".pt", ".pth", ".onnx")
"""Names of files that pnnx reads, so that people may take them for what it writes."""

_LOOKED_UP = ("nn.Embedding", "nn.EmbeddingBag")
"""Operators that read some rows of their weights."""


def load(
    param: Source,
    bin: Source | None = None,
    verify: bool = True,
    limits: Limits | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> Graph:
    """Read a model from paths, bytes or file objects; see :meth:`Graph.load` and :class:`pnnx_fast.ir.codec.Codec`."""
    if isinstance(param, str) and "\n" in param:
        raise TypeError("param is text, not a path: give text.encode(), or use Graph.parse where there are no weights")
    if isinstance(param, str | os.PathLike):
        path = param_path(param)
        with open(path, "rb") as file:
            data = file.read()
        bin = bin_path(path) if bin is None else bin
        name: str | None = path
    else:
        data, name = _content(param), getattr(param, "name", None)
    try:
        graph, places = pnnx_param.read(data, name if isinstance(name, str) else None, limits=limits or DEFAULT_LIMITS)
    except FormatError as error:
        if str(name).endswith(_TO_CONVERT) and type(error) is FormatError:
            raise FormatError(f"{error.reason}. Convert this model with pnnx first", path=error.path) from None
        raise
    if _is_ncnn(graph):
        raise FormatError("this is a model of ncnn, which pnnx_fast.ncnn.Net loads, not one of PNNX", path=name)
    _bind(graph, places, bin, name, verify, meanwhile)
    return graph


def parse(text: str) -> Graph:
    """Read a graph or pattern from text; see :meth:`Graph.parse`."""
    if not isinstance(text, str):
        raise TypeError(f"Graph.parse takes the text of a .param file as a str, not {type(text).__name__}")
    return pnnx_param.read(text.encode(), pattern=True)[0]


def _content(source: Source) -> bytes:
    content: Any = source.read() if hasattr(source, "read") else source
    if isinstance(content, str):
        return content.encode()
    try:
        return bytes(memoryview(content))
    except TypeError:
        wanted = "a path, bytes or a file object"
        raise TypeError(f"param is {wanted} with the .param file, not {type(source).__name__}") from None


def _is_ncnn(graph: Graph) -> bool:
    """Whether the text is that of ncnn's format, which has the same magic number and form of lines."""
    types = {op.type for op in graph.ops}
    return "Input" in types and not any(type.startswith("pnnx.") for type in types)


def _bind(
    graph: Graph,
    places: list[WeightPlace],
    bin: Source | None,
    name: str | None,
    verify: bool,
    meanwhile: Callable[[], object] | None,
) -> None:
    """Give every attribute its bytes; the first one that does not fit is an error."""
    needed = [place for place in places if place.operator.attrs[place.key].dtype is not None]
    if isinstance(bin, str | os.PathLike) and not os.path.exists(bin) and not needed:
        return
    if bin is None:
        if needed:
            raise _misfit(needed[0], name, "has no data, because no .bin was given")
        return
    if isinstance(bin, str | os.PathLike) and not os.path.exists(bin):
        raise FileNotFoundError(f"{bin}: weights of {name} not found")
    reader = StoreZipReader(bin, verify=verify)
    graph.store_layout = reader.layout
    weights = {f"{place.operator.name}.{place.key}": place.operator.type for place in needed}
    reader.check(weights, {weight for weight, type in weights.items() if type in _LOOKED_UP}, meanwhile)
    _take(needed, reader, bin, name)


def _take(needed: list[WeightPlace], reader: StoreZipReader, bin: Source, path: str | None) -> None:
    asked = Counter(f"{place.operator.name}.{place.key}" for place in needed)
    taken: dict[str, list[Attribute]] = {}
    for place in needed:
        weight = f"{place.operator.name}.{place.key}"
        attr = place.operator.attrs[place.key]
        above = taken.setdefault(weight, [])
        # Operators of one name have an entry each, in the same order. Where they have one together, they share it: a
        # module that is called twice.
        which = len(above) if 1 < asked[weight] == reader.count(weight) else -1
        above.append(attr)
        if which < 0 and (above[0].dtype, above[0].shape) != (attr.dtype, attr.shape):
            raise _misfit(place, path, f"has the name of a weight above, but not its shape {above[0].signature}")
        if weight not in reader and attr.nbytes == 0:
            continue
        if weight not in reader:
            raise _misfit(place, path, f"is missing in {_label(bin)}")
        size = reader.size(weight, which)
        if size != attr.nbytes:
            raise _misfit(place, path, f"has {size} bytes in {_label(bin)}, its shape needs {attr.nbytes}")
        try:
            attr.data = reader.view(weight, which).data
        except FormatError as e:
            raise _misfit(place, path, f"cannot be read: {e}") from e


def _label(bin: Source) -> str:
    return os.fspath(bin) if isinstance(bin, str | os.PathLike) else getattr(bin, "name", "the .bin data")


def _misfit(place: WeightPlace, path: str | None, reason: str) -> FormatError:
    weight = f"{place.operator.name}.{place.key}"
    return FormatError(f"weight {weight} {reason}", path=path, line=place.line, column=place.column)


def save(graph: Graph, param: Target, bin: Target | None = None) -> None:
    """Write a model to paths or file objects; see :meth:`Graph.save`."""
    ops = _in_order(graph)
    weights, content = _weights(ops), pnnx_param.write(graph, ops)
    if isinstance(param, str | os.PathLike):
        if os.fspath(param).endswith(".bin"):
            raise ParameterError(f"{os.fspath(param)} would become the text of a model; its weights are named by bin")
        bin = bin_path(param) if bin is None else bin
    elif bin is None:
        raise TypeError("saving to a file object needs bin, too")
    from pnnx_fast.formats.atomic import AtomicFiles

    # Weights are in place first: a loaded model may keep them open, which some systems do not replace then, and an old
    # text finds no weight that the new graph has folded away, where a new text may take old weights for its own.
    with AtomicFiles() as files:
        _write_weights(graph, weights, files.open(bin))
        write_all(files.open(param), content)


def _in_order(graph: Graph) -> list[Operator]:
    """Operators in an order in which producers come first, as the text needs it: that of the graph if it is one."""
    ops = list(graph.topological())
    # Where an operator takes what one outside the graph makes there is no such order; the writer names it.
    return ops if len(ops) == len(graph.ops) else graph.ops


def problems(graph: Graph) -> list[str]:
    """Return what keeps a consistent graph from being saved."""
    return pnnx_param.problems(_in_order(graph))


def write_weights(graph: Graph, file: IO[bytes]) -> None:
    """Write the archive of weights alone."""
    _write_weights(graph, _weights(_in_order(graph)), file)


def python(graph: Graph, path: PathLike, bin: PathLike | None = None) -> None:
    """Write a PyTorch module; see :meth:`Graph.python`."""
    # Few callers want it.
    from pnnx_fast.formats import python_source

    python_source.write(graph, path, bin)


def _write_weights(graph: Graph, weights: list[tuple[str, Attribute]], file: IO[bytes]) -> None:
    with StoreZipWriter(file, layout=_layout(graph, weights), duplicates=True) as writer:
        for name, attr in weights:
            writer.write(name, attr.data if attr.dtype is not None else b"")


def _weights(ops: list[Operator]) -> list[tuple[str, Attribute]]:
    """Every attribute with its name in the weight file, in the order of the file."""
    require_unchanged(files_of(ops))
    entries: list[tuple[str, Attribute]] = []
    found: dict[str, Attribute] = {}
    for op in ops:
        for key in sorted(op.attrs):
            name, attr = f"{op.name}.{key}", op.attrs[key]
            if not isinstance(attr, Attribute):
                raise GraphError([f"weight {name} is a {type(attr).__name__}; pnnx_fast.Attribute(value) makes one"])
            if op.type != "pnnx.Attribute" and found.setdefault(name, attr) != attr:
                raise GraphError([f"two different weights are called {name}"])
            entries.append((name, attr))
            size = memoryview(attr.data).nbytes
            if attr.dtype is not None and size != attr.nbytes:
                raise GraphError([f"weight {name} has {size} bytes, its shape needs {attr.nbytes}"])
    return entries


def _layout(graph: Graph, weights: list[tuple[str, Attribute]]) -> Literal["zip64", "zip32"]:
    total = sum(attr.nbytes for _, attr in weights)
    return graph.store_layout if total < _ZIP32_BYTES and len(weights) <= _ZIP32_ENTRIES else "zip64"
