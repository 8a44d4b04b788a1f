"""Graphs: building, rewiring, removing, order, validation, copies."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast import Model
from pnnx_fast.errors import CycleError, GraphError, MissingParameterError, UnknownNameError
from pnnx_fast.ir import Attribute, Graph, Operand, Operator

TEXT = """7767517
6 5
pnnx.Input               in0                      0 1 x #x=(1,4)f32
nn.Linear                fc                       1 1 x a bias=False in_features=4 #x=(1,4)f32 #a=(1,4)f32
F.relu                   act                      1 1 a b $input=a #a=(1,4)f32 #b=(1,4)f32
torch.add                sum                      2 1 b b c $input=b $other=b #b=(1,4)f32 #b=(1,4)f32 #c=(1,4)f32
torch.neg                dead                     1 1 a d $input=a #a=(1,4)f32 #d=(1,4)f32
pnnx.Output              out0                     1 0 c #c=(1,4)f32
"""


@pytest.fixture
def graph() -> Graph:
    return Graph.parse(TEXT)


def names(things: list[Operator] | list[Operand]) -> list[str]:
    return [x.name for x in things]


def test_structure(graph: Graph) -> None:
    assert names(graph.ops) == ["in0", "fc", "act", "sum", "dead", "out0"]
    assert names(graph.operands) == ["x", "a", "b", "c", "d"]
    b = graph.operand("b")
    assert b.producer is graph.ops[2]
    assert names(b.consumers) == ["sum", "sum"]
    assert (b.dtype, b.shape) == ("f32", (1, 4))
    assert graph.get_operand("nothing") is None
    add = graph.ops[3]
    assert add.inputnames == ["input", "other"]
    assert add.named_input("other") is b
    assert add.named_input("alpha") is None
    assert add.has_input("input")
    assert not add.has_input("alpha")
    fc = graph.ops[1]
    assert fc.has_param("bias")
    assert not fc.has_param("groups")
    assert not fc.has_attr("weight")
    graph.validate()


def test_operators_and_operands_by_name(graph: Graph) -> None:
    assert graph.operator("act") is graph.get_operator("act") is graph.ops[2]
    assert graph.operand("b") is graph.get_operand("b") is graph.ops[2].outputs[0]
    assert graph.get_operator("b") is None
    assert graph.get_operand("act") is None
    graph.ops[4].name = "act"
    assert graph.operator("act") is graph.ops[2]


@pytest.mark.parametrize(
    "kind, name, message",
    [
        ("operator", "axt", "there is no operator 'axt'; did you mean 'act'?"),
        ("operator", "b", "there is no operator 'b'; the operators are 'in0', 'fc', 'act', 'sum', 'dead', 'out0'"),
        ("operand", "act", "there is no operand 'act'; the operands are 'x', 'a', 'b', 'c', 'd'"),
    ],
)
def test_unknown_names_are_errors_that_tell_known_ones(graph: Graph, kind: str, name: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        getattr(graph, kind)(name)
    assert str(caught.value) == message
    assert isinstance(caught.value, GraphError)
    assert isinstance(caught.value, KeyError)
    with pytest.raises(TypeError, match="operands and operators go by name, a str, not int"):
        getattr(graph, kind)(1)


def test_what_an_operator_lacks_is_named(graph: Graph) -> None:
    fc = graph.operator("fc")
    with pytest.raises(MissingParameterError, match=r"'in_feature' is missing; did you mean 'in_features'\?"):
        fc.params["in_feature"]
    with pytest.raises(MissingParameterError, match="the attribute 'weight' is missing"):
        fc.attrs["weight"]


def test_arrays_that_are_assigned_become_attributes(graph: Graph) -> None:
    fc = graph.operator("fc")
    fc.attrs["weight"] = np.zeros((4, 4), np.float32)
    assert isinstance(fc.attrs["weight"], Attribute)


def test_building() -> None:
    graph = Graph()
    x, y = graph.new_operand("x"), graph.new_operand("y")
    x.dtype, x.shape = "f32", (1, -1)
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    out = graph.new_operator("pnnx.Output", "out", inputs=[y])
    relu = graph.new_operator_before("F.relu", "act", out, inputs=[x], outputs=[y], inputnames=["input"])
    note = graph.new_operator_after("torch.neg", "n", relu, inputs=[y], outputs=[graph.new_operand("z")])
    assert names(graph.ops) == ["in", "act", "n", "out"]
    assert names(y.consumers) == ["out", "n"]
    relu.params["inplace"] = True
    note.attrs["w"] = Attribute(np.float32([1]))
    graph.validate()
    assert repr(graph) == "<Graph: 4 operators, 3 operands, 1 inputs, 1 outputs>"
    assert str(relu).split() == ["F.relu", "act", "input=x", "->", "y", "inplace=True"]
    assert str(note).split() == ["torch.neg", "n", "y", "->", "z", "@w=(1)f32"]
    assert repr(relu) == "Operator(F.relu act: x -> y)"
    assert repr(x) == "Operand(x:(1,?)f32)"
    assert repr(y) == "Operand(y)"


def test_names_of_operands_are_unique(graph: Graph) -> None:
    with pytest.raises(GraphError, match="operand a exists already"):
        graph.new_operand("a")
    with pytest.raises(GraphError, match="operand b exists already"):
        graph.rename_operand(graph.operand("a"), "b")


def test_names_that_are_taken_get_a_number(graph: Graph) -> None:
    assert graph.free_name("new") == "new"
    assert [graph.new_operand(graph.free_name("a")).name for _ in range(3)] == ["a_1", "a_2", "a_3"]
    graph.new_operand("b_1")
    assert graph.free_name("b") == "b_2"


def test_rename_keeps_the_order(graph: Graph) -> None:
    a = graph.operand("a")
    graph.rename_operand(a, "hidden")
    graph.rename_operand(a, "hidden")
    assert names(graph.operands) == ["x", "hidden", "b", "c", "d"]
    assert graph.get_operand("a") is None
    assert graph.get_operand("hidden") is a
    assert "act                      1 1 hidden b" in saved_text(graph)


def saved_text(graph: Graph) -> str:
    from pnnx_fast.formats import pnnx_param

    return pnnx_param.write(graph).decode()


def test_inputs_of_operators(graph: Graph) -> None:
    add, a, b, c = graph.ops[3], *(graph.operand(n) for n in "abc")
    add.set_input(0, a)
    assert (names(add.inputs), names(b.consumers), names(a.consumers)) == (
        ["a", "b"],
        ["sum"],
        ["act", "dead", "sum"],
    )
    add.add_input(b, "third")
    assert add.inputnames == ["input", "other", "third"]
    add.remove_input(1)
    assert (names(add.inputs), add.inputnames, names(b.consumers)) == (["a", "b"], ["input", "third"], ["sum"])
    out = graph.ops[-1]
    out.add_input(b, "late")
    assert out.inputnames == ["", "late"]
    with pytest.raises(ValueError, match="not in list"):
        c.remove_consumer(add)
    graph.validate()


def test_remove_consumer_takes_one_entry(graph: Graph) -> None:
    b, add = graph.operand("b"), graph.ops[3]
    b.remove_consumer(add)
    assert names(b.consumers) == ["sum"]


def test_replace_uses(graph: Graph) -> None:
    a, b = graph.operand("a"), graph.operand("b")
    graph.replace_uses(b, a)
    assert names(graph.ops[3].inputs) == ["a", "a"]
    assert names(a.consumers) == ["act", "dead", "sum", "sum"]
    assert b.consumers == []
    graph.replace_uses(a, a)
    assert len(a.consumers) == 4
    graph.validate()


def test_moving_an_output(graph: Graph) -> None:
    act, b = graph.ops[2], graph.operand("b")
    new = graph.new_operator_after("nn.ReLU", "act2", act, inputs=[graph.operand("a")], outputs=[b])
    assert (act.outputs, b.producer) == ([], new)
    graph.remove_operator(act)
    graph.validate()


def test_removing(graph: Graph) -> None:
    with pytest.raises(GraphError, match="output b of act is still an input of sum"):
        graph.remove_operator(graph.ops[2])
    with pytest.raises(GraphError, match="operand c is still an input of out0"):
        graph.remove_operand(graph.operand("c"))
    graph.validate()
    graph.remove_operators([graph.ops[5], graph.ops[3]])
    assert names(graph.ops) == ["in0", "fc", "act", "dead"]
    assert names(graph.operands) == ["x", "a", "b", "d"]
    graph.remove_operand(graph.operand("d"))
    assert graph.ops[3].outputs == []
    graph.validate()


def test_dead_code_elimination(graph: Graph) -> None:
    graph.new_operand("orphan")
    graph.new_operator("torch.neg", "dead2", inputs=[graph.operand("d")], outputs=[graph.new_operand("e")])
    assert graph.dead_code_elimination() == 2
    assert names(graph.ops) == ["in0", "fc", "act", "sum", "out0"]
    assert names(graph.operands) == ["x", "a", "b", "c"]
    assert graph.dead_code_elimination() == 0
    graph.validate()


def test_inputs_of_the_model_are_not_dead() -> None:
    graph = Graph()
    graph.new_operator("pnnx.Input", "in", outputs=[graph.new_operand("x")])
    assert graph.dead_code_elimination() == 0
    assert names(graph.ops) == ["in"]


def test_canonicalize(graph: Graph) -> None:
    graph.canonicalize()
    assert names(graph.operands) == ["0", "1", "2", "3", "4"]
    assert graph.get_operand("3") is graph.ops[3].outputs[0]
    assert graph.get_operand("a") is None
    graph.validate()


def test_topological_order(graph: Graph) -> None:
    assert list(graph.topological()) == graph.ops
    graph.ops.reverse()
    order = list(graph.topological())
    seen: set[Operand] = set()
    for op in order:
        assert set(op.inputs) <= seen
        seen.update(op.outputs)
    assert len(order) == 6


def test_long_chains_need_no_recursion() -> None:
    graph = Graph()
    last = graph.new_operand("0")
    graph.new_operator("pnnx.Input", "in", outputs=[last])
    for i in range(1, 5000):
        new = graph.new_operand(str(i))
        graph.new_operator("F.relu", f"r{i}", inputs=[last], outputs=[new])
        last = new
    graph.ops.reverse()
    assert [op.name for op in graph.topological()][:2] == ["in", "r1"]
    graph.copy().validate()


def test_cycles_are_named(graph: Graph) -> None:
    fc, act, add = graph.ops[1:4]
    fc.set_input(0, graph.operand("c"))
    with pytest.raises(CycleError, match=r"the graph has a cycle: (\w+ -> ){3}\w+$") as caught:
        list(graph.topological())
    ring = caught.value.operators
    assert sorted(ring) == ["act", "fc", "sum"]
    successor = {"fc": "act", "act": "sum", "sum": "fc"}
    assert all(successor[a] == b for a, b in zip(ring, [*ring[1:], ring[0]], strict=True))
    with pytest.raises(CycleError):
        graph.validate()
    act.set_input(0, graph.operand("b"))
    with pytest.raises(CycleError, match="cycle: act -> act"):
        list(graph.topological())
    del add


def break_unknown_operand(graph: Graph) -> None:
    graph.ops[2].inputs[0] = Operand("a")


def break_producer(graph: Graph) -> None:
    graph.operand("b").producer = graph.ops[1]


def break_consumers(graph: Graph) -> None:
    graph.operand("b").consumers.pop()


def break_inputnames(graph: Graph) -> None:
    graph.ops[3].inputnames.append("x")


def break_attribute(graph: Graph) -> None:
    attr = graph.ops[1].attrs["weight"] = Attribute(np.float32([1]))
    attr.shape = (4, 4)


def break_dtype(graph: Graph) -> None:
    graph.operand("x").dtype = "f8"


def break_weight_name(graph: Graph) -> None:
    graph.ops[2].name = "fc"
    graph.ops[1].attrs["w"] = Attribute(np.float32([1]))
    graph.ops[2].attrs["w"] = Attribute(np.float32([2]))


def break_orphan(graph: Graph) -> None:
    graph.new_operator("F.relu", "r", inputs=[graph.new_operand("o")])


@pytest.mark.parametrize(
    "damage, messages",
    [
        (break_unknown_operand, ["act: operand a is not in the graph", "act: input a has no producer"]),
        (break_producer, ["act: output b has fc as its producer", "operand b has fc as its producer, which"]),
        (break_consumers, ["operand b lists consumers ['sum'], but is an input of ['sum', 'sum']"]),
        (break_inputnames, ["sum: 3 names for 2 inputs"]),
        (break_attribute, ["fc: attribute weight has 4 bytes, its shape needs 64"]),
        (break_dtype, ["operand x has unknown dtype f8"]),
        (break_weight_name, ["fc: another weight is called fc.w, too"]),
        (break_orphan, ["r: input o has no producer"]),
    ],
)
def test_validation(graph: Graph, damage, messages: list[str]) -> None:
    damage(graph)
    with pytest.raises(GraphError) as caught:
        graph.validate()
    for message in messages:
        assert any(problem.startswith(message) for problem in caught.value.problems), caught.value.problems


def test_validation_finds_what_files_cannot_hold(graph: Graph, tmp_path: Path) -> None:
    graph.operator("fc").name = "two words"
    graph.operator("act").params["k"] = "1"
    graph.rename_operand(graph.operand("c"), "c=")
    with pytest.raises(GraphError) as caught:
        graph.validate()
    first, *others = caught.value.problems
    assert first == "operator two words: the name 'two words' has a blank, which the format cannot express"
    assert [problem.partition(":")[0] for problem in others] == ["operator act", "operator sum", "operator out0"]
    with pytest.raises(GraphError, match=first):
        graph.save(tmp_path / "m.pnnx.param")


@pytest.mark.parametrize("dtype", ["float32", np.dtype("float32")])
def test_dtypes_have_the_names_of_files(tmp_path: Path, dtype: object) -> None:
    graph = Graph.parse("7767517\n3 2\npnnx.Input in0 0 1 x #x=(2)f32\nF.relu r 1 1 x y\npnnx.Output out 1 0 y\n")
    graph.operand("x").dtype = dtype  # type: ignore[assignment]
    for use in (graph.validate, lambda: Model(graph)):
        with pytest.raises(GraphError, match="operand x has unknown dtype float32, here called f32"):
            use()
    with pytest.raises(GraphError, match=r"operator in0: there is no dtype .*float32.*; the dtypes are f32 "):
        graph.save(tmp_path / "m.pnnx.param")


@pytest.mark.parametrize("kind, size", [("nn.Linear", "in_features=4 out_features=2 @weight=(2,4)f32"), (
    "nn.Conv1d", "in_channels=1 out_channels=1 kernel_size=(1) groups=1 stride=(1) padding=(0) dilation=(1) "
    "padding_mode=zeros @weight=(1,1,1)f32")])  # fmt: skip
def test_a_bias_is_there_if_the_parameters_say_so(kind: str, size: str) -> None:
    text = f"7767517\n3 2\npnnx.Input in 0 1 x\n{kind} m 1 1 x y bias=True {size}\npnnx.Output out 1 0 y\n"
    graph = Graph.parse(text)
    op = graph.operator("m")
    op.attrs["weight"] = np.ones(op.attrs["weight"].shape, np.float32)
    with pytest.raises(GraphError, match="m: attribute bias is missing, which the parameters announce"):
        graph.validate()
    op.attrs["bias"] = np.ones(op.attrs["weight"].shape[:1], np.float32)
    graph.validate()
    op.params["bias"] = False
    with pytest.raises(GraphError, match="m: attribute bias is there, but the parameters say bias=False"):
        graph.validate()
    del op.attrs["bias"]
    graph.validate()


def test_arrays_are_no_attributes(graph: Graph, tmp_path: Path) -> None:
    graph.ops[1].attrs = {"weight": np.zeros((4, 4), np.float32)}  # type: ignore[assignment]
    with pytest.raises(GraphError, match=r"fc: attribute weight is a ndarray; Attribute\(value\) makes one"):
        graph.validate()
    with pytest.raises(GraphError, match=r"weight fc.weight is a ndarray; pnnx_fast.Attribute\(value\) makes one"):
        graph.save(tmp_path / "m.pnnx.param")


def test_copies_share_attributes_and_nothing_else(graph: Graph) -> None:
    weight = graph.ops[1].attrs["weight"] = Attribute(np.zeros((4, 4), np.float32))
    other = graph.copy()
    other.validate()
    assert saved_text(other) == saved_text(graph)
    assert other.ops[1].attrs["weight"] is weight
    other.ops[1].params["in_features"].value = 5
    other.ops[1].attrs["bias"] = Attribute(np.float32([1]))
    other.remove_operators([other.ops[4]])
    other.rename_operand(other.operand("a"), "q")
    assert graph.ops[1].params["in_features"].value == 4
    assert list(graph.ops[1].attrs) == ["weight"]
    assert len(graph.ops) == 6
    graph.validate()


def test_standard_copies(graph: Graph) -> None:
    graph.ops[1].attrs["weight"] = Attribute(np.zeros((4, 4), np.float32))
    other, deep = copy.copy(graph), copy.deepcopy(graph)
    assert saved_text(other) == saved_text(deep) == saved_text(graph)
    assert other.ops[1].attrs["weight"] is graph.ops[1].attrs["weight"]
    deep.ops[1].attrs["weight"].set_float32_data(np.ones(16))
    assert not graph.ops[1].attrs["weight"].numpy().any()


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_graphs_can_be_pickled(graph: Graph, protocol: int) -> None:
    weight = graph.ops[1].attrs["weight"] = Attribute(np.arange(16, dtype=np.float32).reshape(4, 4))
    graph.ops[2].attrs["same"] = weight
    graph.store_layout, graph.unused_operands = "zip32", 2
    other = pickle.loads(pickle.dumps(graph, protocol))
    other.validate()
    assert saved_text(other) == saved_text(graph)
    assert (other.store_layout, other.unused_operands) == ("zip32", 2)
    assert other.ops[1].attrs["weight"] == weight
    assert other.ops[1].attrs["weight"] is other.ops[2].attrs["same"]
    assert [names(x.consumers) for x in other.operands] == [names(x.consumers) for x in graph.operands]


def test_long_graphs_can_be_pickled() -> None:
    graph = Graph()
    operand = graph.new_operand("x")
    graph.new_operator("pnnx.Input", "in", outputs=[operand])
    for i in range(5000):
        former, operand = operand, graph.new_operand(str(i))
        graph.new_operator("F.relu", f"act{i}", inputs=[former], outputs=[operand])
    assert saved_text(pickle.loads(pickle.dumps(graph))) == saved_text(graph)


def test_operators_are_found_wherever_they_stand() -> None:
    graph = Graph()
    ops = [graph.new_operator("mine.Op", str(i)) for i in range(300)]
    for op in (ops[0], ops[299], ops[10], ops[11], ops[150]):
        assert graph.ops[graph.place_of(op)] is op
    graph.ops.reverse()
    assert graph.place_of(ops[0]) == 299
    added = graph.new_operator_before("mine.Op", "added", ops[7])
    assert graph.ops.index(added) == 292
    graph.remove_operator(ops[7])
    assert ops[7] not in graph.ops
    with pytest.raises(ValueError, match="not in list"):
        graph.place_of(ops[7])
