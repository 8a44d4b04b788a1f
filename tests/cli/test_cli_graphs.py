"""Commands that look at graphs and change them."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pnnx_fast import Graph, demo
from pnnx_fast.cli import main
from pnnx_fast.formats import dot

MODEL = str(Path(demo.__file__).with_name("digits.pnnx.param"))


def test_show_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", MODEL]) == 0
    assert "FLOPS" in capsys.readouterr().out
    paths = {kind: tmp_path / f"m.{kind}" for kind in ("svg", "html", "dot")}
    assert main(["show", MODEL, *(word for kind, path in paths.items() for word in (f"--{kind}", str(path)))]) == 0
    root = ElementTree.fromstring(paths["svg"].read_text("utf-8"))
    boxes = [g for g in root.findall("{http://www.w3.org/2000/svg}g") if len(g) == 5]
    assert len(boxes) == len(Graph.load(MODEL).ops)
    assert paths["dot"].read_text("utf-8").startswith("digraph")
    assert "<svg" in paths["html"].read_text("utf-8")


@pytest.mark.parametrize("command", ["show", "info", "run", "bench --seconds 0"])
def test_names_do_not_command_the_terminal(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.pnnx.param"
    path.write_text("7767517\n2 1\npnnx.Input in\x1b[2J 0 1 x\x9b1m\n\x1b]0;F.relu op\x07 1 1 x\x9b1m y\n")
    name, *options = command.split()
    main([name, str(path), *options])
    printed = capsys.readouterr()
    assert "\ufffd" in printed.out + printed.err
    assert not {*"\x1b\x9b\x07"} & {*printed.out, *printed.err}


@pytest.mark.parametrize("suffix", [".param", ".bin"])
@pytest.mark.parametrize("command", ["python -o", "show --svg", "show --html", "show --dot"])
def test_models_are_not_replaced_by_what_is_made_of_them(
    command: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".param", ".bin"):
        shutil.copy(Path(MODEL).with_suffix(name), tmp_path)
    target = tmp_path / f"digits.pnnx{suffix}"
    (tmp_path / "link").symlink_to(target)
    before = target.read_bytes()
    word, option = command.split()
    for path in (target, os.path.relpath(target), tmp_path / "link"):
        assert main([word, str(tmp_path), option, str(path)]) == 1
        assert capsys.readouterr().err == f"pnnx-fast: {path} is a file of the model, which it would replace\n"
    assert target.read_bytes() == before


def test_drawings_appear_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(graph: Graph, title: str) -> str:
        raise OSError("no space")

    monkeypatch.setattr(dot, "html", full)
    (tmp_path / "m.svg").write_text("old")
    words = ["show", MODEL, "--svg", str(tmp_path / "m.svg"), "--html", str(tmp_path / "m.html")]
    assert main(words) == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"m.svg": "old"}


def test_names_that_are_no_utf8_are_drawn(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.pnnx.param")
    shutil.copy(MODEL, tmp_path / name)
    assert main(["show", str(tmp_path / name), "--html", str(tmp_path / "m.html")]) == 0
    assert "<title>caf\ufffd.pnnx.param" in (tmp_path / "m.html").read_text("utf-8")


def test_show_and_info_do_without_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = shutil.copy(MODEL, tmp_path)
    for command in ("show", "info"):
        assert main([command, str(alone)]) == 0
        out, err = capsys.readouterr()
        assert "nn.Conv2d" in out
        assert err.startswith("pnnx-fast: there are no weights")
    assert main(["run", str(alone)]) == 1


def test_diff_sets_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(tmp_path / "m.pnnx.param")
    assert main(["diff", MODEL, MODEL]) == 0
    assert main(["edit", MODEL, other, "--dtype", "f16"]) == 0
    capsys.readouterr()
    assert main(["diff", MODEL, other]) == 1
    assert "weight" in capsys.readouterr().out
    assert main(["diff", "-q", MODEL, other]) == 1
    assert capsys.readouterr().out == ""
    assert main(["diff", MODEL, str(tmp_path / "nothing.pnnx.param")]) == 2
    Path(other).write_text("7767517\n1 1\nnn.ReLU a 1 1 x y\n", "utf-8")
    assert main(["diff", MODEL, other]) == 2


def test_diff_into_a_closed_pipe_has_found_differences(tmp_path: Path) -> None:
    other = str(tmp_path / "m.pnnx.param")
    assert main(["edit", MODEL, other, "--dtype", "f16"]) == 0
    command = [sys.executable, "-m", "pnnx_fast", "diff", MODEL, other]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 1


def test_edit_extracts_renames_and_frees_sizes(tmp_path: Path) -> None:
    target = str(tmp_path / "m.pnnx.param")
    name = next(op for op in Graph.load(MODEL).ops if op.type == "pnnx.Input").outputs[0].name
    assert main(["edit", MODEL, target, "--dynamic", "batch", "--rename", f"{name}=image"]) == 0
    assert Graph.load(target).get_operand("image").shape[0] == -1
    end = Graph.load(MODEL).ops[1].outputs[0].name
    assert main(["edit", MODEL, target, "--to", end]) == 0
    assert len(Graph.load(target).ops) == 3
    assert main(["edit", MODEL, target, "--rename", "nothing=x"]) == 1
    assert main(["edit", MODEL, target, "--remove", "nothing"]) == 1


def test_edit_takes_sizes_that_the_file_leaves_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free, target = str(tmp_path / "free.pnnx.param"), str(tmp_path / "m.pnnx.param")
    name = Graph.load(MODEL).inputs[0].name

    def noted() -> tuple[int, ...]:
        return Graph.load(target).inputs[0].shape

    graph = Graph.load(MODEL)
    graph.inputs[0].shape = None
    graph.save(free)
    assert main(["edit", free, target, "--batch", "4"]) == 1
    assert "--size" in capsys.readouterr().err
    assert main(["edit", free, target, "--batch", "4", "--size", "1,1,8,8"]) == 0
    assert noted() == (4, 1, 8, 8)
    assert main(["edit", free, target, "--dynamic", "batch", "--size", f"{name}=1,1,8,8"]) == 0
    assert noted() == (-1, 1, 8, 8)
    assert main(["edit", target, target, "--batch", "4", "--dynamic", "batch"]) == 0
    assert noted() == (-1, 1, 8, 8)
    assert main(["edit", target, target, "--size", "3,1,8,8"]) == 0
    assert noted() == (3, 1, 8, 8)
    assert main(["edit", target, target, "--size", "nothing=3,1,8,8"]) == 2


def test_edit_simplifies(tmp_path: Path) -> None:
    source, target = tmp_path / "a.pnnx.param", tmp_path / "b.pnnx.param"
    text = "7767517\n4 3\npnnx.Input i 0 1 x #x=(2)f32\nnn.Dropout d 1 1 x a p=0.5\nF.relu r 1 1 a y\n"
    source.write_text(text + "pnnx.Output o 1 0 y\n", "utf-8")
    assert main(["edit", str(source), str(target), "--simplify", "eliminate_dropout"]) == 0
    assert [op.type for op in Graph.load(target).ops] == ["pnnx.Input", "F.relu", "pnnx.Output"]
    assert main(["edit", str(source), str(target), "--simplify"]) == 0
    assert main(["edit", str(source), str(target), "--simplify", "everything"]) == 1


def test_python_writes_source(tmp_path: Path) -> None:
    target = tmp_path / "m.py"
    assert main(["python", MODEL, "-o", str(target)]) == 0
    ast.parse(target.read_text("utf-8"))


def test_python_takes_a_folder_and_weights_that_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    shutil.copy(MODEL, tmp_path / "model")
    weights = str(shutil.copy(Path(MODEL).with_suffix(".bin"), tmp_path / "weights"))
    assert main(["python", str(tmp_path / "model"), "--bin", weights]) == 0
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"digits.pnnx.param", "digits_pnnx_fast.py"}
    assert repr(os.path.join("..", "weights")) in (tmp_path / "model" / "digits_pnnx_fast.py").read_text("utf-8")


def test_python_leaves_files_of_others_alone(tmp_path: Path) -> None:
    """Neither the converter's own source nor weights that are named like the new source."""
    for suffix in (".param", ".bin"):
        shutil.copy(Path(MODEL).with_suffix(suffix), tmp_path / f"m{suffix}")
        shutil.copy(Path(MODEL).with_suffix(suffix), tmp_path / f"digits.pnnx{suffix}")
    (tmp_path / "digits_pnnx.py").write_text("# the converter's")
    assert main(["python", str(tmp_path / "digits.pnnx.param")]) == 0
    assert (tmp_path / "digits_pnnx.py").read_text() == "# the converter's"
    Graph.load(tmp_path / "m.param").to("fp16").python(tmp_path / "m.py")
    assert (tmp_path / "m.bin").read_bytes() == Path(MODEL).with_suffix(".bin").read_bytes()
    assert (tmp_path / "m_weights.bin").exists()


def test_ops_lists_and_describes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    assert "nn.Conv2d" in capsys.readouterr().out
    assert main(["ops", "nn.Conv2d"]) == 0
    listed = capsys.readouterr().out
    assert "conv_winograd_f32" in listed
    assert "conv_depthwise_f32" in listed
    assert main(["ops", "F.relu"]) == 0
    assert "tensor    input" in capsys.readouterr().out
    assert main(["ops", "my.layer"]) == 1
