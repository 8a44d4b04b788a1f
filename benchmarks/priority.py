"""Priority of a process of our own that measures, for machines that others use at the same time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["set_priority"]


def set_priority(process: int, nice: int) -> None:
    """Give all threads of a session's leader a nice value; what is forbidden is left as it is.

    Where the scheduler groups processes by session, only the group's value counts beyond its session.
    """
    with suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text(str(nice), encoding="ascii")
    for task in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(task.name), nice)
