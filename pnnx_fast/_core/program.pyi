from typing import Any

from typing_extensions import disjoint_base

KERNELS: dict[str, str]
ISAS: tuple[str, ...]
MAX_RANK: int
MOST_THREADS: int
MAX_INS: int
MAX_OPERATIONS: int
STRIP_STAGES: int
POOL_REACH: int
POOL_STEP: int
POOL_LINE: int
WINO_PHASES: int
WINO_PAIRS: int
MASK_QUERIES: int
SPLIT_SIDE: int
SPLIT_DEPTH: int
SPLIT_DIGITS: int
THIN_PIXELS: int
ADDERS: bool
HALVES: bool

def codes(name: str) -> dict[str, int]: ...
def team() -> str: ...
def choose_team(name: str) -> None: ...
def default_threads() -> int: ...
def fields(kernel: str) -> dict[str, str]: ...
def plan(isa: str, kernel: str, values: dict[str, Any], nthreads: int) -> tuple[int, int, int, str, dict[str, int]]: ...

@disjoint_base
class Program:
    def __new__(
        cls,
        isa: str,
        steps: list[tuple[str, dict[str, Any], bool, bool]],
        nbases: int,
        nthreads: int,
        absolute: bool = True,
        ahead: dict[int, tuple[int, int]] | None = None,
    ) -> Program: ...
    def __len__(self) -> int: ...
    def run(self, bases: tuple[Any, ...], begin: int = 0, end: int = -1, timed: bool = False) -> list[int] | None: ...
    def begin(self, memory: object) -> None: ...
    def over(self) -> bool: ...
    def finish(self) -> None: ...
