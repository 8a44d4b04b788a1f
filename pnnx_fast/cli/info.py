"""Show inputs, outputs, operators, weights, FLOPs and memory of a model."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pnnx_fast
from pnnx_fast._memory import format_bytes
from pnnx_fast.cli.arguments import add_bin, add_model, add_size, graph_alone
from pnnx_fast.cli.arrays import given_sizes, zero_inputs
from pnnx_fast.errors import PnnxFastError
from pnnx_fast.ir.outputs import leaves, returned
from pnnx_fast.ir.statistics import format_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast info``."""
    add_model(parser)
    add_bin(parser)
    add_size(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast info``."""
    facts = collect(args.model, args.bin, args.size)
    if args.json:
        print(json.dumps(facts, indent=1))
        return 0
    for kind in ("inputs", "outputs"):
        for tensor in facts[kind]:
            shape = "" if tensor["shape"] is None else f" {tensor['shape']}".replace("-1", "?")
            print(f"{kind[:-1]:7} {tensor['name']}: {tensor['dtype'] or 'unknown'}{shape}")
    print(f"weights {facts['parameters']:,} values, {format_bytes(facts['weight_bytes'])}")
    if "flops" in facts:
        arena = format_bytes(facts["arena_bytes"])
        print(f"work    {format_count(facts['flops'])} FLOP, {arena} of activations, {facts['steps']} steps")
    else:
        print(f"work    unknown: {facts['reason']}")
    print(f"{sum(facts['operators'].values())} operators:")
    for name, count in facts["operators"].items():
        print(f"{count:6} {name}")
    return 0


def collect(param: Any, bin: Any = None, size: Sequence[tuple[str, list[int]]] = ()) -> dict[str, Any]:
    """Gather what the command prints, as plain data."""
    graph = graph_alone(param, bin)
    sizes = given_sizes([x.name for x in graph.inputs], size)
    attributes = [a for op in graph.ops for a in op.attrs.values()]
    facts: dict[str, Any] = {
        "operators": dict(Counter(op.type for op in graph.ops).most_common()),
        "parameters": sum(a.elemcount for a in attributes),
        "weight_bytes": sum(a.elemcount * a.elemsize for a in attributes),
    }
    facts["inputs"] = [_operand(x) for x in graph.inputs]
    facts["outputs"] = [_operand(x) for x in leaves(returned(graph))]
    if any(a.elemcount and not a.data for a in attributes):
        return facts | {"reason": "there are no weights"}
    try:
        model = pnnx_fast.Model(graph)
        facts.update(model.work(*zero_inputs(model, sizes)))
    except PnnxFastError as error:
        facts["reason"] = str(error)
    return facts


def _operand(operand: Any) -> dict[str, Any]:
    return {
        "name": operand.name,
        "dtype": operand.dtype,
        "shape": None if operand.shape is None else list(operand.shape),
    }
