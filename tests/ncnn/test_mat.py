"""Mat: making, sharing, values, parts. Expected numbers were read off the ncnn package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pnnx_fast import ncnn
from pnnx_fast.errors import LimitError
from pnnx_fast.ncnn import Mat


def facts(m: Mat) -> tuple[Any, ...]:
    return m.dims, m.w, m.h, m.d, m.c, m.n, m.cstep, m.elemsize, m.elempack


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ((), (0, 0, 0, 0, 0, 1, 0, 0, 0)),
        ((3,), (1, 3, 1, 1, 1, 1, 4, 4, 1)),
        ((3, 5), (2, 3, 5, 1, 1, 1, 16, 4, 1)),
        ((3, 5, 2), (3, 3, 5, 1, 2, 1, 16, 4, 1)),
        ((3, 5, 2, 7), (4, 3, 5, 2, 7, 1, 32, 4, 1)),
        (((3, 5, 2),), (3, 3, 5, 1, 2, 1, 16, 4, 1)),
    ],
)
def test_sizes_and_strides(args: tuple[Any, ...], wanted: tuple[int, ...]) -> None:
    assert facts(Mat(*args)) == wanted


@pytest.mark.parametrize(
    ("shape", "step"), [((1, 6, 7), 44), ((1, 3, 3), 12), ((2, 3, 3), 12), ((1, 2, 3, 3), 20), ((2, 2, 3, 3), 20)]
)
def test_channels_begin_at_multiples_of_16_bytes_in_memory_of_a_mat(shape: tuple[int, ...], step: int) -> None:
    """Also a single one. Memory of an array has no gaps."""
    array = numbers(*shape)
    own = [Mat(array).clone(), Mat(*shape[::-1]), Mat(array).reshape(*shape[::-1]), Mat(array).shape()]
    batch = Mat(np.stack([array, array]), batch_index=0)
    for m in (*own, batch, batch.batch(1)):
        assert (m.cstep, m.total()) == (step, step * m.c)
    assert own[0].channel_range(0, 1).cstep == step
    values = array[0].reshape(-1).tolist()
    assert [own[0][i] for i in range(step)] == [*values, *[0.0] * (step - len(values))]
    assert Mat(array).cstep == len(values)


def test_a_single_channel_of_an_array_may_have_any_stride() -> None:
    m = Mat(numbers(8, 3, 3)[::8])
    assert (m.c, m.cstep, m.total()) == (1, 9, 9)
    assert [m[i] for i in range(9)] == list(range(9))


def test_element_sizes_and_packing() -> None:
    assert facts(Mat(3, elemsize=16, elempack=4))[-2:] == (16, 4)
    assert Mat(3, elemsize=1).elembits() == 8
    assert Mat(w=3, h=2).h == 2
    with pytest.raises(RuntimeError, match="elempack == 1"):
        Mat(3, elemsize=16, elempack=4).numpy()


def test_numpy_memory_is_shared() -> None:
    array = numbers(2, 3, 5)
    m = Mat(array)
    array[1, 2, 3] = 99
    assert m.numpy()[1, 2, 3] == 99
    m.numpy()[0, 0, 0] = -5
    assert array[0, 0, 0] == -5
    assert m.refcount is None
    assert m.clone().numpy().base is not array


def test_arrays_in_any_order_of_memory_are_read_right() -> None:
    turned = numbers(4, 3).T
    np.testing.assert_array_equal(Mat(turned).numpy(), turned)
    sparse = numbers(6, 8)[::2, ::2]
    np.testing.assert_array_equal(Mat(sparse).numpy(), sparse)


def test_memory_lives_as_long_as_the_mat() -> None:
    m = Mat(np.full((64, 64), 7.0, np.float32))
    others = [np.zeros((64, 64), np.float32) for _ in range(50)]
    assert (m.numpy() == 7).all()
    assert len(others) == 50


@pytest.mark.parametrize(("index", "shape"), [(0, (3, 5)), (1, (2, 5)), (2, (2, 3)), (-1, (2, 3))])
def test_batch_index(index: int, shape: tuple[int, ...]) -> None:
    array = numbers(2, 3, 5)
    m = Mat(array, batch_index=index)
    assert m.n == array.shape[index]
    assert m.numpy().shape == shape
    np.testing.assert_array_equal(m.numpy(batch_index=index), array)
    np.testing.assert_array_equal(m.batch(m.n - 1).numpy(), np.take(array, -1, index))


def test_formats_are_views_of_the_bits() -> None:
    m = Mat(numbers(4, dtype=np.int32))
    assert m.numpy().dtype == np.float32
    assert m.numpy("i").tolist() == [0, 1, 2, 3]
    assert Mat(numbers(4, dtype=np.float16)).numpy().dtype == np.float16
    assert Mat(numbers(4, dtype=np.int8)).numpy().dtype == np.int8
    with pytest.raises(RuntimeError, match="4 bytes"):
        Mat(4).numpy("d")


@pytest.mark.parametrize(
    "call",
    [
        lambda: Mat(np.zeros((1, 2, 3, 4, 5), np.float32)),
        lambda: Mat(np.zeros((2, 3), np.float32), batch_index=3),
        lambda: Mat(np.zeros(3, np.float32), batch_index=0),
        lambda: Mat().numpy(),
        lambda: Mat((1, 2, 3, 4, 5)),
    ],
)
def test_runtime_errors(call: Any) -> None:
    with pytest.raises(RuntimeError):
        call()


@pytest.mark.parametrize("source", [[1, 2], "x", np.zeros((), np.float32), np.array([None])])
def test_type_errors(source: Any) -> None:
    with pytest.raises(TypeError):
        Mat(source)


def test_create_clone_release() -> None:
    m = Mat(3)
    m.fill(2.0)
    copy = m.clone()
    m[1] = 7
    assert [copy[i] for i in range(3)] == [2, 2, 2]
    assert m[1] == 7
    m.create(2, 3)
    assert facts(m)[:3] == (2, 2, 3)
    m.create((2, 3), n=4)
    assert m.n == 4
    other = Mat()
    other.create_like(m, n=2)
    assert (other.n, other.w) == (2, 2)
    m.release()
    assert m.empty()
    assert m.dims == 0
    m.clone_from(copy)
    assert m.numpy().tolist() == [2, 2, 2]
    assert Mat(m).numpy() is not None


def test_items_count_gaps_between_channels() -> None:
    m = Mat(3, 5, 2)
    m.numpy()[...] = numbers(2, 5, 3)
    assert m.total() == 32
    assert m[16] == 15.0
    assert m[15] == 0.0
    m[17] = -1
    assert m.numpy()[1, 0, 1] == -1
    assert len(m) == 3
    for bad in (32, -1):
        with pytest.raises(IndexError):
            m[bad]
        with pytest.raises(IndexError):
            m[bad] = 1


@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 5, 3), (2, 2, 3, 3)])
def test_iteration_leaves_out_the_gaps(shape: tuple[int, ...]) -> None:
    """The ncnn package reads on behind the end of the memory."""
    assert list(Mat(numbers(*shape))) == list(range(int(np.prod(shape))))
    assert list(Mat(np.stack([numbers(*shape), -numbers(*shape)]), batch_index=0)) == list(range(int(np.prod(shape))))
    assert list(Mat()) == []


def test_parts_share_memory() -> None:
    m = Mat(numbers(2, 5, 3))
    m.channel(1).fill(1)
    assert m.numpy()[1].sum() == 15
    row = m.channel(0).row(2)
    row[1] = 50.0
    assert m.numpy()[0, 2, 1] == 50
    assert m.channel_range(0, 1).c == 1
    assert facts(m.row_range(1, 2))[:3] == (2, 3, 2)
    assert facts(m.range(2, 4))[:2] == (1, 4)
    volume = Mat(numbers(2, 4, 5, 3))
    assert facts(volume.depth(3))[:3] == (2, 3, 5)
    np.testing.assert_array_equal(volume.channel(1).depth(2).numpy(), volume.numpy()[1, 2])
    assert volume.channel(1).depth_range(1, 2).c == 2
    assert Mat(numbers(2, 5)).channel(0).numpy().tolist() == [0, 1, 2, 3, 4]
    assert Mat(numbers(5)).channel(0).numpy().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="elempack 1"):
        Mat(3, 2, elemsize=16, elempack=4).row(0)


@pytest.mark.parametrize(
    "call", [lambda m: m.channel(2), lambda m: m.row(5), lambda m: m.range(0, 16), lambda m: m.batch(1)]
)
def test_parts_that_do_not_exist(call: Any) -> None:
    with pytest.raises(IndexError):
        call(Mat(3, 5, 2))


def test_reshape() -> None:
    m = Mat(numbers(2, 5, 3))
    np.testing.assert_array_equal(m.reshape(30).numpy(), np.arange(30))
    np.testing.assert_array_equal(m.reshape(5, 6).numpy(), numbers(6, 5))
    np.testing.assert_array_equal(m.reshape((3, 5, 2)).numpy(), m.numpy())
    assert facts(m.reshape(w=3, h=5, c=2))[:5] == (3, 3, 5, 1, 2)
    assert m.reshape(29).dims == 0


def test_buffers() -> None:
    m = Mat(numbers(3, 2))
    assert np.array(m).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert memoryview(m).format == "f"
    assert memoryview(m).shape == (3, 2)
    assert np.asarray(m, np.float64).dtype == np.float64
    assert Mat(memoryview(numbers(4))).numpy().tolist() == [0, 1, 2, 3]
    assert np.array(Mat(numbers(3, dtype=np.float64))).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("dtype", "format"), [(">f4", "f"), (">f2", "e"), (">i4", "i")])
def test_other_byte_orders(dtype: str, format: str) -> None:
    assert Mat(numbers(3, dtype=dtype)).numpy(format).tolist() == [0, 1, 2]
    assert Mat(numbers(2, 3, dtype=dtype), batch_index=0).numpy(format).tolist() == [0, 1, 2]


def test_images_in_bytes() -> None:
    assert Mat.from_pixels(b"abc", Mat.PixelType.PIXEL_RGB, 1, 1).numpy().reshape(-1).tolist() == [97, 98, 99]


def test_repr_tells_sizes() -> None:
    text = repr(Mat(numbers(2, 3, 5)))
    assert text.startswith("<ncnn.Mat w=5 h=3 d=1 c=2 dims=3")


def test_mean_and_norm() -> None:
    m = Mat(numbers(2, 1, 2))
    m.substract_mean_normalize([1, 2], [2, 0.5])
    assert m.numpy().reshape(-1).tolist() == [-2, 0, 0, 0.5]
    m.substract_mean_normalize([], [2, 2])
    assert m.numpy().reshape(-1).tolist() == [-4, 0, 0, 1]
    with pytest.raises(ValueError, match="2 channels"):
        m.substract_mean_normalize([1], [])


def test_memory_that_cannot_be_written_is_copied_first() -> None:
    array = numbers(3)
    array.flags.writeable = False
    m = Mat(array)
    m.fill(1)
    assert m.numpy().tolist() == [1, 1, 1]
    assert array.tolist() == [0, 1, 2]


def test_a_view_of_another_shape_shares_the_memory_where_ncnn_does() -> None:
    x = np.zeros((3, 4), np.float32)
    Mat(x).reshape(12).fill(7.0)
    assert x.tolist() == [[7] * 4] * 3
    m = Mat(x)
    m.reshape(3, 2, 2).fill(1.0)  # a channel of 24 bytes begins at multiples of 16
    assert x[0, 0] == 7
    m.reshape(2, 2, 3).fill(1.0)
    assert x[0, 0] == 1


def test_arguments_of_pixels() -> None:
    image, kind = np.zeros((4, 4), np.uint8), Mat.PixelType.PIXEL_GRAY
    assert Mat.from_pixels_resize(image, kind, 4, 4, 2, 3, ncnn.PoolAllocator()).h == 3
    for wrong in ({"target_width": 2}, {"target_width": 2, "target_height": 2, "roiw": 1}):
        with pytest.raises(TypeError, match="target_width, target_height"):
            Mat.from_pixels_resize(image, kind, 4, 4, **wrong)
    with pytest.raises(LimitError):
        Mat.from_pixels_resize(image, kind, 4, 4, 1 << 30, 1 << 30)


def test_faults_are_told() -> None:
    for elemsize, elempack in ((0, 1), (4, 8), (4, -1)):
        with pytest.raises(RuntimeError, match="bytes together"):
            Mat(4, elemsize=elemsize, elempack=elempack)
    with pytest.raises(IndexError, match="empty"):
        Mat().depth(0)
    for cast in (ncnn.cast_float16_to_float32, ncnn.cast_bfloat16_to_float32, ncnn.cast_int8_to_float32):
        with pytest.raises(RuntimeError, match="4 bytes"):
            cast(Mat(np.float32([1, 2])))
    with pytest.raises(TypeError):
        ncnn.Net().load_model_mem(1000)
