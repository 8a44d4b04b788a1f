"""Images to Mats and back; checksums were made with the ncnn package, whose integer arithmetic is kept."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ncnn import Mat

FILE = Path(__file__).parent / "pixels.json"
CHECKSUMS: dict[str, int] = json.loads(FILE.read_text()) if FILE.exists() else {}
TYPES = [name for name in Mat.PixelType.__members__ if "CONVERT" not in name and "MASK" not in name]
WIDTH, HEIGHT = 13, 11


def picture(channels: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 256, (HEIGHT, WIDTH, channels), dtype=np.uint8)


def channels_of(name: str) -> int:
    source = name.removeprefix("PIXEL_").partition("2")[0]
    return {"RGB": 3, "BGR": 3, "GRAY": 1, "RGBA": 4, "BGRA": 4}[source]


def results(module: Any, name: str) -> dict[str, Any]:
    """What a module (this one, or the ncnn package) makes of a picture."""
    kind = int(module.Mat.PixelType.__members__[name])
    image = picture(channels_of(name))
    made = {
        "from": module.Mat.from_pixels(image, kind, WIDTH, HEIGHT),
        "smaller": module.Mat.from_pixels_resize(image, kind, WIDTH, HEIGHT, 7, 6),
        "larger": module.Mat.from_pixels_resize(image, kind, WIDTH, HEIGHT, 17, 23),
        "part": module.Mat.from_pixels_roi(image, kind, WIDTH, HEIGHT, 2, 3, 5, 6),
        "resized part": module.Mat.from_pixels_roi_resize(image, kind, WIDTH, HEIGHT, 2, 3, 5, 6, 9, 8),
    }
    return {key: np.ascontiguousarray(mat.numpy()) for key, mat in made.items()}


@pytest.mark.parametrize("name", TYPES)
def test_checksums(name: str) -> None:
    import pnnx_fast.ncnn

    for key, array in results(pnnx_fast.ncnn, name).items():
        assert zlib.crc32(np.ascontiguousarray(array).tobytes()) == CHECKSUMS[f"{name} {key}"], key


def test_stride() -> None:
    wide = picture(3)
    kind = Mat.PixelType.PIXEL_BGR2RGB
    m = Mat.from_pixels(wide, kind, 5, HEIGHT, stride=WIDTH * 3)
    np.testing.assert_array_equal(m.numpy(), wide[:, :5, ::-1].transpose(2, 0, 1))


@pytest.mark.parametrize(("name", "order"), [("RGB", [0, 1, 2]), ("RGB2BGR", [2, 1, 0]), ("GRAY", [0])])
def test_back_to_pixels(name: str, order: list[int]) -> None:
    values = np.random.default_rng(8).uniform(-20, 280, (len(order), 5, 6)).astype(np.float32)
    kind = Mat.PixelType.__members__[f"PIXEL_{name}"]
    image = Mat(values).to_pixels(kind)
    wanted = np.clip(values, 0, 255).astype(np.uint8)[order].transpose(1, 2, 0)
    np.testing.assert_array_equal(image, wanted if len(order) > 1 else wanted.reshape(image.shape))
    assert Mat(values).to_pixels_resize(kind, 9, 4).shape[:2] == (4, 9)


def test_grey_keeps_its_value_in_all_colours() -> None:
    image = Mat(np.full((1, 2, 2), 9.7, np.float32)).to_pixels(Mat.PixelType.PIXEL_GRAY2BGRA)
    assert image.reshape(-1, 4).tolist() == [[9, 9, 9, 255]] * 4


def test_numbers_of_types() -> None:
    types = Mat.PixelType
    assert (types.PIXEL_BGR, types.PIXEL_BGR2RGB, types.PIXEL_CONVERT_SHIFT) == (2, 0x10002, 16)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Mat.from_pixels(np.zeros(10, np.uint8), 1, 5, 5),
        lambda: Mat.from_pixels(np.zeros((5, 5, 3), np.uint8), 1, 5, 5, 3),
        lambda: Mat.from_pixels_roi(np.zeros((5, 5, 3), np.uint8), 1, 5, 5, 2, 2, 4, 4),
        lambda: Mat.from_pixels(np.zeros((5, 5, 3), np.uint8), 77, 5, 5),
    ],
)
def test_images_that_do_not_fit(call: Any) -> None:
    with pytest.raises((ShapeError, ValueError)):
        call()


def test_images_are_bytes() -> None:
    with pytest.raises(ParameterError, match="bytes, not of float32"):
        Mat.from_pixels(np.zeros((5, 5, 3), np.float32), 1, 5, 5)
    with pytest.raises(ShapeError, match=r"positive, got \(0, 2\)"):
        Mat.from_pixels_resize(np.zeros((5, 5, 3), np.uint8), 1, 5, 5, 0, 2)


def write() -> None:
    """Make the checksums with the ncnn package."""
    import ncnn

    made = {f"{name} {key}": array for name in TYPES for key, array in results(ncnn, name).items()}
    sums = {key: zlib.crc32(np.ascontiguousarray(array).tobytes()) for key, array in made.items()}
    FILE.write_text(json.dumps(sums, indent=0) + "\n")


if __name__ == "__main__":
    write()
