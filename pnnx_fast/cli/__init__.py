"""The command ``pnnx-fast``: ``commands`` has its subcommands, one module each.

Exit codes: 0 done, 1 the model or its data have a fault, 2 the command line has a fault, 130 interrupted. Where 1 is an
answer (``diff``), 2 stands for all faults.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; faults and warnings are a line each on standard error."""
    try:
        with _uninterrupted():
            from pnnx_fast.cli.commands import run
        return run(argv)
    except KeyboardInterrupt:
        return 130


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: in the middle of imports it would come out as another error, or crash extension modules."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
