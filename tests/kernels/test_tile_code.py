"""The compiled register tiles keep their accumulators in registers: no vector of a hot loop lives on the stack."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
ON_STACK = re.compile(r"\(%rsp.*[yz]mm|[yz]mm.*\(%rsp")


def functions(listing: str) -> dict[str, list[tuple[int, str, str]]]:
    """Instructions (address, name, operands) of every function."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    current: list[tuple[int, str, str]] = []
    for line in listing.splitlines():
        if head := re.match(r"^[0-9a-f]+ <(\S+)>:$", line):
            current = found.setdefault(head[1], [])
        elif match := INSTRUCTION.match(line):
            current.append((int(match[1], 16), match[2], match[3]))
    return found


def inner_loops(code: list[tuple[int, str, str]]) -> list[list[tuple[int, str, str]]]:
    """Bodies of loops with multiplications that hold no other loop."""
    loops = []
    for i, (address, name, operands) in enumerate(code):
        target = re.match(r"([0-9a-f]+)", operands) if name.startswith("j") else None
        if target is None or int(target[1], 16) > address:
            continue
        body = [step for step in code[: i + 1] if step[0] >= int(target[1], 16)]
        if any("vfmadd" in step[1] for step in body):
            loops.append(body)
    return [a for a in loops if not any(b is not a and b[0][0] >= a[0][0] and b[-1][0] < a[-1][0] for b in loops)]


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
@pytest.mark.parametrize(
    "level,source,prefix",
    [
        ("avx2", "tile.c", "tile_"),
        ("avx2", "tile.c", "side_"),
        ("avx2", "tile_narrow.c", "narrow_"),
        ("avx2", "tile_run.c", "whole_run_"),
        ("avx2", "conv_winograd_products.c", "products_"),
        ("avx512", "tile.c", "tile_"),
        ("avx512", "tile_narrow.c", "narrow_"),
        ("avx512", "tile_run.c", "whole_run_"),
        ("avx512", "tile_run.c", "half_run_"),
        ("avx512", "conv_winograd_products.c", "products_"),
    ],
)
def test_accumulators_stay_in_registers(level: str, source: str, prefix: str) -> None:
    objects = sorted((ROOT / "build").rglob(f"pf_kernels_{level}.dir/**/{source}.o"))
    if not objects:
        pytest.skip("no build folder here")
    command = ["objdump", "-d", "--no-show-raw-insn", str(objects[-1])]
    found = functions(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    tiles = {name: code for name, code in found.items() if name.startswith(prefix)}
    assert tiles
    for name, code in tiles.items():
        loops = inner_loops(code)
        assert loops, name
        for body in loops:
            spilled = [f"{step[1]} {step[2]}" for step in body if ON_STACK.search(step[2])]
            assert not spilled, f"{name}: {spilled}"
