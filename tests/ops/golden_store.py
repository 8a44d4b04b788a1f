"""Calls of operators with their results in one small file: written with PyTorch at hand, read without.

An entry names an operator, its arguments and its results. Arrays are stored once each, under a digest of their content;
everything else is JSON inside the same archive.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from graph_of_one import Weight

FILE = Path(__file__).parent / "goldens" / "operators.npz"


class Writer:
    """Collects entries and their arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.entries: list[dict[str, Any]] = []

    def encode(self, value: Any) -> Any:
        """JSON for a value; arrays become references."""
        if isinstance(value, np.ndarray):
            plain = np.ascontiguousarray(value.view(np.ndarray)).reshape(value.shape)
            key = hashlib.sha1(repr((plain.shape, plain.dtype.str)).encode() + plain.tobytes()).hexdigest()[:12]
            self.arrays[key] = plain
            return {"weight" if isinstance(value, Weight) else "array": key}
        if isinstance(value, (list, tuple)):
            return [self.encode(v) for v in value]
        return value

    def add(self, kind: str, **fields: Any) -> None:
        """Add one call: arguments, parameters, results."""
        self.entries.append({"kind": kind, **{k: self.encode(v) for k, v in fields.items()}})

    def save(self) -> None:
        """Write the file."""
        FILE.parent.mkdir(exist_ok=True)
        index = np.frombuffer(json.dumps(self.entries).encode(), np.uint8)
        np.savez_compressed(FILE, index=index, **{f"a{k}": v for k, v in self.arrays.items()})


def _decode(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        key = value.get("array") or value.get("weight")
        if key is not None:
            array = arrays[f"a{key}"]
            return array.view(Weight) if "weight" in value else array
        return {k: _decode(v, arrays) for k, v in value.items()}
    return [_decode(v, arrays) for v in value] if isinstance(value, list) else value


def read() -> list[dict[str, Any]]:
    """All entries with their arrays."""
    if not FILE.exists():
        return []
    with np.load(FILE) as archive:
        arrays = {k: archive[k] for k in archive.files}
    return [_decode(e, arrays) for e in json.loads(arrays["index"].tobytes())]
