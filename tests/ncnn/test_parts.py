"""ParamDict, ModelBin, Option, allocators, processor queries, the module itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pnnx_fast import ncnn
from pnnx_fast.errors import PnnxFastError
from pnnx_fast.formats.ncnn_bin import write_weight


def test_param_dict() -> None:
    pd = ncnn.ParamDict()
    assert [pd.get(3, 4), pd.get(3, 4.5), pd.get(3, "x"), pd.type(3)] == [4, 4.5, "x", 0]
    pd.set(3, 7)
    pd.set(4, 2.5)
    pd.set(5, "text")
    pd.set(6, ncnn.Mat(np.float32([1, 2])))
    assert [pd.get(3, 0), pd.get(4, 0.0), pd.get(5, ""), pd.get(6, ncnn.Mat()).numpy().tolist()] == [
        7, 2.5, "text", [1, 2],
    ]  # fmt: skip
    assert [pd.type(i) for i in (3, 4, 5)] == [2, 3, 7]
    assert pd.type(6) in (4, 5, 6)
    pd.clear()
    assert pd.get(3, 0) == 0


@pytest.mark.parametrize("call", [lambda pd: pd.set(40, 1), lambda pd: pd.set(-1, 1), lambda pd: pd.set(99, 1)])
def test_numbers_of_parameters_are_checked(call: Any) -> None:
    with pytest.raises((PnnxFastError, IndexError, ValueError)):
        call(ncnn.ParamDict())


@pytest.mark.parametrize("value", [None, [1], {}])
def test_types_of_parameters_are_checked(value: Any) -> None:
    with pytest.raises(TypeError):
        ncnn.ParamDict().get(0, value)


def test_model_bin() -> None:
    data = write_weight(np.arange(6, dtype=np.float32), "fp16") + np.float32([5, 6]).tobytes()
    mb = ncnn.ModelBinFromDataReader(ncnn.DataReaderFromMemory(data))
    first = mb.load(3, 2, 0)
    assert (first.w, first.h) == (3, 2)
    assert first.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert mb.load(2, 1).numpy().tolist() == [5, 6]
    mats = ncnn.ModelBinFromMatArray([ncnn.Mat(np.float32([1])), ncnn.Mat(np.float32([2]))])
    assert [mats.load(1, 0)[0], mats.load(1, 0)[0], mats.load(1, 0).dims] == [1, 2, 0]


def test_weights_are_asked_for_by_name() -> None:
    data = np.arange(30, dtype=np.float32).tobytes()
    mb = ncnn.ModelBinFromDataReader(ncnn.DataReaderFromMemory(data))
    assert mb.load(w=3, type=1).numpy().tolist() == [0, 1, 2]
    assert mb.load(type=1, h=2, w=1).numpy().tolist() == [[3], [4]]
    assert mb.load(1, d=2, h=3, c=4, type=1).numpy().shape == (4, 2, 3, 1)
    for call in (lambda: mb.load(1), lambda: mb.load(w=1, x=2, type=1)):
        with pytest.raises(TypeError, match="incompatible"):
            call()


def test_names_of_parameters() -> None:
    pd: Any = ncnn.ParamDict()
    for id, value in enumerate(({"i": 7}, {"f": 0.5}, {"v": ncnn.Mat(np.float32([1]))}, {"value": 3})):
        pd.set(id=id, **value)
    got = pd.get(id=0, **{"def": 0}), pd.get(1, default=0.0), pd.get(2, ncnn.Mat())[0], pd.get(3, 0)
    assert got == (7, 0.5, 1, 3)
    with pytest.raises(TypeError, match="several values"):
        pd.set(0, i=7, f=0.5)


def test_options() -> None:
    opt = ncnn.Option()
    assert (opt.lightmode, opt.use_vulkan_compute, opt.use_fp16_storage) == (True, False, True)
    assert opt.num_threads == ncnn.get_physical_big_cpu_count()
    copy = opt.copy()
    copy.num_threads = 1
    copy.use_bf16_storage = True
    assert not opt.use_bf16_storage
    with pytest.raises(AttributeError, match="no 'num_treads'"):
        opt.num_treads = 1  # type: ignore[attr-defined]


def test_options_are_numbers_and_flags() -> None:
    opt: Any = ncnn.Option()
    opt.lightmode, opt.num_threads = 0, np.int64(3)
    assert (opt.lightmode, opt.num_threads) == (False, 3)
    assert type(opt.num_threads) is int
    for bad in ("2", 2.5, None):
        with pytest.raises(TypeError):
            opt.num_threads = bad
    opt.blob_allocator = pool = ncnn.PoolAllocator()
    assert opt.blob_allocator is pool


def test_pools_hand_blocks_out_again() -> None:
    for pool in (ncnn.PoolAllocator(), ncnn.UnlockedPoolAllocator()):
        block = pool.fastMalloc(1000)
        assert len(block) >= 1000
        pool.fastFree(block)
        assert pool.fastMalloc(900) is block
        pool.fastFree(block)
        pool.set_size_compare_ratio(0.0)
        assert pool.fastMalloc(10) is block
        with pytest.warns(ncnn.NcnnWarning):
            pool.set_size_compare_ratio(1.5)
        pool.clear()
        assert pool.fastMalloc(10) is not block


def test_processor_queries() -> None:
    assert ncnn.get_cpu_count() >= ncnn.get_physical_cpu_count() >= 1
    assert ncnn.get_little_cpu_count() == ncnn.get_physical_little_cpu_count() == 0
    assert ncnn.get_big_cpu_count() == ncnn.get_cpu_count()
    assert {ncnn.cpu_support_x86_avx2(), ncnn.cpu_support_x86_avx(), ncnn.cpu_support_arm_neon()} <= {0, 1}
    assert ncnn.cpu_support_arm_vfpv4() == ncnn.cpu_support_arm_neon()
    assert ncnn.cpu_support_arm_asimdhp() in (0, 1)
    assert [ncnn.set_cpu_powersave(2), ncnn.get_cpu_powersave(), ncnn.set_cpu_powersave(0)] == [0, 2, 0]
    with pytest.warns(ncnn.NcnnWarning):
        assert ncnn.set_cpu_powersave(5) == -1
    ncnn.set_omp_num_threads(2)
    ncnn.set_omp_dynamic(1)
    assert [ncnn.get_omp_num_threads(), ncnn.get_omp_thread_num(), ncnn.get_omp_dynamic()] == [1, 0, 1]
    ncnn.set_kmp_blocktime(3)
    assert ncnn.get_kmp_blocktime() == 0


def test_there_is_no_graphics_processor() -> None:
    assert [ncnn.get_gpu_count(), ncnn.get_default_gpu_index(), ncnn.create_gpu_instance()] == [0, -1, -1]
    ncnn.destroy_gpu_instance()


def test_everything_named_exists() -> None:
    assert ncnn.__version__.count(".") == 2
    for name in ncnn.__all__:
        assert getattr(ncnn, name) is not None
