"""Lowering: calls every operator of a graph with symbolic tensors and collects the steps they emit.

A graph with concatenations is walked twice. The first walk, a sketch, finds the shapes; then the inputs that can be
written straight into the output of a concatenation are known, and the second walk places them there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast._memory import check_memory, memory_limit
from pnnx_fast._types import Array, DType, Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Operand, Operator, dtypes
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import (
    Buffer,
    Builder,
    Chosen,
    KernelPlan,
    Order,
    Results,
    Tensor,
    Value,
    is_channels_last,
    map_leaves,
    merge_dims,
    strides_in,
    tensors_in,
)
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.returned import check_nesting, check_value, named_error

if TYPE_CHECKING:
    from pnnx_fast.runtime.concat import Placement

__all__ = ["CONCATENATIONS", "HostStep", "KernelStep", "Lowering", "Stage", "StageBreak", "lower"]

CONCATENATIONS = ("torch.cat",)
"""Operators that make the second walk worth while."""

CUTS = ("torch.chunk", "torch.split", "torch.tensor_split")
"""Operators whose results are all parts of their input; the converter makes torch.unbind of selections, too."""

MOST_COPIES = 256
"""Steps that one copy may take."""

_CODES = core.codes("dtype")
"""Dtypes that the kernel `convert` knows."""

SERIAL_WORK = 20_000
"""Steps that touch fewer elements (or compute fewer FLOPs) than this run on one thread."""


class KernelStep:
    """A kernel call whose memory references are still symbolic."""

    __slots__ = ("fields", "flops", "inplace", "kernel", "label", "operator", "serial", "tensors", "type")

    def __init__(
        self,
        kernel: str,
        fields: dict[str, Any],
        operator: str,
        type: str,
        flops: int,
        label: str,
        inplace: tuple[Tensor, Tensor] | None,
    ) -> None:
        self.kernel, self.fields, self.operator, self.type = kernel, fields, operator, type
        self.flops, self.label, self.inplace, self.serial = flops, label, inplace, False
        self.tensors: list[Tensor] = []
        """All tensors that the step reads or writes."""
        for value in fields.values():
            kind_of_value = value.__class__
            if kind_of_value is Tensor:
                self.tensors.append(value)
            elif kind_of_value is tuple or kind_of_value is list:
                self.tensors += tensors_in(value)

    @property
    def written(self) -> list[Tensor]:
        """Tensors that the step writes."""
        if self.kernel == "native":
            return list(self.fields["outputs"])
        found = map(self.fields.get, _written_fields(self.kernel))
        return [value for value in found if isinstance(value, Tensor)]


@cache
def _written_fields(kernel: str) -> tuple[str, ...]:
    return tuple(name for name, kind in core.fields(kernel).items() if kind in ("out", "io"))


class HostStep:
    """A numpy call between native segments."""

    __slots__ = ("flops", "function", "inputs", "operator", "outputs", "tensors", "type")

    def __init__(
        self, function: Callable[..., Any], inputs: list[Tensor], outputs: list[Tensor], operator: str, type: str
    ) -> None:
        self.function, self.inputs, self.outputs = function, inputs, outputs
        self.operator, self.type, self.flops = operator, type, 0
        self.tensors = [*inputs, *outputs]

    @property
    def written(self) -> list[Tensor]:
        """Tensors that the step writes."""
        return self.outputs


class StageBreak(Exception):
    """Raised while lowering when the outputs of an operator depend on data."""

    def __init__(self, function: Callable[..., Any], inputs: list[Tensor]) -> None:
        super().__init__("data dependent")
        self.function, self.inputs = function, inputs


class Stage:
    """What one lowering yields: steps, and the values of operands at its end."""

    __slots__ = ("breaker", "outputs", "pending", "steps", "values")

    def __init__(
        self,
        steps: list[KernelStep | HostStep],
        values: dict[str, Value],
        outputs: Sequence[Value],
        pending: Operator | None = None,
        breaker: StageBreak | None = None,
    ) -> None:
        self.steps, self.values, self.outputs = steps, values, outputs
        self.pending, self.breaker = pending, breaker


class Lowering(Builder):
    """The builder that operators write to."""

    wants_steps = True

    def __init__(self, isa: str, nthreads: int, constants: Constants, placement: Placement | None = None) -> None:
        self.isa, self.nthreads, self.constants, self.placement = isa, nthreads, constants, placement
        self.weights_bytes = constants.weights_bytes
        self._limit = memory_limit()
        self.steps: list[KernelStep | HostStep] = []
        self.operator: Operator | None = None
        self.carried: dict[Operator, registry.Binding] = {}
        self._reordered: dict[Hashable, Tensor] = {}
        self.held: list[Buffer] = []  # made of constants, and to stay until there is a program that uses it

    @property
    def output_count(self) -> int:
        """See Builder."""
        op = self.operator
        return 1 if op is None else len((_unpacker(op) or op).outputs)

    @property
    def returns_result(self) -> bool:
        """See Builder."""
        users = [user for out in self.operator.outputs for user in out.consumers] if self.operator else []
        return all(user.type == "pnnx.Output" for user in users)

    # -- memory ------------------------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: DType | type | str, order: Order = "plain") -> Tensor:
        """See Builder."""
        dtype = np.dtype(dtype)
        shape = tuple(map(int, shape))
        return Tensor(Buffer("arena", self._nbytes(shape, dtype)), shape, dtype, strides_in(shape, order))

    def _nbytes(self, shape: Sequence[int], dtype: DType) -> int:
        if min(shape, default=0) < 0:
            raise ShapeError("impossible shape", actual=list(shape))
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > self._limit:
            where = self.operator.where if self.operator else "a tensor"
            check_memory(nbytes, f"{where}, shape {list(shape)}")
        return nbytes

    def result(self, shape: Sequence[int], dtype: DType | type | str, order: Order = "plain", index: int = 0) -> Tensor:
        """See Builder."""
        dtype = np.dtype(dtype)
        shape = tuple(map(int, shape))
        strides = strides_in(shape, order)
        if self.placement is not None and self.operator is not None and index < len(self.operator.outputs):
            placed = self.placement.place(self.operator.outputs[index].name, shape, dtype, strides)
            if placed is not None:
                return placed
        return Tensor(Buffer("arena", self._nbytes(shape, dtype)), shape, dtype, strides)

    def scratch(self, nbytes: int) -> Tensor | None:
        """See Builder."""
        return self.empty((nbytes,), np.uint8) if nbytes else None

    def constant(self, array: Array) -> Tensor:
        """See Builder."""
        return self.constants.tensor(array)

    def cached(self, key: Hashable, make: Callable[[], Array]) -> Tensor:
        """See Builder."""
        return self._hold(self.constants.cached((self.isa, key), make))

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """See Builder."""
        return self.constants.kept(key, make)

    def prefer(self, given: Chosen, options: Callable[[], Sequence[Chosen]], weight: Tensor, fields: Any) -> Chosen:
        """See Builder."""
        tuner = self.constants.tuner
        if tuner is None or not weight.is_constant:
            return given
        from pnnx_fast.runtime.autotune import Workload

        self.constants.pack(self.nthreads)  # helpers that pack meanwhile would disturb what is measured
        chosen: Chosen = tuner.choose(Workload(self.isa, self.nthreads, fields, weight), options(), given)
        return chosen

    def pack(self, kernel: str, weight: Tensor, nbytes: int, **fields: Any) -> Tensor:
        """See Builder."""
        key = (self.isa, kernel, weight.identity, nbytes, *sorted(fields.items()))
        return self._hold(self.constants.packed(key, self.isa, kernel, weight, nbytes, fields, self.nthreads))

    def _hold(self, made: Tensor) -> Tensor:
        self.held.append(made.buffer)
        return made

    # -- steps -------------------------------------------------------------------------------------------------

    def plan(self, kernel: str, **fields: Any) -> KernelPlan:
        """See Builder."""
        values = {k: None if v.__class__ is Tensor else v for k, v in fields.items()}
        return KernelPlan(*core.plan(self.isa, kernel, values, self.nthreads))

    def step(
        self,
        kernel: str,
        *,
        flops: int = 0,
        label: str = "",
        serial: bool | None = None,
        inplace: tuple[Tensor, Tensor] | None = None,
        **fields: Any,
    ) -> None:
        """See Builder."""
        name, kind = (self.operator.name, self.operator.type) if self.operator else ("", "")
        new = KernelStep(kernel, fields, name, kind, flops, label, inplace)
        sizes = [t.size for t in new.tensors]
        if 0 in sizes and any(t.size == 0 for t in new.tensors if not t.is_constant) and not _has_work(new):
            return
        new.serial = max(flops, *sizes, 0) < SERIAL_WORK if serial is None else serial
        self.steps.append(new)

    def host(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[Sequence[int], DType | type | str]],
    ) -> list[Tensor]:
        """See Builder."""
        if not all(isinstance(x, Tensor) for x in inputs):
            raise ParameterError("a number where a tensor is expected")
        results = [self.empty(shape, dtype) for shape, dtype in outputs]
        name, kind = (self.operator.name, self.operator.type) if self.operator else ("", "")
        self.steps.append(HostStep(function, list(inputs), results, name, kind))
        return results

    def dynamic(self, function: Callable[..., Any], inputs: Sequence[Tensor]) -> Value:
        """See Builder."""
        if all(t.is_constant for t in inputs):
            with np.errstate(all="ignore"):
                result = function(*(t.numpy() for t in inputs))
            known: Value = map_leaves(lambda p: self.constant(p) if isinstance(p, np.ndarray) else p, result)
            return known
        raise StageBreak(function, list(inputs))

    def random(self) -> np.random.Generator:
        """See Builder."""
        return self.constants.random

    def line_sums(self, x: Tensor) -> Tensor | None:
        """See Builder."""
        from pnnx_fast.runtime.sums import line_sums

        return line_sums(self, x)

    def copy(self, x: Tensor, y: Tensor) -> None:
        """See Builder."""
        if x.shape != y.shape or x.dtype != y.dtype:
            raise ShapeError("copy between different tensors", expected=y, actual=x)
        if x.buffer is y.buffer and x.offset == y.offset and x.has_layout(y.shape, y.strides):
            return
        shape, (xs, ys) = _copied_dims(x, y)
        if len(shape) > core.MAX_RANK:
            self._copy_apart(x, y, math.prod(sorted(shape)[: len(shape) - core.MAX_RANK]))
            return
        size = x.dtype.itemsize
        self.step("copy", x=x, y=y, itemsize=size, rank=len(shape), shape=shape, xs=xs, ys=ys)

    def _copy_apart(self, x: Tensor, y: Tensor, parts: int) -> None:
        """Copy a tensor of more dimensions than kernels know: entry by entry of the smallest ones."""
        if parts > MOST_COPIES:
            raise ShapeError(f"a copy of more than {core.MAX_RANK} unmergeable dimensions", actual=x.shape)
        d = min((d for d in range(x.ndim) if x.shape[d] > 1), key=lambda d: x.shape[d])
        for i in range(x.shape[d]):
            self.copy(x.select(d, i), y.select(d, i))

    def contiguous(self, x: Tensor) -> Tensor:
        """See Builder."""
        return x if x.is_contiguous else self._reorder(x, "plain")

    def channels_last(self, x: Tensor) -> Tensor:
        """See Builder."""
        return x if is_channels_last(x) else self._reorder(x, "channels_last")

    def _reorder(self, x: Tensor, order: Order) -> Tensor:
        if x.is_constant:
            moved = x.numpy() if order == "plain" else np.moveaxis(x.numpy(), 1, -1)
            made = self.cached((order, x.identity), lambda: np.ascontiguousarray(moved))
            return Tensor(made.buffer, x.shape, x.dtype, strides_in(x.shape, order), made.offset)
        key = (order, x.identity)
        if key not in self._reordered:
            y = self.empty(x.shape, x.dtype, order)
            self.copy(x, y)
            self._reordered[key] = y
        return self._reordered[key]

    def cast(self, x: Tensor, dtype: DType | type | str) -> Tensor:
        """See Builder."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.is_constant or not {x.dtype.name, dtype.name} <= _CODES.keys() or x.ndim > core.MAX_RANK:
            from pnnx_fast.expression.types import convert  # most models cast nothing

            if x.is_constant:
                return self.cached(("cast", x.identity, dtype), lambda: convert(x.numpy(), dtype))
            return self.host(lambda a: convert(a, dtype), [x], [(x.shape, dtype)])[0]
        y = self.empty(x.shape, dtype, x if is_channels_last(x) else "plain")
        shape, (xs, ys) = _copied_dims(x, y)
        source, target = _CODES[x.dtype.name], _CODES[dtype.name]
        self.step("convert", x=x, y=y, source=source, target=target, rank=len(shape), shape=shape, xs=xs, ys=ys)
        return y

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """See Builder."""
        view = x.view(shape)
        if view is not None:
            return view
        if not x.is_constant and len(shape) == 4 and x.ndim > 1:
            y = self.empty(shape, x.dtype, "channels_last")
            target = y.view(x.shape)
            if target is not None and _same_innermost(x, target):
                self.copy(x, target)
                return y
        dense = self.contiguous(x)
        return Tensor(dense.buffer, shape, x.dtype, None, dense.offset)

    # -- the walk ----------------------------------------------------------------------------------------------

    def run(self, ops: Sequence[Operator], values: dict[str, Value], outputs: Sequence[str]) -> Stage:
        """Lower ``ops`` in order; ``values`` holds what is known of operands and is extended."""
        for op in ops:
            if op.is_end:
                continue
            self.operator = op
            try:
                produced = self._call(op, values)
            except StageBreak as stop:
                return Stage(self.steps, values, [], op, stop)
            except Exception as error:
                named = named_error(error, op.where)
                if named is error:
                    raise
                raise named from error
            finally:
                self.operator = None
            _store(op, produced, values)
        return Stage(self.steps, values, [values[name] for name in outputs])

    def _call(self, op: Operator, values: Mapping[str, Value]) -> Value:
        bound = self.carried.get(op) or self._bind(op)
        definition = bound.definition
        inputs = [values[operand.name] for operand in op.inputs]
        args, kwargs = bound.arguments(inputs)
        if not definition.random and _foldable(inputs):
            key = self.isa, op, *[t.identity for t in tensors_in(inputs)]
            value = self.constants.folded(key, inputs, lambda: self._fold(definition, args, kwargs))
        else:
            value = definition.function(self, *args, **kwargs)
        if op.outputs and not definition.own:
            check_value(value, op.where)
        if isinstance(value, (list, tuple)) and any(isinstance(given, (list, tuple)) for given in inputs):
            check_nesting(value, op.where)
        return value

    def _bind(self, op: Operator) -> registry.Binding:
        """Weights and parameters of an operator for its function; a second walk takes those of the first."""
        definition = registry.require(op.type, op.name)
        attributes = {key: self.constants.attribute(attr) for key, attr in op.attrs.items()}
        parameters = {key: self.constants.parameter(parameter.value) for key, parameter in op.params.items()}
        names = op.inputnames[: len(op.inputs)]
        bound = self.carried[op] = registry.Binding(definition, op.name, names, attributes, parameters)
        return bound

    def _fold(self, definition: registry.OperatorDef, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Evaluate an operator all of whose inputs are constants, right now."""
        inner = Lowering(self.isa, self.nthreads, self.constants)
        inner.operator = self.operator
        try:
            produced = definition.function(inner, *args, **kwargs)
        except StageBreak:
            return definition.function(self, *args, **kwargs)
        if not inner.steps:
            return produced
        from pnnx_fast.runtime.program import evaluate

        return evaluate(inner.steps, produced, self)


def lower(
    ops: Sequence[Operator],
    values: Mapping[str, Value],
    outputs: Sequence[str],
    isa: str,
    nthreads: int,
    constants: Constants,
) -> Stage:
    """Lower operators; where there are concatenations, after a first walk that finds shapes and places."""
    lowering = Lowering(isa, nthreads, constants)
    if not any(op.type in CONCATENATIONS for op in ops):
        return lowering.run(ops, dict(values), outputs)
    from pnnx_fast.runtime.concat import lower_joined

    return lower_joined(lowering, ops, values, outputs)


def _unpacker(op: Operator) -> Operator | None:
    """The operator that takes the single output of another one apart, as converters write it at their lowest level."""
    users = op.outputs[0].consumers if len(op.outputs) == 1 else []
    return next((u for u in users if u.type in ("prim::TupleUnpack", "prim::ListUnpack")), None)


def _store(op: Operator, produced: Value, values: dict[str, Value]) -> None:
    if len(op.outputs) == 1:
        single = isinstance(produced, Results) and (op.type.endswith("Unpack") or _unpacker(op) is None)
        values[op.outputs[0].name] = _of_operand(op.outputs[0], produced[0] if single else produced)
        return
    parts = list(produced) if isinstance(produced, (tuple, list)) else [produced]
    if op.outputs and (len(parts) < len(op.outputs) or (op.type in CUTS and len(parts) != len(op.outputs))):
        reason = "the operator does not give as many outputs as the graph names"
        raise ShapeError(reason, operator=op.where, expected=len(op.outputs), actual=len(parts))
    for operand, part in zip(op.outputs, parts, strict=False):
        values[operand.name] = part


def _of_operand(operand: Operand, value: Value) -> Value:
    """A value for an operand, which with a noted shape is a tensor."""
    if operand.shape is None or not isinstance(value, (list, tuple)):
        return value
    row = dtypes.by_text.get(operand.dtype or "")
    return registry.only_tensor(value, np.dtype(row.computed) if row else None)


def _copied_dims(x: Tensor, y: Tensor) -> tuple[Shape, list[Shape]]:
    """Sizes and both strides of a copy: sorted by those of the target, neighbours that are dense in both joined."""
    if not x.shape:
        return (), [(), ()]
    ys, xs, shape = zip(*sorted(zip(y.strides, x.strides, x.shape, strict=True), reverse=True), strict=True)
    return merge_dims(shape, xs, ys)


def _same_innermost(x: Tensor, y: Tensor) -> bool:
    """Whether the widest-strided dimensions of two tensors agree, that is, whether pixels stay where they are."""
    dims = [d for d in range(x.ndim) if x.shape[d] != 1]
    outer_x, outer_y = (sorted(dims, key=lambda d: -t.strides[d]) for t in (x, y))
    return bool(dims) and x.ndim > 2 and outer_x[0] == outer_y[0] != dims[0]


def _has_work(step: KernelStep) -> bool:
    """Whether some written tensor is not empty, memory for what lies between aside."""
    written = step.written
    return any(v.size for v in written if v.dtype != np.uint8 or len(written) == 1 or step.kernel == "native")


def _foldable(inputs: Sequence[Value]) -> bool:
    found = False
    for value in inputs:
        for t in (value,) if value.__class__ is Tensor else tensors_in(value):
            if t.buffer.kind != "const":
                return False
            found = True
    return found
