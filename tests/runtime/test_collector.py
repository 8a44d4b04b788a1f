"""The pause of the garbage collector: it ends as it began, and hides no garbage of callers."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import pytest

from pnnx_fast._collector import collector_paused


class _Node:
    """Something that can be part of a cycle."""


def _cycle() -> weakref.ref[_Node]:
    node = _Node()
    node.itself = node  # type: ignore[attr-defined]
    return weakref.ref(node)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was(enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_garbage_of_a_block_without_imports_stays_young() -> None:
    with collector_paused():
        found = _cycle()
    gc.collect(0)
    assert found() is None


def test_after_imports_all_is_old_but_nothing_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = gc.get_freeze_count()
    with collector_paused():
        monkeypatch.setitem(sys.modules, "a module of this test", types.ModuleType("m"))
        found = _cycle()
    gc.collect(1)
    assert found() is not None or frozen
    gc.collect()
    assert found() is None
    assert gc.get_freeze_count() == frozen
