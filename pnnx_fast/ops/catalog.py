"""The store behind the registry: (type number, name) pairs on one side, versioned methods on the other, as in Tengine.

A type number may have several names, and several versions of its method, of which the newest serves unless another one
is asked for. Thread-safe. Knows nothing of what a method does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pnnx_fast.errors import ParameterError

__all__ = ["Catalog", "Method"]

Definition = TypeVar("Definition")


class Method(Generic[Definition]):
    """One version of an operator: what defines it, and what to call when it is unregistered."""

    __slots__ = ("definition", "release", "type", "version")

    def __init__(
        self, type: int, version: int, definition: Definition, release: Callable[[], Any] | None = None
    ) -> None:
        self.type, self.version, self.definition, self.release = type, version, definition, release


class Catalog(Generic[Definition]):
    """Operators by number, name, version and index.

    Examples
    --------
    >>> catalog = Catalog()
    >>> catalog.register_op(7, "Twice", Method(7, 1, "first"))
    >>> with catalog.scoped(7, None, Method(7, 2, "second")):
    ...     catalog.find_op_method(7).definition, catalog.find_op_method(7, 1).definition
    ('second', 'first')
    >>> catalog.find_op_method(7).definition, catalog.find_op_name(7)
    ('first', 'Twice')
    """

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._named: dict[int, dict[str, None]] = {}
        self._methods: dict[tuple[int, int], Method[Definition]] = {}
        self._versions: dict[int, list[int]] = {}
        self._last_free: dict[int, int] = {}
        self._lock = threading.RLock()

    # -- operators ---------------------------------------------------------------------------------------------

    def register_op(self, type: int, name: str | None, method: Method[Definition]) -> None:
        """Add a method and, unless it is None, a name for its type; both or nothing.

        Raises
        ------
        ParameterError
            When the (type, version) is there already, the version is below 1, or the name means another type.
        """
        if method.type != type or method.version < 1:
            raise ParameterError(
                f"a method of type {method.type}, version {method.version} cannot be one of type {type}"
            )
        key = type, method.version
        with self._lock:
            if key in self._methods:
                raise ParameterError(f"operator {name or type}, version {method.version}, is registered already")
            if name is not None:
                self.register_op_name(type, name)
            self._methods[key] = method
            self._versions[type] = sorted([*self._versions.get(type, ()), method.version])

    def unregister_op(self, type: int, version: int = 0) -> int:
        """Remove one version of a type, or all of them (0); the names go with the last one.

        Returns
        -------
        int
            How many were removed.

        Raises
        ------
        ParameterError
            When there is none.
        """
        with self._lock:
            versions = [v for v in self._versions.get(type, ()) if version in (0, v)]
            if not versions:
                raise ParameterError(f"operator type {type} has no version {version or 'at all'}")
            removed = [self._methods.pop((type, v)) for v in versions]
            self._versions[type] = [v for v in self._versions[type] if v not in versions]
            if not self._versions[type]:
                del self._versions[type]
                self._last_free.clear()
                for name in self._named.pop(type, ()):
                    del self._names[name]
        # Not under the lock: a release may take locks of its own.
        for method in removed:
            if method.release is not None:
                method.release()
        return len(removed)

    @contextmanager
    def scoped(self, type: int, name: str | None, method: Method[Definition]) -> Iterator[None]:
        """Register for the length of a ``with`` block."""
        new_name = name is not None and self.find_op_type(name) is None
        self.register_op(type, name, method)
        try:
            yield
        finally:
            with self._lock:
                if new_name and name is not None:
                    self._forget(name)
                known = (type, method.version) in self._methods
            if known:
                self.unregister_op(type, method.version)

    def find_op_method(self, type: int, version: int = 0) -> Method[Definition] | None:
        """Return a version of a type, the newest for 0, None when there is none."""
        with self._lock:
            versions = self._versions.get(type)
            return self._methods.get((type, version or versions[-1])) if versions else None

    def find_op_method_via_index(self, index: int) -> Method[Definition]:
        """Return the method at a place in the order of registration; raises IndexError."""
        with self._lock:
            if not 0 <= index < len(self._methods):
                raise IndexError(f"there are {len(self._methods)} methods, no number {index}")
            return list(self._methods.values())[index]

    def get_op_method_count(self) -> int:
        """Return the number of methods, all versions counted."""
        with self._lock:
            return len(self._methods)

    def release_op_registry(self) -> None:
        """Remove all methods, and their names."""
        with self._lock:
            types = list(self._versions)
        for type in types:
            self.unregister_op(type)

    # -- names -------------------------------------------------------------------------------------------------

    def register_op_name(self, type: int, name: str) -> None:
        """Give a type a further name; raises ParameterError when the name means another type."""
        with self._lock:
            if self._names.setdefault(name, type) != type:
                raise ParameterError(f"the operator name {name} means type {self._names[name]} already")
            self._named.setdefault(type, {})[name] = None

    def unregister_op_name(self, name: str) -> None:
        """Forget a name; raises ParameterError when it is not known."""
        with self._lock:
            if not self._forget(name):
                raise ParameterError(f"there is no operator name {name}")

    def _forget(self, name: str) -> bool:
        type = self._names.pop(name, None)
        if type is None:
            return False
        del self._named[type][name]
        if not self._named[type]:
            del self._named[type]
        return True

    def find_op_name(self, type: int) -> str | None:
        """Return the first name of a type, None when it has none."""
        with self._lock:
            return next(iter(self._named.get(type, ())), None)

    def find_op_type(self, name: str) -> int | None:
        """Return the type number of a name, None when there is none."""
        return self._names.get(name)

    def names(self) -> list[tuple[int, str]]:
        """Return all (type, name) pairs in the order of registration."""
        with self._lock:
            return [(t, name) for name, t in self._names.items()]

    def release_op_name_registry(self) -> None:
        """Forget all names; methods stay."""
        with self._lock:
            self._names.clear()
            self._named.clear()

    # -- by name -----------------------------------------------------------------------------------------------

    def find(self, name: str) -> Definition | None:
        """Return the newest definition of a name, None when there is none."""
        with self._lock:
            type = self._names.get(name)
            versions = self._versions.get(type) if type is not None else None
            return self._methods[type, versions[-1]].definition if type is not None and versions else None

    def _free_number(self, first: int) -> int:
        """First number from ``first`` on that neither a method nor a name has; looks on where it found the last one."""
        number = self._last_free.get(first, first)
        while number in self._versions or number in self._named:
            number += 1
        self._last_free[first] = number
        return number

    def push(self, name: str, definition: Definition, free: int) -> Method[Definition]:
        """Register the newest version of a name; a new name gets the first free number from ``free`` on."""
        with self._lock:
            type = self._names.get(name)
            if type is None:
                type = self._free_number(free)
                self._names[name] = type
                self._named.setdefault(type, {})[name] = None
            versions = self._versions.setdefault(type, [])
            method = Method(type, versions[-1] + 1 if versions else 1, definition)
            self._methods[type, method.version] = method
            versions.append(method.version)
            return method
