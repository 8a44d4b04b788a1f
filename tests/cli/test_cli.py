"""The command line: what people see, exit codes, and no traceback for a user's mistake."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast.cli import main
from pnnx_fast.demo import load_digits, model_path

DIGITS = str(model_path())


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "demo", "--count", "3")
    assert code == 0
    assert "held-out digits right" in out
    accuracy = float(out.split("right (")[1].split("%")[0])
    assert accuracy > 98
    assert float(out.split("probabilities: ")[1].split()[0]) < 1e-4


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "info", DIGITS)
    assert code == 0
    assert "input   0: f32 [1, 1, 8, 8]" in out
    assert "6 nn.Conv2d" in out
    code, out, _ = call(capsys, "info", DIGITS, "--json")
    facts = json.loads(out)
    assert facts["parameters"] > 10_000
    assert facts["flops"] > 1e5
    assert facts["operators"]["nn.Linear"] == 1


def test_run_writes_outputs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    digits = load_digits()
    np.save(tmp_path / "x.npy", digits.pictures[:4])
    code, out, _ = call(capsys, "run", DIGITS, "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy"))
    assert code == 0
    assert "float32[4, 10]" in out
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), digits.probabilities[:4], atol=1e-5)


def test_arrays_of_archives_go_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "difference.pnnx.param"
    inputs = "pnnx.Input a 0 1 a #a=(1)f32\npnnx.Input b 0 1 b #b=(1)f32\n"
    file.write_text(f"7767517\n4 3\n{inputs}pnnx.Expression e 2 1 a b y expr=sub(@0,@1)\npnnx.Output out 1 0 y\n")
    for name, value in {"a": 10, "b": 1}.items():
        np.savez(tmp_path / f"{name}.npz", **{name: np.float32([value])})
    np.save(tmp_path / "plain.npy", np.float32([5]))

    def run(*files: str) -> tuple[int, str]:
        given = [word for name in files for word in ("--input", str(tmp_path / name))]
        code, _, err = call(capsys, "run", str(file), *given, "--output", str(tmp_path / "y.npy"))
        return (code, err) if code else (code, str(np.load(tmp_path / "y.npy")))

    assert run("a.npz", "b.npz") == run("b.npz", "a.npz") == (0, "[9.]")
    assert run("b.npz", "plain.npy") == (0, "[4.]")
    assert "already" in run("a.npz", "a.npz")[1]
    assert "wrong number of inputs" in run("a.npz")[1]


def test_run_draws_the_numbers_of_its_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "noise.pnnx.param"
    file.write_text(
        "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,3)f32\ntorch.randn_like r 1 1 x y\npnnx.Output out 1 0 y\n"
    )
    drawn = []
    for seed in "3", "3", "4":
        code, _, _ = call(capsys, "run", str(file), "--seed", seed, "--output", str(tmp_path / "y.npy"))
        assert code == 0
        drawn.append(np.load(tmp_path / "y.npy"))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()


def test_run_keeps_the_compiled_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for _ in range(2):
        code, _, _ = call(capsys, "run", str(model_path()), "--cache", str(tmp_path))
        assert code == 0
    assert len(list(tmp_path.glob("*.pfc"))) == 2


@pytest.mark.filterwarnings("always")
def test_warnings_are_lines_as_errors_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    np.save(tmp_path / "x.npy", load_digits().pictures[:1])
    cached = ["--cache", str(tmp_path / "file")]
    code, _, err = call(capsys, "run", DIGITS, "--input", str(tmp_path / "x.npy"), *cached)
    assert code == 0
    assert err
    assert all(line.startswith("pnnx-fast: warning: ") for line in err.splitlines())


def test_run_prints_the_best_classes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    digits = load_digits()
    np.save(tmp_path / "x.npy", digits.pictures[:1])
    (tmp_path / "names.txt").write_text("\n".join(f"digit {i}" for i in range(10)))
    code, out, _ = call(
        capsys, "run", DIGITS, "--input", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "names.txt"), "--top", "2"
    )
    assert code == 0
    assert len(out.splitlines()) == 2
    assert out.splitlines()[0].endswith(f"digit {digits.labels[0]}")


def test_the_best_classes_of_each_item(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    digits = load_digits()
    np.save(tmp_path / "x.npy", digits.pictures[:3])
    (tmp_path / "names.txt").write_text("nought\none\n")
    names = str(tmp_path / "names.txt")
    code, out, err = call(capsys, "run", DIGITS, "--input", str(tmp_path / "x.npy"), "--top", "1", "--labels", names)
    assert (code, err) == (0, f"pnnx-fast: {names} has 2 lines for 10 classes\n")
    lines = out.splitlines()
    assert lines[::2] == ["item 0", "item 1", "item 2"]
    assert [int(line.split()[1]) for line in lines[1::2]] == digits.labels[:3].tolist()


@pytest.fixture
def free(tmp_path: Path) -> str:
    """A model that leaves sizes of its input free."""
    text = "7767517\n3 2\npnnx.Input a 0 1 x #x=(1,3,?,?)f32\nF.relu r 1 1 x y\npnnx.Output o 1 0 y\n"
    (tmp_path / "m.pnnx.param").write_text(text)
    return str(tmp_path / "m.pnnx.param")


def test_free_sizes_that_are_given(capsys: pytest.CaptureFixture[str], free: str) -> None:
    code, out, err = call(capsys, "run", free, "--size", "2,3,4,5")
    assert (code, err) == (0, "pnnx-fast: no --input given: running on random numbers\n")
    assert "y: float32[2, 3, 4, 5]" in out
    code, out, err = call(capsys, "info", free, "--size", "x=1,3,1000,1000")
    assert (code, err, "work    3M FLOP" in out) == (0, "", True)
    code, out, err = call(capsys, "show", free, "--size", "1,3,10,10")
    assert (code, err, "FLOPS = 300" in out) == (0, "", True)
    code, _, err = call(capsys, "bench", free, "--size", "1,3,4,5", "--seconds", "0")
    assert (code, err) == (0, "")


def test_free_sizes_that_are_not_given(capsys: pytest.CaptureFixture[str], free: str) -> None:
    for command in (["info"], ["bench", "--seconds", "0"]):
        code, _, err = call(capsys, *command, free)
        assert (code, err) == (0, "pnnx-fast: free sizes of input x are taken as 1: [1, 3, 1, 1]; give --size\n")


def test_run_on_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    digits = load_digits()
    image.fromarray((digits.pictures[0, 0] * 255).astype(np.uint8)).save(tmp_path / "digit.png")
    code, out, _ = call(
        capsys, "run", DIGITS, "--input", str(tmp_path / "digit.png"), "--scale", "0.00392156862745098", "--top", "1"
    )
    assert code == 0
    assert int(out.split()[1]) == digits.labels[0]
    picture = str(tmp_path / "digit.png")
    code, _, err = call(capsys, "run", DIGITS, "--input", picture, "--input", picture)
    assert (code, err) == (1, "pnnx-fast: wrong number of inputs: expected 1, got 2\n")


def test_the_best_of_small_integers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "7767517\n2 1\npnnx.Input a 0 1 x #x=(3)u8\npnnx.Output o 1 0 x\n"
    (tmp_path / "m.pnnx.param").write_text(text)
    np.save(tmp_path / "x.npy", np.uint8([0, 7, 200]))
    code, out, _ = call(capsys, "run", str(tmp_path), "--input", str(tmp_path / "x.npy"), "--top", "2")
    assert (code, [line.split()[1] for line in out.splitlines()]) == (0, ["2", "1"])


def test_info_takes_no_memory_for_inputs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "7767517\n3 2\npnnx.Input a 0 1 x #x=(1,{})f32\nF.relu r 1 1 x y\npnnx.Output o 1 0 y\n"
    (tmp_path / "m.pnnx.param").write_text(text.format(10**8))
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "16G")
    code, out, _ = call(capsys, "info", str(tmp_path))
    assert (code, "work    100M FLOP" in out) == (0, True)
    (tmp_path / "m.pnnx.param").write_text(text.format(10**11))
    code, out, _ = call(capsys, "info", str(tmp_path))
    assert (code, "memory are needed" in out) == (0, True)


def test_bench(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "bench", DIGITS, "--threads", "1,2", "--batch", "1,3", "--seconds", "0.01", "--profile")
    assert code == 0
    assert sum(line.split()[:1] in (["1"], ["2"]) for line in out.splitlines()) >= 4
    assert "GFLOP/s" in out


@pytest.mark.parametrize(
    "argv, message",
    [
        (["run", "no/such/file.pnnx.param"], "no/such/file.pnnx.param"),
        (["info", __file__], "test_cli.py"),
        (["run", DIGITS, "--input", "x.txt"], "inputs are .npy or .npz files or pictures"),
        (["bench", DIGITS, "--batch", "1" + "0" * 20], "memory are needed"),
        (["run", DIGITS, "--input", "no/such.png"], "no/such.png"),
        (["run", DIGITS, "--input", str(Path(__file__).parent)], "cli is a folder; inputs are .npy or .npz files"),
        (["run", "a\nb"], "a\nb: No such file or directory"),
        (["info", "a\nb"], "a\nb: No such file or directory"),
        (["ops", "Conv2d"], "no function is registered for Conv2d; there are nn.Conv2d"),
    ],
)
def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], argv: list[str], message: str) -> None:
    code, _, err = call(capsys, *argv)
    assert code == 1
    assert err.startswith("pnnx-fast: ")
    assert message in err


def test_wrong_number_of_inputs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    path = str(tmp_path / "x.npy")
    code, _, err = call(capsys, "run", DIGITS, "--input", path, "--input", path)
    assert code == 1
    assert "wrong number of inputs: expected 1, got 2" in err


@pytest.mark.parametrize(
    "argv",
    [
        ["bench", DIGITS, "--threads", "zero"],
        ["bench", "--kernels", "--group", "none"],
        ["bench", DIGITS, "--seconds", "-1"],
        ["bench", DIGITS, "--seconds", "nan"],
        ["run", DIGITS, "--threads", "0"],
        ["run", DIGITS, "--size", "1,x"],
        ["run", DIGITS, "--seed", "-1"],
        ["run", DIGITS, "--top", "-1"],
        ["run", DIGITS, "--output", "y.txt"],
        ["run", DIGITS, "--output", "no/such/folder/y.npy"],
        ["run", DIGITS, "--mean", "a"],
        ["run", DIGITS, "--mean", "nan"],
        ["run", DIGITS, "--scale", "1,inf"],
        ["edit", DIGITS, "x.param", "--from", ""],
        ["edit", DIGITS, "x.param", "--to", "a,"],
        ["edit", DIGITS, "x.param", "--simplify", ""],
        ["edit", DIGITS, "x.param", "--dtype", "f8"],
        ["edit", "--simplify", DIGITS],
        ["demo", "--count", "-1"],
    ],
    ids=lambda argv: " ".join(argv[-2:]),
)
def test_bad_usage_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert f"error: argument {argv[-2]}" in capsys.readouterr().err


KERNELS_ALONE = "--kernels, --shape and --group time kernels, without a model, --batch, --size, --profile or --autotune"


@pytest.mark.parametrize(
    "argv, message",
    [
        (["bench"], "a model is needed, or --kernels"),
        (["bench", DIGITS, "--kernels"], KERNELS_ALONE),
        (["bench", DIGITS, "--group", "bert"], KERNELS_ALONE),
        (["bench", "--kernels", "--profile"], KERNELS_ALONE),
        (["run", DIGITS, "--size", "y=1,1,8,8"], "--size: there is no input 'y'; the inputs are 0"),
        (["run", DIGITS, "--mean", "1"], "--mean, --scale and --bgr are for pictures, and no --input is one"),
        (["edit", DIGITS, "x.param", "--constants"], "--constants goes with --dtype"),
        (["edit", DIGITS, "x.param", "--rename", "a"], "--rename wants OLD=NEW, not 'a'"),
        (["edit", DIGITS, "x.param", "--dynamic", "0"], "--dynamic wants INPUT:AXIS or batch, not '0'"),
        (["edit", DIGITS, "x.param", "--dynamic", "0:--1"], "--dynamic wants INPUT:AXIS or batch, not '0:--1'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arguments_that_do_not_go_together(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, *argv)
    assert (code, err) == (2, f"pnnx-fast {argv[0]}: {message}\n")


def _npy(header: bytes) -> bytes:
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(32)


def _npz(part: str, value: int) -> bytes:
    """An archive with one array, with a value in place of the flags, the method or of the beginning of the data."""
    file = io.BytesIO()
    np.savez_compressed(file, **{"0": np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)})
    data = bytearray(file.getvalue())
    directory = data.rfind(b"PK\1\2")
    for place in {"flags": (6, directory + 8), "method": (8, directory + 10), "data": range(60, 90)}[part]:
        data[place] = value
    return bytes(data)


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.npy", b""),
        ("a.npy", b"text"),
        ("a.npy", _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': ((1, 8), \n")),
        ("a.npy", _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 8)}\n" % 2**70)),
        ("a.npz", b"PK\3\4 cut off"),
        ("a.npz", _npz("data", 0xFF)),
        ("a.npz", _npz("flags", 1)),
        ("a.npz", _npz("method", 99)),
    ],
    ids=["empty", "text", "unfinished", "large", "cut", "deflate", "encrypted", "method"],
)
def test_files_that_numpy_cannot_read(
    name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    code, _, err = call(capsys, "run", DIGITS, "--input", str(tmp_path / name))
    assert code == 1
    assert f"{name}: not a readable file of numpy" in err


def test_archives_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("0", "text")
    code, _, err = call(capsys, "run", DIGITS, "--input", str(tmp_path / "a.npz"))
    assert (code, err) == (1, f"pnnx-fast: {tmp_path / 'a.npz'}: 0 is not an array of numpy\n")


def test_archives_go_by_the_names_of_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "7767517\n4 3\npnnx.Input a 0 1 x #x=(2)f32\npnnx.Input b 0 1 y #y=(2)f32\n"
    text += "pnnx.Expression e 2 1 x y z expr=sub(@0,@1)\npnnx.Output o 1 0 z\n"
    (tmp_path / "m.pnnx.param").write_text(text)
    np.savez(tmp_path / "in.npz", y=np.float32([1, 1]), x=np.float32([5, 5]))
    target = tmp_path / "out.npy"
    assert main(["run", str(tmp_path), "--input", str(tmp_path / "in.npz"), "--output", str(target)]) == 0
    assert np.load(target).tolist() == [4, 4]
    np.savez(tmp_path / "in.npz", x=np.float32([5, 5]), yy=np.float32([1, 1]))
    code, _, err = call(capsys, "run", str(tmp_path), "--input", str(tmp_path / "in.npz"))
    assert (code, "in.npz: there is no input 'yy'" in err) == (1, True)
    np.savez(tmp_path / "in.npz", np.float32([5, 5]), np.float32([2, 2]))
    assert main(["run", str(tmp_path), "--input", str(tmp_path / "in.npz"), "--output", str(target)]) == 0
    assert np.load(target).tolist() == [3, 3]


def test_errors_tell_of_inputs_that_have_other_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8, 1), np.float32))
    code, _, err = call(capsys, "run", DIGITS, "--input", str(tmp_path / "x.npy"))
    assert code == 1
    assert "input '0' is [1, 8, 8, 1] here; the file notes 0: float32[1, 1, 8, 8]" in err


def test_weights_are_not_written_over_by_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "edit", DIGITS, str(tmp_path / "m.pnnx.bin"))
    assert (code, "would become the text of a model" in err) == (1, True)
    assert list(tmp_path.iterdir()) == []


LISTED = """7767517
7 6
pnnx.Input           a   0 1 x #x=(4,2)f32
pnnx.Expression      e   1 1 x n expr=[neg(@0),@0]
prim::Constant       two 0 1 two value=2
prim::Constant       dim 0 1 dim value=0
aten::chunk          c   3 1 x two dim m
prim::TupleConstruct t   2 1 n m y
pnnx.Output          out 1 0 y
"""


def test_outputs_in_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.pnnx.param").write_text(LISTED)
    code, out, _ = call(capsys, "info", str(tmp_path))
    assert code == 0
    assert "output  n.0: f32 [4, 2]\noutput  x: f32 [4, 2]\noutput  m: unknown\n" in out
    target = tmp_path / "out.npz"
    code, out, _ = call(capsys, "run", str(tmp_path), "--output", str(target))
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["n.0", "x", "m.0", "m.1"]
    with np.load(target) as found:
        assert {name: a.shape for name, a in found.items()} == {
            "n.0": (4, 2),
            "x": (4, 2),
            "m.0": (2, 2),
            "m.1": (2, 2),
        }


def test_bench_tunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_TUNING", str(tmp_path / "tuning.json"))
    assert main(["bench", DIGITS, "--autotune", "--seconds", "0", "--threads", "1"]) == 0
    assert (tmp_path / "tuning.json").exists()


def test_outputs_of_any_name_are_written(tmp_path: Path) -> None:
    text = "7767517\n3 2\npnnx.Input a 0 1 x #x=(2)f32\nF.relu r 1 1 x file\npnnx.Output o 1 0 file\n"
    (tmp_path / "m.pnnx.param").write_text(text)
    np.save(tmp_path / "x.npy", np.float32([-1, 2]))
    words = ["run", str(tmp_path), "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npz")]
    assert main(words) == 0
    with np.load(tmp_path / "y.npz") as found:
        assert {name: array.tolist() for name, array in found.items()} == {"file": [0, 2]}


def test_the_best_classes_of_no_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((0, 1, 8, 8), np.float32))
    assert call(capsys, "run", DIGITS, "--input", str(tmp_path / "x.npy"), "--top", "3") == (0, "", "")


def test_sizes_must_be_those_of_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", load_digits().pictures[:2])
    given = ["run", DIGITS, "--input", str(tmp_path / "x.npy"), "--size"]
    code, out, err = call(capsys, *given, "1,1,8,8")
    assert (code, out) == (2, "")
    assert err == "pnnx-fast run: --size: [1, 1, 8, 8] for input 0, which is [2, 1, 8, 8]\n"
    assert main([*given, "2,1,8,8"]) == 0


def test_numbers_for_one_channel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL.Image").new("L", (8, 8)).save(tmp_path / "x.png")
    code, _, err = call(capsys, "run", DIGITS, "--input", str(tmp_path / "x.png"), "--mean", "1,2")
    assert (code, err) == (2, "pnnx-fast run: --mean wants 1 number, not 2\n")


def test_paths_may_hold_line_feeds(tmp_path: Path) -> None:
    folder = tmp_path / "two\nlines"
    shutil.copytree(Path(DIGITS).parent, folder)
    for command in ["run"], ["info"], ["show"], ["diff", str(folder)], ["bench", "--seconds", "0"], ["python"]:
        assert main([*command, str(folder)]) == 0
    assert main(["edit", str(folder), str(folder / "other\n.pnnx.param")]) == 0


def test_a_closed_stream_of_errors_moves_nothing_to_the_output() -> None:
    command = f"exec {shlex.quote(sys.executable)} -m pnnx_fast info nope 2>&-"
    result = subprocess.run(command, shell=True, stdout=subprocess.PIPE)
    assert (result.returncode, result.stdout) == (1, b"")


INTERRUPTED = """
import signal, sys
from pnnx_fast.cli import main

class Interrupting:
    def find_spec(self, name, *where):
        if name == "pnnx_fast.cli.bench":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let programs in the background ignore it
sys.meta_path.insert(0, Interrupting())
sys.exit(main(["info", "nope"]))
"""


def test_interruption_of_imports() -> None:
    result = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


def test_readers_that_stop_reading() -> None:
    command = [sys.executable, "-m", "pnnx_fast", "info", DIGITS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_streams_that_lack_characters() -> None:
    command = [sys.executable, "-m", "pnnx_fast", "edit", "--help"]
    result = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0
    assert b"OPERAND,?" in result.stdout


def test_module_entry_point() -> None:
    result = subprocess.run([sys.executable, "-m", "pnnx_fast", "--version"], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout.startswith("pnnx-fast ")
