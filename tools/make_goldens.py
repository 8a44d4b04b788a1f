"""Writes tests/ops/goldens/operators.npz: the tables of operator cases with PyTorch's results. Needs PyTorch."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "ops"))

import aten_cases  # type: ignore[import-not-found]  # noqa: E402
import aten_layer_cases  # type: ignore[import-not-found]  # noqa: E402
import aten_rare_cases  # type: ignore[import-not-found]  # noqa: E402
import golden_store  # type: ignore[import-not-found]  # noqa: E402
import module_cases  # type: ignore[import-not-found]  # noqa: E402
import operator_cases  # type: ignore[import-not-found]  # noqa: E402
import oracle  # type: ignore[import-not-found]  # noqa: E402


def parts(want: Any) -> list[np.ndarray]:
    """Results as a list of arrays."""
    return [oracle.as_array(w) for w in oracle.flat(want)]


def main() -> None:
    """Run all rows through PyTorch and write the file."""
    warnings.filterwarnings("ignore")
    writer = golden_store.Writer()
    for case in (*operator_cases.CASES, *module_cases.LAYERS):
        inputs, weights, outputs = oracle.ask(case)
        names = [n if len(n) > 1 else "" for n in case.names]
        listed = [[k, v] for k, v in weights.items()]
        params = [[k, v] for k, v in case.params.items()]
        writer.add(case.kind, inputs=inputs, names=names, weights=listed, params=params, outputs=outputs)
    rows = [*aten_cases.CASES, *aten_layer_cases.LAYERS, *aten_rare_cases.RARE]
    for name in aten_cases.EXPRESSIONS:
        if name not in ("floordiv", "log_sigmoid"):
            rows += [(f"aten::{name}", *values) for values in aten_cases.expression_arguments(name)]
    for kind, *values in rows:
        outputs = parts(oracle.ask_aten(kind, tuple(values)))
        outputs = outputs[:1] if kind in aten_cases.FIRST_ONLY else outputs
        writer.add(kind, args=list(values), outputs=outputs)
    writer.save()
    print(f"{len(writer.entries)} entries, {golden_store.FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
