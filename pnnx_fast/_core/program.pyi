from typing import Any

from typing_extensions import disjoint_base

KERNELS: dict[str, str]
ISAS: tuple[str, ...]
GANGS: frozenset[str]

def team() -> str: ...
def choose_team(name: str) -> None: ...
def default_threads() -> int: ...
def fields(kernel: str) -> dict[str, str]: ...
def plan(isa: str, name: str, values: dict[str, Any], nthreads: int) -> tuple[int, int, int, str]: ...

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
