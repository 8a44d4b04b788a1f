"""Runs all layer cases with the ``ncnn`` package and stores what it gives in goldens.npz.

usage: python tests/ncnn/make_goldens.py [text]; every case runs in a process of its own, since ncnn may crash.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from layer_cases import CASES, Case  # noqa: E402
from layer_inputs import inputs, text, weights  # noqa: E402

TARGET = HERE / "goldens.npz"


def run(case: Case) -> list[np.ndarray] | str:
    """Outputs of ncnn, or what went wrong."""
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = 1
    net.opt.use_fp16_storage = net.opt.use_fp16_packed = net.opt.use_bf16_storage = False
    net.opt.use_winograd_convolution = False
    if net.load_param_mem(text(case)):
        return "load_param failed"
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(weights(case))
        file.flush()
        if net.load_model(file.name):
            return "load_model failed"
    arrays = inputs(case)
    mats = [ncnn.Mat(a).clone() for a in arrays]
    results = []
    ex = net.create_extractor()
    ex.set_light_mode(False)
    for i, mat in enumerate(mats):
        ex.input(f"a{i}", mat)
    for i in range(case.outputs):
        code, mat = ex.extract(f"b{i}")
        if code:
            return f"extract returned {code}"
        results.append(np.array(mat.numpy()) if mat.dims else np.zeros(0, np.float32))
    return results


def worker() -> None:
    """Answer case numbers on standard input."""
    for line in sys.stdin:
        case = CASES[int(line)]
        try:
            made = run(case)
        except Exception as error:
            made = f"{type(error).__name__}: {error}"
        if isinstance(made, str):
            print(json.dumps({"error": made}), flush=True)
        else:
            print(json.dumps({"data": [[list(a.shape), a.reshape(-1).tolist()] for a in made]}), flush=True)


def main() -> None:
    """Run all cases whose name holds a text."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    known = dict(np.load(TARGET)) if TARGET.exists() and wanted else {}
    process = None
    for number, case in enumerate(CASES):
        if wanted not in case.name:
            continue
        if process is None or process.poll() is not None:
            command = [sys.executable, __file__, "--worker"]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        answer = json.loads(line) if line else {"error": "crashed"}
        if "error" in answer:
            print(f"{case.name}: {answer['error']}")
            if not line:
                process.wait()
            continue
        for i, (shape, values) in enumerate(answer["data"]):
            known[f"{case.name} {i}"] = np.array(values, np.float32).reshape(shape)
    np.savez_compressed(TARGET, **known)
    print(f"{len(known)} arrays, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    worker() if "--worker" in sys.argv else main()
