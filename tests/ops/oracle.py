"""PyTorch's answers to the rows of the tables: inputs of a row, weights of its module, results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from operator_cases import Case

from pnnx_fast.ir.outputs import flat

SPACES = {"F": torch.nn.functional, "torch": torch, "Tensor": torch.Tensor, "torch.fft": torch.fft}


class Answer(NamedTuple):
    """What a row is called with and what PyTorch gives."""

    inputs: list[np.ndarray]
    weights: dict[str, np.ndarray]
    outputs: list[np.ndarray]


def sample(spec: str, seed: int) -> np.ndarray:
    """Values of "dtype dims…"; p4 is positive, u4 in (0, 1), q4 above 1."""
    kind, *dims = spec.split()
    rng, shape = np.random.default_rng(seed), tuple(map(int, dims))
    if kind in ("i8", "i4"):
        return np.asarray(rng.integers(1, 7, shape), kind)
    if kind == "b4":
        return np.asarray(rng.integers(0, 2, shape), "f4")
    if kind == "b1":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if kind == "c8":
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), kind)
    if kind in ("u4", "q4"):
        return np.asarray(rng.random(shape) * 0.8 + (0.1 if kind == "u4" else 1.0), "f4")
    values = rng.standard_normal(shape)
    return np.asarray(np.abs(values) + 0.1 if kind == "p4" else values, kind.replace("p", "f"))


def as_array(value: Any) -> np.ndarray:
    """Values of a tensor, conjugated and negated for good."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    array: np.ndarray = value.detach().resolve_conj().resolve_neg().numpy()
    return array


def ask(case: Case) -> Answer:
    """Run a row through PyTorch."""
    arrays = [sample(spec, i) for i, spec in enumerate(case.inputs)]
    tensors = [torch.from_numpy(np.array(a)) for a in arrays]
    home, name = case.kind.rsplit(".", 1)
    weights: dict[str, np.ndarray] = {}
    with torch.no_grad():
        if case.call is not None:
            named = dict(zip(case.names, tensors, strict=True)) if case.names else {}
            result = case.call(*([] if named else tensors), **named, **case.params)
        elif home == "nn":
            torch.manual_seed(0)
            module = getattr(torch.nn, name)(**case.params).eval()
            for key, value in module.state_dict().items():
                if value.is_floating_point():
                    value.uniform_(0.5, 1.5) if "var" in key else value.uniform_(-0.7, 0.7)
                    weights[key] = as_array(value)
            result = module(*tensors)
        elif case.names:
            result = getattr(SPACES.get(home, torch.linalg), name)(
                **dict(zip(case.names, tensors, strict=True)), **case.params
            )
        else:
            result = getattr(SPACES.get(home, torch.linalg), name)(*tensors, **case.params)
    return Answer(arrays, weights, [as_array(r) for r in flat(result)])


def as_torch(value: Any) -> Any:
    if isinstance(value, list):
        return [as_torch(v) for v in value]
    # A copy: some operators write to their first argument.
    return torch.from_numpy(np.array(value, order="C")) if isinstance(value, np.ndarray) else value


def ask_aten(kind: str, values: tuple[Any, ...]) -> Any:
    """Result of the overload of ``torch.ops.aten`` that takes this many arguments, keyword-only ones included."""
    name = kind[6:].replace("nonzero_numpy", "where")
    name = {"vector_norm": "linalg_vector_norm"}.get(name, name)
    packet = getattr(torch.ops.aten, name)
    dtypes = {4: torch.int64, 6: torch.float32, 7: torch.float64}
    overloads = [getattr(packet, name) for name in packet.overloads()]
    for overload in sorted(overloads, key=lambda o: len(o._schema.arguments)):
        arguments = overload._schema.arguments
        if len(arguments) < len(values) or any(a.is_out for a in arguments):
            continue
        plain = [as_torch(v) for a, v in zip(arguments, values, strict=False) if not a.kwarg_only]
        named = {a.name: as_torch(v) for a, v in zip(arguments, values, strict=False) if a.kwarg_only}
        if named.get("dtype") is not None:
            named["dtype"] = dtypes[named["dtype"]]
        if named.get("memory_format") is not None:
            named["memory_format"] = torch.contiguous_format
        try:
            return overload(*plain, **named)
        except (RuntimeError, TypeError):
            continue
    raise LookupError(f"{kind} takes other arguments")
