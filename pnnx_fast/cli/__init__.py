"""The command ``pnnx-fast``: ``commands`` has its subcommands, one module each.

Exit codes: 0 done, 1 the model or its data have a fault, 2 the command line has a fault, 130 interrupted. Where 1 is an
answer (``diff``), 2 stands for all faults.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; faults and warnings are a line each on standard error."""
    try:
        from pnnx_fast.cli.commands import run  # in here, since many an interruption falls into the imports

        return run(argv)
    except KeyboardInterrupt:
        return 130
