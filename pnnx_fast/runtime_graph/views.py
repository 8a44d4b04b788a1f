"""What the staged interface shows of a graph: operators, operands, parameters and attributes, read-only over the IR.

Made by :class:`RuntimeGraph`; knows the IR, not how things run.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from pnnx_fast._types import Array, Shape
from pnnx_fast.ir import Attribute, Operand, Operator, Parameter
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.runtime_graph.status import ParseParameterAttrStatus, StatusCode, StatusError

__all__ = [
    "RuntimeAttribute",
    "RuntimeDataType",
    "RuntimeOperand",
    "RuntimeOperator",
    "RuntimeParameter",
    "RuntimeParameterType",
]


class RuntimeDataType(IntEnum):
    """PNNX's numbers of dtypes.

    Examples
    --------
    >>> weight = RuntimeAttribute(Attribute(np.zeros(4, np.float16)))
    >>> weight.type.name, int(weight.type)
    ('FLOAT16', 3)
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT64 = 2
    FLOAT16 = 3
    INT32 = 4
    INT64 = 5
    INT16 = 6
    INT8 = 7
    UINT8 = 8
    BOOL = 9
    COMPLEX64 = 10
    COMPLEX128 = 11
    COMPLEX32 = 12
    BFLOAT16 = 13


class RuntimeParameterType(IntEnum):
    """PNNX's numbers of parameter types.

    Examples
    --------
    >>> [RuntimeParameter(Parameter(x)).type.name for x in (True, 3, 0.5, "zeros", (1, 1))]
    ['BOOL', 'INT', 'FLOAT', 'STRING', 'INT_ARRAY']
    """

    UNKNOWN = 0
    BOOL = 1
    INT = 2
    FLOAT = 3
    STRING = 4
    INT_ARRAY = 5
    FLOAT_ARRAY = 6
    STRING_ARRAY = 7
    COMPLEX = 10
    COMPLEX_ARRAY = 11


class RuntimeParameter:
    """A parameter of an operator.

    Parameters
    ----------
    parameter : Parameter
        The one of the graph.

    Attributes
    ----------
    type : RuntimeParameterType
    value : None, bool, int, float, complex, str or list
        As of :class:`pnnx_fast.Parameter`.

    Examples
    --------
    >>> p = RuntimeParameter(Parameter((3, 3)))
    >>> p, p.value
    (RuntimeParameter(INT_ARRAY, [3, 3]), [3, 3])
    """

    __slots__ = ("type", "value")

    def __init__(self, parameter: Parameter) -> None:
        self.type = RuntimeParameterType(parameter.type)
        self.value: Any = parameter.value

    def __repr__(self) -> str:
        return f"RuntimeParameter({self.type.name}, {self.value!r})"


class RuntimeAttribute:
    """A weight. ``get`` gives its values and, unless told otherwise, lets go of the bytes.

    Parameters
    ----------
    attribute : Attribute
        The one of the graph, which keeps its bytes.

    Attributes
    ----------
    type : RuntimeDataType
    shape : tuple of int

    Examples
    --------
    >>> weight = RuntimeAttribute(Attribute(np.float32([[1, 2], [3, 4]])))
    >>> weight, len(weight.weight_data)
    (RuntimeAttribute(FLOAT32, (2, 2)), 16)
    >>> weight.get().tolist(), len(weight.weight_data)
    ([[1.0, 2.0], [3.0, 4.0]], 0)
    """

    __slots__ = ("_attribute", "shape", "type")

    def __init__(self, attribute: Attribute) -> None:
        self._attribute: Attribute | None = attribute
        self.shape: Shape = attribute.shape
        self.type = _data_type(attribute.dtype)

    def __repr__(self) -> str:
        return f"RuntimeAttribute({self.type.name}, {self.shape})"

    @property
    def weight_data(self) -> bytes:
        """Bytes of the weight, empty once cleared."""
        return bytes(self._attribute.data) if self._attribute is not None else b""

    def get(self, need_clear_weight: bool = True) -> Array:
        """Values as an array.

        Parameters
        ----------
        need_clear_weight : bool
            Whether to let go of the bytes.

        Returns
        -------
        ndarray
            Of the weight's shape and dtype.

        Raises
        ------
        StatusError
            When the weight has been cleared before.
        """
        if self._attribute is None:
            raise StatusError(
                "the weight has been cleared",
                StatusCode.PARSE_WEIGHT_ERROR,
                parse_status=ParseParameterAttrStatus.ATTR_MISSING_WEIGHT,
            )
        values = self._attribute.numpy()
        if need_clear_weight:
            self.clear_weight()
        return values

    def clear_weight(self) -> None:
        """Let go of the bytes; what runs is not affected."""
        self._attribute = None


class RuntimeOperand:
    """A value between operators.

    Parameters
    ----------
    operand : Operand
        The one of the graph.
    fetch : callable
        Gives the samples of the last run by the operand's name.

    Attributes
    ----------
    name : str
    producer : str or None
        Name of the operator that makes it.
    shapes : tuple of int
        With the batch; -1 where free, ``()`` when unknown.
    type : RuntimeDataType

    Examples
    --------
    >>> from pnnx_fast.demo import load_digits, model_path
    >>> from pnnx_fast.runtime_graph import RuntimeGraph
    >>> graph = RuntimeGraph(model_path(), model_path().with_suffix(".bin"))
    >>> graph.build()
    >>> graph.set_inputs("pnnx_input_0", load_digits().pictures[:2])
    >>> graph.forward()
    >>> inner = graph.operators[1].output_operand
    >>> inner, inner.size(), [y.shape for y in inner.datas]
    (RuntimeOperand(1, FLOAT32, (1, 32, 8, 8)), 2048, [(32, 8, 8), (32, 8, 8)])
    """

    __slots__ = ("_fetch", "name", "producer", "shapes", "type")

    def __init__(self, operand: Operand, fetch: Callable[[str], Any]) -> None:
        self.name = operand.name
        self.producer = operand.producer.name if operand.producer is not None else None
        self.shapes: Shape = operand.shape or ()
        self.type = _data_type(operand.dtype)
        self._fetch = fetch

    @property
    def datas(self) -> list[Any]:
        """One array a sample of the last ``forward``, or one tuple or list of them where the value is one of arrays.

        Values inside the graph are computed when first asked for.
        """
        return list(self._fetch(self.name))

    def size(self) -> int:
        """Number of elements, 0 when unknown."""
        total = 1 if self.shapes else 0
        for n in self.shapes:
            total *= max(n, 0)
        return total

    def __repr__(self) -> str:
        return f"RuntimeOperand({self.name}, {self.type.name}, {self.shapes})"


class RuntimeOperator:
    """An operator of a runtime graph.

    Parameters
    ----------
    op : Operator
        The one of the graph.
    operands : dict of str to RuntimeOperand
        All operands of the graph by name.

    Attributes
    ----------
    name, type : str
    params : dict of str to RuntimeParameter
    attribute : dict of str to RuntimeAttribute
    input_operands_seq : list of RuntimeOperand
        All inputs in order; one that is used twice is there twice.
    input_operands : dict of str to RuntimeOperand
        By name of the producing operator; a further operand of the same producer has ``#1``, ``#2`` … behind the name.
    output_operands : list of RuntimeOperand
    output_names : list of str
        Names of the operators that use the outputs.
    output_operators : dict of str to RuntimeOperator
    start_time, end_time : int
        Place in the order of execution, counted from 1, and that of the last user; -1 before ``build``.
    has_forward : bool
        Whether the last ``forward`` computed it.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> from pnnx_fast.runtime_graph import RuntimeGraph
    >>> graph = RuntimeGraph(model_path(), model_path().with_suffix(".bin"))
    >>> graph.build()
    >>> op = graph.operators[1]
    >>> op, op.params["kernel_size"].value, op.attribute["weight"].shape
    (RuntimeOperator(nn.Conv2d convbn2d_0), [3, 3], (32, 1, 3, 3))
    >>> list(op.input_operands), op.output_names, (op.start_time, op.end_time)
    (['pnnx_input_0'], ['stem.2'], (2, 3))
    """

    def __init__(self, op: Operator, operands: dict[str, RuntimeOperand]) -> None:
        self.name, self.type = op.name, op.type
        self.params = {key: RuntimeParameter(p) for key, p in op.params.items()}
        self.attribute = {key: RuntimeAttribute(a) for key, a in op.attrs.items()}
        self.input_operands_seq = [operands[x.name] for x in op.inputs]
        self.input_operands: dict[str, RuntimeOperand] = {}
        for operand in self.input_operands_seq:
            base = key = operand.producer or operand.name
            number = 0
            while key in self.input_operands:
                number += 1
                key = f"{base}#{number}"
            self.input_operands[key] = operand
        self.output_operands = [operands[x.name] for x in op.outputs]
        self.output_names = list(dict.fromkeys(user.name for x in op.outputs for user in x.consumers))
        self.output_operators: dict[str, RuntimeOperator] = {}
        self.start_time = self.end_time = self.occur_end_time = -1
        self.has_forward = False

    @property
    def output_operand(self) -> RuntimeOperand | None:
        """The first output, None when there is none."""
        return self.output_operands[0] if self.output_operands else None

    def __repr__(self) -> str:
        return f"RuntimeOperator({self.type} {self.name})"


def _data_type(text: str | None) -> RuntimeDataType:
    row = by_text.get(text or "")
    return RuntimeDataType(row.code) if row is not None else RuntimeDataType.UNKNOWN
