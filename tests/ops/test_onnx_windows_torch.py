"""Operators that keep their ONNX names, windows, boxes, sizes and recurrent layers among them, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import Weight, call, run

import pnnx_fast
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, LimitError, ParameterError, ShapeError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype("f4")


def answer(kind: str, inputs: dict[str, Any], attributes: dict[str, Any], outputs: int, opset: int) -> list[Array]:
    """Results of a model of one node; arrays are fed, other inputs are constants of the model, None is left out."""
    there = {name: v for name, v in inputs.items() if v is not None}
    given = {name: np.asarray(v, None if isinstance(v, np.ndarray) else _type(v)) for name, v in there.items()}
    names = ["" if inputs[name] is None else name for name in inputs]
    results = [f"result{i}" for i in range(outputs)]
    node = onnx.helper.make_node(kind, names, results, **attributes)
    fed = {name: given[name] for name, v in inputs.items() if isinstance(v, np.ndarray)}
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(v.dtype) for name, v in fed.items()}
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.helper.make_tensor_value_info(name, types[name], v.shape) for name, v in fed.items()],
        [onnx.helper.make_empty_tensor_value_info(name) for name in results],
        [onnx.numpy_helper.from_array(given[n], n) for n in there if n not in fed],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    found: list[Array] = runtime.InferenceSession(model.SerializeToString()).run(None, fed)
    return found


def _type(value: Any) -> str:
    items = value if isinstance(value, tuple) else (value,)
    return "f4" if any(isinstance(v, float) for v in items) else "i8"


def _lists(value: Any) -> Any:
    return (value,) if isinstance(value, (int, float)) else value


X, IMAGE, LINE, VOLUME = real(3, 4, 5), real(2, 8, 5, 6), real(2, 3, 8), real(1, 2, 4, 5, 6)
BOXES = (RNG.random((2, 20, 4)) * 10).astype("f4")
SCORES = RNG.random((2, 3, 20)).astype("f4").round(1)
REGIONS = np.float32([[0, 0, 0, 4, 4], [1, 1, 0.5, 3, 5], [0, 2, 2, 2.2, 2.3], [1, -3, -2, 9, 3], [1, 4, 4, 2, 1]])
PLACES = np.sort(RNG.permutation(128)[:32]).reshape(1, 2, 4, 4)
FILTERS, SMALL = real(4, 8, 3, 2), real(8, 2, 3, 3)
OFFSETS, MASK = real(2, 36, 5, 6), real(2, 18, 5, 6)
SEQUENCE = real(6, 2, 5)

Row = tuple[str, dict[str, Any], dict[str, Any]]

ROWS: list[Row] = [
    ("Selu", {"X": X}, {"alpha": 1.0, "gamma": 2.0}),
    ("Shrink", {"input": X}, {"lambd": 0.3, "bias": 0.2}),
    ("Slice", {"data": X, "starts": (0, 1), "ends": (2, 3)}, {}),
    ("Slice", {"data": X, "starts": (-1, 3), "ends": (-99, 0), "axes": (2, 1), "steps": (-2, -1)}, {}),
    ("ConstantOfShape", {"input": (2, 3)}, {}),
    ("Conv", {"X": IMAGE, "W": FILTERS, "B": real(4)}, {"auto_pad": "SAME_LOWER"}),
    ("Conv", {"X": IMAGE, "W": FILTERS}, {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    ("Conv", {"X": IMAGE, "W": SMALL}, {"group": 4, "pads": [0, 1, 2, 1]}),
    ("Conv", {"X": LINE, "W": real(2, 3, 3)}, {"auto_pad": "SAME_UPPER", "strides": [3]}),
    ("ConvTranspose", {"X": IMAGE, "W": SMALL, "B": real(2)}, {"pads": [1, 0, 1, 1], "strides": [2, 2]}),
    ("ConvTranspose", {"X": IMAGE, "W": SMALL}, {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("ConvTranspose", {"X": IMAGE, "W": SMALL}, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ("ConvTranspose", {"X": IMAGE, "W": SMALL}, {"output_shape": [10, 12], "strides": [2, 2]}),
    ("ConvTranspose", {"X": IMAGE, "W": SMALL}, {"output_padding": [1, 0], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", {"X": IMAGE}, {"kernel_shape": [3, 2], "pads": [0, 1, 2, 1]}),
    ("AveragePool", {"X": IMAGE}, {"kernel_shape": [3, 2], "pads": [0, 1, 2, 1], "count_include_pad": 1}),
    ("AveragePool", {"X": LINE}, {"kernel_shape": [3], "strides": [2], "pads": [0, 1]}),
    ("AveragePool", {"X": LINE}, {"kernel_shape": [3], "strides": [2], "pads": [1, 2], "dilations": [2]}),
    (
        "AveragePool",
        {"X": IMAGE},
        {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 0, 0, 2], "count_include_pad": 1},
    ),
    ("LpPool", {"X": IMAGE}, {"kernel_shape": [2, 2]}),
    ("LpPool", {"X": IMAGE}, {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "p": 3}),
    ("LpPool", {"X": IMAGE}, {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER", "p": 1}),
    ("LpPool", {"X": LINE}, {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
    ("LpPool", {"X": LINE}, {"kernel_shape": [2], "dilations": [2], "pads": [1, 0]}),
    ("LpPool", {"X": VOLUME}, {"kernel_shape": [2, 2, 2]}),
    ("MaxUnpool", {"X": real(1, 2, 4, 4), "I": PLACES}, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxUnpool", {"X": real(1, 2, 4, 4), "I": PLACES, "output_shape": (1, 2, 9, 9)}, {"kernel_shape": [2, 2]}),
    ("DeformConv", {"X": IMAGE, "W": FILTERS, "offset": real(2, 12, 5, 8), "B": real(4)}, {"pads": [0, 1, 2, 2]}),
    (
        "DeformConv",
        {"X": IMAGE, "W": real(4, 4, 3, 3), "offset": OFFSETS, "B": None, "mask": MASK},
        {"group": 2, "offset_group": 2, "pads": [1, 1, 1, 1]},
    ),
    ("MaxRoiPool", {"X": IMAGE, "rois": REGIONS}, {"pooled_shape": [3, 2], "spatial_scale": 0.9}),
]
BYTES, SCALES, ZEROS = RNG.integers(0, 256, (2, 8, 5, 6)).astype("u1"), np.arange(1, 9, dtype="f4") / 50, np.arange(8)
ROWS += [
    ("QuantizeLinear", {"x": IMAGE, "y_scale": 0.02}, {}),
    ("QuantizeLinear", {"x": 9 * IMAGE, "y_scale": SCALES, "y_zero_point": ZEROS.astype("i1")}, {}),
    ("QuantizeLinear", {"x": LINE, "y_scale": SCALES, "y_zero_point": ZEROS.astype("u1")}, {"axis": -1}),
    ("DequantizeLinear", {"x": BYTES, "x_scale": 0.02}, {}),
    ("DequantizeLinear", {"x": BYTES, "x_scale": SCALES, "x_zero_point": ZEROS.astype("u1")}, {"axis": 1}),
    ("DequantizeLinear", {"x": BYTES.astype("i4") - 99, "x_scale": 0.02}, {}),
]
LIMITS = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")
ROWS += [
    ("NonMaxSuppression", {"boxes": BOXES, "scores": SCORES, **dict(zip(LIMITS, limits, strict=False))}, options)
    for limits in ((), (5,), (99, 0.3), (99, 0.0), (5, 0.7, 0.3))
    for options in ({}, {"center_point_box": 1})
]
SIZES: list[Row] = []
for _mode in ("nearest", "linear", "cubic"):
    for _places in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"):
        _options = {"mode": _mode, "coordinate_transformation_mode": _places, "axes": [2, 3]}
        for _sizes in ((3, 13), (1, 9)):
            SIZES.append(("Resize", {"X": IMAGE, "roi": None, "scales": None, "sizes": _sizes}, _options))
        SIZES.append(("Resize", {"X": IMAGE, "roi": None, "scales": (1.7, 0.6)}, _options))
    _cut = {"mode": _mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.0}
    _part = {"X": X[None], "roi": (0.0, 0.0, 0.1, -0.2, 1.0, 1.0, 0.8, 0.9), "scales": None, "sizes": (1, 3, 4, 7)}
    SIZES.append(("Resize", _part, _cut))
    for _policy in ("not_larger", "not_smaller"):
        _kept = {"mode": _mode, "axes": [2, 3], "keep_aspect_ratio_policy": _policy}
        SIZES.append(("Resize", {"X": IMAGE, "roi": None, "scales": None, "sizes": (7, 19)}, _kept))
SIZES += [
    (
        "Resize",
        {"X": IMAGE, "roi": None, "scales": None, "sizes": (2, 8, 13, 4)},
        {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    ),
    ("Resize", {"X": VOLUME, "roi": None, "scales": None, "sizes": (1, 2, 5, 3, 9)}, {"mode": "linear"}),
    ("Resize", {"X": X[0], "roi": None, "scales": None, "sizes": (6, 7)}, {"mode": "linear"}),
    (
        "Resize",
        {"X": RNG.integers(0, 255, (1, 2, 4, 4)).astype("u1"), "roi": None, "scales": None, "sizes": (1, 2, 6, 7)},
        {"mode": "linear"},
    ),
]


def same(kind: str, inputs: dict[str, Any], attributes: dict[str, Any], outputs: int = 1, opset: int = 19) -> None:
    arrays = {n: v for n, v in inputs.items() if isinstance(v, np.ndarray)}
    numbers = {n: v for n, v in inputs.items() if v is not None and n not in arrays}
    given = {n: _lists(v) if kind == "NonMaxSuppression" else v for n, v in numbers.items()}
    want = answer(kind, {**inputs, **given}, attributes, outputs, opset)
    params = {n: tuple(v) if isinstance(v, list) else v for n, v in {**attributes, **numbers}.items()}
    got = run(kind, *arrays.values(), outputs=outputs, **params)
    for y, z in zip(got if outputs > 1 else [got], want, strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_allclose(y, z, 1e-4, 1e-4, strict=True)


@pytest.mark.parametrize(("kind", "inputs", "attributes"), ROWS, ids=lambda v: v if isinstance(v, str) else "")
def test_matches_onnxruntime(kind: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    same(kind, inputs, attributes)


@pytest.mark.parametrize(("kind", "inputs", "attributes"), SIZES, ids=lambda v: v if isinstance(v, str) else "")
def test_resized_as_by_onnxruntime(kind: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    same(kind, inputs, attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsampled_as_by_onnxruntime(mode: str) -> None:
    same("Upsample", {"X": IMAGE, "scales": (1.0, 1.0, 2.0, 1.5)}, {"mode": mode}, opset=9)


def test_bytes_of_a_range_as_by_onnxruntime() -> None:
    for x in (IMAGE, np.abs(IMAGE), 0 * IMAGE):
        same("DynamicQuantizeLinear", {"x": x}, {}, 3)


def test_older_forms() -> None:
    y = run("Scatter", X, np.zeros((1, 4, 5), np.int64), real(1, 4, 5))
    assert y.shape == X.shape
    values, places = run("TopK", X, outputs=2, k=2)
    np.testing.assert_array_equal(values, np.sort(X, -1)[..., :-3:-1])
    assert places.shape == (3, 4, 2)
    wide = run("Pad", X, pads=(1, 0, 0, 0, 2, 1), value=1.5)
    np.testing.assert_array_equal(wide, np.pad(X, ((1, 0), (0, 2), (0, 1)), constant_values=1.5))


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("given", ["all", "weights"])
def test_recurrent_layers_as_by_onnxruntime(kind: str, gates: int, direction: str, given: str) -> None:
    dirs = 2 if direction == "bidirectional" else 1
    weights = {"W": real(dirs, 4 * gates, 5), "R": real(dirs, 4 * gates, 4), "B": real(dirs, 8 * gates)}
    states = {"initial_h": real(dirs, 2, 4)} | ({"initial_c": real(dirs, 2, 4)} if kind == "LSTM" else {})
    inputs = {"X": SEQUENCE, **weights, "sequence_lens": None, **states}
    if given == "weights":
        inputs, states = {"X": SEQUENCE, "W": weights["W"], "R": weights["R"]}, {}
        del weights["B"]
    options = {"direction": direction, "hidden_size": 4} | ({"linear_before_reset": 1} if kind == "GRU" else {})
    outputs = 3 if kind == "LSTM" else 2
    want = answer(kind, inputs, options, outputs, 19)
    got = _recurrent(kind, weights, states, outputs, options)
    for y, z in zip(got, want, strict=True):
        np.testing.assert_allclose(y, z, 1e-4, 1e-5, strict=True)


BETAS = {"activation_beta": [0.4, 0.6]}
ODD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("GRU", {}, []),
    ("GRU", {"activations": ["HardSigmoid", "LeakyRelu"], "activation_alpha": [0.3, 0.4], "clip": 0.5}, ["lengths"]),
    ("GRU", {"activations": ["Affine", "Softsign"], "activation_alpha": [0.4], "activation_beta": [0.2]}, []),
    ("LSTM", {}, ["lengths"]),
    ("LSTM", {"clip": 0.5}, ["peepholes"]),
    ("LSTM", {"input_forget": 1}, ["lengths", "peepholes"]),
    ("LSTM", {"activations": ["HardSigmoid", "ScaledTanh", "Softplus"], "activation_alpha": [0.3, 0.7], **BETAS}, []),
    ("RNN", {"clip": 0.5}, []),
    ("RNN", {"activations": ["Elu"], "activation_alpha": [0.5]}, ["lengths"]),
    ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.1]}, []),
]


@pytest.mark.parametrize(("kind", "options", "inputs"), ODD, ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_cells_that_pytorch_does_not_have(kind: str, options: Any, inputs: list[str], direction: str) -> None:
    dirs, gates = 2 if direction == "bidirectional" else 1, {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = {"W": real(dirs, 4 * gates, 5), "R": real(dirs, 4 * gates, 4), "B": real(dirs, 8 * gates)}
    weights = {name: 0.3 * w for name, w in weights.items()}  # some of these cells let states grow
    states = {"initial_h": real(dirs, 2, 4)} | ({"initial_c": real(dirs, 2, 4)} if kind == "LSTM" else {})
    lengths = np.int32([4, 6]) if "lengths" in inputs else None
    peepholes = real(dirs, 12) if "peepholes" in inputs else None
    several = {key: v * dirs for key, v in options.items() if isinstance(v, list)}
    options = {"direction": direction, "hidden_size": 4, **options, **several}
    outputs = 3 if kind == "LSTM" else 2
    given = {"X": SEQUENCE, **weights, "sequence_lens": lengths, **states}
    want = answer(kind, given | ({"P": peepholes} if kind == "LSTM" else {}), options, outputs, 19)
    rest = [t for t in (lengths, *states.values(), peepholes) if t is not None]
    got = call(kind, (SEQUENCE, *(w.view(Weight) for w in weights.values()), *rest), outputs, options)
    for y, z in zip(got, want, strict=True):
        np.testing.assert_allclose(y, z, 1e-4, 1e-5, strict=True)


def _recurrent(kind: str, weights: dict[str, Array], states: dict[str, Array], outputs: int, options: Any) -> Any:
    """Results of a graph whose weights are constants."""
    values = [SEQUENCE, *(w.view(Weight) for w in weights.values()), *states.values()]
    return call(kind, tuple(values), outputs, options)


@pytest.mark.parametrize("kind, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("states", [1, 2])
def test_states_without_the_sequence(kind: str, gates: int, states: int) -> None:
    """The converter drops outputs that nothing reads; the shapes that it notes tell which are left."""
    if states == 2 and kind != "LSTM":
        return
    weights = {"W": real(1, 4 * gates, 5), "R": real(1, 4 * gates, 4)}
    options = {"hidden_size": 4, **({"linear_before_reset": 1} if kind == "GRU" else {})}
    want = answer(kind, {"X": SEQUENCE, **weights}, options, 1 + states, 19)[1:]
    params = " ".join(f"{k}={v}" for k, v in options.items())
    names = ["h", "c"][:states]
    lines = [
        "pnnx.Input i 0 1 x #x=(6,2,5)f32",
        *(f"pnnx.Attribute {k} 0 1 {k} @data=({','.join(map(str, w.shape))})f32" for k, w in weights.items()),
        f"{kind} layer 3 {states} x W R {' '.join(names)} {params} " + " ".join(f"#{n}=(1,2,4)f32" for n in names),
        *(f"pnnx.Output o{n} 1 0 {n}" for n in names),
    ]
    graph = pnnx_fast.Graph.parse(f"7767517\n{len(lines)} {3 + states}\n" + "\n".join(lines) + "\n")
    for op in graph.ops:
        if op.type == "pnnx.Attribute":
            op.attrs["data"] = pnnx_fast.Attribute(weights[op.name])
    got = pnnx_fast.Model(graph)(SEQUENCE)
    for y, z in zip(got if states > 1 else [got], want, strict=True):
        np.testing.assert_allclose(y, z, 1e-4, 1e-5, strict=True)


FAULTS: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ("Slice", (X,), {"starts": (0, 1), "ends": (2,)}, ParameterError, "as many"),
    ("ConstantOfShape", (), {"input": (-1,)}, ParameterError, "not be negative"),
    ("ConstantOfShape", (), {"input": (1 << 45,)}, LimitError, "memory"),
    ("LpPool", (LINE,), {"kernel_shape": (2,), "pads": (1 << 45, 0)}, LimitError, "memory"),
    ("AveragePool", (LINE,), {"kernel_shape": (1 << 45,), "pads": (1 << 45, 0)}, LimitError, "memory"),
    ("MaxUnpool", (LINE, LINE.astype("i8")), {"kernel_shape": (1 << 45,)}, LimitError, "memory"),
    ("Resize", (LINE,), {"sizes": (2, 3, 1 << 45)}, LimitError, "memory"),
    ("Conv", (IMAGE, FILTERS), {"auto_pad": "X"}, ParameterError, "unknown padding"),
    ("Conv", (IMAGE[:, :, :1], FILTERS), {}, ShapeError, "larger than the input"),
    ("ConvTranspose", (IMAGE, SMALL), {"output_shape": (99, 99)}, ParameterError, "larger than"),
    ("ConvTranspose", (IMAGE, SMALL), {"output_shape": (1,)}, ParameterError, "as many"),
    ("LpPool", (IMAGE,), {"kernel_shape": (2, 2), "p": 0}, ParameterError, "at least 1"),
    ("LpPool", (IMAGE[0, 0],), {"kernel_shape": (2,)}, ShapeError, "one to three"),
    ("MaxUnpool", (X, PLACES), {"kernel_shape": (2,)}, ShapeError, "has a place"),
    ("MaxUnpool", (LINE, LINE.astype("i8") + 99), {"kernel_shape": (2,)}, IndexRangeError, "index 99"),
    ("DeformConv", (IMAGE, FILTERS, IMAGE), {}, ShapeError, "offsets do not fit"),
    ("NonMaxSuppression", (BOXES[0], SCORES), {}, ShapeError, "boxes are"),
    ("NonMaxSuppression", (BOXES, SCORES[..., :2]), {}, ShapeError, "has scores"),
    ("MaxRoiPool", (IMAGE, BOXES[0]), {"pooled_shape": (1, 1)}, ShapeError, "an image and"),
    ("Resize", (X,), {"scales": (1.0, 2.0)}, ShapeError, "as many sizes"),
    ("Resize", (X,), {"scales": (1.0, float("inf"), 1.0)}, ParameterError, "finite"),
    ("Resize", (X,), {"scales": (1.0, 1.0, 2.0), "mode": "X"}, ParameterError, "unknown mode"),
    ("Resize", (X,), {"scales": (1.0, 1.0, 2.0), "nearest_mode": "X"}, ParameterError, "unknown way"),
    ("Resize", (X,), {"scales": (1.0, 1.0, 2.0), "antialias": 1}, ParameterError, "made smaller"),
    ("Resize", (X,), {"sizes": (1, 2, 3), "keep_aspect_ratio_policy": "X"}, ParameterError, "unknown policy"),
    ("QuantizeLinear", (X,), {"y_scale": 0.1, "y_zero_point": None}, ParameterError, "single 8-bit"),
    ("QuantizeLinear", (X, SCALES, ZEROS), {"axis": 0}, ShapeError, "one a channel"),
    ("QuantizeLinear", (X, SCALES[:4], ZEROS[:4]), {}, ParameterError, "type int64"),
    ("LSTM", (SEQUENCE, real(1, 16, 5), real(1, 16, 4)), {}, ParameterError, "constants"),
    ("LSTM", (SEQUENCE, real(1, 8, 5), real(1, 16, 4)), {}, ShapeError, "do not fit"),
    ("GRU", (SEQUENCE, real(1, 12, 5), real(1, 12, 4), real(1, 12)), {}, ShapeError, "fits nothing"),
    ("RNN", (SEQUENCE, real(1, 4, 5), real(1, 4, 4)), {"activations": ("Sine",)}, ParameterError, "unknown activation"),
    ("RNN", (SEQUENCE, real(1, 4, 5), real(1, 4, 4)), {"activations": ("Elu",) * 2}, ParameterError, "a direction"),
    ("RNN", (SEQUENCE, real(1, 4, 5), real(1, 4, 4), np.int32([7, 1])), {}, ParameterError, "0 to 6 entries"),
]


@pytest.mark.parametrize(
    ("kind", "arrays", "params", "error", "text"), FAULTS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_faults_name_what_is_wrong(kind: str, arrays: Any, params: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run(kind, *arrays, **params)
