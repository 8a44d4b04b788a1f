"""ncnn models for people who know ncnn: nets, extractors and Mats with the names of the ``ncnn`` package.

An application runs after ``import pnnx_fast.ncnn as ncnn``. Mistakes get ncnn's return codes and a warning that says
why; what crashes there is an exception here.
"""

from __future__ import annotations

from pnnx_fast.ncnn.extractor import Extractor
from pnnx_fast.ncnn.layer import Blob, Layer, create_layer, layer_to_index
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.net import Net
from pnnx_fast.ncnn.option import (
    Allocator,
    NcnnWarning,
    Option,
    PoolAllocator,
    UnlockedPoolAllocator,
    cpu_support_arm_asimdhp,
    cpu_support_arm_neon,
    cpu_support_arm_vfpv4,
    cpu_support_x86_avx,
    cpu_support_x86_avx2,
    create_gpu_instance,
    destroy_gpu_instance,
    get_big_cpu_count,
    get_cpu_count,
    get_cpu_powersave,
    get_default_gpu_index,
    get_gpu_count,
    get_kmp_blocktime,
    get_little_cpu_count,
    get_omp_dynamic,
    get_omp_num_threads,
    get_omp_thread_num,
    get_physical_big_cpu_count,
    get_physical_cpu_count,
    get_physical_little_cpu_count,
    set_cpu_powersave,
    set_kmp_blocktime,
    set_omp_dynamic,
    set_omp_num_threads,
)
from pnnx_fast.ncnn.reader import (
    DataReader,
    DataReaderFromEmpty,
    DataReaderFromMemory,
    ModelBin,
    ModelBinFromDataReader,
    ModelBinFromMatArray,
    ParamDict,
)

__version__ = "1.0.20261020"
"""The version of the ``ncnn`` package whose interface this is."""

__all__ = [
    "Allocator",
    "Blob",
    "DataReader",
    "DataReaderFromEmpty",
    "DataReaderFromMemory",
    "Extractor",
    "Layer",
    "Mat",
    "ModelBin",
    "ModelBinFromDataReader",
    "ModelBinFromMatArray",
    "NcnnWarning",
    "Net",
    "Option",
    "ParamDict",
    "PoolAllocator",
    "UnlockedPoolAllocator",
    "cpu_support_arm_asimdhp",
    "cpu_support_arm_neon",
    "cpu_support_arm_vfpv4",
    "cpu_support_x86_avx",
    "cpu_support_x86_avx2",
    "create_gpu_instance",
    "create_layer",
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
    "layer_to_index",
    "set_cpu_powersave",
    "set_kmp_blocktime",
    "set_omp_dynamic",
    "set_omp_num_threads",
]
