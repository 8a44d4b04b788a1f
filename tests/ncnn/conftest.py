"""Puts this folder on the path, so that the cases and their inputs can be imported by the tests and by the scripts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
