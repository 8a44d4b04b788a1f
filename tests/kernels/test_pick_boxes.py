"""Choice of the best boxes against a plain loop: classes, ties, limits, what takes no part, ISA levels."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded

from pnnx_fast._core import program as core
from pnnx_fast.runtime.kernel import call, plan

INF = np.float32(np.inf)


def pick(
    boxes: np.ndarray | None,
    scores: np.ndarray,
    limit: float,
    top: int,
    keep: int,
    threads: int = 1,
    isa: str = "generic",
    vague: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    classes, n = scores.shape
    index, best = (guarded(np.full((classes, keep), -7, kind)) for kind in ("i8", "f4"))
    fields = {"n": n, "classes": classes, "score_stride": 1, "class_stride": n, "top": top, "keep": keep}
    fields |= {"limit": limit, "variant": int(vague)}
    scratch = guarded(np.empty(plan(isa, "pick_boxes_f32", threads, **fields)[2], np.uint8))
    given = None if boxes is None else guarded(boxes)
    call(
        isa, "pick_boxes_f32", threads,
        boxes=given, scores=guarded(scores), index=index, best=best, scratch=scratch, **fields,
    )  # fmt: skip
    return index, best


def exchanged(scores: list[float]) -> list[int]:
    """Indexes from the best to the worst, by the recursion that ncnn sorts with."""
    items = [(s, i) for i, s in enumerate(scores)]

    def sort(low: int, high: int) -> None:
        i, j, middle = low, high, items[(low + high) // 2][0]
        while i <= j:
            while items[i][0] > middle:
                i += 1
            while items[j][0] < middle:
                j -= 1
            if i <= j:
                items[i], items[j] = items[j], items[i]
                i, j = i + 1, j - 1
        if low < j:
            sort(low, j)
        if i < high:
            sort(i, high)

    if items:
        sort(0, len(items) - 1)
    return [i for _, i in items]


def share(a: np.ndarray, b: np.ndarray) -> np.float32:
    wide, high = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = max(wide, np.float32(0)) * max(high, np.float32(0))
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return np.float32(common / (area[0] + area[1] - common))


def expected(
    boxes: np.ndarray | None, scores: np.ndarray, limit: float, top: int, keep: int, vague: bool = False
) -> list[list[int]]:
    def over(a: np.ndarray, b: np.ndarray) -> bool:
        shared = share(a, b)
        return bool(shared > limit or (vague and np.isnan(shared)))

    found = []
    for row in scores:
        part = np.flatnonzero(row > -INF)
        kept: list[int] = []
        for i in part[exchanged(row[part].tolist())][:top].tolist():
            if len(kept) < keep and (boxes is None or not any(over(boxes[k], boxes[i]) for k in kept)):
                kept.append(i)
        found.append(kept)
    return found


def check(boxes: np.ndarray | None, scores: np.ndarray, *rest: float, vague: bool = False, **how: object) -> None:
    index, best = pick(boxes, scores, *rest, vague=vague, **how)  # type: ignore[arg-type]
    wanted = expected(boxes, scores, *rest, vague=vague)  # type: ignore[arg-type]
    for row, values, chosen, want in zip(index, best, scores, wanted, strict=True):
        count = len(want)
        assert row.tolist() == want + [-1] * (len(row) - count)
        np.testing.assert_array_equal(values, [*chosen[want], *[-INF] * (len(row) - count)])


def random(n: int, classes: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    corner = rng.random((n, 2), np.float32)
    boxes = np.concatenate([corner, corner + rng.random((n, 2), np.float32) * np.float32(0.5)], 1)
    scores = rng.integers(0, levels, (classes, n)).astype("f4") / levels
    scores[rng.random(scores.shape) < 0.2] = -INF
    return boxes, scores


@pytest.mark.parametrize("isa", core.ISAS)
@pytest.mark.parametrize("n", [0, 1, 2, 17, 200])
@pytest.mark.parametrize("levels", [1, 5, 1 << 20])
def test_boxes(isa: str, n: int, levels: int) -> None:
    boxes, scores = random(n, 3, levels)
    for top, keep in ((n, n), (n // 2, n), (n, n // 4)):
        check(boxes, scores, 0.3, top, keep, threads=2, isa=isa)
    check(None, scores, 0.0, n, n, isa=isa)


def test_nothing_takes_part() -> None:
    boxes, scores = random(20, 2, 3)
    scores[0], scores[1, ::2] = -INF, np.nan
    check(boxes, scores, 0.5, 20, 20)


@pytest.mark.parametrize("vague", [False, True])
def test_boxes_that_are_not_numbers_or_have_no_area(vague: bool, isa: str) -> None:
    boxes, scores = random(40, 1, 4)
    boxes[5::6, 2:] = boxes[5::6, :2]
    boxes[::3, 1] = np.nan
    boxes[::4, 2] = INF
    with np.errstate(all="ignore"):
        check(boxes, scores, 0.2, 40, 40, vague=vague, isa=isa)


def test_many_equal_scores() -> None:
    """Sorting needs no more memory than is given, and the order of ties is exact."""
    scores = np.zeros((1, 30000), np.float32)
    check(None, scores, 0.0, 30000, 30000)
    check(None, np.sort(np.random.default_rng(1).random((1, 30000), np.float32)), 0.0, 100, 50)
