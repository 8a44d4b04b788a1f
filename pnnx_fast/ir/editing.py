"""What `Graph` inherits: ways to find operands and operators, and methods that edit it.

These have the help of packages above this one, which are imported when first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pnnx_fast.errors import UnknownNameError, no_such

if TYPE_CHECKING:
    from pnnx_fast.edit.compare import Comparison
    from pnnx_fast.ir.graph import Graph
    from pnnx_fast.ir.operator import Operand, Operator

__all__ = ["Editing", "Lookup"]


class Lookup:
    """Ways into a graph; nothing here changes it.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = pnnx_fast.Graph.load(model_path())
    >>> graph.inputs, graph.outputs
    ([Operand(0:(1,1,8,8)f32)], [Operand(18:(1,10)f32)])
    >>> graph.operator("head")
    Operator(nn.Linear head: 16 -> 17)
    >>> graph.get_operator("tail") is None
    True
    """

    __slots__ = ()

    ops: list[Operator]
    _by_name: dict[str, Operand]

    @property
    def inputs(self) -> list[Operand]:
        """The inputs of the model: operands of ``pnnx.Input`` operators, in order."""
        return [x for op in self.ops if op.type == "pnnx.Input" for x in op.outputs]

    @property
    def outputs(self) -> list[Operand]:
        """The outputs of the model: operands of ``pnnx.Output`` operators, in order.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> pnnx_fast.Graph.load(model_path()).outputs
        [Operand(18:(1,10)f32)]
        """
        return [x for op in self.ops if op.type == "pnnx.Output" for x in op.inputs]

    def get_operand(self, name: str) -> Operand | None:
        """Return the operand of that name, or ``None``."""
        return self._by_name.get(name)

    def get_operator(self, name: str) -> Operator | None:
        """Return the first operator of that name, or ``None``."""
        return next((op for op in self.ops if op.name == name), None)

    def operand(self, name: str) -> Operand:
        """Return the operand of that name.

        Parameters
        ----------
        name : str

        Returns
        -------
        Operand

        Raises
        ------
        UnknownNameError
            When there is none. The message tells a name that is like it.
        TypeError
            When ``name`` is no text; names are texts also where they look like numbers.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> pnnx_fast.Graph.load(model_path()).operand("1").producer
        Operator(nn.Conv2d convbn2d_0: 0 -> 1)
        """
        _require_name(name)
        found = self.get_operand(name)
        if found is None:
            raise UnknownNameError([no_such("operand", name, self._by_name)])
        return found

    def operator(self, name: str) -> Operator:
        """Return the operator of that name, the first one if several share it.

        Parameters
        ----------
        name : str

        Returns
        -------
        Operator

        Raises
        ------
        UnknownNameError
            When there is none. The message tells a name that is like it.
        TypeError
            When ``name`` is no text.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> pnnx_fast.Graph.load(model_path()).operator("convbn2d_0").params["kernel_size"].value
        [3, 3]
        """
        _require_name(name)
        found = self.get_operator(name)
        if found is None:
            raise UnknownNameError([no_such("operator", name, (op.name for op in self.ops))])
        return found


def _require_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"operands and operators go by name, a str, not {type(name).__name__}")


def _edit() -> Any:
    return importlib.import_module("pnnx_fast.edit")


class Editing:
    """Changes of a graph; each method is a function of :mod:`pnnx_fast.edit`, which documents it.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = pnnx_fast.Graph.load(model_path())
    >>> graph.make_dynamic()
    []
    >>> front = graph.extract(["0"], ["2"])
    >>> front.inputs, [op.type for op in front.ops]
    ([Operand(0:(?,1,8,8)f32)], ['pnnx.Input', 'nn.Conv2d', 'nn.ReLU', 'pnnx.Output'])
    """

    __slots__ = ()

    def extract(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the part between operands as a graph of its own; see :func:`pnnx_fast.edit.extract`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> graph.extract(["16"], ["18"])
        <Graph: 4 operators, 3 operands, 1 inputs, 1 outputs>
        """
        return cast("Graph", _edit().extract(self, inputs, outputs))

    def make_dynamic(
        self, axes: Mapping[str, Sequence[int]] | None = None, shapes: Mapping[str, Sequence[int]] | None = None
    ) -> list[str]:
        """Let sizes vary that tracing has fixed; see :func:`pnnx_fast.edit.make_dynamic`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> graph.make_dynamic({"0": (0,)})
        []
        >>> graph.outputs
        [Operand(18:(?,10)f32)]
        """
        return cast("list[str]", _edit().make_dynamic(self, axes, shapes))

    def change_batch(self, batch: int, axis: int = 0, shapes: Mapping[str, Sequence[int]] | None = None) -> list[str]:
        """Change the batch of all inputs; see :func:`pnnx_fast.edit.change_batch`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> graph.change_batch(4)
        []
        >>> graph.outputs
        [Operand(18:(4,10)f32)]
        """
        return cast("list[str]", _edit().change_batch(self, batch, axis, shapes))

    def infer_shapes(self, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        """Set shapes and dtypes of all operands; see :func:`pnnx_fast.edit.infer_shapes`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> graph.infer_shapes({"0": (4, 1, 8, 8)})
        >>> graph.outputs
        [Operand(18:(4,10)f32)]
        """
        _edit().infer_shapes(self, shapes)

    def to(self, dtype: str, constants: bool = False) -> Graph:
        """Return a graph with weights of another type; see :func:`pnnx_fast.edit.to`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> graph.to("bf16").operator("head").attrs["weight"]
        Attribute((10,64)bf16)
        """
        return cast("Graph", _edit().to(self, dtype, constants))

    def compare(self, reference: Any, *inputs: Any, tolerance: float = 1e-4) -> list[Comparison]:
        """Compare intermediate results with a reference; see :func:`pnnx_fast.edit.compare`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> graph.compare(graph, np.zeros((1, 1, 8, 8), np.float32))[-1]
        Comparison(F.softmax F.softmax_4 -> 18: matches, error 0)
        """
        return cast("list[Comparison]", _edit().compare(self, reference, *inputs, tolerance=tolerance))

    def simplify(self, passes: Iterable[str] | None = None) -> dict[str, int]:
        """Run PNNX's simplifications by name, or all; see :func:`pnnx_fast.simplify.simplify`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> graph.operator("stem.2").type = "nn.Identity"
        >>> graph.simplify()
        {'eliminate_identity_operator': 1, 'canonicalize': 1}
        """
        return cast("dict[str, int]", _edit().simplify(self, passes))

    def _for_source(self, has_weights: bool) -> Graph:
        """Return the graph as its Python source computes it; see :func:`pnnx_fast.edit.for_source`."""
        return cast("Graph", _edit().for_source(self, has_weights))

    def diff(self, other: Graph) -> list[str]:
        """Return the differences from another graph; see :func:`pnnx_fast.edit.diff`.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> graph = pnnx_fast.Graph.load(model_path())
        >>> other = graph.copy()
        >>> other.operator("down").params["stride"] = (1, 1)
        >>> graph.diff(other)
        ['~ nn.Conv2d down: stride (2,2) -> (1,1)']
        """
        return cast("list[str]", _edit().diff(self, other))
