"""The store of operators: names and versioned methods, refusals, scopes, threads; and the registry on top of it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pnnx_fast import Graph, Model
from pnnx_fast.errors import ParameterError, PnnxFastError
from pnnx_fast.ops import load_all, plugins, registry
from pnnx_fast.ops.catalog import Catalog, Method
from pnnx_fast.ops.symbolic import Builder, Tensor


def test_names_and_methods_are_kept_apart() -> None:
    catalog: Catalog[str] = Catalog()
    catalog.register_op(3, "Three", Method(3, 1, "a"))
    catalog.register_op(3, None, Method(3, 4, "b"))
    catalog.register_op_name(3, "Drei")
    assert catalog.names() == [(3, "Three"), (3, "Drei")]
    assert catalog.find_op_name(3) == "Three"
    assert catalog.find_op_type("Drei") == 3
    assert catalog.get_op_method_count() == 2
    assert [catalog.find_op_method_via_index(i).version for i in range(2)] == [1, 4]
    with pytest.raises(IndexError):
        catalog.find_op_method_via_index(2)
    versions = [catalog.find_op_method(3, v) for v in (0, 1, 4, 2)]
    assert [m and m.definition for m in versions] == ["b", "a", "b", None]
    assert catalog.find_op_method(9) is None
    assert catalog.find_op_name(9) is None
    catalog.unregister_op_name("Three")
    assert catalog.find_op_name(3) == "Drei"
    with pytest.raises(ParameterError):
        catalog.unregister_op_name("Three")


def test_refusals_leave_nothing_behind() -> None:
    catalog: Catalog[str] = Catalog()
    catalog.register_op(3, "Three", Method(3, 1, "a"))
    for type, name, method in [
        (3, "Other", Method(3, 1, "b")),
        (4, "Three", Method(4, 1, "b")),
        (4, "Four", Method(5, 1, "b")),
        (4, "Four", Method(4, 0, "b")),
    ]:
        with pytest.raises(ParameterError):
            catalog.register_op(type, name, method)
    assert catalog.names() == [(3, "Three")]
    assert catalog.get_op_method_count() == 1


def test_unregister_and_release() -> None:
    catalog: Catalog[str] = Catalog()
    released: list[int] = []
    for version in (1, 2, 3):
        catalog.register_op(3, "Three", Method(3, version, "", lambda v=version: released.append(v)))
    assert catalog.unregister_op(3, 2) == 1
    assert (released, catalog.find_op_name(3)) == ([2], "Three")
    with pytest.raises(ParameterError, match="no version 2"):
        catalog.unregister_op(3, 2)
    assert catalog.unregister_op(3) == 2
    assert (released, catalog.find_op_name(3)) == ([2, 1, 3], None)
    catalog.register_op(3, "Three", Method(3, 1, ""))
    catalog.release_op_name_registry()
    assert (catalog.names(), catalog.get_op_method_count()) == ([], 1)
    catalog.release_op_registry()
    assert catalog.get_op_method_count() == 0


def test_threads_get_different_versions() -> None:
    catalog: Catalog[int] = Catalog()
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for i in range(50):
            catalog.push("shared", number, 10)
            catalog.push(f"own{number}.{i}", number, 10)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert catalog.get_op_method_count() == 800
    assert len({type for type, _ in catalog.names()}) == 401


def test_the_package_registers_by_family() -> None:
    load_all()
    families = registry.families()
    assert "nn.Conv2d" in families["convolution"]
    numbers = {name: registry.CATALOG.find_op_type(name) for name in families["convolution"]}
    assert len({n // registry.FAMILY_SIZE for n in numbers.values() if n is not None}) == 1
    assert len(set(numbers.values())) == len(numbers)
    assert set(registry.types()) >= {"nn.ReLU", "F.softmax"}


def _relu_plus(b: Builder, input: Tensor) -> Tensor:
    return b.host(lambda x: np.maximum(x, 0) + 1, [input], [(input.shape, input.dtype)])[0]


def test_scoped_definitions_lie_above_those_of_the_package() -> None:
    graph = Graph.parse("7767517\n3 2\npnnx.Input a 0 1 x #x=(2)f32\nF.relu e 1 1 x y\npnnx.Output o 1 0 y\n")
    x = np.float32([-1, 2])
    with registry.scoped(_relu_plus, "F.relu", "test.relu_plus"):
        assert Model(graph, 1, optimize=False)(x).tolist() == [1, 3]
        assert registry.find("test.relu_plus") is not None
    assert Model(graph, 1, optimize=False)(x).tolist() == [0, 2]
    assert registry.find("test.relu_plus") is None
    with pytest.raises(ParameterError, match="already, by pnnx_fast"):
        registry.operator("F.relu")(_relu_plus)
    registry.operator("F.relu", override=True)(_relu_plus)
    assert Model(graph, 1, optimize=False)(x).tolist() == [1, 3]
    registry.unregister("F.relu")
    assert Model(graph, 1, optimize=False)(x).tolist() == [0, 2]


class _Point:
    name, value = "broken", "nowhere:register"

    def __init__(self, target: object) -> None:
        self.target = target

    def load(self) -> object:
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(plugins, "_loaded", set())
    monkeypatch.setattr(plugins.metadata, "entry_points", lambda group: [_Point(ImportError("gone"))])
    with pytest.raises(PnnxFastError, match=r"broken .* failed: gone"):
        plugins.load_plugins()
    monkeypatch.setattr(plugins.metadata, "entry_points", lambda group: [_Point(lambda: calls.append(1))])
    assert plugins.load_plugins() == ["broken"]
    assert plugins.load_plugins() == []
    assert calls == [1]
