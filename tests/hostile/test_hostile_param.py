"""The museum of broken .param files: what each must say, and that damaged files never do worse than that."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from pnnx_fast import errors
from pnnx_fast.errors import FormatError
from pnnx_fast.formats import pnnx_param

FOLDER = Path(__file__).parent / "param"
DTYPES = "f32 f64 f16 i32 i64 i16 i8 u8 bool c64 c128 c32 bf16 null"

# File: exception, line:column, reason.
MUSEUM = {
    "attribute_twice": "FormatError 4:37 attribute 'weight' is given twice",
    "blank": "FormatError 3:1 expected the magic number 7767517, found the end of the file",
    "count_10_million": "FormatError 4:1 the header declares 10000000 operators, the file has 1",
    "count_2_31": "LimitError 2:1 2147483648 operators, the limit is 10000000",
    "count_2_64": "LimitError 2:1 the number of operators does not fit in 64 bits",
    "count_missing": "FormatError 2:2 expected the number of operands, found the end of the line",
    "count_negative": "FormatError 2:1 the number of operators is -1",
    "count_too_large": "FormatError 5:1 the header declares 3 operators, the file has 2",
    "count_too_small": "FormatError 4:1 the header declares 1 operators, here is one more",
    "count_word": "FormatError 2:1 expected the number of operators, found 'two'",
    "dtype_missing": f"FormatError 4:26 expected a dtype ({DTYPES}), found the end of the line",
    "dtype_unknown": f"FormatError 4:26 expected a dtype ({DTYPES}), found 'f8'",
    "empty": "FormatError 1:1 expected the magic number 7767517, found the end of the file",
    "header_only": "FormatError 2:1 expected the numbers of operators and operands, found the end of the file",
    "hint_of_other_line": "FormatError 5:18 'x' is no operand of this line",
    "hint_unknown": "FormatError 4:20 'z' is no operand of this line",
    "hint_without_shape": "FormatError 4:22 expected a shape and a dtype like (1,3)f32, found the end of the line",
    "inputs_2_40": "FormatError 4:30 1099511627776 inputs declared, found 1",
    "inputs_negative": "FormatError 4:13 the number of inputs is -1",
    "inputs_one_too_many": "FormatError 4:19 operand 'y' is not an output of any line above",
    "inputs_too_many": "FormatError 4:18 2 inputs declared, found 1",
    "inputs_word": "FormatError 4:13 expected the number of inputs, found 'x'",
    "integer_2_63": "LimitError 4:18 an integer of 9223372036854775808 does not fit in 64 bits",
    "integer_in_list": "LimitError 4:18 an integer of (1,-9223372036854775809) does not fit in 64 bits",
    "item_without_value": "FormatError 4:21 expected key=value, found 'inplace'",
    "magic": "FormatError 1:1 expected the magic number 7767517, found '7767518'",
    "magic_missing": "FormatError 1:1 expected the magic number 7767517, found '1'",
    "nul": "FormatError 4:9 NUL byte in a text file",
    "operand_later": "FormatError 3:17 operand 'x' is not an output of any line above",
    "operand_of_itself": "FormatError 4:17 operand 'y' is not an output of any line above",
    "operand_twice": "FormatError 4:19 operand 'x' is an output already",
    "operand_twice_in_line": "FormatError 4:23 operand 'y' is an output already",
    "operand_unknown": "FormatError 4:17 operand 'z' is not an output of any line above",
    "outputs_swallow_items": "FormatError 4:21 2 outputs declared, found 1 and then 'inplace=True'",
    "outputs_too_few": "FormatError 4:19 expected key=value, found 'y'",
    "outputs_too_many": "FormatError 4:20 2 outputs declared, found 1",
    "parameter_twice": "FormatError 4:34 parameter 'inplace' is given twice",
    "shape_2_40": "LimitError 4:23 a tensor of more than 1099511627775 bytes",
    "shape_2_64": "LimitError 4:24 a dimension does not fit in 64 bits",
    "shape_65_dims": "LimitError 4:23 a tensor of more than 64 dimensions",
    "shape_fraction": "FormatError 4:24 expected a dimension, found '1.5'",
    "shape_gap": "FormatError 4:26 expected a dimension, found nothing",
    "shape_letter": "FormatError 4:26 expected a dimension, found 'b'",
    "shape_negative": "FormatError 4:24 dimension -2 is negative",
    "shape_open": "FormatError 4:23 expected a shape and a dtype like (1,3)f32, found '(1,4'",
    "shape_overflow": "LimitError 4:23 a tensor of more than 1099511627775 bytes",
    "shape_trailing_comma": "FormatError 4:26 expected a dimension, found nothing",
    "shape_word": "FormatError 4:23 expected a shape and a dtype like (1,3)f32, found 'f32'",
    "shape_zero_times_huge": "LimitError 4:23 a tensor of more than 1099511627775 bytes",
    "slot_of_other_line": "FormatError 5:25 'x' is in no input slot left to name",
    "slot_too_often": "FormatError 4:36 'x' is in no input slot left to name",
    "slot_unknown": "FormatError 4:27 'z' is in no input slot left to name",
    "slot_without_operand": "FormatError 4:20 expected $name=operand, found '$input'",
    "truncated_counts": "FormatError 4:14 expected the number of outputs, found the end of the line",
    "truncated_line": "FormatError 4:8 expected the name of the operator, found the end of the line",
    "utf16": "FormatError 1:4 NUL byte in a text file",
    "utf8_name": "FormatError 4:9 byte 0xe9 is not UTF-8",
    "utf8_surrogate": "FormatError 4:22 byte 0xed is not UTF-8",
    "utf8_truncated": "FormatError 4:22 byte 0xe5 is not UTF-8",
    "utf8_value": "FormatError 4:22 byte 0xff is not UTF-8",
    "weight_2_40": "LimitError 4:30 a tensor of more than 1099511627775 bytes",
    "weight_negative": "FormatError 4:31 dimension -1 is negative",
    "weight_of_pattern": "FormatError 4:30 expected a shape and a dtype like (1,3)f32, found '%op.data'",
    "weight_overflow": "LimitError 4:30 a tensor of more than 1099511627775 bytes",
    "weight_symbolic": "FormatError 4:31 expected a dimension, found '%c'",
    "weight_unknown_size": "FormatError 4:31 expected a dimension, found '?'",
    "weight_without_shape": "FormatError 4:29 expected a shape and a dtype like (1,3)f32, found the end of the line",
    "zip": "FormatError - this is a zip archive; the text of a .param file begins with 7767517",
}

SEEDS = [
    "7767517\n3 3\npnnx.Input in0 0 1 0 #0=(1,?,4)f32\nnn.LSTM lstm 3 2 0 0 0 1 2 bias=True k=(1,2.5) "
    "expr=[None,[1,0]] s=1.5e-3 c=1.0e+00-2.0e+00j @w=(2,3)f32 @e=(0)i64 $input=0 $hx=0 #1=(1,2)bf16\n"
    "pnnx.Output out0 1 0 1 #1=(1,2)bf16\n",
    "7767517\n2 1\npnnx.Attribute a 0 1 x @data #x=(1,%c)f32\nF.x b 1 0 x k=%k *=* %*=%* @w=%a.data @v=(%c,?)f32\n",
]


@pytest.mark.parametrize("name", MUSEUM)
def test_museum(name: str) -> None:
    kind, place, reason = MUSEUM[name].split(" ", 2)
    path = FOLDER / f"{name}.param"
    with pytest.raises(FormatError) as caught:
        pnnx_param.read(path.read_bytes(), str(path))
    assert type(caught.value) is getattr(errors, kind)
    where = f"{path}:{place}" if place != "-" else str(path)
    assert str(caught.value) == f"{where}: {reason}"


def test_the_museum_is_complete() -> None:
    assert {path.stem for path in FOLDER.glob("*.param")} == set(MUSEUM)


def attempt(data: bytes, pattern: bool) -> None:
    """Read; what reads must also write, and read again to the same text."""
    try:
        graph = pnnx_param.read(data, "m.param", pattern=pattern)[0]
    except FormatError as error:
        if not str(error).startswith("m.param"):
            raise
        return
    for op in graph.ops:
        for param in op.params.values():
            assert param.encode_to_string() is not None
    text = pnnx_param.write(graph)
    again = pnnx_param.read(text, "again.param", pattern=True)[0]
    assert pnnx_param.write(again) == text


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Damage a file in one to three places: bytes, cuts, repeats, tokens of the grammar."""
    tokens = [b" ", b"\n", b"=", b"@", b"#", b"$", b"(", b")", b",", b"%", b"-", b"?", b"e", b"9" * 20, b"\xff", b"j"]
    for _ in range(rng.randint(1, 3)):
        i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        choice = rng.randrange(5)
        if choice == 0:
            data = data[:i] + rng.choice(tokens) + data[i:]
        elif choice == 1:
            data = data[:i] + data[min(j, i + 8) :]
        elif choice == 2:
            data = data[:i] + bytes([rng.randrange(256)]) + data[i + 1 :]
        elif choice == 3:
            data = data[:j] + data[i : min(j, i + 40)] + data[j:]
        else:
            data = data[:i] if rng.random() < 0.1 else data[:i] + rng.choice(tokens) + data[i + 1 :]
    return data


@pytest.mark.parametrize("pattern", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_damaged_files_are_read_or_refused(seed: int, pattern: bool) -> None:
    rng = random.Random(seed)
    for _ in range(3000):
        attempt(mutate(SEEDS[seed].encode(), rng), pattern)


def test_every_prefix_is_read_or_refused() -> None:
    data = SEEDS[0].encode()
    for n in range(len(data)):
        attempt(data[:n], False)


@pytest.mark.parametrize(
    "data",
    [
        b"7767517\n9999999 9999999\n",
        b"7767517\n1 1\nA a 999999999999 999999999999 x\n",
        b"7767517\n1 1\nA a 0 0 @w=(1000000,100000)f32\n",
        b"7767517\n1 1\nA a 0 0 k=(" + b"," * 50_000 + b")\n",
        b"7767517\n1 1\nA a 0 0 k=" + b"9" * 100_000 + b".5\n",
    ],
)
def test_memory_follows_the_size_of_the_file(data: bytes) -> None:
    tracemalloc.start()
    try:
        attempt(data, False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000 + 40 * len(data)


def test_long_numbers_take_linear_time() -> None:
    for digits in ("9" * 1_000_000, "0." + "1" * 1_000_000, "1e" + "9" * 1_000_000, "1.5-" + "2" * 1_000_000 + ".j"):
        graph = pnnx_param.read(b"7767517\n1 0\nA a 0 0 k=" + digits.encode() + b".e0\n")[0]
        assert graph.ops[0].params["k"].type in (3, 10)
