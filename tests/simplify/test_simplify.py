"""Each named simplification does its work, leaves results as they were, and leaves other graphs alone."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from simplify_cases import CASES

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import literals
from pnnx_fast.ir.outputs import flat
from pnnx_fast.simplify import PASSES, simplify


def _graph(inputs: str, lines: str) -> Graph:
    rows = [f"pnnx.Input in_{i} 0 1 {n} #{n}={s}" for i, (n, s) in enumerate(x.split("=") for x in inputs.split())]
    rows += [line.strip() for line in lines.removeprefix("!").split("|")]
    text = "\n".join(["7767517", f"{len(rows) + 1} 0", *rows, "pnnx.Output out 1 0 y", ""])
    graph = Graph.parse(text.replace(")same", ")f32"))
    rng = np.random.default_rng(0)
    for op in graph.ops:
        for key, attr in op.attrs.items():
            data = rng.uniform(0.5, 1.5, attr.shape).astype(np.float32)
            op.attrs[key] = Attribute(np.ones_like(data) if "same" in text else data)
    return graph


def _values(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    found = []
    for op in graph.ops:
        if op.type == "pnnx.Input":
            x = op.outputs[0]
            shape = x.shape or ()
            integer = x.dtype == "i64"
            found.append(rng.integers(0, 3, shape) if integer else rng.standard_normal(shape).astype(np.float32))
    return found


def _types(graph: Graph) -> list[str]:
    return sorted(op.type for op in graph.ops if op.type not in ("pnnx.Input", "pnnx.Output"))


@pytest.mark.parametrize(
    ("names", "inputs", "lines", "after"), CASES, ids=[f"{i}-{case[0].split()[-1]}" for i, case in enumerate(CASES)]
)
def test_each_pass(names: str, inputs: str, lines: str, after: str) -> None:
    graph = _graph(inputs, lines)
    runs = not lines.startswith("!")
    arrays = _values(graph)
    if runs:
        graph.infer_shapes()
        wanted = Model(graph.copy(), num_threads=1)(*arrays)
    counts = simplify(graph, names.split())
    graph.validate()
    assert list(counts) == names.split()
    assert _types(graph) == sorted(after.split())
    assert simplify(graph, names.split()) == {}
    if runs:
        got = Model(graph, num_threads=1)(*arrays)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        reread = _reread(graph)
        np.testing.assert_allclose(Model(reread, num_threads=1)(*arrays), wanted, rtol=1e-4, atol=1e-5)
    elif "quantized" not in after:
        assert np.isfinite(Model(graph, num_threads=1)(*arrays)).all()


def _reread(graph: Graph) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "m.pnnx.param")
        return Graph.load(Path(folder) / "m.pnnx.param")


def test_every_pass_has_a_case() -> None:
    assert {name for case in CASES for name in case[0].split()} == set(PASSES)
    assert all(row.summary and row.level in (3, 5) for row in PASSES.values())


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("eliminate_dropout", "F.dropout d 1 1 x y p=0.5 training=True"),
        ("eliminate_noop_expression", "pnnx.Expression e 1 1 x y expr=mul(@0,2)"),
        ("eliminate_noop_math", "pnnx.Expression e 1 1 x y expr=sub(0,@0)"),
        ("eliminate_noop_math", "pnnx.Expression e 1 1 x y expr=mul(@0,mul(size(@0,0),1.0))"),
        ("eliminate_noop_math", "pnnx.Expression e 1 1 x y expr=mul(size(@0,0),@0)"),
        ("eliminate_noop_math", "pnnx.Expression e 1 1 x y expr=add(pow(@0,size(@0,0)),sub(size(@0,0),1))"),
        ("eliminate_noop_expression", "pnnx.Expression e 1 1 x y expr=div(@0,size(@0,0))"),
        ("eliminate_tuple_pair",
         "prim::TupleConstruct t 2 1 x x a | pnnx.Expression n 1 1 x n expr=sub(size(@0,0),2) | "
         "prim::TupleIndex u 2 1 a n y"),
        ("fuse_slice_squeeze_to_select",
         "Tensor.slice a 1 1 x b dim=1 start=-1 end=0 step=1 | torch.squeeze s 1 1 b y dim=1"),
        ("fuse_slice_squeeze_to_select",
         "Tensor.slice a 1 1 x b dim=1 start=3 end=4 step=1 | torch.squeeze s 1 1 b y dim=1"),
        ("eliminate_noop_reshape", "Tensor.reshape r 1 1 x y shape=(3,2)"),
        ("eliminate_noop_einsum", "torch.einsum e 1 1 x y equation=ij->ji"),
        ("eliminate_noop_slice", "Tensor.slice s 1 1 x y dim=1 start=0 end=2 step=1"),
        ("eliminate_squeeze_unsqueeze_pair", "torch.unsqueeze a 1 1 x b dim=0 | torch.squeeze c 1 1 b y dim=1"),
        (
            "fuse_slice_indices",
            "Tensor.slice a 1 1 x b dim=1 start=1 end=3 step=1 | Tensor.slice c 1 1 b y dim=1 start=0 end=1 step=1",
        ),
        (
            "fuse_silu",
            "F.sigmoid s 1 1 x a | pnnx.Expression m 2 1 x a b expr=mul(@0,@1) | "
            "pnnx.Expression n 2 1 a b y expr=add(@0,@1)",
        ),
        ("fuse_select_to_unbind", "Tensor.select a 1 1 x y dim=0 index=0"),
        ("fold_constants", "torch.rand r 0 1 a size=(2,3) | pnnx.Expression e 2 1 x a y expr=add(@0,@1)"),
    ],
)  # fmt: skip
def test_what_looks_alike_stays(name: str, lines: str) -> None:
    graph = _graph("x=(2,3)f32", lines)
    graph.infer_shapes()
    before = _types(graph)
    simplify(graph, [name])
    assert _types(graph) == before


@pytest.mark.parametrize(
    "expr, simpler",
    [
        ("mul(torch.long(@0),1.0)", ""), ("mul(torch.long(@0),1)", "torch.long(@0)"), ("mul(gt(@0,0.5),1.0)", ""),
        ("add(torch.bool(@0),0)", ""), ("div(torch.long(@0),1)", ""), ("pow(1.0,@0)", ""), ("add(0,@0)", "@0"),
        ("add(mul(torch.double(@0),1.0),mul(@0,1))", "add(torch.double(@0),@0)"), ("mul(size(@0,0),1.0)", ""),
        ("add(@1,0.0)", ""), ("sub(@1,0)", "@1"), ("mul(@2,1)", ""), ("add(@0,[0])", ""),
    ],
)  # fmt: skip
def test_neutral_numbers_that_change_the_type_stay(expr: str, simpler: str) -> None:
    graph = Graph.parse(
        "7767517\n5 4\npnnx.Input a 0 1 x #x=(2,3)f32\npnnx.Input b 0 1 i #i=(2,3)i64\npnnx.Input c 0 1 t #t=(3)bool\n"
        f"pnnx.Expression e 3 1 x i t y expr={expr}\npnnx.Output o 1 0 y\n"
    )
    simplify(graph, ["eliminate_noop_math"])
    op = graph.ops[3]
    found = op.params["expr"].text
    for place, x in enumerate(op.inputs):
        found = found.replace(f"@{place}", "@" + str("xit".index(x.name)))
    assert found == (simpler or expr)


@pytest.mark.parametrize("dtype, count", [("f32", 1), ("i64", 0)])
def test_a_copy_of_another_type_stays(dtype: str, count: int) -> None:
    graph = Graph.parse(
        f"7767517\n4 3\npnnx.Input a 0 1 x #x=(2,3)f32\npnnx.Input b 0 1 s #s=(2,3){dtype}\n"
        "Tensor.copy c 2 1 x s y $self=x $src=s #y=(2,3)f32\npnnx.Output o 1 0 y\n"
    )
    assert simplify(graph, ["fuse_slice_copy"]).get("fuse_slice_copy", 0) == count


def test_the_page_tells_of_every_pass() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simplify.md").read_text("utf-8")
    assert re.findall(r"^\| (\w+) \| \d", text, re.M) == list(PASSES)


def test_names_that_do_not_exist_are_errors() -> None:
    with pytest.raises(
        ParameterError, match=re.escape("there is no pass 'fuse_everything'; did you mean 'fuse_expression'?")
    ):
        simplify(Graph(), ["fuse_everything"])


def test_a_file_of_level_1_becomes_what_the_converter_writes_at_level_2() -> None:
    folder = Path(__file__).parent / "data"
    one, two = (Graph.parse((folder / f"level{i}.pnnx.param").read_text("utf-8")) for i in (1, 2))
    rng = np.random.default_rng(0)
    for op in one.ops:
        op.attrs = {k: Attribute(rng.uniform(0.5, 1.5, a.shape).astype(np.float32)) for k, a in op.attrs.items()}
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    wanted = Model(one.copy(), num_threads=1)(x)
    simplify(one)
    assert _types(one) == _types(two)
    for op in one.ops:
        if op.type == "Tensor.slice":
            twin = next(o for o in two.ops if o.type == op.type)
            assert {k: p.value for k, p in op.params.items()} == {k: p.value for k, p in twin.params.items()}
    for got, expected in zip(flat(Model(one, num_threads=1)(x)), flat(wanted), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_lists_of_indices_stay_lists() -> None:
    graph = Graph.parse(
        "7767517\n6 5\npnnx.Input x 0 1 x #x=(4,3)f32\npnnx.Input i 0 1 i #i=(2)i64\n"
        "prim::Constant n 0 1 n value=None\n"
        "prim::ListConstruct l 2 1 n i a\nTensor.index t 2 1 x a y $input=x $expr=a #y=(4,2)f32\npnnx.Output o 1 0 y\n"
    )
    graph.simplify()
    x, i = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([2, 0])
    np.testing.assert_array_equal(Model(graph)(x, i), x[:, i])


@pytest.mark.parametrize("kind, shape", [("F.linear", "(4)"), ("F.prelu", "()")])
def test_weights_that_no_module_has_stay_functions(kind: str, shape: str) -> None:
    graph = Graph.parse(
        f"7767517\n4 3\npnnx.Input i 0 1 x #x=(2,4)f32\npnnx.Attribute a 0 1 w @data={shape}f32 #w={shape}f32\n"
        f"{kind} f 2 1 x w y $input=x $weight=w\npnnx.Output o 1 0 y\n"
    )
    value = np.full((4,) if shape == "(4)" else (), 0.5, np.float32)
    next(op for op in graph.ops if op.name == "a").attrs["data"] = Attribute(value)
    x = np.float32([[1, -2, 3, 4], [-5, 6, 7, 8]])
    simplify(graph)
    assert graph.ops[-2].type == kind
    np.testing.assert_allclose(Model(graph)(x), x @ value if shape == "(4)" else np.where(x < 0, x / 2, x))


def test_what_only_notes_tell_is_said_before_operands_merge() -> None:
    """A quotient of integers that an index rounds down, and a sum in another dtype."""
    graph = Graph.parse(
        """7767517
7 6
pnnx.Input i 0 1 x #x=(6)i64
pnnx.Input j 0 1 t #t=(4,2)f32
pnnx.Expression d 1 1 x a expr=div(@0,4) #x=(6)i64 #a=(6)i64
pnnx.Expression l 1 1 a b expr=[@0] #a=(6)i64
Tensor.index n 2 1 t b y $input=t $expr=b #t=(4,2)f32 #y=(6,2)f32
torch.sum s 1 1 y z dim=(0) keepdim=False $input=y #y=(6,2)f32 #z=(2)f64
pnnx.Output o 1 0 z
"""
    )
    x, t = np.arange(6) * 3, np.arange(8, dtype=np.float32).reshape(4, 2)
    simplify(graph)
    assert [op.type for op in graph.ops].count("pnnx.Expression") == 1
    y = Model(graph, num_threads=1)(x, t)
    assert np.asarray(y).dtype == np.float64
    np.testing.assert_array_equal(y, t[x // 4].sum(0))


def test_an_expression_that_cannot_be_read_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _graph("x=(2)f32", "pnnx.Expression e 1 1 x y expr=add(@0,nothing_of_this_name)")
    tried = []
    real = literals.parse
    monkeypatch.setattr(literals, "parse", lambda text: (tried.append(text), real(text))[1])
    assert [literals.expression(graph.ops[1]) for _ in range(3)] == [None] * 3
    assert len(tried) == 1


HALF = "start=0 end=2 step=1"
WRITES = {
    "halves of a copy": [
        "torch.clone c 1 1 x y", "Tensor.slice s 1 1 x v dim=1 start=2 end=4 step=1 #v=(2,2,5)f32",
        f"Tensor.slice t 1 1 y w dim=1 {HALF} #w=(2,2,5)f32", "Tensor.copy p 2 1 w v z $self=w $src=v #z=(2,4,5)f32",
    ],
    "a copy of a part": [
        f"Tensor.slice s 1 1 x v dim=1 {HALF} #v=(2,2,5)f32", "torch.clone c 1 1 v y #y=(2,2,5)f32",
        "Tensor.select t 1 1 y w dim=2 index=0 #w=(2,2)f32", "Tensor.fill f 1 1 w u value=7 #u=(2,2)f32",
        "Tensor.copy p 2 1 w u z $self=w $src=u #z=(2,2,5)f32",
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", WRITES)
def test_what_is_written_to_stays_a_tensor_of_its_own(case: str) -> None:
    lines = ["pnnx.Input i 0 1 x #x=(2,4,5)f32", *WRITES[case], "pnnx.Output o 1 0 z"]
    graph = Graph.parse("\n".join(["7767517", f"{len(lines)} 0", *lines, ""]))
    x = np.arange(40, dtype=np.float32).reshape(2, 4, 5)
    want = x.copy() if case == "halves of a copy" else x[:, :2].copy()
    if case == "halves of a copy":
        want[:, :2] = x[:, 2:]
    else:
        want[..., 0] = 7
    np.testing.assert_array_equal(Model(graph)(x), want)
    graph.simplify()
    np.testing.assert_array_equal(Model(graph)(x), want)


HEADS = """pnnx.Input in 0 1 x #x=(2,6,8)f32
nn.Linear q 1 1 x q0 bias=True in_features=8 out_features=8 @weight=(8,8)f32 @bias=(8)f32 #x=(2,6,8)f32 #q0=(2,6,8)f32
nn.Linear k 1 1 x k0 bias=True in_features=8 out_features=8 @weight=(8,8)f32 @bias=(8)f32 #x=(2,6,8)f32 #k0=(2,6,8)f32
nn.Linear v 1 1 x v0 bias=True in_features=8 out_features=8 @weight=(8,8)f32 @bias=(8)f32 #x=(2,6,8)f32 #v0=(2,6,8)f32
Tensor.reshape q1 1 1 q0 q1 shape=(2,6,2,4) $input=q0 #q0=(2,6,8)f32 #q1=(2,6,2,4)f32
Tensor.reshape k1 1 1 k0 k1 shape=(2,6,2,4) $input=k0 #k0=(2,6,8)f32 #k1=(2,6,2,4)f32
Tensor.reshape v1 1 1 v0 v1 shape=(2,6,2,4) $input=v0 #v0=(2,6,8)f32 #v1=(2,6,2,4)f32
torch.transpose q2 1 1 q1 q2 dim0=1 dim1=2 $input=q1 #q1=(2,6,2,4)f32 #q2=(2,2,6,4)f32
torch.transpose k2 1 1 k1 k2 dim0=1 dim1=2 $input=k1 #k1=(2,6,2,4)f32 #k2=(2,2,6,4)f32
torch.transpose v2 1 1 v1 v2 dim0=1 dim1=2 $input=v1 #v1=(2,6,2,4)f32 #v2=(2,2,6,4)f32
F.scaled_dot_product_attention a 4 1 q2 k2 v2 m y0 $query=q2 $key=k2 $value=v2 $attn_mask=m is_causal=False \
#q2=(2,2,6,4)f32 #k2=(2,2,6,4)f32 #v2=(2,2,6,4)f32 #y0=(2,2,6,4)f32
torch.transpose y1 1 1 y0 y1 dim0=1 dim1=2 $input=y0 #y0=(2,2,6,4)f32 #y1=(2,6,2,4)f32
Tensor.reshape y2 1 1 y1 y2 shape=(2,6,8) $input=y1 #y1=(2,6,2,4)f32 #y2=(2,6,8)f32
nn.Linear o 1 1 y2 y bias=True in_features=8 out_features=8 @weight=(8,8)f32 @bias=(8)f32 #y2=(2,6,8)f32 #y=(2,6,8)f32
pnnx.Output out 1 0 y #y=(2,6,8)f32
"""


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("kind", ["bool", "f32"])
@pytest.mark.parametrize("shape", [(6, 6), (1, 1, 6, 6), (1, 1, 1, 6), (2, 1, 6, 6), (2, 2, 6, 6)])
def test_masks_of_attention_mean_what_they_did(shape: tuple[int, ...], kind: str, given: bool) -> None:
    """Truths take part in the function, and are hidden in the module, which wants a row for each query."""
    rng = np.random.default_rng(0)
    mask = rng.random(shape) < 0.7 if kind == "bool" else rng.standard_normal(shape).astype(np.float32)
    mask[..., 0] = kind == "bool"
    noted = f"({','.join(map(str, shape))}){kind}"
    first = f"pnnx.Input in2 0 1 m #m={noted}" if given else f"pnnx.Attribute m 0 1 m @data={noted} #m={noted}"
    lines = HEADS.splitlines()
    lines.insert(1, first)
    graph = Graph.parse(f"7767517\n{len(lines)} {len(lines)}\n" + "\n".join(lines) + "\n")
    for op in graph.ops:
        for key in op.attrs:
            shape_of = op.attrs[key].shape
            op.attrs[key] = Attribute(mask if op.name == "m" else rng.standard_normal(shape_of).astype(np.float32))
    x = rng.standard_normal((2, 6, 8)).astype(np.float32)
    arrays = [x, mask] if given else [x]
    want = Model(graph)(*arrays)
    simplify(graph)
    fused = [op for op in graph.ops if op.type == "nn.MultiheadAttention"]
    assert len(fused) == (not given or (shape[-2:] == (6, 6) and max(shape[:-2], default=1) == 1))
    assert all(op.inputs[-1].shape[-2:] == (6, 6) for op in fused)  # type: ignore[index]
    np.testing.assert_allclose(Model(graph)(*arrays), want, rtol=0, atol=3e-6 * np.abs(want).max())


def test_a_list_that_is_joined_stays_joined() -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(2,6)f32\ntorch.chunk c 1 1 x l chunks=2 dim=1 $input=x #x=(2,6)f32\n"
        "torch.cat j 1 1 l y dim=0 #y=(4,3)f32\npnnx.Output out 1 0 y #y=(4,3)f32\n"
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    want = Model(graph)(x)
    simplify(graph)
    np.testing.assert_array_equal(Model(graph)(x), want)
    assert want.shape == (4, 3)


@pytest.mark.parametrize("bias", ["bias=0.5 $input=x $weight=w", "$input=x $weight=w $bias=b"])
def test_linear_functions_with_a_bias_of_another_shape_stay(bias: str) -> None:
    """A bias of one number is no bias of the module."""
    graph = Graph.parse(
        "7767517\n5 4\npnnx.Input i 0 1 x #x=(3,4)f32\npnnx.Attribute w 0 1 w @data=(2,4)f32 #w=(2,4)f32\n"
        "pnnx.Attribute b 0 1 b @data=(1)f32 #b=(1)f32\n"
        f"F.linear l {2 + ('$bias' in bias)} 1 x w{' b' * ('$bias' in bias)} y {bias} #y=(3,2)f32\n"
        "pnnx.Output o 1 0 y\n"
    )
    graph.ops[1].attrs["data"] = Attribute(np.arange(8, dtype=np.float32).reshape(2, 4))
    graph.ops[2].attrs["data"] = Attribute(np.float32([0.5]))
    x = np.ones((3, 4), np.float32)
    want = Model(graph)(x)
    graph.simplify()
    np.testing.assert_array_equal(Model(graph)(x), want)
    np.testing.assert_array_equal(want, [[6.5, 22.5]] * 3)


@pytest.mark.parametrize(
    "tail",
    [
        "pnnx.Expression n 1 1 y n expr=size(@0,0)\ntorch.sum s 1 1 y s dim=(0) keepdim=False $input=y #s=(3)f32\n"
        "pnnx.Expression d 2 1 s n z expr=div(@0,@1) #z=(3)f32\n",
        "Tensor.slice c 1 1 y z dim=0 end=6 start=0 step=1 $input=y #z=(6,3)f32\n",
    ],
    ids=["size", "slice"],
)
def test_sizes_that_depend_on_data_are_no_constants(tail: str) -> None:
    """Those noted are of the converter's run, in which all entries were kept."""
    count = tail.count("\n") + 4
    graph = Graph.parse(
        f"7767517\n{count} {count - 1}\npnnx.Input i 0 1 x #x=(8,3)f32\npnnx.Input j 0 1 m #m=(8)bool\n"
        "Tensor.index t 2 1 x m y $input=x #y=(6,3)f32\n" + tail + "pnnx.Output o 1 0 z\n"
    )
    x, mask = np.arange(24, dtype=np.float32).reshape(8, 3), np.arange(8) % 2 == 0
    want = [Model(graph)(x, m) for m in (mask, ~mask | mask)]
    graph.simplify()
    for a, m in zip(want, (mask, ~mask | mask), strict=True):
        np.testing.assert_array_equal(Model(graph)(x, m), a)
