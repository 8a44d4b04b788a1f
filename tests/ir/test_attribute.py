"""Attributes: dtypes, views, conversions to and from float32, equality and concatenation."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnnx_fast.errors import FormatError, ShapeError
from pnnx_fast.ir import Attribute, Graph, Operator
from pnnx_fast.ir.dtypes import DTYPES, by_code, by_numpy, by_text
from pnnx_fast.ir.floats import (
    bfloat16_to_float32,
    float32_to_bfloat16,
    float32_to_float16,
)
from pnnx_fast.ncnn import Mat
from pnnx_fast.runtime_graph import Tensor


def test_dtype_table() -> None:
    names = ["f32", "f64", "f16", "i32", "i64", "i16", "i8", "u8", "bool", "c64", "c128", "c32", "bf16"]
    assert [(row.code, row.text) for row in DTYPES] == list(enumerate(names, 1))
    assert [row.size for row in DTYPES] == [4, 8, 2, 4, 8, 2, 1, 1, 1, 8, 16, 4, 2]
    assert [row.text for row in DTYPES if row.integer] == ["i32", "i64", "i16", "i8", "u8", "bool"]
    for row in DTYPES:
        assert by_text[row.text] is by_code[row.code] is row
        if row.numpy:
            assert np.dtype(row.numpy).itemsize == row.size
            assert by_numpy[np.dtype(row.numpy).name] is row


@pytest.mark.parametrize("dtype", [row.numpy for row in DTYPES if row.numpy])
def test_arrays_come_back(dtype: str) -> None:
    array = (np.arange(6) % 2).reshape(2, 3).astype(dtype)
    attr = Attribute(array)
    assert attr.dtype == by_numpy[dtype].text
    assert (attr.shape, attr.elemcount, attr.nbytes) == ((2, 3), 6, array.nbytes)
    assert attr.numpy().dtype == array.dtype
    np.testing.assert_array_equal(attr.numpy(), array)
    with pytest.raises(ValueError, match="read-only"):
        attr.numpy()[0, 0] = 0


def test_arrays_that_can_be_written_to_are_copied() -> None:
    array = np.float32([[1, 2], [3, 4]])
    attr, transposed, assigned = Attribute(array), Attribute(array.T), Attribute(array)
    assigned.set_float32_data(array)
    array[:] = 0
    np.testing.assert_array_equal(attr.numpy(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(transposed.numpy(), [[1, 3], [2, 4]])
    assert assigned == attr


def test_arrays_that_nobody_writes_to_are_shared() -> None:
    array = np.float32([[1, 2], [3, 4]])
    owned = Attribute.owning(array)
    assert not array.flags.writeable
    for attr in (owned, Attribute(array), Attribute(owned.numpy()[1:])):
        assert np.shares_memory(attr.numpy(), array)
    assert Attribute.owning(np.float32(3)).shape == ()
    assert Attribute.owning(np.float32([1.5]), "bf16").dtype == "bf16"


def test_data_that_does_not_fit_is_told() -> None:
    graph = Graph.parse("7767517\n2 1\npnnx.Attribute a 0 1 x @data=(2,3)f32\npnnx.Output out 1 0 x\n")
    with pytest.raises(ShapeError, match="wrong number of bytes: expected 24, got 0"):
        graph.ops[0].attrs["data"].numpy()


def test_other_byte_and_memory_order() -> None:
    array = np.arange(6, dtype=">f4").reshape(2, 3).T
    attr = Attribute(array)
    assert bytes(attr.data) == np.array([0, 3, 1, 4, 2, 5], "<f4").tobytes()
    np.testing.assert_array_equal(np.asarray(attr), array)


def test_views_may_be_unaligned_and_copy_nothing() -> None:
    data = bytes(1) + np.arange(4, dtype="<f4").tobytes()
    attr = Attribute.from_data("f32", (2, 2), memoryview(data)[1:])
    array = attr.numpy()
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    np.testing.assert_array_equal(array, [[0, 1], [2, 3]])


def test_scalars_and_null() -> None:
    scalar = Attribute(np.float32(3))
    assert (scalar.shape, scalar.elemcount, scalar.nbytes, scalar.numpy()) == ((), 1, 4, 3)
    null = Attribute()
    assert (null.dtype, null.elemcount, null.elemsize, null.signature) == (None, 0, 0, "null")
    assert null == Attribute()
    with pytest.raises(ShapeError, match="null attribute"):
        null.numpy()


def test_empty() -> None:
    attr = Attribute(np.empty((0, 3), np.int64))
    assert (attr.shape, attr.nbytes, len(bytes(attr.data))) == ((0, 3), 0, 0)
    assert attr.numpy().shape == (0, 3)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([object()]), np.zeros(1, np.uint32)])
def test_dtypes_that_files_do_not_have(array: np.ndarray) -> None:
    with pytest.raises(ShapeError, match="cannot hold dtype"):
        Attribute(array)


def test_unknown_dtype() -> None:
    with pytest.raises(ShapeError, match="unknown dtype 'f8'"):
        Attribute([1.0], dtype="f8")


def test_wrong_number_of_bytes() -> None:
    with pytest.raises(ShapeError, match="wrong number of bytes: expected 16, got 3"):
        Attribute.from_data("f32", (4,), b"abc")
    with pytest.raises(ShapeError, match="unknown dtype 'f31'"):
        Attribute.from_data("f31", (4,), b"abcd")
    with pytest.raises(ShapeError, match="negative dimension"):
        Attribute.from_data("f32", (-1, -1), b"abcd")


def test_bfloat16() -> None:
    attr = Attribute([1.0, -2.5, 3.14159265, np.inf, np.nan], dtype="bf16")
    assert (attr.dtype, attr.elemsize) == ("bf16", 2)
    expected = np.array([1.0, -2.5, 3.140625, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(attr.numpy(), expected)
    assert attr.numpy().dtype == np.float32


def test_complex32() -> None:
    attr = Attribute([1 + 2j, -0.5j], dtype="c32")
    assert (attr.elemsize, attr.nbytes) == (4, 8)
    assert attr.numpy().dtype == np.complex64
    np.testing.assert_array_equal(attr.numpy(), np.array([1 + 2j, -0.5j], np.complex64))


def test_bool_bytes_other_than_one() -> None:
    attr = Attribute.from_data("bool", (4,), bytes([0, 1, 2, 255]))
    assert attr.numpy().view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_float32_data(dtype: str) -> None:
    attr = Attribute([[0.5, -2.0], [1e4, 3.0]], dtype=dtype)
    data = attr.get_float32_data()
    assert (data.shape, data.dtype) == ((4,), np.float32)
    np.testing.assert_allclose(data, [0.5, -2, 1e4, 3], rtol=2**-8)
    attr.set_float32_data([1.5, 2.5])
    assert (attr.shape, memoryview(attr.data).nbytes) == ((2, 2), 2 * attr.elemsize)
    attr.shape = (2,)
    np.testing.assert_array_equal(attr.get_float32_data(), [1.5, 2.5])


@pytest.mark.parametrize("dtype", ["i32", "u8", "bool", "c64", None])
def test_float32_data_of_other_dtypes_is_an_error(dtype: str | None) -> None:
    attr = Attribute([1], dtype=dtype) if dtype else Attribute()
    with pytest.raises(ShapeError, match=f"cannot be read as float32.*got {dtype}"):
        attr.get_float32_data()
    with pytest.raises(ShapeError, match="cannot hold float32"):
        attr.set_float32_data([1])


def test_setting_float16_truncates() -> None:
    values = np.array([1 + 2**-11 + 2**-12, 65520.0, 2.0**-15, 1e30, -np.inf, np.nan, -0.0], np.float32)
    attr = Attribute(np.zeros(7, np.float16))
    attr.set_float32_data(values)
    bits = [0x3C00, 0x7BFF, 0x0000, 0x7C00, 0xFC00, 0x7E00, 0x8000]
    assert np.frombuffer(attr.data, "<u2").tolist() == bits
    assert float32_to_float16(values, "round").view(np.uint16).tolist() == [
        0x3C01,
        0x7C00,
        0x0200,
        0x7C00,
        0xFC00,
        0x7E00,
        0x8000,
    ]


def truncate_bits(bits: int) -> int:
    """The truncating conversion, one value at a time."""
    sign, exponent, mantissa = bits >> 16 & 0x8000, (bits >> 23 & 0xFF) - 112, bits & 0x7FFFFF
    if exponent == 0xFF - 112:
        return sign | 0x7C00 | (0x200 if mantissa else 0)
    if exponent <= 0:
        return sign
    return sign | (0x7C00 if exponent >= 31 else exponent << 10 | mantissa >> 13)


@given(st.integers(0, 2**32 - 1))
def test_truncation_bit_by_bit(bits: int) -> None:
    x = np.array([bits], np.uint32).view(np.float32)
    assert float32_to_float16(x, "truncate").view(np.uint16)[0] == truncate_bits(bits)


@given(st.integers(0, 2**16 - 1))
def test_bfloat16_comes_back(bits: int) -> None:
    wide = bfloat16_to_float32(np.array([bits], np.uint16))
    again = float32_to_bfloat16(wide)[0]
    assert again == bits or (np.isnan(wide[0]) and np.isnan(bfloat16_to_float32(np.array([again]))[0]))


@given(st.floats(width=32))
def test_bfloat16_is_nearest(x: float) -> None:
    bits = float32_to_bfloat16(np.float32([x]))
    near = float(bfloat16_to_float32(bits)[0])
    if np.isnan(x) or np.isinf(near):
        assert np.isnan(x) == np.isnan(near)
        return
    for neighbour in (-1, 1):
        other = float(bfloat16_to_float32((bits.astype(np.int32) + neighbour).astype(np.uint16))[0])
        assert not abs(other - x) < abs(near - x)


def test_unknown_float16_mode() -> None:
    with pytest.raises(ValueError, match="mode 'up'"):
        float32_to_float16([1.0], "up")


def test_equality() -> None:
    a = Attribute(np.float32([1, 2]))
    assert a == Attribute(np.float32([1, 2]))
    assert a != Attribute(np.float32([1, 3]))
    assert a != Attribute(np.float32([[1, 2]]))
    assert a != Attribute(np.float64([1, 2]))
    assert a != Attribute()
    assert Attribute(np.float32([np.nan])) == Attribute(np.float32([np.nan]))
    assert a != 1
    b = Attribute(np.float32([1, 2]))
    b.params["__shape__0"] = "n"
    assert a == b


def test_concatenation_along_axis_0() -> None:
    a, b = Attribute(np.float32([[1, 2]])), Attribute(np.float32([[3, 4], [5, 6]]))
    np.testing.assert_array_equal((a + b).numpy(), [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    "other, message",
    [
        (Attribute(np.float64([[1, 2]])), "joined attributes differ in dtype: expected f32, got f64"),
        (Attribute(np.float32([1, 2])), r"joined attributes differ in rank: expected \(1, 2\), got \(2,\)"),
        (Attribute(np.float32([[1]])), r"joined attributes differ behind axis 0: expected \(1, 2\), got \(1, 1\)"),
    ],
)
def test_three_errors_of_concatenation(other: Attribute, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Attribute(np.float32([[1, 2]])) + other


@pytest.mark.parametrize("dtype, fortran", [("<f4", False), (">f4", False), (">i8", True), ("<c8", True)])
def test_npy(tmp_path, dtype: str, fortran: bool) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    np.save(tmp_path / "a.npy", np.asfortranarray(array) if fortran else array)
    attr = Attribute.from_npy(tmp_path / "a.npy")
    assert attr.shape == (2, 3)
    np.testing.assert_array_equal(attr.numpy(), array)


def test_files_of_other_content_are_refused(tmp_path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", np.zeros(3))
    for name, message in (("a.npy", "no .npy file of numbers"), ("b.npz", "an .npz file")):
        with pytest.raises(FormatError, match=message):
            Attribute.from_npy(tmp_path / name)


def test_copies_and_pickles() -> None:
    attr = Attribute(np.arange(6, dtype=np.float32).reshape(2, 3), "bf16")
    attr.params["__shape__0"] = "n"
    buffers: list[pickle.PickleBuffer] = []
    aside = pickle.dumps(attr, 5, buffer_callback=buffers.append)
    twins = [
        copy.copy(attr),
        copy.deepcopy(attr),
        pickle.loads(pickle.dumps(attr, 2)),
        pickle.loads(pickle.dumps(attr)),
    ]
    for twin in [*twins, pickle.loads(aside, buffers=buffers)]:
        assert twin == attr
        assert twin.params == attr.params
        assert twin.params is not attr.params
        twin.set_float32_data(np.zeros(6))
        assert attr.numpy()[1, 2] == 5
    assert len(buffers) == 1
    assert len(aside) < 200


@pytest.mark.parametrize("kind", [Attribute, Mat, Tensor])
def test_what_holds_arrays_becomes_one(kind: Any) -> None:
    holder = kind(np.ones(3, np.float32))
    assert np.asarray(holder).tolist() == [1, 1, 1]
    assert np.asarray(holder, np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(holder), np.asarray(holder))


def test_arrays_become_attributes_of_an_operator() -> None:
    op = Operator("nn.Linear", "fc", attrs={"weight": np.ones((2, 3), np.float32)})
    op.attrs["bias"] = np.zeros(2, np.float32)
    op.attrs.update(scale=np.float64(2))
    assert {key: attr.signature for key, attr in op.attrs.items()} == {
        "weight": "(2,3)f32",
        "bias": "(2)f32",
        "scale": "()f64",
    }
    with pytest.raises(ShapeError, match="cannot hold dtype"):
        op.attrs["name"] = "text"
    assert "name" not in op.attrs
