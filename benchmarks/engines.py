"""One function an engine: how it opens a model of the zoo and what one call is; used by worker.py only.

Every engine is set up as its authors advise for latency on n threads in full fp32. Engines that read another
format convert once; the result lies beside the model, named after the engine's version. Each is imported
where it is opened, so a worker holds one engine only. Nothing here measures.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import Array
from benchmarks.manifest import model_directory, zoo_root
from benchmarks.zoo import ZooModel

__all__ = ["CACHED", "ENGINES", "OURS", "Engine", "NotInstalled", "Session", "cache_folder", "version"]

NotInstalled = importlib.metadata.PackageNotFoundError

OURS = "pnnx_fast"

CACHED = f"{OURS}+cache"
"""A variant of ours, no peer: what it packed and lowered is kept in a folder for the next process."""


@dataclass(frozen=True)
class Session:
    """An opened model bound to its input: `run` is the timed call, `arrays` turns its result into arrays."""

    run: Callable[[], Any]
    arrays: Callable[[Any], list[Array]]


@dataclass(frozen=True)
class Engine:
    """How to open a model with one engine, and what must be converted before.

    The converted file serves one number of threads where `by_threads` says so; `slow` ones take minutes to make.
    """

    package: str
    open: Callable[[ZooModel, Sequence[Array], int], Session]
    converted: str | None = None
    convert: Callable[[ZooModel, Path, int], None] | None = None
    by_threads: bool = False
    slow: bool = False

    def converted_path(self, model: ZooModel, threads: int) -> Path | None:
        """File that `convert` writes, or None for engines that read the zoo's own files."""
        if self.converted is None:
            return None
        suffix = f"{threads}.{self.converted}" if self.by_threads else self.converted
        return model.directory / f"peer-{self.package}-{version(self.package)}.{suffix}"


def version(package: str) -> str:
    """Installed version of a distribution.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        It is not installed.
    """
    return importlib.metadata.version(package)


def _module(name: str) -> Any:
    """Imported by name: the engines have no type stubs."""
    return importlib.import_module(name)


def _numpy_list(result: Any) -> list[Array]:
    return [np.asarray(a) for a in (result if isinstance(result, (tuple, list)) else (result,))]


def _onnx(model: ZooModel) -> str:
    path = model.directory / "model.onnx"
    if not path.is_file():
        raise FileNotFoundError("the model has no ONNX form")
    return str(path)


def _pnnx_fast(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    loaded = _module("pnnx_fast").load(str(model.pnnx_param), num_threads=threads)
    return Session(lambda: loaded(*inputs), _numpy_list)


def cache_folder(model: ZooModel) -> Path:
    """Where the variant with a cache keeps what it made of a model."""
    return model.directory / "ours-cache"


def _pnnx_fast_cached(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    path, folder = str(model.pnnx_param), str(cache_folder(model))
    loaded = _module("pnnx_fast").load(path, num_threads=threads, cache=folder)
    return Session(lambda: loaded(*inputs), _numpy_list)


def _onnxruntime(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    ort = _module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(_onnx(model), options, providers=["CPUExecutionProvider"])
    feeds = {entry.name: array for entry, array in zip(session.get_inputs(), inputs, strict=True)}
    return Session(lambda: session.run(None, feeds), _numpy_list)


def _openvino_convert(model: ZooModel, path: Path, threads: int) -> None:
    ov = _module("openvino")
    ov.save_model(ov.Core().read_model(_onnx(model)), str(path), compress_to_fp16=False)


def _openvino(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    ov = _module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    compiled = ov.Core().compile_model(str(ENGINES["openvino"].converted_path(model, threads)), "CPU", settings)
    request = compiled.create_infer_request()
    feeds = dict(enumerate(inputs))
    count = len(compiled.outputs)
    return Session(
        lambda: request.infer(feeds, share_inputs=True),
        lambda result: [result[number] for number in range(count)],
    )


def _ncnn(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    """The format has no batch axis in its weights, so a batch is one call after another."""
    ncnn = _module("ncnn")
    net = ncnn.Net()
    net.opt.num_threads = threads
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage"):
        if hasattr(net.opt, f"use_{name}"):
            setattr(net.opt, f"use_{name}", False)
    directory = model_directory(model.spec.name)
    failed = net.load_param(str(directory / "model.ncnn.param"))
    if failed or net.load_model(str(directory / "model.ncnn.bin")):
        raise RuntimeError("ncnn cannot load its files")
    given = [a.astype(np.int32) if a.dtype == np.int64 else a for a in inputs]
    # Matrices that borrow an array's memory have no owner, which layers that work in place do not survive.
    calls = [[ncnn.Mat(np.ascontiguousarray(a[i])).clone() for a in given] for i in range(model.batch)]
    names = [entry["name"] for entry in model.meta["outputs"]]
    shapes = [tuple(entry["shape"]) for entry in model.meta["outputs"]]

    def run() -> list[list[Array]]:
        results = []
        for call in calls:
            with net.create_extractor() as extractor:
                for number, mat in enumerate(call):
                    extractor.input(f"in{number}", mat)
                outputs = []
                for name in names:
                    status, output = extractor.extract(name)
                    if status:
                        raise RuntimeError(f"ncnn cannot extract {name}: {status}")
                    outputs.append(np.array(output))
                results.append(outputs)
        return results

    def arrays(results: list[list[Array]]) -> list[Array]:
        columns = zip(*results, strict=True)
        return [np.stack(each).reshape(shape) for each, shape in zip(columns, shapes, strict=True)]

    return Session(run, arrays)


def _mnn_convert(model: ZooModel, path: Path, threads: int) -> None:
    # The package's mnnconvert script installs a logging client and reports each conversion; its native
    # function does neither.
    arguments = ["mnnconvert", "-f", "ONNX", "--modelFile", _onnx(model), "--MNNModel", str(path)]
    _module("_tools").mnnconvert([*arguments, "--bizCode", "zoo"])


def _mnn(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    mnn = _module("MNN")
    interpreter = mnn.Interpreter(str(ENGINES["MNN"].converted_path(model, threads)))
    session = interpreter.createSession({"backend": "CPU", "numThread": threads, "precision": "high"})
    if any(0 in interpreter.getSessionOutput(session, e["name"]).getShape() for e in model.meta["outputs"]):
        return _mnn_module(model, inputs, threads)  # sessions cannot run loops
    kinds = {"float32": (mnn.Halide_Type_Float, np.float32), "int64": (mnn.Halide_Type_Int, np.int32)}
    plain = mnn.Tensor_DimensionType_Caffe

    def host(array: Array) -> Any:
        kind, dtype = kinds[array.dtype.name]
        return mnn.Tensor(array.shape, kind, np.ascontiguousarray(array, dtype), plain)

    device_inputs = [(interpreter.getSessionInput(session, f"in{i}"), host(a)) for i, a in enumerate(inputs)]
    device_outputs = [
        (interpreter.getSessionOutput(session, entry["name"]), host(np.zeros(entry["shape"], entry["dtype"])))
        for entry in model.meta["outputs"]
    ]

    def run() -> list[Any]:
        for device, given in device_inputs:
            device.copyFrom(given)
        interpreter.runSession(session)
        for device, result in device_outputs:
            device.copyToHostTensor(result)
        return [result for _, result in device_outputs]

    return Session(run, lambda results: [np.array(result.getNumpyData()) for result in results])


def _mnn_module(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    """The interface for graphs with control flow."""
    nn, expr = _module("MNN.nn"), _module("MNN.expr")
    manager = nn.create_runtime_manager(({"backend": "CPU", "numThread": threads, "precision": "high"},))
    names = [[entry["name"] for entry in model.meta[key]] for key in ("inputs", "outputs")]
    path = str(ENGINES["MNN"].converted_path(model, threads))
    module = nn.load_module_from_file(path, *names, runtime_manager=manager)
    given = [expr.placeholder(list(a.shape), expr.NCHW) for a in inputs]

    def run() -> list[Any]:
        for place, array in zip(given, inputs, strict=True):
            place.write(array)
        return [expr.convert(result, expr.NCHW).read() for result in module.forward(given)]

    return Session(run, _numpy_list)


def _torch_session(run: Callable[..., Any], inputs: Sequence[Array]) -> Session:
    torch = _module("torch")
    tensors = [torch.from_numpy(array) for array in inputs]

    def call() -> Any:
        with torch.inference_mode():
            return run(*tensors)

    def arrays(result: Any) -> list[Array]:
        return [t.numpy() for t in (result if isinstance(result, (tuple, list)) else (result,))]

    return Session(call, arrays)


def _torch(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    torch = _module("torch")
    torch.set_num_threads(threads)
    with torch.inference_mode():
        module = torch.jit.load(str(model.directory / "model.pt")).eval()
        module = torch.jit.optimize_for_inference(torch.jit.freeze(module))
    return _torch_session(module, inputs)


def _inductor_convert(model: ZooModel, path: Path, threads: int) -> None:
    """What torch.compile makes at the first call in a process, with frozen weights, as a shared library."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(zoo_root().parent / "inductor")
    torch = _module("torch")
    torch.set_num_threads(threads)
    module = _module("benchmarks.models").make(model.spec)
    traced = torch.jit.load(str(model.directory / "model.pt"))
    # A trace also keeps buffers that the module computes itself and does not save.
    missing, _ = module.load_state_dict(traced.state_dict(), strict=False)
    if missing:
        raise RuntimeError(f"the trace lacks {', '.join(missing)}")
    tensors = tuple(torch.from_numpy(array) for array in model.arrays("in"))
    with tempfile.TemporaryDirectory(dir=path.parent) as place, torch.no_grad():
        made = Path(place, path.name)
        # The level is that of the code that calls the kernels; theirs is the highest.
        options = {"aot_inductor.output_path": str(made), "aot_inductor.compile_wrapper_opt_level": "O0"}
        exported = torch.export.export(module, tensors).module()
        _module("torch._inductor").aot_compile(exported, tensors, options=options | {"freezing": True})
        made.rename(path)


def _inductor(model: ZooModel, inputs: Sequence[Array], threads: int) -> Session:
    torch = _module("torch")
    torch.set_num_threads(threads)
    path = ENGINES["AOTInductor"].converted_path(model, threads)
    library = torch._C._aoti.AOTIModelContainerRunnerCpu(str(path), 1)
    return _torch_session(lambda *tensors: library.run(list(tensors)), inputs)


ENGINES: dict[str, Engine] = {
    OURS: Engine("pnnx_fast", _pnnx_fast),
    CACHED: Engine("pnnx_fast", _pnnx_fast_cached),
    "onnxruntime": Engine("onnxruntime", _onnxruntime),
    "openvino": Engine("openvino", _openvino, "xml", _openvino_convert),
    "ncnn": Engine("ncnn", _ncnn),
    "MNN": Engine("MNN", _mnn, "mnn", _mnn_convert),
    "torch": Engine("torch", _torch),
    "AOTInductor": Engine("torch", _inductor, "so", _inductor_convert, by_threads=True, slow=True),
}
