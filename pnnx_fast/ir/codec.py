"""The place where the file formats announce themselves, so that ``Graph.load`` works without importing them.

``pnnx_fast.formats`` fills ``active`` when it is imported; the graph asks for it on first use. Dependencies
keep pointing one way: formats import the IR, never the reverse.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from pnnx_fast._types import Protocol

if TYPE_CHECKING:
    from pnnx_fast._types import PathLike, Source, Target
    from pnnx_fast.formats.pnnx_param import Limits
    from pnnx_fast.ir.graph import Graph

__all__ = ["Codec", "get", "register"]


class Codec(Protocol):
    r"""What a graph needs of the file formats. :func:`get` returns the one in use; a module may be one.

    Examples
    --------
    >>> get().parse("7767517\n0 0\n")
    <Graph: 0 operators, 0 operands, 0 inputs, 0 outputs>
    """

    def load(
        self,
        param: Source,
        bin: Source | None,
        verify: bool,
        limits: Limits | None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Graph:
        """Read a model: text graph and weights; ``meanwhile`` may be called while another thread checks these."""

    def parse(self, text: str) -> Graph:
        """Read a text graph without weights."""

    def save(self, graph: Graph, param: Target, bin: Target | None) -> None:
        """Write text graph and weights."""

    def problems(self, graph: Graph) -> list[str]:
        """Return what keeps a consistent graph from being saved."""

    def python(self, graph: Graph, path: PathLike, bin: PathLike | None) -> None:
        """Write a PyTorch module."""


_active: list[Codec] = []


def register(codec: Codec) -> None:
    """Make a codec the one that graphs use.

    Parameters
    ----------
    codec : Codec

    Examples
    --------
    >>> register(get())
    >>> get().__name__
    'pnnx_fast.formats.pnnx_model'
    """
    _active[:] = [codec]


def get() -> Codec:
    """Return the registered codec, loading the formats when they are not there yet.

    Returns
    -------
    Codec

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> get().load(model_path(), None, True, None)
    <Graph: 20 operators, 19 operands, 1 inputs, 1 outputs>
    """
    if not _active:
        importlib.import_module("pnnx_fast.formats")
    return _active[0]
