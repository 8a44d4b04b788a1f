"""The memory plan: buffers that live together never overlap, dead ones are reused, in-place chances are taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pnnx_fast.ops.symbolic import Buffer
from pnnx_fast.runtime.plan import ALIGNMENT, lifetimes, plan_arena


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 20), st.integers(0, 20)), max_size=40))
def test_live_buffers_never_overlap(rows: list[tuple[int, int, int]]) -> None:
    spans = {Buffer("arena", n): (min(a, b), max(a, b)) for n, a, b in rows}
    offsets, total = plan_arena(spans)
    items = [(offsets[b], offsets[b] + b.nbytes, *span) for b, span in spans.items()]
    assert all(begin >= 0 and end <= total and begin % ALIGNMENT == 0 for begin, end, _, _ in items)
    for i, (b1, e1, f1, l1) in enumerate(items):
        for b2, e2, f2, l2 in items[i + 1 :]:
            assert e1 <= b2 or e2 <= b1 or l1 < f2 or l2 < f1


def test_dead_memory_is_reused() -> None:
    a, b, c = (Buffer("arena", 1024) for _ in range(3))
    offsets, total = plan_arena(lifetimes([{a}, {a, b}, {b, c}]))
    assert offsets[a] == offsets[c] != offsets[b]
    assert total == 2048


def test_in_place() -> None:
    a, b = Buffer("arena", 100), Buffer("arena", 100)
    spans = lifetimes([{a}, {a, b}, {b}])
    offsets, total = plan_arena(spans, [(1, b, a)])
    assert offsets[a] == offsets[b]
    assert total == 128


def test_not_in_place_while_the_source_is_needed() -> None:
    a, b = Buffer("arena", 100), Buffer("arena", 100)
    offsets, _ = plan_arena(lifetimes([{a}, {a, b}, {a, b}]), [(1, b, a)])
    assert offsets[a] != offsets[b]


def test_middles_lie_above_each_other() -> None:
    large, small = Buffer("arena", 4096), Buffer("arena", 1024)
    offsets, total = plan_arena({large: (0, 1), small: (2, 3)})
    assert offsets == {large: 0, small: 1536}
    assert total == 4096


def test_the_lowest_place_where_none_is_around_a_middle() -> None:
    large, beside, small = Buffer("arena", 4096), Buffer("arena", 2048), Buffer("arena", 1024)
    offsets, total = plan_arena({large: (0, 1), beside: (2, 3), small: (3, 4)})
    assert offsets == {large: 0, beside: 1024, small: 0}
    assert total == 4096


def test_large_arenas_take_the_lowest_places_where_that_saves_memory() -> None:
    for unit, expected in ((1 << 10, 19), (1 << 20, 16)):
        large, one, other = (Buffer("arena", n * unit) for n in (16, 8, 7))
        _, total = plan_arena({large: (0, 0), one: (1, 2), other: (2, 3)})
        assert total == expected * unit
