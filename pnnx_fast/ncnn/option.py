"""Options, allocators, processor queries and warnings: what applications set and read besides nets and Mats.

Most options choose between implementations inside ncnn; they are kept and have no effect here. Memory is planned ahead,
so allocators are accepted and not asked.
"""

from __future__ import annotations

import operator
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pnnx_fast import _warning
from pnnx_fast._core import program as core

__all__ = [
    "Allocator",
    "NcnnWarning",
    "Option",
    "PoolAllocator",
    "UnlockedPoolAllocator",
    "cpu_support_arm_asimdhp",
    "cpu_support_arm_neon",
    "cpu_support_arm_vfpv4",
    "cpu_support_x86_avx",
    "cpu_support_x86_avx2",
    "create_gpu_instance",
    "destroy_gpu_instance",
    "get_big_cpu_count",
    "get_cpu_count",
    "get_cpu_powersave",
    "get_default_gpu_index",
    "get_gpu_count",
    "get_kmp_blocktime",
    "get_little_cpu_count",
    "get_omp_dynamic",
    "get_omp_num_threads",
    "get_omp_thread_num",
    "get_physical_big_cpu_count",
    "get_physical_cpu_count",
    "get_physical_little_cpu_count",
    "set_cpu_powersave",
    "set_kmp_blocktime",
    "set_omp_dynamic",
    "set_omp_num_threads",
    "warn",
]


class NcnnWarning(UserWarning):
    """Why a call returned an error code; the warning points at the application's line.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     set_cpu_powersave(7)
    -1
    >>> print(f"{caught[0].category.__name__}: {caught[0].message}")
    NcnnWarning: powersave 7 not supported
    """


def warn(message: str) -> None:
    """Tell why a call is about to return an error code; the warning points at the application's line."""
    _warning.warn(message, NcnnWarning)


class Allocator:
    """Base of allocators, which options and Mats remember and do not ask.

    Examples
    --------
    >>> isinstance(PoolAllocator(), Allocator)
    True
    """


class PoolAllocator(Allocator):
    """An allocator that keeps freed blocks for the next request.

    Examples
    --------
    >>> pool = PoolAllocator()
    >>> block = pool.fastMalloc(100)
    >>> pool.fastFree(block)
    >>> pool.fastMalloc(80) is block
    True
    >>> pool.fastFree(block)
    >>> pool.clear()
    >>> len(pool.fastMalloc(80))
    80
    """

    def __init__(self) -> None:
        self._ratio = 0.75
        self._free: list[bytearray] = []

    def set_size_compare_ratio(self, src: float) -> None:
        """Set the part of a kept block that a request must fill to get it, 0 to 1; 0.75 before.

        Parameters
        ----------
        src : float
            Another value changes nothing and warns.
        """
        if not 0.0 <= src <= 1.0:
            warn(f"invalid size compare ratio {src}")
            return
        self._ratio = float(src)

    def clear(self) -> None:
        """Forget kept blocks."""
        self._free.clear()

    def fastMalloc(self, size: int) -> bytearray:
        """Return a block of at least ``size`` bytes.

        Parameters
        ----------
        size : int

        Returns
        -------
        bytearray
            A kept block if one fits, with what is in it, else a new one of zeros.
        """
        for i, block in enumerate(self._free):
            if len(block) >= size >= len(block) * self._ratio:
                return self._free.pop(i)
        return bytearray(size)

    def fastFree(self, ptr: bytearray) -> None:
        """Take a block back.

        Parameters
        ----------
        ptr : bytearray
            A block that ``fastMalloc`` returned.
        """
        self._free.append(ptr)


class UnlockedPoolAllocator(PoolAllocator):
    """A pool allocator for one thread.

    Examples
    --------
    >>> pool = UnlockedPoolAllocator()
    >>> pool.fastFree(pool.fastMalloc(64))
    >>> len(pool.fastMalloc(60))
    64
    """


def usable_cpus() -> int:
    """Number of processors that this process may use; the two threads of a core are not told apart."""
    return int(core.default_threads())


_KINDS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": operator.index}
"""What options of a type are made of what they are set to; a TypeError tells that it is no number."""


@dataclass
class Option:
    """Options of a net. Only the number of threads has an effect; the others are kept.

    Attributes
    ----------
    num_threads : int
        Threads of a run. 0, given to the constructor, stands for all processors that this process may use.
    lightmode : bool
    blob_allocator, workspace_allocator, kvcache_allocator : Allocator, optional
    blob_vkallocator, workspace_vkallocator, staging_vkallocator, kvcache_vkallocator : object, optional
    kvcache_max_seqlen_hint, openmp_blocktime, flush_denormals : int
    use_winograd_convolution, use_vulkan_compute, use_fp16_storage and the other names that begin with use : bool

    Raises
    ------
    AttributeError
        When there is no such option.
    TypeError
        When an option that is an integer is set to something else.

    Examples
    --------
    >>> opt = Option(num_threads=4)
    >>> other = opt.copy()
    >>> other.num_threads = 1
    >>> opt.num_threads, other.num_threads
    (4, 1)
    >>> opt.use_gpu = True
    Traceback (most recent call last):
    AttributeError: an Option has no 'use_gpu'
    """

    lightmode: bool = True
    num_threads: int = 0
    blob_allocator: Any = None
    workspace_allocator: Any = None
    kvcache_allocator: Any = None
    kvcache_max_seqlen_hint: int = 0
    blob_vkallocator: Any = None
    workspace_vkallocator: Any = None
    staging_vkallocator: Any = None
    kvcache_vkallocator: Any = None
    openmp_blocktime: int = 20
    use_winograd_convolution: bool = True
    use_winograd23_convolution: bool = True
    use_winograd43_convolution: bool = True
    use_winograd63_convolution: bool = True
    use_sgemm_convolution: bool = True
    use_int8_inference: bool = True
    use_vulkan_compute: bool = False
    use_bf16_packed: bool = False
    use_bf16_storage: bool = False
    use_fp16_packed: bool = True
    use_fp16_storage: bool = True
    use_fp16_arithmetic: bool = True
    use_int8_packed: bool = True
    use_int8_storage: bool = True
    use_int8_arithmetic: bool = True
    use_packing_layout: bool = True
    use_subgroup_ops: bool = True
    use_tensor_storage: bool = False
    flush_denormals: int = 3
    use_local_pool_allocator: bool = True
    use_mapped_model_loading: bool = False

    __hash__ = object.__hash__
    _copy: ClassVar[Option | None] = None

    def __post_init__(self) -> None:
        self.num_threads = self.num_threads or usable_cpus()

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.__dataclass_fields__.get(name)
        if field is None:
            raise AttributeError(f"an Option has no {name!r}")
        self.__dict__.pop("_copy", None)
        object.__setattr__(self, name, _KINDS.get(str(field.type), lambda v: v)(value))

    def copy(self) -> Option:
        """Return an independent copy."""
        made = Option.__new__(Option)
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("_copy", None)
        return made

    def shared(self) -> Option:
        """Return a copy that nobody changes, the same one as long as these options stay."""
        made = self._copy
        if made is None:
            made = self.__dict__["_copy"] = self.copy()
        return made


# -- processor queries -------------------------------------------------------------------------------------------------

_powersave = 0
_omp_dynamic = 0


def _flags() -> str:
    """The line of the first processor's features, which Linux heads with another word on ARM."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""


def _supports(word: str) -> int:
    return int(f" {word} " in _flags().replace("\n", " "))


def cpu_support_x86_avx() -> int:
    """Return 1 when Linux lists AVX among the features of the processor, else 0."""
    return _supports("avx")


def cpu_support_x86_avx2() -> int:
    """Return 1 when Linux lists AVX2 among the features of the processor, else 0."""
    return _supports("avx2")


def cpu_support_arm_neon() -> int:
    """Return 1 when the processor has NEON, as all of 64-bit ARM have, else 0."""
    return int(platform.machine() in ("aarch64", "arm64"))


def cpu_support_arm_vfpv4() -> int:
    """Return 1 when the processor has VFPv4, as all of 64-bit ARM have, else 0."""
    return cpu_support_arm_neon()


def cpu_support_arm_asimdhp() -> int:
    """Return 1 when Linux lists half-precision vectors among the features of the processor, else 0."""
    return _supports("asimdhp")


def get_cpu_count() -> int:
    """Number of processors of the machine.

    Examples
    --------
    >>> get_cpu_count() >= 1
    True
    """
    return os.cpu_count() or 1


def _no_little_cores() -> int:
    """Number of slow cores; none are told apart."""
    return 0


get_little_cpu_count: Callable[[], int] = _no_little_cores
get_physical_little_cpu_count: Callable[[], int] = _no_little_cores
get_big_cpu_count: Callable[[], int] = get_cpu_count
get_physical_cpu_count: Callable[[], int] = usable_cpus
get_physical_big_cpu_count: Callable[[], int] = usable_cpus


def get_cpu_powersave() -> int:
    """Which cores may be used: 0 all, 1 slow ones, 2 fast ones; remembered only."""
    return _powersave


def set_cpu_powersave(powersave: int) -> int:
    """Set which cores may be used; remembered only.

    Parameters
    ----------
    powersave : int
        0 all, 1 slow ones, 2 fast ones.

    Returns
    -------
    int
        0, or -1 and a warning for any other number, which changes nothing.

    Examples
    --------
    >>> before = get_cpu_powersave()
    >>> set_cpu_powersave(2), get_cpu_powersave()
    (0, 2)
    >>> set_cpu_powersave(before)
    0
    """
    global _powersave
    if powersave not in (0, 1, 2):
        warn(f"powersave {powersave} not supported")
        return -1
    _powersave = powersave
    return 0


def get_omp_num_threads() -> int:
    """Number of threads of the current parallel region, which is 1 for Python code."""
    return 1


def set_omp_num_threads(num_threads: int) -> None:
    """Has no effect: every net has its own number of threads."""


def get_omp_dynamic() -> int:
    """Value of ``set_omp_dynamic``, 0 or 1."""
    return _omp_dynamic


def set_omp_dynamic(dynamic: int) -> None:
    """Remember whether the number of threads may vary, which has no other effect.

    Examples
    --------
    >>> set_omp_dynamic(1)
    >>> get_omp_dynamic()
    1
    >>> set_omp_dynamic(0)
    """
    global _omp_dynamic
    _omp_dynamic = int(bool(dynamic))


def get_omp_thread_num() -> int:
    """Number of the calling thread in its parallel region, which is 0 for Python code."""
    return 0


def get_kmp_blocktime() -> int:
    """Return 0: the time that idle threads spin cannot be set."""
    return 0


def set_kmp_blocktime(time_ms: int) -> None:
    """Has no effect."""


# -- graphics processors, of which there are none ----------------------------------------------------------------------


def get_gpu_count() -> int:
    """Number of graphics processors that can be used: none.

    Examples
    --------
    >>> get_gpu_count(), get_default_gpu_index()
    (0, -1)
    """
    return 0


def get_default_gpu_index() -> int:
    """Return -1: there is no default graphics processor."""
    return -1


def create_gpu_instance(driver_path: str | None = None) -> int:
    """Return -1: there is no computing on graphics processors."""
    return -1


def destroy_gpu_instance() -> None:
    """Has no effect."""
