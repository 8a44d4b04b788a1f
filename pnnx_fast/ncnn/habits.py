"""What applications usually ask for together, and the models that compute it: found by one look at what was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pnnx_fast.ncnn.compiled import Part

__all__ = ["Habit", "Way"]

MOST_PARTS = 24

FORGOTTEN = 16
"""After so many runs in which nobody asked for it a blob is no longer usual."""


class Habit:
    """Blobs that are asked for when certain inputs are given; threads may change it at the same time.

    Attributes
    ----------
    usual : tuple of int
        Those that were asked for not long ago.

    Examples
    --------
    >>> habit = Habit()
    >>> habit.asked(3)
    >>> habit.usual
    (3,)
    >>> for _ in range(FORGOTTEN):
    ...     habit.computed((3,))
    >>> habit.usual
    ()
    """

    __slots__ = ("_runs", "usual")

    def __init__(self) -> None:
        self.usual: tuple[int, ...] = ()
        self._runs: dict[int, int] = {}

    def asked(self, blob: int) -> None:
        """Note that a blob is wanted."""
        self._runs[blob] = 0
        usual = self.usual  # read once: with another thread in between, the blob would be there twice
        if blob not in usual:
            self.usual = *usual, blob

    def computed(self, usual: tuple[int, ...]) -> None:
        """Note that usual blobs were computed, wanted or not."""
        for blob in usual:
            self._runs[blob] += 1
            if self._runs[blob] >= FORGOTTEN:
                self.usual = tuple([b for b in self.usual if b != blob])


class Way:
    """Runs from inputs of certain shapes.

    Attributes
    ----------
    habit : Habit
        What is asked for there.
    parts : dict of tuple of int to Part
        Models by the blobs that they compute at once.
    """

    __slots__ = ("habit", "parts")

    def __init__(self, habit: Habit) -> None:
        self.habit = habit
        self.parts: dict[tuple[int, ...], Part] = {}

    def keep(self, blobs: tuple[int, ...], part: Part) -> None:
        """Remember the model of these blobs."""
        if len(self.parts) >= MOST_PARTS:
            self.parts.clear()
        self.parts[blobs] = part
