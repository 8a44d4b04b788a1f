"""One program under both names: the same results and codes from the ncnn package and from ours, and reasons from ours.

Programs run in processes of their own, because some mistakes end the package's process; those are not in the list.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ncnn", minversion="1.0")

PRELUDE = """
import importlib, json, os, sys, warnings
import numpy as np
ncnn = importlib.import_module(sys.argv[1])
here = sys.argv[2]
HEAD = "7767517\\n2 2\\nInput in 0 1 a\\n"
RELU = HEAD + "ReLU r 1 1 a b\\n"
IP = HEAD + "InnerProduct p 1 1 a b 0=2 1=1 2=6\\n"
weights = bytes(4) + np.arange(8, dtype=np.float32).tobytes()
open(here + "/ip.param", "w").write(IP)
open(here + "/ip.bin", "wb").write(weights)
open(here + "/short.bin", "wb").write(weights[:9])
open(here + "/text.bin", "w").write("hello")

def net(text=RELU, data=None):
    made = ncnn.Net()
    made.opt.use_vulkan_compute = False
    assert made.load_param_mem(text) == 0
    if data is None:
        made.load_model(ncnn.DataReaderFromEmpty())
    else:
        made.load_model(data)
    return made

def fed(made, value=None):
    ex = made.create_extractor()
    ex.input("a", ncnn.Mat(np.float32([1, -2, 3]) if value is None else value).clone())
    return ex
"""

# What is asked, as an expression that gives something JSON knows.
QUESTIONS = [
    # loading
    'ncnn.Net().load_param(here + "/none.param")',
    'ncnn.Net().load_param(here + "/text.bin")',
    'ncnn.Net().load_param_bin(here + "/none.bin")',
    'ncnn.Net().load_param_bin(here + "/text.bin")',
    'ncnn.Net().load_param(here + "/ip.param")',
    'ncnn.Net().load_param_mem("")',
    'ncnn.Net().load_param_mem("7767516\\n1 1\\n")',
    'ncnn.Net().load_param_mem("7767517\\n0 0\\n")',
    'ncnn.Net().load_param_mem("7767517\\n-1 1\\n")',
    'ncnn.Net().load_param_mem(HEAD + "Nothing r 1 1 a b\\n")',
    'ncnn.Net().load_param_mem(HEAD + "ReLU r 1 1 a b 99=1\\n")',
    'ncnn.Net().load_param_mem(HEAD + "ReLU r 1 1 a b 0=1e400\\n")',
    'ncnn.Net().load_param_mem(RELU)',
    'ncnn.Net().load_model(here + "/ip.bin")',
    '[n.load_param(here + "/ip.param"), n.load_model(here + "/none.bin")] if (n := ncnn.Net()) else 0',
    '[n.load_param(here + "/ip.param"), n.load_model(here + "/ip.bin")] if (n := ncnn.Net()) else 0',
    '[n.load_param(here + "/ip.param"), n.load_model(here + "/short.bin") < 0] if (n := ncnn.Net()) else 0',
    # what a net tells
    "net().input_names(), net().output_names(), net().input_indexes(), net().output_indexes()",
    "[(x.name, x.producer, x.consumer) for x in net().blobs()]",
    "[(x.type, x.name, x.bottoms, x.tops) for x in net().layers()]",
    "ncnn.layer_to_index('Nothing'), ncnn.layer_to_index('ReLU')",
    # extractors
    'fed(net()).extract("b")[0]',
    'fed(net()).extract(1)[0]',
    'fed(net()).extract("zz")[0]',
    "fed(net()).extract(77)[0]",
    "fed(net()).extract(-5)[0]",
    'fed(net()).input("zz", ncnn.Mat(3))',
    "fed(net()).input(77, ncnn.Mat(3))",
    'net().create_extractor().extract("b")[0]',
    'np.array(fed(net()).extract("b")[1]).tolist()',
    'np.array(fed(net(IP, here + "/ip.bin")).extract("b")[1]).tolist()',
    'fed(net()).extract("zz")[1].empty()',
    '[e.input("b", ncnn.Mat(np.float32([5])).clone()), np.array(e.extract("b")[1]).tolist()]'
    " if (e := net().create_extractor()) else 0",
    # Mats
    "[ncnn.Mat(*s).dims for s in ((), (3,), (3, 4), (3, 4, 5), (3, 4, 5, 6))]",
    "[ncnn.Mat(*s).cstep for s in ((3,), (3, 4), (3, 4, 5), (3, 4, 5, 6))]",
    "[ncnn.Mat(*s).total() for s in ((3,), (3, 4), (3, 4, 5), (3, 4, 5, 6))]",
    "[getattr(ncnn.Mat(np.zeros((2, 3, 4), np.float32)), k) for k in ('w', 'h', 'd', 'c', 'elemsize', 'elempack')]",
    "np.array(ncnn.Mat(np.arange(6, dtype=np.float32).reshape(2, 3)).clone().reshape(3, 2)).tolist()",
    "ncnn.Mat(6).reshape(4).empty()",
    "np.array(ncnn.Mat(np.arange(12, dtype=np.float32).reshape(3, 2, 2)).clone().channel_range(1, 2)).tolist()",
    "np.array(ncnn.Mat(np.arange(12, dtype=np.float32).reshape(3, 2, 2)).clone().channel(1)).tolist()",
    "np.array(ncnn.Mat.from_pixels(np.arange(12, dtype=np.uint8).reshape(2, 2, 3),"
    " ncnn.Mat.PixelType.PIXEL_RGB2BGR, 2, 2)).tolist()",
    "np.array(ncnn.copy_make_border(ncnn.Mat(np.ones((2, 2), np.float32)).clone(), 1, 0, 1, 0,"
    " ncnn.BorderType.BORDER_CONSTANT, 3.0)).tolist()",
    # parameters
    "[p.get(0, 4), p.get(0, 2.5), p.type(0)] if (p := ncnn.ParamDict()) else 0",
    "[p.set(0, 7), p.get(0, 4), p.type(0)] if (p := ncnn.ParamDict()) else 0",
    "[p.set(1, 0.5), p.get(1, 4.0), p.type(1)] if (p := ncnn.ParamDict()) else 0",
    "[ncnn.Option().use_packing_layout, ncnn.Option().lightmode, ncnn.Option().use_winograd_convolution]",
    # arguments by name
    'ncnn.Net().load_param(protopath=here + "/ip.param")',
    "net().load_model(dr=ncnn.DataReaderFromEmpty())",
    'np.array(e.extract(blob_index=1)[1]).tolist() if (e := fed(net())).set_light_mode(enable=True) is None else 0',
    '[e.input(blob_name="a", **{"in": ncnn.Mat(3)}), e.extract(blob_name="b")[0], e.extract(blob_index=1, type=0)[0]]'
    " if (e := net().create_extractor()) else 0",
    "net().create_extractor().set_kvcache_max_seqlen_hint(max_seqlen_hint=8)",
    "[p.set(id=0, i=7), p.set(id=1, f=0.5), p.get(id=0, **{'def': 1}), p.get(id=1, **{'def': 2.5})]"
    " if (p := ncnn.ParamDict()) else 0",
    "[p.set(id=0, v=ncnn.Mat(3)), p.type(id=0)] if (p := ncnn.ParamDict()) else 0",
    'ncnn.create_layer(index=ncnn.layer_to_index(type="ReLU")) is None',
    "[x.load_param(pd=ncnn.ParamDict()), x.forward_inplace(bottom_top_blob=ncnn.Mat(3), opt=ncnn.Option())]"
    ' if (x := ncnn.create_layer(type="ReLU")) else 0',
    "ncnn.copy_cut_border(src=ncnn.Mat(3, 4), top=1, bottom=0, left=0, right=1).w",
    # how values are shown
    "[str(x) for x in (ncnn.Mat.PixelType.PIXEL_BGR2RGB, ncnn.BorderType.BORDER_CONSTANT)]",
    "[repr(x) for x in (ncnn.Mat.PixelType.PIXEL_BGR2RGB, ncnn.BorderType.BORDER_CONSTANT)]",
    "f'{ncnn.Mat.PixelType.PIXEL_BGR2RGB} {ncnn.BorderType.BORDER_REPLICATE}'",
    # kinds of exceptions
    "kind(lambda: ncnn.Mat(np.zeros((1, 1, 1, 1, 1), np.float32)))",
    "kind(lambda: ncnn.Mat('x'))",
    "kind(lambda: ncnn.Extractor())",
    "kind(lambda: fed(net()).input('a', 5))",
    "kind(lambda: fed(net()).input(blob='a', mat=ncnn.Mat(3)))",
    "kind(lambda: fed(net()).extract('b', tipe=1))",
    "kind(lambda: fed(net()).extract(None))",
    "kind(lambda: ncnn.Net().load_param_mem(None))",
]  # fmt: skip

ENDING = """
def kind(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return ""

out = open(here + "/answers", "a")
for question in json.load(sys.stdin):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = [eval(question), len(caught)]
    out.write(json.dumps(answer) + "\\n")
    out.flush()
os._exit(0)
"""
CRASH = ["crash", 0]


def answers(engine: str, folder: Path) -> list[Any]:
    """Answers to all questions; a question that ends the process is answered with that."""
    folder.mkdir()
    found: list[Any] = []
    while len(found) < len(QUESTIONS):
        words = [sys.executable, "-c", PRELUDE + ENDING, engine, str(folder)]
        rest = json.dumps(QUESTIONS[len(found) :])
        done = subprocess.run(words, input=rest, capture_output=True, text=True, timeout=120, cwd=folder, check=False)
        (folder / "answers").touch()
        found += [json.loads(line) for line in (folder / "answers").read_text().splitlines()]
        (folder / "answers").unlink()
        if done.returncode:
            assert done.returncode < 0, done.stderr[-2000:]
            found.append(CRASH)
    return found


def _code(answer: Any) -> int:
    """The last code among the numbers of an answer."""
    last = answer[-1] if isinstance(answer, list) and answer else answer
    return last if type(last) is int else 0


def test_same_answers_and_a_reason_for_each_failure(tmp_path: Path) -> None:
    theirs, ours = answers("ncnn", tmp_path / "theirs"), answers("pnnx_fast.ncnn", tmp_path / "ours")
    assert CRASH not in ours
    assert theirs.count(CRASH) < len(QUESTIONS) // 4
    different = [
        (question, mine, other)
        for question, (mine, _), (other, _) in zip(QUESTIONS, ours, theirs, strict=True)
        if other != CRASH[0] and mine != other
    ]
    assert not different
    for question, (answer, warned) in zip(QUESTIONS, ours, strict=True):
        if _code(answer) < 0:
            assert warned, question
