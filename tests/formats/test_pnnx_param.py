"""The text of .pnnx.param files: the grammar with its traps, patterns, byte-identical writing, errors of writing."""

from __future__ import annotations

import gc
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnnx_fast._core.text import format_float
from pnnx_fast.errors import FormatError, GraphError
from pnnx_fast.formats import Limits, pnnx_param
from pnnx_fast.ir import Attribute, Graph, Operator, Parameter, Parameters

HEAD = "7767517\n"
INPUT = "pnnx.Input               in0                      0 1 x"


def read(text: str, **options: object) -> Graph:
    return pnnx_param.read(text.encode(), "m.param", **options)[0]  # type: ignore[arg-type]


def line(text: str, **options: object) -> Operator:
    """The operator of one line, which may use operands x and y."""
    inputs = "pnnx.Input in0 0 1 x\npnnx.Input in1 0 1 y\n"
    return read(f"{HEAD}3 3\n{inputs}{text}\n", **options).ops[2]


def written(op_line: str) -> str:
    """What the line of an operator looks like when it is written."""
    graph = read(f"{HEAD}3 3\npnnx.Input in0 0 1 x\npnnx.Input in1 0 1 y\n{op_line}\n")
    return pnnx_param.write(graph).decode().splitlines()[4]


def test_one_line_of_everything() -> None:
    op = line(
        "nn.X a.b 2 1 x y z bias=True expr=[1,2] k=a=b size=(1,2) "
        "@bias=(0)i64 @weight=(2,3)f32 $input=x $other=y #x=(1,?,4)f32 #y=(7)c64 #z=(1)bf16"
    )
    assert (op.type, op.name) == ("nn.X", "a.b")
    assert [x.name for x in (*op.inputs, *op.outputs)] == ["x", "y", "z"]
    assert {k: p.value for k, p in op.params.items()} == {
        "bias": True,
        "expr": "[1,2]",
        "k": "a=b",
        "size": [1, 2],
    }
    assert {k: (a.dtype, a.shape) for k, a in op.attrs.items()} == {"bias": ("i64", (0,)), "weight": ("f32", (2, 3))}
    assert op.inputnames == ["input", "other"]
    assert [(x.dtype, x.shape) for x in (*op.inputs, *op.outputs)] == [
        ("f32", (1, -1, 4)),
        ("c64", (7,)),
        ("bf16", (1,)),
    ]


def test_one_operand_in_two_named_slots() -> None:
    op = line("nn.LSTM a 3 1 x y y z $hx=x $initial_h=y $initial_c=y")
    assert op.inputnames == ["hx", "initial_h", "initial_c"]
    assert written("nn.LSTM a 3 1 x y y z $hx=x $initial_h=y $initial_c=y").endswith(
        "3 1 x y y z $hx=x $initial_h=y $initial_c=y"
    )


def test_some_slots_without_a_name() -> None:
    op = line("F.x a 3 0 x y x $b=y $c=x")
    assert op.inputnames == ["c", "b", ""]
    assert written("F.x a 3 0 x y x $b=y $c=x").endswith("3 0 x y x $c=x $b=y")
    op.inputnames = ["a"]
    assert line("F.x a 2 0 x y").inputnames == []


def test_many_named_slots() -> None:
    n = 500
    names = " ".join(f"$n{i}={'x' if i % 2 else 'y'}" for i in range(n))
    slots = " ".join("x" if i % 2 else "y" for i in range(n))
    assert line(f"torch.cat a {n} 0 {slots} {names}").inputnames == [f"n{i}" for i in range(n)]


def test_slots_are_written_only_when_all_are_known() -> None:
    graph = read(f"{HEAD}2 1\n{INPUT}\nF.x a 2 0 x x $p=x $q=x\n")
    graph.ops[1].inputnames = ["p"]
    assert "$" not in pnnx_param.write(graph).decode()


@pytest.mark.parametrize("end", ["\r\n", " \n", "\t\n", "\n", " \r\n"])
def test_blanks_at_the_end_of_lines(end: str) -> None:
    text = f"{HEAD}2 1\n{INPUT}\npnnx.Output out0 1 0 x a=\n".replace("\n", end)
    graph = read(text)
    assert {k: p.value for k, p in graph.ops[1].params.items()} == {"a": ""}
    assert graph.ops[0].params == {}


@pytest.mark.parametrize(
    "text", [f"{HEAD}1 1\n{INPUT}", f"\ufeff{HEAD}1 1\n{INPUT}\n\n  \n", f"{HEAD}\n1 1\n\n{INPUT}"]
)
def test_liberties(text: str) -> None:
    assert [op.name for op in read(text).ops] == ["in0"]


def test_all_blanks_of_streams_separate() -> None:
    assert line("F.x\ta\v1\f0\rx k=1").params["k"].value == 1


def test_the_number_of_operands_is_not_looked_at() -> None:
    graph = read(f"{HEAD}1 77\n{INPUT}\n")
    assert len(graph.operands) == 1
    assert pnnx_param.write(graph).split(b"\n", 2)[1] == b"1 77"
    assert pnnx_param.write(graph.copy()).split(b"\n", 2)[1] == b"1 77"


def test_unicode_names() -> None:
    text = f"{HEAD}1 1\npnnx.Input               入力                       0 1 é k=ü\n"
    graph = read(text)
    assert (graph.ops[0].name, graph.operands[0].name, graph.ops[0].params["k"].value) == ("入力", "é", "ü")


def test_names_of_any_length() -> None:
    name = "n" * 5000
    assert written(f"F.x {name} 0 0") == f"F.x                      {name} 0 0"


def test_scalar_and_zero_sized_and_null_attributes() -> None:
    op = line("A a 0 0 @e=(0)i64 @n=()null @s=()f32")
    assert {k: (a.dtype, a.shape) for k, a in op.attrs.items()} == {
        "e": ("i64", (0,)),
        "n": (None, ()),
        "s": ("f32", ()),
    }
    assert written("A a 0 0 @e=(0)i64 @n=()null @s=()f32").endswith("@e=(0)i64 @n=()null @s=()f32")


def test_symbolic_sizes_are_written_as_a_number() -> None:
    text = "F.x a 1 1 x z #x=(1,%c,?)f32 #z=(-233,-1)f32"
    op = line(text)
    assert op.inputs[0].shape == (1, -233, -1)
    assert op.inputs[0].params == {"__shape__1": "c"}
    assert op.outputs[0].shape == (-233, -1)
    assert written(text).endswith("#x=(1,-233,?)f32 #z=(-233,?)f32")


def test_operands_without_a_shape_are_not_written() -> None:
    assert "#" not in written("F.x a 1 1 x z #z=()f32")


def test_order_of_items() -> None:
    text = "F.x a 2 2 y x z w #w=(1)f32 #x=(2)f32 @b=(1)f32 @B=(1)f32 z=1 é=1 Z=1 $b=x $a=y"
    expected = "2 y x z w Z=1 z=1 é=1 @B=(1)f32 @b=(1)f32 $a=y $b=x #x=(2)f32 #w=(1)f32"
    assert " ".join(written(text).split()[3:]) == expected


def test_expressions_are_kept_verbatim() -> None:
    text = "pnnx.Expression a 2 1 x y z expr=add(@0,,mul(@1,2))"
    assert line(text).params["expr"].value == "add(@0,,mul(@1,2))"
    for expr in ("-1", "False", "[[2,1],[0,1]]", "[None,None,[1,0]]", "()"):
        op = line(f"Tensor.index a 1 1 x z expr={expr} indexes={expr}")
        assert op.params["expr"].value == op.params["indexes"].value == expr
        assert op.params["expr"].type == 4
        assert written(f"Tensor.index a 1 1 x z expr={expr}").endswith(f"expr={expr}")


def test_text_of_untouched_parameters_is_kept() -> None:
    items = "a=1.000000e-05 b=5.000000e-01 c=[1,2] d=0.10 e=007 f=None g=() h=1E3"
    op = line(f"F.x a 0 0 {items}")
    assert [param.value for param in op.params.values()][:2] == [1e-5, 0.5]
    assert written(f"F.x a 0 0 {items}").endswith(items)


def test_changed_parameters_are_written_anew() -> None:
    graph = read(f"{HEAD}1 0\nF.x a 0 0 eps=1.000000e-05 p=5.000000e-01\n")
    graph.ops[0].params["eps"] = 1e-5
    graph.ops[0].params["p"].value = 0.25
    graph.ops[0].params["n"] = (1, 2)
    assert pnnx_param.write(graph).decode().splitlines()[2].endswith("eps=1.000000e-5 n=(1,2) p=0.25")


def test_values_with_blanks() -> None:
    text = "prim::Constant a 0 1 z l= x n=b i d, b j  d -> b i j @w=(1)f32 #z=(1)i64"
    op = line(text)
    assert {k: p.value for k, p in op.params.items()} == {"l": " x", "n": "b i d, b j  d -> b i j"}
    assert written(text).endswith(text[text.index("l=") :])
    op = line("pnnx.Expression a 2 1 x y z expr=add(@0, @1) #z=(1)f32")
    assert op.params["expr"].value == "add(@0, @1)"


# Patterns


def test_patterns() -> None:
    graph = Graph.parse(
        f"""{HEAD}5 4
pnnx.Input  in  0 1 x #x=(1,%c,?)f32
pnnx.Attribute op1 0 1 w @data #w=(%c)f32
pnnx.Attribute op2 0 1 v @data=%op1.data @more=
F.conv op3 3 1 x w v y stride=%stride padding=(1,%p) mode=* %*=%* @weight=(1,%k,?,4)f32
pnnx.Output out 1 0 y
"""
    )
    any_data, copied, conv = graph.ops[1].attrs["data"], graph.ops[2].attrs["data"], graph.ops[3]
    assert (any_data.dtype, bytes(any_data.data)) == (None, b"")
    assert (copied.dtype, bytes(copied.data)) == (None, b"%op1.data")
    assert bytes(graph.ops[2].attrs["more"].data) == b""
    weight = conv.attrs["weight"]
    assert (weight.dtype, weight.shape, weight.params) == ("f32", (1, -233, -1, 4), {"__shape__1": "k"})
    assert graph.operands[0].params == {"__shape__1": "c"}
    assert {k: p.value for k, p in conv.params.items()} == {
        "stride": "%stride",
        "padding": "(1,%p)",
        "mode": "*",
        "%*": "%*",
    }


@pytest.mark.parametrize("item", ["@data", "@data=", "@data=%op.data", "@data=(1,?)f32", "@data=(%c)f32"])
def test_patterns_are_no_files(item: str) -> None:
    with pytest.raises(FormatError):
        line(f"pnnx.Attribute a 0 0 {item}")


# Writing


def test_what_cannot_be_written() -> None:
    def graph() -> Graph:
        return read(f"{HEAD}2 1\n{INPUT} #x=(1)f32\nF.x a 1 0 x k=1 @w=(1)f32 $s=x\n")

    def damage(g: Graph, what: str) -> None:
        op, x = g.ops[1], g.operands[0]
        if what == "order":
            g.ops.reverse()
        elif what == "twice":
            g.ops[1].outputs.append(x)
        elif what == "operand":
            g.rename_operand(x, "a b")
        elif what == "equals":
            g.rename_operand(x, "a=b")
        elif what == "empty":
            op.name = ""
        elif what == "type":
            op.type = "F\tx"
        elif what == "value":
            op.params["k"] = "ij\njk"
        elif what == "word":
            op.params["k"] = "a b=c"
        elif what == "end":
            op.params["k"] = "a "
        elif what == "sigil":
            op.params["@k"] = 1
        elif what == "key":
            op.params["a=b"] = 1
        elif what == "surrogate":
            op.name = "\ud800"
        elif what == "nul":
            op.params["k"] = "a\0b"
        elif what == "slot":
            op.inputnames = ["s s"]

    for what, message in {
        "order": "operator a: input 'x' is not an output of any operator before it",
        "twice": "operator a: output 'x' is an output of an operator before it, too",
        "operand": "operator in0: the name of an operand 'a b' has a blank, which the format cannot express",
        "equals": "operator in0: the name of an item 'a=b' has a '=', which the format cannot express",
        "empty": "the name is empty",
        "type": "operator a: the type 'F\\tx' has a blank, which the format cannot express",
        "value": "operator a: the value of k 'ij\\njk' has a line break, which the format cannot express",
        "word": "operator a: the value of k has the word 'b=c', which would be read as an item",
        "end": "operator a: the value of k ends with a blank, which the format cannot express",
        "sigil": "operator a: parameter '@k' begins with '@', which the format cannot express",
        "key": "operator a: the name of an item 'a=b' has a '=', which the format cannot express",
        "surrogate": "'\\ud800' is not Unicode text",
        "nul": "operator a: the value of k 'a\\x00b' has a line break, which the format cannot express",
        "slot": "operator a: the name of an item 's s' has a blank, which the format cannot express",
    }.items():
        g = graph()
        damage(g, what)
        with pytest.raises(GraphError) as caught:
            pnnx_param.write(g)
        assert message in str(caught.value)


def test_limits() -> None:
    text = f"{HEAD}2 2\n{INPUT} #x=(1000,1000)f32\npnnx.Input b 0 1 y\n"
    read(text, limits=Limits(tensor_bytes=4_000_000, operators=2))
    with pytest.raises(FormatError, match="more than 3999999 bytes"):
        read(text, limits=Limits(tensor_bytes=3_999_999))
    with pytest.raises(FormatError, match="2 operators, the limit is 1"):
        read(text, limits=Limits(operators=1))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        read(f"{HEAD}1 1\n{INPUT}\n")
        assert gc.isenabled() is enabled
        with pytest.raises(FormatError):
            read("x")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


# Properties

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs"], exclude_characters="="), min_size=1, max_size=8)
KEYS = NAMES.filter(lambda key: key[0] not in "@$#")
SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(lambda s: s not in ("inf", "nan")),
    st.complex_numbers(allow_nan=False, allow_infinity=False, width=64),
)
VALUES = st.one_of(st.none(), st.booleans(), SCALARS, st.lists(SCALARS, min_size=1, max_size=4))
DIMS = st.lists(st.integers(-1, 2**18), min_size=1, max_size=2).map(tuple)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph()
    for i in range(draw(st.integers(1, 5))):
        known = graph.operands
        inputs = draw(st.lists(st.sampled_from(known), max_size=4)) if known else []
        outputs = [graph.new_operand(f"{i}.{j}") for j in range(draw(st.integers(0, 2)))]
        for x in outputs:
            if draw(st.booleans()):
                x.dtype, x.shape = draw(st.sampled_from(["f32", "i64", "bf16"])), draw(DIMS)
        names = draw(st.lists(NAMES, min_size=len(inputs), max_size=len(inputs), unique=True))
        graph.new_operator(
            draw(NAMES),
            f"{draw(NAMES)}{i}",
            inputs=inputs,
            outputs=outputs,
            inputnames=draw(st.sampled_from([[], names])),
            params=draw(st.dictionaries(KEYS, VALUES, max_size=4)),
            attrs={
                k: Attribute(np.zeros(n, np.float32))
                for k, n in draw(st.dictionaries(NAMES, st.just(2), max_size=2)).items()
            },
        )
    return graph


def described(graph: Graph) -> list[object]:
    return [
        [
            *(op.type, op.name, op.inputnames if any(op.inputnames) else []),
            [(x.name, x.dtype, x.shape) for x in op.inputs],
            [(x.name, x.dtype, x.shape) for x in op.outputs],
            {key: (param.type, param) for key, param in op.params.items()},
            {key: (attr.dtype, attr.shape) for key, attr in op.attrs.items()},
        ]
        for op in graph.ops
    ]


@given(graphs())
def test_graphs_come_back(graph: Graph) -> None:
    text = pnnx_param.write(graph)
    again = pnnx_param.read(text)[0]
    assert pnnx_param.write(again) == text
    assert described(again) == described(graph)


@given(st.dictionaries(KEYS, st.text(max_size=12), max_size=5))
def test_any_value_text_comes_back(items: dict[str, str]) -> None:
    items = {k: "".join(c for c in v if not c.isspace() and c.isprintable()) for k, v in items.items()}
    line_text = " ".join(f"{key}={items[key]}" for key in sorted(items))
    graph = read(f"{HEAD}1 0\nF.x                      a                        0 0 {line_text}\n")
    found = {key: param.text for key, param in graph.ops[0].params.items()}
    assert found == items
    assert pnnx_param.write(graph).decode().splitlines()[2].rstrip().endswith(line_text)


@pytest.mark.parametrize(
    "value",
    ["1", "-2x", "None", "True", "(1,2", "[]", "9" * 30, [], ["1"], ["a,b"], ["%k"], ["a", "2.5"]],
)
def test_values_that_would_be_read_as_others_are_refused(value: object) -> None:
    op = Operator("F.x", "a", {"k": value})
    graph = Graph()
    graph.ops.append(op)
    with pytest.raises(GraphError, match=r"a: the value of k is .*, which the format cannot express: it would be read"):
        pnnx_param.write(graph)
    (problem,) = pnnx_param.problems(graph.ops)
    assert problem.startswith("operator a: the value of k is ")
    op.params = Parameters({"expr": value if isinstance(value, str) else "x"})
    assert pnnx_param.problems(graph.ops) == []


SCALARS = st.one_of(st.booleans(), st.none(), st.integers(-(2**31), 2**31), st.floats(width=32), st.text(max_size=6))


@given(st.one_of(SCALARS, st.lists(SCALARS, max_size=3)))
def test_values_come_back_or_are_refused(value: object) -> None:
    """Numbers that are not finite, and None and bool in lists, come back as the words that say so."""

    def words(value: object) -> object:
        if isinstance(value, list):
            return [str(item) if item is None or isinstance(item, bool) else words(item) for item in value]
        return format_float(value) if isinstance(value, float) and not math.isfinite(value) else value

    graph = Graph()
    graph.ops.append(Operator("F.x", "a", {"k": value}))
    try:
        text = pnnx_param.write(graph)
    except GraphError:
        assert value == [] or any(isinstance(item, str) for item in (value if isinstance(value, list) else [value]))
        return
    assert read(text.decode()).ops[0].params["k"] == Parameter(words(value))


def test_conformance_files_come_back(data_path: Path) -> None:
    files = sorted(data_path.rglob("*.pnnx.param"))
    assert files
    for file in files:
        content = file.read_bytes()
        graph = pnnx_param.read(content, str(file))[0]
        assert pnnx_param.write(graph) == content, file
        floats = [p for op in graph.ops for p in op.params.values() if p.type in (3, 6)]
        assert all(p.encode_to_string() == p.text for p in floats), file


def test_parameter_class_is_shared() -> None:
    assert type(line("F.x a 0 0 k=1").params["k"]) is Parameter
