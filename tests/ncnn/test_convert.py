"""Text to binary and back: structure, bits, names; every file at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pnnx_fast.errors import FormatError
from pnnx_fast.formats.ncnn_param import NcnnParam, read_text, write_text
from pnnx_fast.formats.ncnn_param_bin import read_binary, write_binary
from pnnx_fast.formats.ncnn_types import type_number
from pnnx_fast.ncnn.convert import binary_to_text, kinds, main, text_to_binary

TEXT = b"""7767517
3 3
Input                    in                       0 1 a 0=3
Clip                     cut                      1 1 a b 0=-0.5 1=6.0
Reshape                  r                        1 1 b c 6="*(0w,0h),0c"
"""


def _files(root: Path) -> list[Path]:
    folders = ("ncnn_params/*.param", "models/*.param", "conformance/cases/ncnn/*/model.ncnn.param")
    return [p for f in folders for p in sorted(root.glob(f)) if not p.name.endswith(".pnnx.param")]


def test_text_in_its_usual_form_comes_back_byte_for_byte() -> None:
    data, header = text_to_binary(TEXT)
    assert binary_to_text(data, header) == TEXT


def test_without_names_numbers_are_the_names() -> None:
    line = binary_to_text(text_to_binary(TEXT)[0]).decode().splitlines()[3]
    assert line.split() == ["Clip", "layer_1", "1", "1", "0", "1", "0=-0.5", "1=6.0"]


SAME_IN_C = b"""7767517
4 4
Input                    i/1                      0 1 a.b
Input                    i-1                      0 1 a_b
ReLU                     r                        1 1 a.b a_b_1
BinaryOp                 s                        2 1 a_b_1 a_b d 0=1
"""


def test_blobs_whose_names_differ_in_signs_alone_stay_apart() -> None:
    data, header = text_to_binary(SAME_IN_C)
    lines = [line for line in header.splitlines() if line.startswith("const")]
    assert [line.split()[2] for line in lines] == [
        "LAYER_i_1", "LAYER_i_1_1", "LAYER_r", "LAYER_s", "BLOB_a_b", "BLOB_a_b_1", "BLOB_a_b_1_2", "BLOB_d",
    ]  # fmt: skip
    assert text_to_binary(binary_to_text(data, header))[0] == data


@pytest.mark.parametrize(
    "header",
    [
        "BLOB_a_b = 0 BLOB_a_b = 1 BLOB_a_b = 2 BLOB_d = 3",  # as ncnn2mem writes it
        "BLOB_1 = 3 BLOB_blob_0 = 2",
        "BLOB_1 = 0 BLOB_2 = 1 BLOB_blob_2 = 3",
        "BLOB_a = 0 BLOB_a = 0 BLOB_b = 0 BLOB_b = 1 BLOB_c = 99999999999999999999 BLOB_d = 77",
    ],
)
def test_no_names_of_a_header_change_the_net(header: str) -> None:
    data, _ = text_to_binary(SAME_IN_C)
    names = "".join(f"const int {part};\n" for part in header.replace(" BLOB", "\nBLOB").splitlines())
    assert text_to_binary(binary_to_text(data, names))[0] == data


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("net.param", "net.param.bin", "again.param")]
    paths[0].write_bytes(TEXT)
    assert main([str(paths[0]), str(paths[1])]) == 0
    assert (tmp_path / "net.id.h").read_text().startswith("#ifndef")
    assert main([str(paths[1]), str(paths[2])]) == 0
    assert paths[2].read_bytes() == TEXT
    assert main([str(tmp_path / "none"), str(paths[1])]) == 1
    assert main([]) == 2
    assert "error" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "FROM TO" in capsys.readouterr().out
    paths[0].write_bytes(b"7767517\n1 1\nInput in 0 1 a zero=3\n")
    assert main([str(paths[0]), str(paths[1])]) == 1
    assert f"{paths[0]}:3" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["net.param", "./net.param", "link", "net.bin"])
def test_the_source_is_not_replaced(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("net.param", "net.id.h"):
        Path(name).write_bytes(TEXT)
    Path("link").symlink_to("net.param")
    assert main(["net.id.h" if target == "net.bin" else "net.param", target]) == 1
    assert "is the file to convert, which it would replace" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"net.param", "net.id.h", "link"}
    assert Path("net.param").read_bytes() == Path("net.id.h").read_bytes() == TEXT


def test_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "net.param").write_bytes(TEXT)
    (tmp_path / "net.id.h").mkdir()
    assert main([str(tmp_path / "net.param"), str(tmp_path / "net.bin")]) == 1
    assert main([str(tmp_path / "net.param"), str(tmp_path)]) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"net.param", "net.id.h"}


def test_headers_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "net.param.bin").write_bytes(text_to_binary(TEXT)[0])
    (tmp_path / "net.id.h").write_bytes(b"const int BLOB_caf\xe9 = 0;\nconst int BLOB_b = 1;\n")
    assert main([str(tmp_path / "net.param.bin"), str(tmp_path / "again.param")]) == 0
    line = (tmp_path / "again.param").read_text().splitlines()[3]
    assert line.split()[4:6] == ["0", "b"]


def test_models_of_pnnx_are_told_apart() -> None:
    with pytest.raises(FormatError, match=r"a model of PNNX; pnnx_fast\.load runs it"):
        read_text(b"7767517\n2 1\npnnx.Input in 0 1 a #a=(1,3)f32\npnnx.Output out 1 0 a\n")


def _through_binary(param: NcnnParam, custom: list[str]) -> tuple[bytes, bytes]:
    """The binary form, and the text that it gives with the names that it lacks."""
    words = write_binary(param, custom)
    again = read_binary(words)
    again.blob_names = list(param.blob_names)
    for one, other in zip(again.layers, param.layers, strict=True):
        assert (one.bottoms, one.tops) == (other.bottoms, other.tops)
        one.name, one.type = other.name, other.type
    return words, write_text(again, kinds(again))


def test_every_file_survives_text_binary_text(data_path: Path) -> None:
    """Text alone keeps every byte. Through the binary form every bit of a number stays, and the text becomes the usual
    form of the same lines, which then stays byte for byte."""
    paths = _files(data_path)
    assert len(paths) > 100
    for path in paths:
        data = path.read_bytes()
        param = read_text(data, str(path))
        assert write_text(param) == data, path
        custom = sorted({str(layer.type) for layer in param.layers if type_number(str(layer.type)) < 0})
        words, usual = _through_binary(param, custom)
        assert _through_binary(read_text(usual), custom) == (words, usual), path
