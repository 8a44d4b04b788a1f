"""Operators written in C: the example plugin built and run, function pointers of several kinds, errors, threads."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Attribute, Graph, Model, native
from pnnx_fast.errors import NativeOperatorError, ParameterError, ShapeError
from pnnx_fast.ir.dtypes import DTYPES
from pnnx_fast.native_abi import ABI, FUNCTIONS, LAYOUTS, MAX_RANK, COp
from pnnx_fast.ops import registry

EXAMPLE = Path(__file__).parents[1] / "examples" / "native_op"
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

SOURCE = r"""
#include <pnnx_fast/op.h>
#include <stddef.h>
int released = 0;
static int init(void **state, const pf_op_param *p, int32_t np, const pf_op_weight *w, int32_t nw) {
    static int token;
    (void)w;
    *state = &token;
    return nw == 0 && np == 5 && p[0].floats[0] == 2.5 && p[1].ints[0] == 1 && p[2].ints[1] == 7 &&
           p[3].strings[0][0] == 'h' && p[4].strings[1][0] == 'b' ? 0 : 42;
}
static void release(void *state) { released += state != NULL; }
static int plain(void *s, const pf_op_tensor *x, int32_t nx, const pf_op_tensor *y, int32_t ny, const pf_op_host *h) {
    (void)s; (void)nx; (void)ny; (void)h;
    int64_t n = 1;
    for (int d = 0; d < x->rank; d++) n *= x->shape[d];
    for (int64_t i = 0; i < n; i++) ((float *)y->data)[i] = 2 * ((float *)x->data)[i];
    return 0;
}
typedef struct { int64_t n, *done; const pf_op_host *host; } nest;
static void inner(void *c, int64_t b, int64_t e) { __atomic_fetch_add(((nest *)c)->done, e - b, __ATOMIC_RELAXED); }
static void outer(void *c, int64_t b, int64_t e) {
    nest *n = c;
    for (int64_t i = b; i < e; i++) n->host->parallel_for(n->host, n->n, 3, inner, c);
}
/* Counts visited items over many loops, flat and nested, into y[0]. */
static int loops(void *s, const pf_op_tensor *x, int32_t nx, const pf_op_tensor *y, int32_t ny, const pf_op_host *h) {
    (void)s; (void)nx; (void)ny;
    int64_t done = 0;
    nest c = {x->shape[0], &done, h};
    for (int i = 0; i < 50; i++) h->parallel_for(h, c.n, 7, inner, &c);
    h->parallel_for(h, 10, 1, outer, &c);
    h->parallel_for(h, 0, 1, inner, &c);
    ((float *)y->data)[0] = (float)done;
    return 0;
}
static int layout(void *s, const pf_op_tensor *x, int32_t nx, const pf_op_tensor *y, int32_t ny, const pf_op_host *h) {
    (void)s; (void)nx; (void)ny; (void)h;
    if (x->strides[1] != 1 || y->strides[1] != 1 || x->layout != PF_OP_CHANNELS_LAST) return 9;
    for (int64_t n = 0; n < x->shape[0]; n++)
        for (int64_t i = 0; i < x->shape[2]; i++)
            for (int64_t j = 0; j < x->shape[3]; j++)
                for (int64_t c = 0; c < x->shape[1]; c++)
                    ((float *)y->data)[n * y->strides[0] + i * y->strides[2] + j * y->strides[3] + c] =
                        ((float *)x->data)[n * x->strides[0] + i * x->strides[2] + j * x->strides[3] + c] + c;
    return 0;
}
static int two(void *s, const pf_op_tensor *x, int32_t nx, const pf_op_tensor *y, int32_t ny, const pf_op_host *h) {
    (void)s; (void)h;
    if (nx != 2 || ny != 2 || x[1].dtype != PF_OP_I64 || x[1].rank != 0) return 5;
    ((int64_t *)y[1].data)[0] = ((int64_t *)x[1].data)[0] + 1;
    ((float *)y[0].data)[0] = ((float *)x[0].data)[0];
    return 0;
}
static int fails(void *s, const pf_op_tensor *x, int32_t nx, const pf_op_tensor *y, int32_t ny, const pf_op_host *h) {
    (void)s; (void)x; (void)nx; (void)y; (void)ny; (void)h;
    return 17;
}
PF_OP_EXPORT const pf_op *pnnx_fast_operator(int32_t i);
#define OP(NAME, LAYOUT, INIT, RUN) {PF_OP_ABI, sizeof(pf_op), NAME, LAYOUT, 0, INIT, NULL, RUN, release}
PF_OP_EXPORT const pf_op *pnnx_fast_operator(int32_t i) {
    static const pf_op ops[] = {OP("test.init", 0, init, plain), OP("test.plain test.alias", 0, NULL, plain),
        OP("test.loops", 0, NULL, loops), OP("test.layout", PF_OP_CHANNELS_LAST, NULL, layout),
        OP("test.fails", 0, NULL, fails)};
    return i < 5 ? &ops[i] : NULL;
}
PF_OP_EXPORT int run_two(void *s, const pf_op_tensor *x, int32_t nx, const pf_op_tensor *y, int32_t ny,
                         const pf_op_host *h);
PF_OP_EXPORT int run_two(void *s, const pf_op_tensor *x, int32_t nx, const pf_op_tensor *y, int32_t ny,
                         const pf_op_host *h) { return two(s, x, nx, y, ny, h); }
"""


def build(source: Path, target: Path) -> Path:
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", f"-I{pnnx_fast.get_include()}"]
    subprocess.run([str(COMPILER), *flags, str(source), "-o", str(target)], check=True)
    return target


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("native")
    (folder / "ops.c").write_text(SOURCE, "utf-8")
    path = build(folder / "ops.c", folder / "ops.so")
    types = native.load_library(path)
    types += native.load_library(build(EXAMPLE / "moving_average" / "operators.c", folder / "average.so"))
    yield path
    for name in types:
        registry.unregister(name)


def one(kind: str, shape: str, parameters: str = "", nthreads: int = 2, dtype: str = "f32") -> Model:
    text = f"7767517\n3 2\npnnx.Input a 0 1 x #x={shape}{dtype}\n{kind} e 1 1 x y {parameters}\npnnx.Output o 1 0 y\n"
    return Model(Graph.parse(text), nthreads)


def average(x: Any, window: int) -> Any:
    return np.stack([x[..., max(i - window + 1, 0) : i + 1].mean(-1) for i in range(x.shape[-1])], -1)


def test_numbers_are_those_of_the_header() -> None:
    text = Path(native.get_include(), "pnnx_fast", "op.h").read_text("utf-8")
    numbers = {name: int(value) for name, value in re.findall(r"\bPF_OP_(\w+) *=?\s+(\d+)\b", text)}
    assert numbers.pop("ABI") == ABI
    assert numbers.pop("MAX_RANK") == MAX_RANK
    assert [numbers.pop(layout.upper()) for layout in LAYOUTS] == list(range(len(LAYOUTS)))
    assert numbers == {row.text.upper(): row.code for row in DTYPES if row.code <= 9}


@pytest.mark.parametrize("nthreads", [1, 2])
def test_the_example(library: Path, nthreads: int) -> None:
    model = one("example.MovingAverage", "(1000,40)", "window=5", nthreads)
    x = np.random.default_rng(0).standard_normal((1000, 40), np.float32)
    for _ in range(20):
        np.testing.assert_allclose(model(x), average(x, 5), atol=1e-5)
    np.testing.assert_allclose(model(x[:3]), average(x[:3], 5), atol=1e-5)
    assert next(s.kernel for s in model.profile(x).steps).startswith("native")
    assert model(x[:0]).shape == (0, 40)


def test_a_weight_and_neighbours(library: Path) -> None:
    text = """7767517
5 4
pnnx.Input a 0 1 x #x=(4,6)f32
F.relu r 1 1 x y
example.MovingAverage e 1 1 y z window=2
F.relu s 1 1 z w
pnnx.Output o 1 0 w
"""
    graph = Graph.parse(text)
    graph.ops[2].attrs["scale"] = Attribute(np.float32([3]))
    x = np.random.default_rng(0).standard_normal((4, 6), np.float32)
    np.testing.assert_allclose(Model(graph, 2)(x), 3 * average(np.maximum(x, 0), 2), atol=1e-5)


def test_one_model_in_several_threads(library: Path) -> None:
    model = one("example.MovingAverage", "(1000,40)", "window=3")
    data = [np.random.default_rng(i).standard_normal((1000, 40), np.float32) for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        for x, y in zip(data, pool.map(model, data), strict=True):
            np.testing.assert_allclose(y, average(x, 3), atol=1e-5)


def test_parallel_loops_visit_every_item_once(library: Path) -> None:
    model = one("test.loops", "(30000)")
    for _ in range(10):
        assert model(np.zeros(30000, np.float32))[0] == 50 * 30000 + 10 * 30000


def test_parameters_and_release(library: Path) -> None:
    counter = ctypes.c_int.in_dll(ctypes.CDLL(str(library)), "released")
    before = counter.value
    model = one("test.init", "(4)", "a=2.5 b=True c=(3,7) d=hello e=(a,b)")
    assert model(np.ones(4, np.float32)).tolist() == [2, 2, 2, 2]
    del model
    gc.collect()
    assert counter.value == before + 1
    with pytest.raises(NativeOperatorError, match=r"test\.init e: init of a native operator returned 42") as caught:
        one("test.init", "(4)", "a=1.0")(np.ones(4, np.float32))
    assert caught.value.code == 42


def test_channels_last(library: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5), np.float32)
    np.testing.assert_allclose(one("test.layout", "(2,3,4,5)")(x), x + np.arange(3, dtype=np.float32)[:, None, None])


def test_a_failing_run_names_the_operator(library: Path) -> None:
    with pytest.raises(NativeOperatorError, match=r"test\.fails e: run of a native operator returned 17"):
        one("test.fails", "(4)")(np.ones(4, np.float32))
    with pytest.raises(NativeOperatorError, match=r"example\.MovingAverage e: infer of a native operator returned 2"):
        one("example.MovingAverage", "(4)", "window=1", dtype="i64")(np.ones(4, np.int64))


def test_a_library_in_the_current_folder(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library.parent)
    assert "test.fails" in native.load_library(Path(library.name), override=True)


def _pointers(library: Path) -> dict[str, Any]:
    function = ctypes.CDLL(str(library)).run_two
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
    address = ctypes.cast(function, ctypes.c_void_p).value

    class NumbaLike:
        def __init__(self) -> None:
            self.address = address

    found = {"ctypes": function, "address": address, "numba": NumbaLike()}
    found["capsule"] = new(address, b"int (void *, ...)", None)
    try:
        from cffi import FFI

        found["cffi"] = FFI().cast("void *", address)
    except ImportError:
        pass
    return found


@pytest.mark.parametrize("kind", ["ctypes", "address", "numba", "capsule", "cffi"])
def test_function_pointers_and_inference_in_python(library: Path, kind: str) -> None:
    pointers = _pointers(library)
    if kind not in pointers:
        pytest.skip(f"{kind} is not installed")
    types = native.define("test.two", run=pointers[kind], infer=lambda inputs, _: [inputs[0], ((), np.int64)])
    try:
        text = """7767517
5 4
pnnx.Input a 0 1 x #x=(1)f32
pnnx.Expression c 1 1 x n expr=add(size(@0,0),40)
test.two e 2 2 x n y z
pnnx.Output o 1 0 y
pnnx.Output p 1 0 z
"""
        y, z = Model(Graph.parse(text))(np.float32([3]))
        assert (y.tolist(), int(z)) == ([3], 42)
    finally:
        for name in types:
            registry.unregister(name)


def test_a_python_callback_may_be_run(library: Path) -> None:
    @FUNCTIONS["run"]  # type: ignore[untyped-decorator]
    def negate(state: Any, x: Any, nx: int, y: Any, ny: int, host: Any) -> int:
        source = ctypes.cast(x[0].data, ctypes.POINTER(ctypes.c_float))
        target = ctypes.cast(y[0].data, ctypes.POINTER(ctypes.c_float))
        for i in range(x[0].shape[0]):
            target[i] = -source[i]
        return 0

    native.define("test.negate", run=negate)
    try:
        assert one("test.negate", "(3)")(np.float32([1, 2, 3])).tolist() == [-1, -2, -3]
    finally:
        registry.unregister("test.negate")


def test_refusals(library: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="already"):
        native.load_library(library)
    with pytest.raises(ParameterError, match="interface 99"):
        native.register(COp(abi=99, size=72, run=1), "test.new")
    with pytest.raises(ParameterError, match="no function run"):
        native.register(COp(abi=1, size=ctypes.sizeof(COp)), "test.new")
    with pytest.raises(ParameterError, match="layout"):
        native.define("test.new", run=4096, layout="diagonal")
    with pytest.raises(ParameterError, match="no C function"):
        native.define("test.new", run="text")
    with pytest.raises(ParameterError, match="3 is no C function or pointer"):
        native.register(3)
    (tmp_path / "empty.c").write_text("int nothing;", "utf-8")
    with pytest.raises(ParameterError, match="does not export"):
        native.load_library(build(tmp_path / "empty.c", tmp_path / "empty.so"))
    text = "7767517\n4 3\npnnx.Input a 0 1 x #x=(1)f32\ntest.plain e 1 2 x y z\n"
    text += "pnnx.Output o 1 0 y\npnnx.Output p 1 0 z\n"
    with pytest.raises(ShapeError, match="one result"):
        Model(Graph.parse(text))(np.float32([3]))


SCRIPT = """
import numpy as np, pnnx_fast
graph = pnnx_fast.Graph.parse('''7767517
3 2
pnnx.Input a 0 1 x #x=(2,3)f32
example.MovingAverage e 1 1 x y window=2
pnnx.Output o 1 0 y
''')
print(pnnx_fast.Model(graph)(np.float32([[2, 4, 8], [1, 1, 1]])).tolist())
"""


def test_the_example_as_a_package(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="70.1")  # older ones cannot make wheels by themselves
    shutil.copytree(EXAMPLE, tmp_path / "source")
    target = tmp_path / "site"
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(tmp_path / "source")]
    subprocess.run(pip, check=True, cwd=tmp_path)
    env = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[[2.0, 3.0, 6.0], [1.0, 1.0, 1.0]]"
