"""ncnn's weight files: every form of storage, padding, ends of files."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast.errors import FormatError, LimitError, ParameterError
from pnnx_fast.formats.ncnn_bin import BytesSource, EmptySource, WeightReader, write_weight

VALUES = np.linspace(-2, 2, 7, dtype=np.float32)


@pytest.mark.parametrize(
    ("storage", "size", "tolerance"),
    [("fp32", 4 + 28, 0), ("scaled", 4 + 28, 0), ("fp16", 4 + 16, 2e-3), ("table", 4 + 1024 + 8, 0)],
)
def test_tagged_storage(storage: str, size: int, tolerance: float) -> None:
    data = write_weight(VALUES, storage)  # type: ignore[arg-type]
    assert len(data) == size
    reader = WeightReader(BytesSource(data + b"rest"))
    np.testing.assert_allclose(reader.load(7, 0), VALUES, atol=tolerance)
    assert reader.source.read(4) == b"rest"
    assert b"".join(write_weight(w) for w in reader.weights) == data


def test_int8_and_plain() -> None:
    int8 = np.arange(-3, 3, dtype=np.int8)
    reader = WeightReader(BytesSource(write_weight(int8, "int8") + write_weight(VALUES)))
    assert reader.load(6, 0).tolist() == int8.tolist()
    assert reader.load(7, 1).tolist() == VALUES.tolist()


@pytest.mark.parametrize("tagged", [False, True])
def test_int8_with_and_without_a_tag(tagged: bool) -> None:
    values = np.arange(-3, 3, dtype=np.int8)
    data = write_weight(values, "int8")[0 if tagged else 4 :]
    reader = WeightReader(BytesSource(data + b"rest"))
    assert reader.load(6, 2).tolist() == values.tolist()
    assert bytes(reader.source.read(4)) == b"rest"
    assert write_weight(reader.weights[0]) == data


def test_odd_float16_gets_the_filler_of_pnnx() -> None:
    assert write_weight(VALUES, "fp16")[-2:] == b"\x83\x22"


def test_arrays_are_views() -> None:
    data = np.frombuffer(write_weight(VALUES), np.uint8)
    assert np.shares_memory(WeightReader(BytesSource(data)).load(7, 1), data)


@pytest.mark.parametrize("storage", [None, "fp32", "fp16", "table"])
def test_files_that_end_early(storage: str | None) -> None:
    data = write_weight(VALUES, storage)  # type: ignore[arg-type]
    for size in range(0, len(data), 3):
        with pytest.raises(FormatError, match="bytes of weights are wanted"):
            WeightReader(BytesSource(data[:size])).load(7, 1 if storage is None else 0)


def test_nothing_is_allocated_for_absurd_counts() -> None:
    for count in (-1, 1 << 50):
        with pytest.raises(FormatError):
            WeightReader(BytesSource(b"\0" * 16)).load(count, 0)
    with pytest.raises(FormatError):
        WeightReader(BytesSource(b"\0" * 16)).load(1 << 39, 0)


def test_empty_source_gives_zeros() -> None:
    reader = WeightReader(EmptySource())
    assert not reader.load(5, 0).any()
    assert reader.load(5, 1).dtype == np.float32


def test_zeros_take_no_more_than_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "1000")
    reader = WeightReader(EmptySource())
    reader.load(200, 1)
    with pytest.raises(LimitError, match="weights of zeros"):
        reader.load(60, 1)


def test_wrong_requests() -> None:
    with pytest.raises(ParameterError, match="different values"):
        write_weight(np.arange(300.0), "table")
    with pytest.raises(ParameterError, match="int8"):
        write_weight(VALUES, "int8")
    with pytest.raises(ParameterError, match="type 3"):
        WeightReader(EmptySource()).load(1, 3)
