"""Tokens, parser and tree: regular forms, the forms that converters write, and mistakes with their places."""

from __future__ import annotations

import copy
import math
import os
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import (
    FUNCTIONS,
    Call,
    Constant,
    DTypeName,
    Input,
    ListNode,
    Node,
    TokenKind,
    inputs_of,
    parse,
    substitute,
    to_rpn,
    tokens,
)
from pnnx_fast.expression.parser import with_whole_casts

RECORDED = [
    "-1",
    "False",
    "@0",
    "add(@0,@1)",
    "sub(mul(@0,0.25),@1)",
    "sub(add(@0,@1),mul(sub(1,@2),1.000000e6))",
    "div(sub(@0,@1),sqrt(add(@2,1.000000e-7)))",
    "add(@0,0.000000e+00+4.000000e+00j)",
    "mul(@0,1.200000e+00-9.000000e-01j)",
    "[size(@0,0),-1,mul(size(@0,2),2)]",
    "[[True,False],[False,False,True,False]]",
    "[None,None,[1,0]]",
    "[@0,@1]",
    "torch.float(size(@0))",
    "torch.uint8(int(div(@0,4.0)))",
    "[torch.float,torch.long]",
    "atan2(@0,reciprocal(@12))",
    "[]",
]


@pytest.mark.parametrize("text", RECORDED)
def test_text_of_a_tree_is_the_text_it_came_from(text):
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text, regular",
    [
        ("add(@0,,mul(@1,2))", "add(@0,mul(@1,2))"),
        ("add(,@0,@1,)", "add(@0,@1)"),
        ("log1p,@0", "log1p(@0)"),
        ("exp(log1p),@0", "exp(log1p(@0))"),
        ("add(log1p,@0),@1", "add(log1p(@0),@1)"),
        ("mul(exp(expm1),@0),2.0", "mul(exp(expm1(@0)),2.0)"),
        ("expm1,sub(@0,0.5)", "expm1(sub(@0,0.5))"),
        ("mul(log1p,@0,expm1,@1)", "mul(log1p(@0),expm1(@1))"),
        ("add,@0,neg,@1", "add(@0,neg(@1))"),
        (" add ( @0 , 2 ) ", "add(@0,2)"),
        ("[1,,2,]", "[1,2]"),
    ],
)
def test_forms_of_converters(text, regular):
    assert str(parse(text)) == regular


@pytest.mark.parametrize(
    "text, value",
    [
        ("2147483647", 2147483647),
        ("-9223372036854775808", -(2**63)),
        ("1e5", 1e5),
        ("1.000000e-5", 1e-5),
        (".5", 0.5),
        ("+5", 5),
        ("2.", 2.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("1.0e+00+2.0e+00j", 1 + 2j),
        ("1.0e+00+-2.0e+00j", 1 - 2j),
        ("-1.5-2j", -1.5 - 2j),
        ("3j", 3j),
        ("inf+1.0j", complex(math.inf, 1)),
        ("True", True),
        ("None", None),
        ("torch.half", DTypeName("torch.half")),
    ],
)
def test_literals(text, value):
    node = parse(text)
    assert isinstance(node, Constant)
    assert type(node.value) is type(value)
    assert node.value == value
    assert str(node) == text


@pytest.mark.parametrize("text", ["nan", "nan.0", "-nan"])
def test_nan_literals(text):
    assert math.isnan(parse(text).value)
    assert parse(text) == parse("nan")


def test_tokens_have_kinds_and_places():
    text = "add(@0, [1.5,torch.bool])"
    kinds = [
        TokenKind.NAME,
        TokenKind.OPEN,
        TokenKind.INPUT,
        TokenKind.COMMA,
        TokenKind.OPEN_LIST,
        TokenKind.FLOAT,
    ]
    kinds += [TokenKind.COMMA, TokenKind.NAME, TokenKind.CLOSE_LIST, TokenKind.CLOSE]
    found = tokens(text)
    assert [t.kind for t in found] == kinds
    assert all(text[t.start : t.end] == t.text for t in found)


@pytest.mark.parametrize(
    "text, position, reason",
    [
        ("", 0, "the expression is empty"),
        ("  ", 0, "the expression is empty"),
        ("add(@0,$1)", 7, "'$1' is neither an input, a number nor a name"),
        ("add(@0,0x10)", 7, "'0x10' is neither an input, a number nor a name"),
        ("@", 0, "'@' is neither an input, a number nor a name"),
        ("add(@0,@1", 9, "')' is missing"),
        ("[1,2", 4, "']' is missing"),
        ("add(@0,@1))", 10, "')' follows a complete expression"),
        ("@0,@1", 2, "',' follows a complete expression"),
        ("add(@0 @1)", 7, "expected ',' or ')', found '@1'"),
        ("add(@0,@1]", 9, "expected ',' or ')', found ']'"),
        ("add(]", 4, "expected a value, found ']'"),
        (")", 0, "expected a value, found ')'"),
        ("sqrrt(@0)", 0, "there is no function 'sqrrt'; did you mean 'sqrt'?"),
        ("mul(@0,zzzzzz(@1))", 7, "there is no function 'zzzzzz'"),
        ("mul(@0,neg)", 10, "'neg' is a function, '(' is expected after it"),
        ("add(@0)", 0, "'add' takes 2 arguments, 1 given"),
        ("neg(@0,@1)", 0, "'neg' takes 1 argument, 2 given"),
        ("size(@0,1,2)", 0, "'size' takes 1 to 2 arguments, 3 given"),
        ("add,@0", 0, "'add' takes 2 arguments, 1 given"),
        ("log1p,", 6, "the expression ends where a value is expected"),
        ("add(@0,9223372036854775808)", 7, "the integer does not fit in 64 bits"),
        ("add(@0,1.0.0)", 7, "'1.0.0' is neither an input, a number nor a name"),
        ("__import__(1)", 0, "there is no function '__import__'"),
    ],
)
def test_mistakes_show_their_place(text, position, reason):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.reason == reason
    assert caught.value.position == position
    if text:
        assert str(caught.value) == f"{reason}\n  {text}\n  {' ' * position}^"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("neg(" * 5000 + "@0" + ")" * 5000, "nested deeper than 4096 levels"),
        ("[" * 5000, "nested deeper than 4096 levels"),
        ("log1p," * 5000 + "@0", "nested deeper than 4096 levels"),
        ("1" * 2_000_000, "the expression has 2000000 characters, more than 1048576"),
        ("add(@0," + "9" * 10_000 + ")", "'9999999999999999999999999999999999999... is neither"),
        ("@" + "9" * 100, "'@999999999999999999999999999999999999... is neither"),
        ("[" + "1," * 131_072 + "]", "the expression has more than 131072 nodes"),
        ("[" + "1," * 131_073 + "?", "the expression has more than 131072 values"),
    ],
    ids=["calls", "brackets", "commas", "characters", "number", "operand", "nodes", "values"],
)
def test_hostile_text(text, reason):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert reason.replace("...", "") in caught.value.reason.replace("...'", "")


def test_deep_trees_need_no_stack():
    depth = 4000
    node = parse("neg(" * depth + "@0" + ")" * depth)
    assert len(to_rpn(node)) == depth + 1
    assert node == parse(str(node))
    assert hash(node) == hash(copy.deepcopy(node)) == hash(pickle.loads(pickle.dumps(node)))
    for _ in range(6):
        node = substitute(node, {0: Call("neg", [node])}) if node.size < 20_000 else node
    assert inputs_of(node) == [0]


def test_shared_parts_cannot_explode():
    node: Node = Input(0)
    for _ in range(16):
        node = Call("mul", [node, node])
    with pytest.raises(ExpressionError, match="more than 131072 nodes"):
        Call("mul", [node, node])


def test_nodes_are_immutable_and_compare_by_structure():
    a, b = parse("add(mul(@0,2),@1)"), parse("add( mul(@0,2) , @1 )")
    assert a == b
    assert hash(a) == hash(b)
    assert a != parse("add(mul(@0,2.0),@1)")
    assert parse("add(@0,1)") != parse("add(@0,True)")
    assert repr(a) == "parse('add(mul(@0,2),@1)')"
    with pytest.raises(AttributeError):
        a.name = "sub"


def test_substitution_composes():
    outer = parse("add(relu(@0),@1)")
    composed = substitute(outer, {0: parse("mul(@0,@2)"), 1: Input(5)})
    assert str(composed) == "add(relu(mul(@0,@2)),@5)"
    assert inputs_of(composed) == [0, 2, 5]
    assert substitute(outer, {}) is outer


@pytest.mark.parametrize(
    ("torn", "whole"),
    [
        ("[int(torch.int),floor(div(size(@0,2),2.0)),@1]", "[int(torch.int(floor(div(size(@0,2),2.0)))),@1]"),
        ("mul(int(torch.long),ceil(@0)),3", "mul(int(torch.long(ceil(@0))),3)"),
        ("[relu(torch.float)]", None),
        ("[relu(torch.float),@0,word]", None),
    ],
)
def test_casts_that_a_converter_tore_apart(torn: str, whole: str | None) -> None:
    found = with_whole_casts(torn)
    assert (None if found is None else str(found)) == whole


def test_reverse_polish_order():
    nodes = to_rpn(parse("[add(mul(@0,2),@1),size(@0,1)]"))
    words = [n.name if isinstance(n, Call) else "list" if isinstance(n, ListNode) else str(n) for n in nodes]
    assert words == ["@0", "2", "mul", "@1", "add", "@0", "1", "size", "list"]


_leaves = st.one_of(
    st.integers(0, 99).map(Input),
    st.integers(-(2**63), 2**63 - 1).map(Constant),
    st.floats().map(Constant),
    st.complex_numbers().map(Constant),
    st.sampled_from([None, True, False, DTypeName("torch.float")]).map(Constant),
)


def _calls(children):
    functions = st.sampled_from(sorted(FUNCTIONS.values(), key=lambda f: f.name))

    def call(function):
        return st.lists(children, min_size=function.least, max_size=function.most).map(lambda a: Call(function.name, a))

    return st.one_of(functions.flatmap(call), st.lists(children, max_size=4).map(ListNode))


@given(st.recursive(_leaves, _calls, max_leaves=30))
def test_any_tree_prints_and_parses_back(node):
    assert parse(str(node)) == node
    assert str(parse(str(node))) == str(node)


@given(st.text(alphabet="ad()[],@01.5e-+jnifnTrue torch.oglsiz", max_size=60))
@example("sin,a")
def test_any_text_parses_or_fails_cleanly(text):
    try:
        node = parse(text)
    except ExpressionError as error:
        assert error.position is None or 0 <= error.position <= len(text)  # noqa: PT017
    else:
        assert parse(str(node)) == node


@pytest.mark.skipif(not os.environ.get("PNNX_FAST_DATA"), reason="PNNX_FAST_DATA is not set")
def test_every_recorded_expression_parses():
    found = set()
    for path in Path(os.environ["PNNX_FAST_DATA"]).rglob("*.pnnx.param"):
        found |= set(re.findall(r"\bexpr=(\S+)", path.read_text()))
    assert len(found) > 50
    for text in found:
        node = parse(text)
        assert parse(str(node)) == node
