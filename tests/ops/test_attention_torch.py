"""Attention operators against PyTorch: shapes, masks, grouped heads, every form of the multi-head layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional
SDPA = "F.scaled_dot_product_attention"


def draw(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def check(got: np.ndarray, want: Any) -> None:
    want = want.detach().numpy()
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def compare(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, **params: Any) -> None:
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    want = F.scaled_dot_product_attention(*tensors, None if mask is None else torch.from_numpy(mask), **params)
    arrays, names = [q, k, v], ["query", "key", "value"]
    if mask is not None:
        arrays, names = [*arrays, mask], [*names, "attn_mask"]
    check(run(SDPA, *arrays, names=names, threads=2, dropout_p=0.0, **params), want)
    if mask is not None:
        check(run(SDPA, *arrays[:3], names=names[:3], weights={"attn_mask": mask}, **params), want)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("params", [{}, {"scale": 0.7}, {"is_causal": True}], ids=str)
def test_leading_dimensions(lead: tuple[int, ...], params: dict[str, Any]) -> None:
    compare(draw(*lead, 9, 8), draw(*lead, 12, 8), draw(*lead, 12, 5), **params)


def test_broadcast_leading_dimensions() -> None:
    compare(draw(2, 1, 9, 8), draw(1, 3, 12, 8), draw(3, 12, 5))


@pytest.mark.parametrize("dtype", ["f8", "f2"])
def test_dtypes(dtype: str) -> None:
    q, k, v = draw(2, 3, 8, dtype=dtype), draw(2, 5, 8, dtype=dtype), draw(2, 5, 8, dtype=dtype)
    got = run(SDPA, q, k, v, names=["query", "key", "value"])
    want = F.scaled_dot_product_attention(*(torch.from_numpy(x).float() for x in (q, k, v))).numpy()
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_allclose(got, want, atol=2e-3 if dtype == "f2" else 1e-5)


@pytest.mark.parametrize("shape", [(9, 12), (3, 9, 12), (2, 1, 9, 12), (1, 3, 1, 12), (2, 3, 9, 1)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(shape: tuple[int, ...], kind: str) -> None:
    mask = draw(*shape) > -0.5 if kind == "bool" else draw(*shape)
    compare(draw(2, 3, 9, 8), draw(2, 3, 12, 8), draw(2, 3, 12, 8), mask)


@pytest.mark.parametrize("hidden", [-np.inf, np.finfo("f4").min])
@pytest.mark.parametrize("queries,keys", [(12, 12), (9, 12)])
def test_constant_triangle(hidden: float, queries: int, keys: int) -> None:
    mask = np.triu(np.full((1, 1, queries, keys), hidden, "f4"), keys - queries + 1)
    compare(draw(2, 3, queries, 8), draw(2, 3, keys, 8), draw(2, 3, keys, 8), mask)


@pytest.mark.parametrize("heads", [(2, 2), (2, 6), (6, 2), (1, 6), (3, 2), (6, 1)])
@pytest.mark.parametrize("lead", [(2,), ()])
def test_grouped_heads(heads: tuple[int, int], lead: tuple[int, ...]) -> None:
    keys, values = heads
    compare(draw(*lead, 6, 9, 8), draw(*lead, keys, 12, 8), draw(*lead, values, 12, 8), enable_gqa=True)


def test_heads_that_do_not_divide() -> None:
    names = ["query", "key", "value"]
    for keys, values in ((4, 2), (2, 4), (0, 2)):
        with pytest.raises(ShapeError, match="query heads must be a multiple of key and value heads"):
            run(SDPA, draw(6, 9, 8), draw(keys, 12, 8), draw(values, 12, 8), names=names, enable_gqa=True)


def test_transposed_operands() -> None:
    """Channels first, as a convolution leaves them."""
    q = draw(1, 8, 20)
    want = F.scaled_dot_product_attention(*[torch.from_numpy(q).transpose(1, 2)] * 3)
    check(run(SDPA, *[np.ascontiguousarray(q.transpose(0, 2, 1))] * 3, names=["query", "key", "value"]), want)


def test_errors() -> None:
    q = draw(2, 4, 8)
    names = ["query", "key", "value"]
    with pytest.raises(ParameterError, match="dropout"):
        run(SDPA, q, q, q, names=names, dropout_p=0.5)
    with pytest.raises(ShapeError, match="different numbers of keys and values"):
        run(SDPA, q, q, draw(2, 5, 8), names=names)
    with pytest.raises(ShapeError, match="different length"):
        run(SDPA, q, draw(2, 4, 7), q, names=names)


@pytest.mark.parametrize("options", [{}, {"add_zero_attn": True}])
def test_mask_that_does_not_fit(options: dict[str, Any]) -> None:
    _, weights, params = layer(**options)
    with pytest.raises(ShapeError, match=r"nn.MultiheadAttention op: cannot broadcast"):
        run("nn.MultiheadAttention", draw(7, 2, 24), draw(7, 5), names=["", "attn_mask"], weights=weights, **params)


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((3, 5, 24), (1, 4, 24), (1, 4, 24)),
        ((1, 5, 24), (3, 4, 24), (3, 4, 24)),
        ((2, 5, 24), (2, 4, 24), (2, 6, 24)),
        ((2, 5, 24), (2, 6, 24), (2, 4, 24)),
        ((2, 5, 24), (2, 4, 24), (1, 4, 24)),
    ],
)
@pytest.mark.parametrize("batch_first", [True, False])
def test_batches_of_a_layer_that_do_not_fit(batch_first: bool, q: Any, k: Any, v: Any) -> None:
    module, weights, params = layer(batch_first=batch_first)
    arrays = [draw(*s) if batch_first else draw(*s).swapaxes(0, 1).copy() for s in (q, k, v)]
    with pytest.raises((RuntimeError, AssertionError)):
        module(*map(torch.from_numpy, arrays))
    with pytest.raises(ShapeError, match=r"different numbers of keys and values|different batches"):
        run("nn.MultiheadAttention", *arrays, names=["query", "key", "value"], weights=weights, **params)


# -- nn.MultiheadAttention -----------------------------------------------------------------------------------------

OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 10, "vdim": 12},
    {"kdim": 10, "vdim": 12, "bias": False, "add_bias_kv": True},
]


def layer(**options: Any) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(24, 4, **options).eval()
    for p in module.parameters():
        torch.nn.init.normal_(p, std=0.3)
    weights = {k: p.detach().numpy() for k, p in module.named_parameters()}
    params = {"embed_dim": 24, "num_heads": 4, "kdim": module.kdim, "vdim": module.vdim, "bias": True}
    params |= {"add_bias_kv": False, "add_zero_attn": False, "batch_first": False} | options
    return module, weights, params


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masked", ["none", "float", "bool", "heads"])
def test_layer(options: dict[str, Any], batch_first: bool, masked: str) -> None:
    module, weights, params = layer(**options, batch_first=batch_first)
    shapes = [(2, 7, 24), (2, 9, module.kdim), (2, 9, module.vdim)]
    q, k, v = (draw(*s) if batch_first else draw(*s).swapaxes(0, 1).copy() for s in shapes)
    mask = {"none": None, "float": draw(7, 9), "bool": draw(7, 9) > 0.5, "heads": draw(8, 7, 9)}[masked]
    args = {} if mask is None else {"attn_mask": torch.from_numpy(mask)}
    with torch.no_grad():
        want, weight = module(*map(torch.from_numpy, (q, k, v)), **args)
    arrays, names = [q, k, v], ["query", "key", "value"]
    if mask is not None:
        arrays, names = [*arrays, mask], [*names, "attn_mask"]
    check(run("nn.MultiheadAttention", *arrays, names=names, weights=weights, **params), want)
    y, w = run("nn.MultiheadAttention", *arrays, names=names, weights=weights, outputs=2, **params)
    check(y, want)
    check(w, weight)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_inputs(batch_first: bool, batched: bool, masked: bool) -> None:
    """One input serves for all three, two are queries and keys; the mask is known by its name."""
    module, weights, params = layer(batch_first=batch_first)
    x, y = (draw(7, 7, 24), draw(7, 7, 24)[::-1].copy()) if batched else (draw(7, 24), draw(7, 24)[::-1].copy())
    mask = [draw(7, 7)] if masked else []
    names = ["attn_mask"] if masked else []
    kwargs = {"attn_mask": torch.from_numpy(mask[0])} if masked else {}
    for given, own in ([x, x, x], [x]), ([x, y, y], [x, y]), ([x, y, x], [x, y, x]):
        with torch.no_grad():
            want = module(*map(torch.from_numpy, given), need_weights=False, **kwargs)[0]
        got = run("nn.MultiheadAttention", *own, *mask, names=[""] * len(own) + names, weights=weights, **params)
        check(got, want)


@pytest.mark.parametrize("batched", [True, False])
def test_fused_residual(batched: bool) -> None:
    module, weights, params = layer()
    x, z = (draw(5, 2, 24), draw(5, 2, 24) + 1) if batched else (draw(5, 24), draw(5, 24) + 1)
    tensor = torch.from_numpy(x)
    want = module(tensor, tensor, tensor, need_weights=False)[0] + torch.from_numpy(z)
    check(run("fused.MultiheadAttention", x, z, names=["", "residual"], weights=weights, **params), want)


@pytest.mark.parametrize("dtype", ["f4", "?"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_a_mask_of_keys_without_a_batch(dtype: str, both: bool) -> None:
    """The converter calls the last mask that is no truth attn_mask, whatever it is."""
    module, weights, params = layer()
    x, padding = draw(5, 24), np.array([0, 0, 1, 0, 1], bool)
    mask = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
    padding = padding if dtype == "?" else np.where(padding, np.float32(-np.inf), np.float32(0))
    with torch.no_grad():
        tensor, given = torch.from_numpy(x), {"attn_mask": torch.from_numpy(mask)} if both else {}
        want = module(tensor, tensor, tensor, key_padding_mask=torch.from_numpy(padding), **given)[0]
    names = ["", "", "attn_mask"] if both else ["", "attn_mask" if dtype == "f4" else ""]
    arrays = [x, padding, *([mask] if both else [])]
    got = run("nn.MultiheadAttention", *arrays, names=names, weights=weights, noted=[(5, 24)], **params)
    np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_queries_without_keys(batch_first: bool, need_weights: bool) -> None:
    module, weights, params = layer(batch_first=batch_first)
    x = draw(5, 5, 24)
    mask = np.zeros((5, 5), bool)
    mask[2] = True
    with torch.no_grad():
        tensor = torch.from_numpy(x)
        want = module(tensor, tensor, tensor, attn_mask=torch.from_numpy(mask), need_weights=need_weights)[0]
    outputs = 2 if need_weights else 1
    got = run("nn.MultiheadAttention", x, mask, names=["", "attn_mask"], weights=weights, outputs=outputs, **params)
    np.testing.assert_allclose(got[0] if need_weights else got, want.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 10, "vdim": 12}, {"add_bias_kv": True}], ids=str)
def test_weights_in_double_precision(options: dict[str, Any]) -> None:
    module, weights, params = layer(**options)
    inputs = [draw(5, 2, module.embed_dim), draw(7, 2, module.kdim), draw(7, 2, module.vdim)]
    arrays = [x.astype(np.float64) for x in inputs]
    doubled = {key: value.astype(np.float64) for key, value in weights.items()}
    with torch.no_grad():
        want = module.double()(*map(torch.from_numpy, arrays), need_weights=False)[0]
    names = ["query", "key", "value"]
    check(run("nn.MultiheadAttention", *arrays, names=names, weights=doubled, **params), want)


@pytest.mark.parametrize("padding", [False, True])
def test_only_masks_of_booleans_lead_to_nan(padding: bool) -> None:
    """Floating masks keep PyTorch from its fast path: a query without keys gives the bias of the output."""
    layer, x = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval(), torch.randn(1, 3, 4)
    mask = torch.full((1, 3), -torch.inf) if padding else torch.zeros(3, 3)
    mask[0] = -torch.inf
    name = "key_padding_mask" if padding else "attn_mask"
    with torch.no_grad():
        want = layer(x, x, x, need_weights=False, **{name: mask})[0].numpy()
    weights = {n.replace(".", "_"): p.detach().numpy() for n, p in layer.named_parameters()}
    got = run(
        "nn.MultiheadAttention", x.numpy(), mask.numpy(), names=["query", name], weights=weights,
        embed_dim=4, num_heads=2, batch_first=True,
    )  # fmt: skip
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("average", [False, True])
def test_weights_of_the_native_layer(average: bool) -> None:
    layer, x = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(1, 3, 8)
    weights = [p.detach() for p in layer.parameters()]
    want = torch._native_multi_head_attention(x, x, x, 8, 2, *weights, None, True, average)
    arrays = [w.numpy() for w in weights]
    got = call("aten::_native_multi_head_attention", (*[x.numpy()] * 3, 8, 2, *arrays, None, True, average, None), 2)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-5)
