"""Conversion of parameter files between the text and the binary form, as ncnn2mem does it, and back.

``python -m pnnx_fast.ncnn.convert FROM TO`` writes a text file's binary form with the ``.id.h`` beside it, or a binary
file's text. The binary form has neither names nor types of numbers: names come from the ``.id.h``, types from how each
layer type reads its parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from os.path import splitext
from pathlib import Path
from typing import Literal

from pnnx_fast.errors import ParameterError, PnnxFastError
from pnnx_fast.formats.atomic import AtomicFiles
from pnnx_fast.formats.ncnn_param import MAGIC, NcnnParam, read_text, write_text
from pnnx_fast.formats.ncnn_param_bin import id_header, names_from_header, read_binary, write_binary
from pnnx_fast.ncnn import layers
from pnnx_fast.ncnn.values import UNFORESEEN, AbsentWeights, Params

__all__ = ["binary_to_text", "main", "text_to_binary"]


def text_to_binary(
    text: bytes, custom_types: Sequence[str] = (), name: str = "model", path: str | None = None
) -> tuple[bytes, str]:
    """Return the binary form of a text ``.param`` and its ``.id.h``.

    Parameters
    ----------
    text : bytes
    custom_types : sequence of str
        Types that the application registers, in the order of registration.
    name : str
        Of the model, for the header.
    path : str, optional
        Of the file, for errors.

    Returns
    -------
    (bytes, str)

    Raises
    ------
    FormatError
        The text does not follow the format.
    ParameterError
        A layer type has no number.

    Examples
    --------
    >>> data, header = text_to_binary(b"7767517\\n1 1\\nInput in 0 1 a 0=3\\n")
    >>> print(binary_to_text(data, header).decode())
    7767517
    1 1
    Input                    in                       0 1 a 0=3
    <BLANKLINE>
    """
    param = read_text(text, path)
    return write_binary(param, custom_types), id_header(param, name)


def binary_to_text(data: bytes, header: str = "", custom_types: Sequence[str] = (), path: str | None = None) -> bytes:
    """Return the text form of a binary ``.param.bin``.

    Parameters
    ----------
    data : bytes
    header : str
        Its ``.id.h``, where the names are; without it layers and blobs have numbers for names.
    custom_types : sequence of str
        Types that the application registers, in the order of registration.
    path : str, optional
        Of the file, for errors.

    Returns
    -------
    bytes

    Raises
    ------
    FormatError
        The data does not follow the format.
    ParameterError
        A layer type has no name.

    Examples
    --------
    >>> data, _ = text_to_binary(b"7767517\\n2 2\\nInput in 0 1 a\\nMine m 1 1 a b\\n", ["Mine"])
    >>> print(binary_to_text(data, custom_types=["Mine"]).decode())
    7767517
    2 2
    Input                    layer_0                  0 1 0
    Mine                     layer_1                  1 1 0 1
    <BLANKLINE>
    """
    param = read_binary(data, path)
    for layer in param.layers:
        if isinstance(layer.type, int) and layer.type & 0xFF < len(custom_types):
            layer.type = custom_types[layer.type & 0xFF]
    names_from_header(param, header)
    return write_text(param, kinds(param))


def kinds(param: NcnnParam) -> dict[str, dict[int, Literal["i", "f"]]]:
    """By layer type, how its layers read their parameters; types that are not built in are left out.

    Returns
    -------
    dict of str to dict
        By number of the parameter, ``"i"`` for integers or ``"f"`` for floats.

    Examples
    --------
    >>> kinds(read_text(b"7767517\\n2 2\\nInput in 0 1 a\\nReLU r 1 1 a b 0=0.1\\n", None))["ReLU"]
    {0: 'f'}
    """
    found: dict[str, dict[int, Literal["i", "f"]]] = {}
    for layer in param.layers:
        definition = layers.find(str(layer.type))
        if definition is None:
            continue
        read = Params(layer.params, 1 if definition.one_blob_only else None)
        # What cannot run can be converted all the same; what was read until then is known.
        with suppress(PnnxFastError, *UNFORESEEN):
            definition.function(read, AbsentWeights())
        found.setdefault(definition.name, {}).update(read.kinds)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m pnnx_fast.ncnn.convert FROM TO``: convert a file; the form of ``FROM`` tells the direction.

    Parameters
    ----------
    arguments : sequence of str, optional
        The two paths; by default those of the command line.

    Returns
    -------
    int
        Exit code: 0, 1 when a file cannot be read, converted or written, 2 when the arguments are wrong.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if len(words) != 2:
        asked = bool({"-h", "--help"} & set(words))
        print("usage: python -m pnnx_fast.ncnn.convert FROM TO", file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    source, target = Path(words[0]), Path(words[1])
    try:
        data = source.read_bytes()
        if data.startswith(MAGIC.to_bytes(4, "little")):
            header = _header(source)
            names = header.read_text("utf-8", "replace") if header.is_file() else ""
            made = [(target, binary_to_text(data, names, path=str(source)))]
        else:
            stem = target.name.split(".")[0]
            binary, names = text_to_binary(data, name=stem, path=str(source))
            made = [(target, binary), (_header(target), names.encode())]
        _write(made, source)
    except (OSError, PnnxFastError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _header(path: Path) -> Path:
    """The ``.id.h`` that belongs to a binary file."""
    return Path(splitext(splitext(path)[0])[0] + ".id.h")


def _write(made: Sequence[tuple[Path, bytes]], source: Path) -> None:
    """Write files, none of which may be the source, by whatever path."""
    with AtomicFiles() as files:
        for path, content in made:
            if path.exists() and path.samefile(source):
                raise ParameterError(f"{path} is the file to convert, which it would replace")
            files.open(path).write(content)


if __name__ == "__main__":
    sys.exit(main())
