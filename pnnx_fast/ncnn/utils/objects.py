"""What detectors find, as plain records with ncnn's names."""

from __future__ import annotations

from typing import Any

__all__ = ["Detect_Object", "Face_Object", "KeyPoint", "Point", "Rect", "Size"]


class Point:
    """A position."""

    def __init__(self, x: float = 0.0, y: float = 0.0) -> None:
        self.x, self.y = x, y


class Size:
    """A width and a height."""

    def __init__(self, w: float = 0.0, h: float = 0.0) -> None:
        self.w, self.h = w, h


class Rect:
    """A box by its corner and size."""

    def __init__(self, x: float = 0, y: float = 0, w: float = 0, h: float = 0) -> None:
        self.x, self.y, self.w, self.h = x, y, w, h

    def area(self) -> float:
        """Width times height."""
        return self.w * self.h

    def intersection_area(self, b: Rect) -> float:
        """Area that both boxes share; 0 for boxes apart, for which ncnn gives the area of the gap between them."""
        wide = min(self.x + self.w, b.x + b.w) - max(self.x, b.x)
        high = min(self.y + self.h, b.y + b.h) - max(self.y, b.y)
        return max(wide, 0) * max(high, 0)


class Detect_Object:
    """An object: class, probability, box."""

    def __init__(
        self, label: float = 0, prob: float = 0, x: float = 0, y: float = 0, w: float = 0, h: float = 0
    ) -> None:
        self.label, self.prob = label, prob
        self.rect = Rect(x, y, w, h)


class Face_Object:
    """A face: probability, box, landmarks."""

    def __init__(self) -> None:
        self.prob = 0.0
        self.rect = Rect()
        self.landmark: list[Any] = []


class KeyPoint:
    """A position and its probability."""

    def __init__(self) -> None:
        self.p = Point()
        self.prob = 0.0
