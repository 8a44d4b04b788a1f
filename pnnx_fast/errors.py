"""The exceptions of pnnx_fast, with fields that tell where and why.

All derive from :class:`PnnxFastError` and from the builtin that fits; catch either.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

__all__ = [
    "BroadcastError",
    "CycleError",
    "ExpressionError",
    "FormatError",
    "GraphError",
    "IndexRangeError",
    "LimitError",
    "MissingParameterError",
    "NativeOperatorError",
    "OperatorError",
    "ParameterError",
    "PnnxFastError",
    "ShapeError",
    "UnknownNameError",
    "UnsupportedOperatorError",
]


class PnnxFastError(Exception):
    """Base of all errors of this package.

    Examples
    --------
    >>> import pnnx_fast
    >>> try:
    ...     pnnx_fast.Graph.parse("no model")
    ... except PnnxFastError as error:
    ...     print(f"{type(error).__name__} in line {error.line}: {error.reason}")
    FormatError in line 1: expected the magic number 7767517, found 'no'
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # The arguments of the constructors are not those of the message, and process pools pickle what fails.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[PnnxFastError], args: tuple[Any, ...], fields: dict[str, Any]) -> PnnxFastError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class AtOperator(PnnxFastError):
    """An error whose message begins with the type and name of the operator at fault, once it is known.

    Attributes
    ----------
    operator : str or None
        Type and name of the operator.
    """

    operator: str | None

    def at(self, operator: str) -> Self:
        """Return the same error of an operator; one that names its operator stays as it is.

        Parameters
        ----------
        operator : str
            Type and name of the operator.

        Returns
        -------
        AtOperator
        """
        if self.operator is not None:
            return self
        named = copy.copy(self)
        named.operator, named.args = operator, (f"{operator}: {self}",)
        return named


class FormatError(PnnxFastError, ValueError):
    """A file does not follow its format, or was written to after weights were mapped from it.

    Parameters
    ----------
    reason : str
        What is wrong, without the place.
    path : str, optional
        The file; ``None`` when it came from memory.
    line, column : int, optional
        Place in a text file, counted from 1.
    offset : int, optional
        Byte offset in a binary file.

    Attributes
    ----------
    reason, path, line, column, offset
        The parameters.
    """

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
    ) -> None:
        self.reason, self.path, self.line, self.column, self.offset = reason, path, line, column, offset
        where = path or "<memory>"
        if line is not None:
            where += f":{line}" + (f":{column}" if column is not None else "")
        elif offset is not None:
            where += f" at byte {offset}"
        super().__init__(f"{where}: {reason}")


class LimitError(FormatError):
    """A file, a tensor or a run asks for more than the file's length, the limits or the memory allow.

    Attributes
    ----------
    path : str or None
        The file, or what the memory is for. Other attributes are those of :class:`FormatError`.
    """


class ParameterError(AtOperator, ValueError):
    """An option, or a parameter of an operator, is missing, unknown, of the wrong type or out of range.

    Parameters
    ----------
    reason : str
        What is wrong, without the operator.
    operator : str, optional
        Type and name of the operator.
    parameter : str, optional
        Name of the parameter.

    Attributes
    ----------
    reason, operator, parameter
        The parameters.
    """

    def __init__(self, reason: str, *, operator: str | None = None, parameter: str | None = None) -> None:
        self.reason, self.operator, self.parameter = reason, operator, parameter
        super().__init__(f"{operator}: {reason}" if operator else reason)


class MissingParameterError(ParameterError, KeyError):
    """An operator lacks a parameter or an attribute that is asked for.

    Attributes
    ----------
    parameter : str or None
        Name of what is missing. Other attributes are those of :class:`ParameterError`.
    """

    __str__ = PnnxFastError.__str__  # That of KeyError would quote the sentence.


class ShapeError(AtOperator, ValueError):
    """Shapes, dtypes or the number of arrays do not fit the model or an operator.

    Parameters
    ----------
    reason : str
        What is wrong, without place and values.
    operator : str, optional
        Type and name of the operator.
    operand : str, optional
        Name of the operand or input.
    expected, actual : object, optional
        Shape, dtype or number that is needed, and the one that was met.

    Attributes
    ----------
    reason, operator, operand, expected, actual
        The parameters.
    """

    def __init__(
        self,
        reason: str,
        *,
        operator: str | None = None,
        operand: str | None = None,
        expected: object = None,
        actual: object = None,
    ) -> None:
        self.reason, self.operator, self.operand = reason, operator, operand
        self.expected, self.actual = expected, actual
        text = f"{operator}: {reason}" if operator else reason
        if operand is not None:
            text += f" (operand {operand})"
        if expected is not None:
            text += f": expected {expected}, got {actual}"
        elif actual is not None:
            text += f", got {actual}"
        super().__init__(text)


class IndexRangeError(AtOperator, IndexError):
    """An index in the data of a run lies outside the dimension that it selects from.

    Parameters
    ----------
    index : int
        The first such index that was met.
    size : int
        Size of the dimension.
    step : int, optional
        Number of the step of the program that met it.
    operator : str, optional
        Type and name of the operator.

    Attributes
    ----------
    index, size, step, operator
        The parameters.
    """

    def __init__(self, index: int, size: int, *, step: int | None = None, operator: str | None = None) -> None:
        self.index, self.size, self.step, self.operator = index, size, step, operator
        text = f"index {index} is out of range for a dimension of size {size}"
        super().__init__(f"{operator}: {text}" if operator else text)


class OperatorError(AtOperator, RuntimeError):
    """A function of an operator that is not this package's failed; ``__cause__`` is what it raised.

    Parameters
    ----------
    reason : str
        What is wrong, without the operator.
    operator : str, optional
        Type and name of the operator.

    Attributes
    ----------
    reason, operator
        The parameters.
    """

    def __init__(self, reason: str, *, operator: str | None = None) -> None:
        self.reason, self.operator = reason, operator
        super().__init__(f"{operator}: {reason}" if operator else reason)


class NativeOperatorError(OperatorError):
    """A function of a native operator failed.

    Parameters
    ----------
    code : int
        What it returned, not 0.
    function : str
        Which function: init, infer or run.
    step : int, optional
        Number of the step of the program.
    operator : str, optional
        Type and name of the operator.

    Attributes
    ----------
    code, function, step, operator
        The parameters.
    """

    def __init__(
        self, code: int, *, function: str = "run", step: int | None = None, operator: str | None = None
    ) -> None:
        self.code, self.function, self.step = code, function, step
        super().__init__(f"{function} of a native operator returned {code}", operator=operator)


class ExpressionError(AtOperator, ValueError):
    """An expression does not parse or cannot be evaluated; the message shows the place with a caret.

    Parameters
    ----------
    reason : str
        What is wrong, without the place.
    text : str
        The expression.
    position : int, optional
        Place in ``text``, counted from 0.
    operator : str, optional
        Type and name of the operator.
    step : int, optional
        Number of the step of the program.

    Attributes
    ----------
    reason, text, position, operator, step
        The parameters.
    """

    def __init__(
        self,
        reason: str,
        text: str = "",
        position: int | None = None,
        *,
        operator: str | None = None,
        step: int | None = None,
    ) -> None:
        message = f"{operator}: {reason}" if operator else reason
        if text and position is not None:
            message += f"\n  {text}\n  {' ' * position}^"
        super().__init__(message)  # of BroadcastError that of ShapeError, which sets fields, too
        self.reason, self.text, self.position, self.operator, self.step = reason, text, position, operator, step


class BroadcastError(ExpressionError, ShapeError):
    """Sizes in an expression differ where they must not.

    Attributes
    ----------
    reason, text, position, operator, step
        Those of :class:`ExpressionError`.
    """


class UnsupportedOperatorError(PnnxFastError, NotImplementedError):
    """A model uses operator types that nothing is registered for; all of them are listed at once.

    Parameters
    ----------
    message : str
    types : mapping of str to sequence of str
        Names of the operators by unknown type.

    Attributes
    ----------
    types : dict of str to list of str
        Names of the operators by unknown type.
    """

    def __init__(self, message: str, types: Mapping[str, Sequence[str]]) -> None:
        self.types = {key: list(names) for key, names in types.items()}
        super().__init__(message)


class CycleError(PnnxFastError, ValueError):
    """A graph has a cycle.

    Parameters
    ----------
    operators : sequence of str
        Names of the operators on it, in the direction of the data.

    Attributes
    ----------
    operators : list of str
        Names of the operators on it, in the direction of the data.
    """

    def __init__(self, operators: Sequence[str]) -> None:
        self.operators = list(operators)
        super().__init__("the graph has a cycle: " + " -> ".join([*self.operators, self.operators[0]]))


class GraphError(PnnxFastError, ValueError):
    """Operators and operands of a graph do not fit together.

    Parameters
    ----------
    problems : sequence of str
        What is wrong, a sentence each.

    Attributes
    ----------
    problems : list of str
        What is wrong, a sentence each.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(self.problems))


class UnknownNameError(GraphError, KeyError):
    """A graph has no operator or operand of the name that is asked for; the message tells names that are like it.

    Attributes
    ----------
    problems : list of str
        The message.
    """

    __str__ = PnnxFastError.__str__  # That of KeyError would quote the sentence.


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the one that is most like it, or nothing if none is.

    Parameters
    ----------
    name : object
    names : iterable of str
        Those that there are.

    Returns
    -------
    str

    Examples
    --------
    >>> did_you_mean("conv_0", ["conv2d_0", "relu"])
    "; did you mean 'conv2d_0'?"
    """
    import difflib  # only for messages

    near = difflib.get_close_matches(str(name)[:64], names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def no_such(kind: str, name: object, names: Iterable[str]) -> str:
    """Return what to say of an unknown name: that there is none, and which is meant or which there are.

    Parameters
    ----------
    kind : str
        What the name is of, such as ``"operator"``.
    name : object
    names : iterable of str
        Those that there are.

    Returns
    -------
    str

    Examples
    --------
    >>> print(no_such("operator", "pool", ["conv", "relu"]))
    there is no operator 'pool'; the operators are 'conv', 'relu'
    """
    names = list(names)
    return f"there is no {kind} {name!r}{did_you_mean(name, names) or f'; the {kind}s are {listed(names)}'}"


def listed(names: Sequence[str]) -> str:
    """Return names for a message, of many the first ones.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    str

    Examples
    --------
    >>> listed(["x", "y"]), listed([])
    ("'x', 'y'", 'none')
    """
    return ", ".join([*map(repr, names[:8]), *["…"] * (len(names) > 8)]) or "none"
