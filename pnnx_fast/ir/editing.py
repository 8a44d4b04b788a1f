"""Methods of `Graph` that edit it with the help of packages above this one, which are imported when first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pnnx_fast.edit.compare import Comparison
    from pnnx_fast.ir.graph import Graph

__all__ = ["Editing"]


def _edit() -> Any:
    return importlib.import_module("pnnx_fast.edit")


class Editing:
    """What `Graph` inherits; each method is a function of :mod:`pnnx_fast.edit`, which documents it."""

    __slots__ = ()

    def extract(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the part between operands as a graph of its own; see :func:`pnnx_fast.edit.extract`."""
        return cast("Graph", _edit().extract(self, inputs, outputs))

    def make_dynamic(
        self, axes: Mapping[str, Sequence[int]] | None = None, shapes: Mapping[str, Sequence[int]] | None = None
    ) -> list[str]:
        """Let sizes vary that tracing has fixed; see :func:`pnnx_fast.edit.make_dynamic`."""
        return cast("list[str]", _edit().make_dynamic(self, axes, shapes))

    def change_batch(self, batch: int, axis: int = 0) -> list[str]:
        """Change the batch of all inputs; see :func:`pnnx_fast.edit.change_batch`."""
        return cast("list[str]", _edit().change_batch(self, batch, axis))

    def infer_shapes(self, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        """Set shapes and dtypes of all operands; see :func:`pnnx_fast.edit.infer_shapes`."""
        _edit().infer_shapes(self, shapes)

    def to(self, dtype: str, constants: bool = False) -> Graph:
        """Return a graph with weights of another type; see :func:`pnnx_fast.edit.to`."""
        return cast("Graph", _edit().to(self, dtype, constants))

    def compare(self, reference: Any, *inputs: Any, tolerance: float = 1e-4) -> list[Comparison]:
        """Compare intermediate results with a reference; see :func:`pnnx_fast.edit.compare`."""
        return cast("list[Comparison]", _edit().compare(self, reference, *inputs, tolerance=tolerance))

    def simplify(self, passes: Iterable[str] | None = None) -> dict[str, int]:
        """Run PNNX's simplifications by name, or all; see :func:`pnnx_fast.simplify.simplify`."""
        return cast("dict[str, int]", _edit().simplify(self, passes))

    def _for_source(self, has_weights: bool) -> Graph:
        """Return the graph as its Python source computes it; see :func:`pnnx_fast.edit.for_source`."""
        return cast("Graph", _edit().for_source(self, has_weights))

    def diff(self, other: Graph) -> list[str]:
        """Return the differences from another graph; see :func:`pnnx_fast.edit.diff`."""
        return cast("list[str]", _edit().diff(self, other))
