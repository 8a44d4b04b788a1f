"""ncnn's .param files, text and binary: values, limits, byte-identical writing, broken files, random damage."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from pnnx_fast.errors import FormatError, ParameterError
from pnnx_fast.formats.ncnn_param import LayerRecord, NcnnParam, ParamSlots, read_text, write_text
from pnnx_fast.formats.ncnn_param_bin import id_header, names_from_header, read_binary, write_binary
from pnnx_fast.formats.ncnn_types import LAYER_TYPES, type_name, type_number

HEAD = "7767517\n2 2\nInput in 0 1 a\n"


def slots(tail: str) -> ParamSlots:
    return read_text(f"{HEAD}ReLU r 1 1 a b {tail}\n".encode()).layers[1].params


VALUES = [
    ("0=5 1=-3 2=+4", {0: (2, 5), 1: (2, -3), 2: (2, 4)}),
    (
        "0=1.5 1=1e-5 2=-.5 3=.5 4=1.",
        {0: (3, 1.5), 1: (3, 9.999999747378752e-06), 2: (3, -0.5), 3: (3, 0.5), 4: (3, 1.0)},
    ),
    ("0=1 0=2.5", {0: (3, 2.5)}),
    ("-23300=3,1,2,3", {0: (5, (1, 2, 3))}),
    ("-23301=3,1,2.5,3", {1: (5, (1, 2.5, 3))}),
    ("-23301=3,1.0,2,3.5", {1: (6, (1.0, 2, 3.5))}),
    ("-23301=0", {1: (4, ())}),
    ("1=1,2,3", {1: (5, (1, 2, 3))}),
    ("1=1.5,2", {1: (6, (1.5, 2.0))}),
    ("1=1,", {1: (5, (1,))}),
    ("1=1.0,2.0,", {1: (6, (1.0, 2.0))}),
    ("2=hello", {2: (7, "hello")}),
    ('2="any text, with commas"', {2: (7, "any text, with commas")}),
    ('2="" 3=a,b 4=nan', {2: (7, ""), 3: (7, "a,b"), 4: (7, "nan")}),
    ('2=a"b', {2: (7, 'a"b')}),
    ("2=hello\t3=4\v4=00012\f5=1E5", {2: (7, "hello"), 3: (2, 4), 4: (2, 12), 5: (3, 100000.0)}),
    ("0=5 \r", {0: (2, 5)}),
    ("0=1.23456789012345678901234567", {0: (3, 1.2345678806304932)}),
    ("0=-2147483648 1=3.4028235e38", {0: (2, -(2**31)), 1: (3, 3.4028234663852886e38)}),
    ("31=7", {31: (2, 7)}),
]


@pytest.mark.parametrize(("tail", "expected"), VALUES)
def test_values(tail: str, expected: dict[int, tuple[int, object]]) -> None:
    read = slots(tail)
    assert {i: read.slot(i)[:2] for i in read} == expected  # type: ignore[index]


BROKEN_PARAMS = [
    ("-23301=3,1,2", "fewer elements"),
    ("1=1,2.5", "not a finite number"),
    ('2="abc', "without its end"),
    ('2="short"3=4', "without a blank"),
    ("0=0x10", "not a finite number"),
    ("0=1e400", "not a finite number"),
    ("0=2147483648", "not a finite number"),
    ("0=1e", "not a finite number"),
    ("0=.", "not a finite number"),
    ("0=--1", "not a finite number"),
    ("0=+-1", "not a finite number"),
    ("0=1.5.5", "not a finite number"),
    ("0=1x", "not a finite number"),
    ("0=-inf", "not a finite number"),
    ("32=1", "outside 0 to 31"),
    ("-1=1", "outside 0 to 31"),
    ("-23332=1,1", "outside 0 to 31"),
    ("0=", "a value is missing"),
    ("0= 5", "a value is missing"),
    ("0 = 5", "parameter number and '='"),
    ("0=5 extra 1=2", "parameter number and '='"),
    ("-23300=2,1,2,3", "3 elements in an array of 2"),
    ("-23300=2 ,1,2", "fewer elements"),
    ("-23300=-1", "not a length"),
    ("-23300=0,1", "elements in an empty array"),
    ("-23300=99999999999,1", "not a length"),
    ("-23300=2000000000,1", "fewer elements"),
    ("2=" + "a" * 256, "more than 255 bytes"),
    ("0=1,a", "not a finite number"),
    ("2=_x", "not a finite number"),
]


@pytest.mark.parametrize(("tail", "message"), BROKEN_PARAMS)
def test_broken_parameters_name_the_place(tail: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as info:
        slots(tail)
    assert info.value.line == 4


BROKEN_FILES = [
    (b"", "magic number: the file ends here"),
    (b"776751\n2 2\n", "the magic number is 776751"),
    (b"7767517", "number of layers: the file ends here"),
    (b"7767517\n0 0\n", "0 layers and 0 blobs"),
    (b"7767517\n2000000000 5\n", "too many"),
    (b"7767517\n1 2000000000\nInput in 0 1 a\n", "too many"),
    (b"7767517\n2 2 extra\nInput in 0 1 a\n", "not an integer"),
    (b"7767517\n3 2\nInput in 0 1 a\nReLU r 1 1 a b\n", "type of layer 3 of 3: the file ends here"),
    (b"7767517\n2 1\nInput in 0 1 a\nReLU r 1 1 a b\n", "more blobs than the 1"),
    (b"7767517\n2 2\nInput in 0 1 a\nReLU r -1 1 a b\n", "-1 bottom"),
    (b"7767517\n2 2\nInput in 0 1 a\nReLU r 1 2147483647 a b\n", "the file ends here"),
    (b"7767517\n2 2\nInput in 0 1 " + b"a" * 256, "more than 255 bytes"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN_FILES)
def test_broken_files(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_text(data)


def test_layout_does_not_matter_before_the_parameters() -> None:
    param = read_text(b"\n7767517 2\n3\n\nInput\nin 0 1\na\n\n ReLU r 1 1 x b 0=0.1\r\nReLU beyond 1 1 b c\n")
    assert [(layer.type, layer.bottoms, layer.tops) for layer in param.layers] == [
        ("Input", [], [0]),
        ("ReLU", [1], [2]),
    ]
    assert param.blob_names == ["a", "x", "b"]


def test_a_name_that_comes_again_is_another_blob() -> None:
    param = read_text(b"7767517\n3 3\nInput in 0 1 a\nReLU r 1 1 a a\nReLU q 1 1 a b\n")
    assert [layer.bottoms + layer.tops for layer in param.layers] == [[0], [0, 1], [0, 2]]


def test_get_converts_by_value() -> None:
    read = slots("0=1 1=2.5 2=hello -23303=2,1,2.5")
    assert (read.get_int(0), read.get_float(0), read.get_ints(0, [9])) == (1, 1.0, (9,))
    assert (read.get_int(1, -7), read.get_float(1)) == (-7, 2.5)
    assert (read.get_string(2), read.get_int(2, 5), read.get_string(9, "x")) == ("hello", 5, "x")
    assert (read.get_ints(3), read.get_floats(3)) == ((1, 2), (1.0, 2.5))
    assert read.bits(3).tolist() == [1, 0x40200000]  # type: ignore[union-attr]


@pytest.mark.parametrize("id", [-1, 32])
def test_set_checks_the_number(id: int) -> None:
    with pytest.raises(ParameterError, match="outside 0 to 31"):
        ParamSlots().set(id, 1)


TEXT = (
    b'7767517\r\n 3   4 \r\n\r\nInput  in 0 1 a 0=1 \r\nReLU\tr 1 1 a b 0=1e-1 2="x y"\r\n'
    b"Foo f 1 1 b c -23303=2,1,2.50 4=1,2\n trailing"
)


def test_unchanged_text_comes_out_byte_for_byte() -> None:
    assert write_text(read_text(TEXT)) == TEXT


def test_changed_layers_alone_are_written_anew() -> None:
    param = read_text(TEXT)
    param.layers[1].params.set(0, 0.25)
    param.layers[1].params.set(5, "word")
    param.layers[1].params.set(6, [1, 2.0])
    lines = write_text(param).split(b"\n")
    assert lines[4] == b'ReLU                     r                        1 1 a b 0=0.25 2="x y" 5=word -23306=2,1,2.0'
    assert [lines[i] for i in (0, 1, 2, 3, 5, 6)] == [TEXT.split(b"\n")[i] for i in (0, 1, 2, 3, 5, 6)]


def test_renaming_a_blob_rewrites_the_lines_that_name_it() -> None:
    param = read_text(b"7767517\n2 2\nInput  in  0 1 a\nReLU  r  1 1 a b\n")
    param.blob_names[1] = "out"
    assert write_text(param).splitlines()[2:] == [
        b"Input  in  0 1 a",
        b"ReLU                     r                        1 1 a out",
    ]


@pytest.mark.parametrize("value", ['a"b', "a\nb", "x" * 256])
def test_strings_that_cannot_be_written(value: str) -> None:
    params = ParamSlots()
    params.set(0, value)
    with pytest.raises(ParameterError, match="cannot be written"):
        write_text(NcnnParam([LayerRecord("ReLU", "r", [], [], params)]))


def test_binary_keeps_structure_and_bits() -> None:
    param = read_text(TEXT)
    data = write_binary(param, ["Foo"])
    again = read_binary(data)
    assert [layer.type for layer in again.layers] == ["Input", "ReLU", 256]
    assert [layer.bottoms + layer.tops for layer in again.layers] == [[0], [0, 1], [1, 2]]
    relu, foo = again.layers[1].params, again.layers[2].params
    assert (relu.type(0), relu.get_float(0), relu.get_string(2)) == (1, pytest.approx(0.1), "x y")
    assert (foo.type(3), foo.get_ints(4), foo.bits(3).tolist()) == (4, (1, 2), [1, 0x40200000])  # type: ignore[union-attr]
    assert write_binary(again) == data


def test_binary_to_text_guesses_or_is_told_the_kinds() -> None:
    params = ParamSlots()
    for i, value in enumerate((0.5, -233, 0.0, [1, 2])):
        params.set(i, value)
    data = write_binary(NcnnParam([LayerRecord("ReLU", "r", [], [0], params)], ["x"]))
    line = write_text(read_binary(data)).splitlines()[2].split()[5:]
    assert line == [b"0=0.5", b"1=-233", b"2=0", b"-23303=2,1,2"]
    line = write_text(read_binary(data), {"ReLU": {2: "f"}}).splitlines()[2].split()[5:]
    assert line[2] == b"2=0.0"


def test_unknown_types_need_a_number() -> None:
    with pytest.raises(ParameterError, match="Foo"):
        write_binary(read_text(TEXT))


WORDS = [7767517, 2, 2, 16, 0, 1, 0, -233, 26, 1, 1, 0, 1, 0, 5, -23301, 2, 1, 2, -23402, 3, 0x00636261, -233]
BROKEN_WORDS = [
    ({0: 1}, "magic number"),
    ({1: 0}, "0 layers"),
    ({1: 1 << 30}, "too many"),
    ({2: 1 << 30}, "too many"),
    ({3: 110}, "no layer type 110"),
    ({3: -1}, "no layer type -1"),
    ({4: -1}, "do not fit"),
    ({5: 1 << 30}, "do not fit"),
    ({6: 2}, "blob number 2 of 2"),
    ({11: -1}, "blob number -1"),
    ({13: 32}, "outside 0 to 31"),
    ({15: -23350}, "outside 0 to 31"),
    ({16: 1 << 30}, "do not fit"),
    ({20: 256}, "a string of 256 bytes"),
    ({20: -1}, "a string of -1 bytes"),
    ({22: 3}, "ends before"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN_WORDS)
def test_broken_binary(change: dict[int, int], message: str) -> None:
    words = [change.get(i, word) for i, word in enumerate(WORDS)]
    with pytest.raises(FormatError, match=message) as info:
        read_binary(b"".join((w & 0xFFFFFFFF).to_bytes(4, "little") for w in words))
    assert info.value.offset is not None


def test_binary_of_every_length_ends_in_an_error() -> None:
    data = b"".join((w & 0xFFFFFFFF).to_bytes(4, "little") for w in WORDS)
    read_binary(data)
    for size in range(len(data)):
        with pytest.raises(FormatError):
            read_binary(data[:size])


def test_random_damage_gives_format_errors_alone() -> None:
    rng = random.Random(1)
    text, words = TEXT, write_binary(read_text(TEXT), ["Foo"])
    for _ in range(800):
        for data, read in ((text, read_text), (words, read_binary)):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(damaged))
                action = rng.random()
                if action < 0.5:
                    damaged[at] = rng.choice(b'0123456789-+.,=e" \n\rax\0\xff')
                elif action < 0.75:
                    del damaged[at : at + rng.randint(1, 9)]
                else:
                    damaged[at:at] = damaged[at : at + rng.randint(1, 9)]
            try:
                param = read(bytes(damaged))
            except FormatError:
                continue
            if read is read_text:
                assert write_text(param) == bytes(damaged)


def test_id_header_gives_names_back() -> None:
    param = read_text(b"7767517\n2 2\nInput in/1 0 1 a.b\nReLU r 1 1 a.b c\n")
    header = id_header(param, "my-net")
    assert "const int LAYER_in_1 = 0;" in header
    assert "const int BLOB_a_b = 0;" in header
    again = read_binary(write_binary(param))
    assert names_from_header(again, header) == {"a_b": 0, "c": 1}
    assert again.layers[1].name == "r"


def test_numbers_of_types() -> None:
    assert len(LAYER_TYPES) == 110
    assert (type_number("AbsVal"), type_number("Convolution"), type_number("RotaryEmbed")) == (0, 6, 109)
    assert (type_number("Nothing"), type_name(110), type_name(-1)) == (-1, None, None)


def _shared() -> list[Path]:
    root = os.environ.get("PNNX_FAST_DATA")
    if not root:
        return []
    folders = ("ncnn_params/*.param", "models/*.param", "conformance/cases/ncnn/*/model.ncnn.param")
    return [p for f in folders for p in sorted(Path(root).glob(f)) if not p.name.endswith(".pnnx.param")]


@pytest.mark.skipif(not _shared(), reason="PNNX_FAST_DATA is not set")
def test_real_files_survive_text_binary_text() -> None:
    for path in _shared():
        data = path.read_bytes()
        param = read_text(data, str(path))
        assert write_text(param) == data, path
        custom = sorted({str(layer.type) for layer in param.layers if type_number(str(layer.type)) < 0})
        words = write_binary(param, custom)
        again = read_binary(words)
        assert write_binary(again) == words, path
        for layer in again.layers:
            layer.type = custom[layer.type - 256] if isinstance(layer.type, int) else layer.type
        text = write_text(again)
        assert write_binary(read_text(text), custom) == words, path
