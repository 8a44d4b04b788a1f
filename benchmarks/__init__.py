"""Benchmarks and the model zoo; ``python -m benchmarks --help`` lists the commands.

Not part of the package: needs a checkout, and what pyproject.toml names in the extra ``bench``.
"""

import sys
from pathlib import Path

# Python puts the current folder first; the installed package must be found before the sources that lie beside.
_ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [*(place for place in sys.path if Path(place or ".").resolve() != _ROOT), str(_ROOT)]
