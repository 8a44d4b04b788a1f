"""Status codes of the staged interface and the exception that carries them; used by `graph`, knows nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from pnnx_fast.errors import ParameterError, PnnxFastError, ShapeError, UnsupportedOperatorError

__all__ = ["InferStatus", "ParseParameterAttrStatus", "StatusCode", "StatusError", "translated"]


class StatusCode(IntEnum):
    """Codes of the newer interface; the ``status`` of a :class:`StatusError`.

    Examples
    --------
    >>> error = StatusError("no inputs", StatusCode.INFER_INPUTS_EMPTY)
    >>> error.status.name, int(error.status)
    ('INFER_INPUTS_EMPTY', 1)
    """

    UNKNOWN = -1
    SUCCESS = 0
    INFER_INPUTS_EMPTY = 1
    INFER_OUTPUTS_EMPTY = 2
    INFER_PARAMETER_ERROR = 3
    INFER_DIM_MISMATCH = 4
    FUNCTION_NOT_IMPLEMENT = 5
    PARSE_WEIGHT_ERROR = 6
    PARSE_PARAMETER_ERROR = 7
    PARSE_NULL_OPERATOR = 8


class InferStatus(IntEnum):
    """Codes of the older interface, for running; the ``infer_status`` of a :class:`StatusError`.

    Examples
    --------
    >>> from pnnx_fast.runtime_graph import ExpressionLayer
    >>> try:
    ...     ExpressionLayer("add(@0,@1)").forward([], batch=1)
    ... except StatusError as error:
    ...     print(error.infer_status.name)
    FAILED_INPUTS_EMPTY
    """

    UNKNOWN = -1
    SUCCESS = 0
    FAILED_INPUTS_EMPTY = 1
    FAILED_OUTPUTS_EMPTY = 2
    FAILED_PARAMETER_ERROR = 3
    FAILED_ARRAY_SIZE_MISMATCH = 4
    FAILED_LAYER_NOT_IMPLEMENT = 5


class ParseParameterAttrStatus(IntEnum):
    """Codes of the older interface, for parameters (1 to 19) and weights (21 to 28) that are missing or wrong.

    They are the ``parse_status`` of a :class:`StatusError`.

    Examples
    --------
    >>> from pnnx_fast.runtime_graph import RuntimeAttribute
    >>> weight = RuntimeAttribute(pnnx_fast.Attribute(np.ones((2, 3), np.float32)))
    >>> weight.clear_weight()
    >>> try:
    ...     weight.get()
    ... except StatusError as error:
    ...     print(error.parse_status.name)
    ATTR_MISSING_WEIGHT
    """

    MISSING_UNKNOWN = -1
    SUCCESS = 0
    PARAMETER_MISSING_STRIDE = 1
    PARAMETER_MISSING_PADDING = 2
    PARAMETER_MISSING_KERNEL = 3
    PARAMETER_MISSING_USE_BIAS = 4
    PARAMETER_MISSING_IN_CHANNEL = 5
    PARAMETER_MISSING_OUT_CHANNEL = 6
    PARAMETER_MISSING_EPS = 7
    PARAMETER_MISSING_NUM_FEATURES = 8
    PARAMETER_MISSING_DIM = 9
    PARAMETER_MISSING_EXPR = 10
    PARAMETER_MISSING_OUT_HW = 11
    PARAMETER_MISSING_SHAPE = 12
    PARAMETER_MISSING_GROUPS = 13
    PARAMETER_MISSING_SCALE = 14
    PARAMETER_MISSING_RESIZE_MODE = 15
    PARAMETER_MISSING_DILATION = 16
    PARAMETER_MISSING_PADDING_MODE = 17
    PARAMETER_MISSING_OUTPUT_PADDING = 18
    PARAMETER_MISSING_ALIGN_CORNER = 19
    ATTR_MISSING_BIAS = 21
    ATTR_MISSING_WEIGHT = 22
    ATTR_MISSING_RUNNING_MEAN = 23
    ATTR_MISSING_RUNNING_VAR = 24
    ATTR_MISSING_OUT_FEATURES = 25
    ATTR_MISSING_YOLO_STRIDES = 26
    ATTR_MISSING_YOLO_ANCHOR_GRIDES = 27
    ATTR_MISSING_YOLO_GRIDES = 28


_PARSE = {
    "stride": 1,
    "padding": 2,
    "kernel_size": 3,
    "in_channels": 5,
    "out_channels": 6,
    "eps": 7,
    "num_features": 8,
    "dim": 9,
    "expr": 10,
    "output_size": 11,
    "shape": 12,
    "groups": 13,
    "scale_factor": 14,
    "mode": 15,
    "dilation": 16,
    "padding_mode": 17,
    "output_padding": 18,
    "align_corners": 19,
    "bias": 21,
    "weight": 22,
    "running_mean": 23,
    "running_var": 24,
    "out_features": 25,
}
"""PNNX's name of a parameter or weight -> its code."""


class StatusError(PnnxFastError, RuntimeError):
    """A stage failed; carries the codes by which code written for the other interface decides.

    Parameters
    ----------
    reason : str
        What is wrong.
    status : StatusCode
        Code of the newer interface.
    infer_status : InferStatus
        Code of the older interface, for running.
    parse_status : ParseParameterAttrStatus
        Code of the older interface, for parameters and weights; ``SUCCESS`` where none is at fault.

    Attributes
    ----------
    reason, status, infer_status, parse_status
        The parameters.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> from pnnx_fast.runtime_graph import RuntimeGraph
    >>> graph = RuntimeGraph(model_path(), model_path().with_suffix(".bin"))
    >>> graph.build()
    >>> try:
    ...     graph.forward()
    ... except StatusError as error:
    ...     print(f"{error.status.name}: {error}")
    INFER_INPUTS_EMPTY: no data for 0: call set_inputs first
    """

    def __init__(
        self,
        reason: str,
        status: StatusCode = StatusCode.UNKNOWN,
        infer_status: InferStatus = InferStatus.UNKNOWN,
        parse_status: ParseParameterAttrStatus = ParseParameterAttrStatus.SUCCESS,
    ) -> None:
        self.reason, self.status, self.infer_status, self.parse_status = reason, status, infer_status, parse_status
        super().__init__(reason)


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of the runtime as StatusError, with the original as its cause.

    Raises
    ------
    StatusError
        When the block raises another error of this package.

    Examples
    --------
    >>> try:
    ...     with translated():
    ...         raise ShapeError("3 columns do not fit 4")
    ... except StatusError as error:
    ...     print(error.status.name, type(error.__cause__).__name__)
    INFER_DIM_MISMATCH ShapeError
    """
    try:
        yield
    except StatusError:
        raise
    except UnsupportedOperatorError as error:
        codes = StatusCode.FUNCTION_NOT_IMPLEMENT, InferStatus.FAILED_LAYER_NOT_IMPLEMENT
        raise StatusError(str(error), *codes) from error
    except ParameterError as error:
        parse = ParseParameterAttrStatus(_PARSE.get(error.parameter or "", -1))
        status = StatusCode.PARSE_WEIGHT_ERROR if parse > 20 else StatusCode.PARSE_PARAMETER_ERROR
        raise StatusError(str(error), status, InferStatus.FAILED_PARAMETER_ERROR, parse) from error
    except ShapeError as error:
        codes = StatusCode.INFER_DIM_MISMATCH, InferStatus.FAILED_ARRAY_SIZE_MISMATCH
        raise StatusError(str(error), *codes) from error
    except PnnxFastError as error:
        raise StatusError(str(error)) from error
