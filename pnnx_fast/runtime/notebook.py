"""What notebooks show of a model: what it takes and gives, what it is compiled for, and what the last program does."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pnnx_fast._memory import format_bytes
from pnnx_fast.ir.notebook import Rows, html, some
from pnnx_fast.ir.statistics import format_count

if TYPE_CHECKING:
    from pnnx_fast.runtime.compiler import Compiler
    from pnnx_fast.runtime.executable import Runnable
    from pnnx_fast.runtime.session import Model

__all__ = ["model_html"]


def model_html(model: Model, compiler: Compiler | None, shapes: list[str], last: Runnable | None) -> str:
    """Return the summary of a model: its compiler, the shapes that it is compiled for and the program that ran last.

    Nothing is compiled or read for it; what there is not yet is left out.
    """
    facts = [*some("input", model.inputs), *some("output", model.outputs)]
    facts.append(("runs on", f"{model.num_threads} thread(s), {model.isa}"))
    if compiler is not None:
        facts.append(("weights", format_bytes(compiler.constants.weights_bytes)))
    facts += some("compiled for", shapes)
    if last is None:
        return html("Model", facts)
    work: defaultdict[str, list[int]] = defaultdict(list)
    for record in last.records():
        work[record.type or "(copies)"].append(record.flops)
    flops = sum(map(sum, work.values()))
    facts.append(("last program", f"{format_count(flops)} FLOP, {format_bytes(last.arena_bytes)} of activations"))
    rows: Rows = [
        ("type", "steps", "FLOP"),
        *((kind, len(each), format_count(sum(each))) for kind, each in sorted(work.items(), key=lambda x: -sum(x[1]))),
    ]
    return html("Model", facts, rows)
