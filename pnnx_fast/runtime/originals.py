"""Attention reads keys and values where they lie, not copies of them. Models whose query heads share those of keys
repeat these first, and a reshape of what is repeated is a copy; the kernel shares heads itself. Works on the steps of a
lowered program.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from pnnx_fast.ops.symbolic import Buffer, Tensor
from pnnx_fast.runtime.lower import HostStep, KernelStep

__all__ = ["KERNEL", "read_originals"]

KERNEL = "attention_f32"

Copies = dict[Buffer, tuple[Tensor, Tensor]]
"""Tensors and their copies, by the buffer of the copy: the original is as it was, and nothing else was written."""


def read_originals(steps: Sequence[KernelStep | HostStep]) -> list[KernelStep | HostStep]:
    """Let attention read what its keys and values are copies of; copies that nothing reads then are dropped."""
    kernels = [step for step in steps if isinstance(step, KernelStep)]
    copied = {step.fields["y"].buffer for step in kernels if step.kernel == "copy"}
    if not any(step.fields[name].buffer in copied for step in kernels if step.kernel == KERNEL for name in "kv"):
        return list(steps)
    copies: Copies = {}
    made_of: defaultdict[Buffer, list[Buffer]] = defaultdict(list)
    written: set[Buffer] = set()
    changed = False
    for step in steps:
        if isinstance(step, KernelStep) and step.kernel == KERNEL:
            changed |= _redirect(step, copies)
        targets = {t.buffer for t in step.written}
        for buffer in targets:
            for stale in (buffer, *made_of.pop(buffer, ())):
                copies.pop(stale, None)
        if isinstance(step, KernelStep) and step.kernel == "copy" and targets.isdisjoint(written):
            x, y = step.fields["x"], step.fields["y"]
            if x.buffer not in targets:
                copies[y.buffer] = (x, y)
                made_of[x.buffer].append(y.buffer)
        written |= targets
    return _without_unread(steps) if changed else list(steps)


def _redirect(step: KernelStep, copies: Copies) -> bool:
    fields = step.fields
    keys, values = (_forms(fields[name], copies) for name in "kv")
    heads = min(keys.keys() & values.keys())
    changed = False
    for name, x in (("k", keys[heads]), ("v", values[heads])):
        if x is not fields[name]:
            step.tensors[step.tensors.index(fields[name])] = x
            fields |= {name: x, name + "sb": x.strides[0], name + "sh": x.strides[1], name + "sr": x.strides[2]}
            changed = True
    fields["kv_heads"] = heads
    return changed


def _forms(x: Tensor, copies: Copies) -> dict[int, Tensor]:
    """Tensors (batch, heads, rows, columns) that serve in place of one, the one farthest back by number of heads."""
    forms = {x.shape[1]: x}
    original: Tensor | None = x
    while original is not None and original.buffer in copies:
        original = _original(original, *copies[original.buffer])
        if original is not None and original.strides[3] == 1:
            forms[original.shape[1]] = original
    return forms


def _original(t: Tensor, x: Tensor, y: Tensor) -> Tensor | None:
    """The view of ``x`` that ``t`` is of its copy ``y``, with each head once; None where strides cannot say it."""
    parts = _parts(t, x, y)
    if parts is None:
        return None
    if len(parts[1]) == 2 and parts[1][1][1] == 0:
        parts[1].pop()  # each head several times in a row
    if any(len(part) > 1 for part in parts):
        return None
    shape, strides = [], []
    for n, part in zip(t.shape, parts, strict=True):
        shape.append(part[0][0] if part else n)
        strides.append(part[0][1] if part else 1)
    if len(parts[1]) == 1 and strides[1] == 0:
        shape[1] = 1
    return Tensor(x.buffer, shape, x.dtype, strides, x.offset)


def _parts(t: Tensor, x: Tensor, y: Tensor) -> list[list[tuple[int, int]]] | None:
    """For each dimension of a view of ``y`` the sizes and strides that it has over ``x``, from outer to inner."""
    if t.offset != y.offset or t.dtype != y.dtype:  # complex numbers are also seen as pairs, in other strides
        return None
    dims = {step: (n, stride) for n, stride, step in zip(y.shape, x.strides, y.strides, strict=True) if n != 1}
    result: list[list[tuple[int, int]]] = []
    for n, step in zip(t.shape, t.strides, strict=True):
        part: list[tuple[int, int]] = []
        while n > 1:
            size, stride = (n, 0) if step == 0 else dims.pop(step, (0, 0))
            if size == 0 or n % size:
                return None
            n, step = n // size, step * size
            if part and stride == part[0][0] * part[0][1]:
                size, stride = size * part[0][0], part.pop(0)[1]
            part.insert(0, (size, stride))
        result.append(part)
    return result


def _without_unread(steps: Sequence[KernelStep | HostStep]) -> list[KernelStep | HostStep]:
    users: Counter[Any] = Counter(buffer for step in steps for buffer in {t.buffer for t in step.tensors})
    kept: list[KernelStep | HostStep] = []
    for step in reversed(steps):
        if isinstance(step, KernelStep) and step.kernel == "copy":
            y = step.fields["y"].buffer
            if y.kind == "arena" and users[y] == 1:
                users[step.fields["x"].buffer] -= 1
                continue
        kept.append(step)
    return kept[::-1]
