"""Lets ``python -m pnnx_fast.cli`` stand for ``pnnx-fast``."""

import sys

from pnnx_fast.cli import main

sys.exit(main())
