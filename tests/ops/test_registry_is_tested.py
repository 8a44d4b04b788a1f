"""Every registered operator type is named by a test, so that none is only believed to work."""

from __future__ import annotations

import re
from pathlib import Path

from pnnx_fast.ops import load_all, registry

IGNORED: frozenset[str] = frozenset()
"""Types that no test names. It is meant to stay empty."""

FAMILIES = ("ncnn.", "F.upsample", "nn.Upsampling")
"""Prefixes of types whose tests compose the names."""


def test_every_type_is_named_by_a_test() -> None:
    load_all()
    text = "\n".join(path.read_text("utf-8") for path in Path(__file__).parents[1].rglob("*.py"))
    named = set(re.findall(r"[A-Za-z_][\w.]*(?:::\w+)?", text))
    # Tables are walked by tests of their own, which name the rows only together.
    from pnnx_fast.ops.aten import EXPRESSIONS

    named |= {f"aten::{name}" for name in EXPRESSIONS}
    pooled = re.findall(r"((?:F|nn)\.\w*)\{n\}d", text)
    named |= {f"{stem}{n}d" for stem in pooled for n in (1, 2, 3)}
    from_users = {n for n in registry.types() if registry.find(n).function.__module__.startswith("pnnx_fast.ops")}  # type: ignore[union-attr]
    from_users = {n for n in from_users if not n.startswith(FAMILIES) and not re.fullmatch(r"nn\.\w+Pad[123]d", n)}
    missing = sorted(from_users - named - IGNORED)
    assert not missing, f"no test names {missing}"
