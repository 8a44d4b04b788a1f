"""Lets ``python -m pnnx_fast`` stand for ``pnnx-fast``."""

import sys

from pnnx_fast.cli import main

sys.exit(main())
