"""A mapping whose values are of one class: what else is assigned becomes an instance of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from pnnx_fast.errors import MissingParameterError, did_you_mean

__all__ = ["Coerced"]

V = TypeVar("V")


class Coerced(dict[str, V], Generic[V]):
    """A dict whose values are of the class ``kind``; other values go through its constructor."""

    __slots__ = ()

    kind: ClassVar[type[Any]]
    word: ClassVar[str]
    """What messages call a value."""

    def __init__(self, items: Mapping[str, object] | Iterable[tuple[str, object]] = (), /, **more: object) -> None:
        super().__init__()
        if items or more:
            self.update(items, **more)

    def __missing__(self, key: str) -> V:
        # Files that nobody vouches for leave out what every sound one has.
        raise MissingParameterError(f"the {self.word} {key!r} is missing{did_you_mean(key, self)}", parameter=key)

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, value if isinstance(value, self.kind) else self.kind(value))

    def setdefault(self, key: str, default: object = None) -> V:
        """Return the value of that key, made from ``default`` when there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, items: Any = (), /, **more: object) -> None:
        """Set several values, from a mapping or from pairs."""
        if isinstance(items, type(self)) and not more:
            super().update(items)
            return
        for key, value in dict(items, **more).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self
