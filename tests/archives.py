"""Reading of .npz files by tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of a file, which is closed again."""
    with np.load(path) as archive:
        return dict(archive)
