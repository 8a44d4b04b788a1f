"""Types that nothing is registered for: plugins may bring them, else an error lists all of them with what to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pnnx_fast.errors import UnsupportedOperatorError, did_you_mean
from pnnx_fast.ops.plugins import load_plugins
from pnnx_fast.ops.registry import find, types

__all__ = ["require_functions"]


def require_functions(used: Sequence[tuple[str, str]], skeleton: Callable[[str], str] | None) -> None:
    """Load plugins; raise UnsupportedOperatorError for types that have no function even then.

    ``used`` holds pairs (type, operator name); ``skeleton`` is that of :func:`pnnx_fast.ops.registry.check_supported`.
    """
    load_plugins()
    missing: dict[str, list[str]] = {}
    for kind, name in used:
        if find(kind) is None:
            missing.setdefault(kind, []).append(name)
    if not missing:
        return
    lines = ["no function is registered for these operator types:"]
    for kind, names in missing.items():
        users = f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
        lines.append(f"  {kind} (used by {users}){did_you_mean(kind, types())}")
    lines += ["", "fill in and run before loading the model:", "", "import pnnx_fast"]
    for kind in missing:
        lines += ["", skeleton(kind) if skeleton else f'@pnnx_fast.operator("{kind}")\ndef function(b, input): ...']
    raise UnsupportedOperatorError("\n".join(lines), missing)
