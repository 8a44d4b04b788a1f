"""Writes into memory that the converter's lowest levels leave to the order of operators."""

from __future__ import annotations

import pickle
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import LimitError
from pnnx_fast.passes import restore

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)

CONSTANTS = "prim::Constant pnnx_{i} 0 1 k{i} value={i}\n"


def parsed(lines: str, lowest: bool = True) -> pnnx_fast.Graph:
    """A graph of the input x, of z = x + 1, and of the given operators, whose last ones are outputs."""
    head = "pnnx.Input in 0 1 x #x=(4,6)f32\npnnx.Expression add 1 1 x z expr=add(@0,1) #x=(4,6)f32 #z=(4,6)f32\n"
    constants = "".join(CONSTANTS.format(i=i) for i in range(3)) if lowest else "pnnx.Expression k 0 1 k expr=1\n"
    text = constants + head + lines.strip() + "\n"
    n = text.count("\n")
    return pnnx_fast.Graph.parse(f"7767517\n{n} {n}\n{text}")


def run(lines: str, x: np.ndarray = X, *, lowest: bool = True, strict: bool = True) -> list[np.ndarray]:
    """The outputs of such a graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "ignore")
        made = pnnx_fast.Model(parsed(lines, lowest))(x)
    return made if isinstance(made, list) else list(made) if isinstance(made, tuple) else [made]


def test_operators_in_place_behind_each_other() -> None:
    # z[:, :2].mul_(2).add_(1)
    (got,) = run("""
Tensor.slice s 1 1 z s dim=1 start=0 end=2 step=1 $input=z #z=(4,6)f32 #s=(4,2)f32
aten::mul mul 2 1 s k2 m #s=(4,2)f32 #m=(4,2)f32
Tensor.copy c 2 1 s m mul_copy_out $self=s $src=m #s=(4,2)f32 #m=(4,2)f32 #mul_copy_out=(4,6)f32
aten::add plus 3 1 m k1 k1 a #m=(4,2)f32 #a=(4,2)f32
Tensor.copy d 2 1 m a plus_copy_out $self=m $src=a #m=(4,2)f32 #a=(4,2)f32 #plus_copy_out=(4,2)f32
pnnx.Output out 1 0 mul_copy_out
""")
    want = X + 1
    want[:, :2] = want[:, :2] * 2 + 1
    np.testing.assert_array_equal(got, want)


VIEWS = {
    "transpose": ("torch.transpose v 1 1 z v dim0=0 dim1=1 $input=z #z=(4,6)f32 #v=(6,4)f32", lambda z: z.T),
    "t": ("aten::t v 1 1 z v #z=(4,6)f32 #v=(6,4)f32", lambda z: z.T),
    "permute": ("Tensor.permute v 1 1 z v dims=(-1,0) $input=z #z=(4,6)f32 #v=(6,4)f32", lambda z: z.T),
    "unsqueeze": ("torch.unsqueeze v 1 1 z v dim=1 $input=z #z=(4,6)f32 #v=(4,1,6)f32", lambda z: z[:, None]),
    "reshape": ("Tensor.reshape v 1 1 z v shape=(8,3) $input=z #z=(4,6)f32 #v=(8,3)f32", lambda z: z.reshape(8, 3)),
    "chunk": (
        "torch.chunk l 1 1 z l chunks=2 dim=1 $input=z\nprim::ListUnpack u 1 2 l w v #w=(4,3)f32 #v=(4,3)f32",
        lambda z: z[:, 3:],
    ),
    "slice of transpose": (
        "torch.transpose t 1 1 z t dim0=0 dim1=1 $input=z #z=(4,6)f32 #t=(6,4)f32\n"
        "Tensor.slice v 1 1 t v dim=0 start=1 end=6 step=2 $input=t #t=(6,4)f32 #v=(3,4)f32",
        lambda z: z.T[1::2],
    ),
    "reshape of slice": (
        "Tensor.slice t 1 1 z t dim=0 start=1 end=3 step=1 $input=z #z=(4,6)f32 #t=(2,6)f32\n"
        "Tensor.reshape v 1 1 t v shape=(12) $input=t #t=(2,6)f32 #v=(12)f32",
        lambda z: z[1:3].reshape(-1),
    ),
}


@pytest.mark.parametrize("view", VIEWS)
def test_what_nothing_reads_was_done_in_place(view: str) -> None:
    lines, part = VIEWS[view]
    shape = lines.rpartition("=")[2]
    (got,) = run(f"""
{lines}
aten::mul mul 2 1 v k2 m #v={shape} #m={shape}
aten::add plus 3 1 m k1 k1 a #m={shape} #a={shape}
pnnx.Output out 1 0 z
""")
    want = X + 1
    part(want)[...] = part(want) * 2 + 1
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("view", [name for name in VIEWS if "slice" not in name])
@pytest.mark.parametrize("lowest", [True, False])
def test_copies_reach_the_tensor_behind_the_view(view: str, lowest: bool) -> None:
    lines, part = VIEWS[view]
    shape = lines.rpartition("=")[2]
    rest = shape[1:].partition(")")[0].partition(",")[2]
    whole, y, before = run(
        f"""
torch.sum sum 1 1 z before dim=(0) keepdim=False $input=z #z=(4,6)f32 #before=(6)f32
{lines}
Tensor.select p 1 1 v p dim=0 index=1 $input=v #v={shape} #p=({rest})f32
pnnx.Expression e 1 1 p q expr=mul(@0,3) #p=({rest})f32 #q=({rest})f32
Tensor.copy c 2 1 p q y $self=p $src=q #p=({rest})f32 #q=({rest})f32 #y={shape}
prim::TupleConstruct tuple 3 1 z y before r
pnnx.Output out 1 0 r
""",
        lowest=lowest,
    )
    want = X + 1
    np.testing.assert_allclose(before, want.sum(0), 1e-6)
    part(want)[1] *= 3
    np.testing.assert_array_equal(whole, want)
    np.testing.assert_array_equal(y, part(want))


def test_views_of_what_was_written_to_as_a_whole() -> None:
    got, kept = run("""
torch.transpose v 1 1 z v dim0=0 dim1=1 $input=z #z=(4,6)f32 #v=(6,4)f32
Tensor.clone w 1 1 v w $input=v #v=(6,4)f32 #w=(6,4)f32
aten::mul mul 2 1 z k2 m #z=(4,6)f32 #m=(4,6)f32
Tensor.copy c 2 1 z m mul_copy_out $self=z $src=m #z=(4,6)f32 #m=(4,6)f32 #mul_copy_out=(4,6)f32
prim::TupleConstruct tuple 2 1 v w r
pnnx.Output out 1 0 r
""")
    np.testing.assert_array_equal(got, (X + 1).T * 2)
    np.testing.assert_array_equal(kept, (X + 1).T)


def test_a_reshape_that_copies_is_no_view() -> None:
    (got,) = run("""
torch.transpose t 1 1 z t dim0=0 dim1=1 $input=z #z=(4,6)f32 #t=(6,4)f32
Tensor.reshape v 1 1 t v shape=(24) $input=t #t=(6,4)f32 #v=(24)f32
aten::mul mul 2 1 v k2 m #v=(24)f32 #m=(24)f32
pnnx.Output out 1 0 z
""")
    np.testing.assert_array_equal(got, X + 1)


def test_level_2_may_have_dropped_a_copy_between_a_view_and_a_write() -> None:
    text = """7767517
8 7
pnnx.Input in 0 1 x #x=(4,6)f32
torch.transpose v 1 1 x v dim0=0 dim1=1 $input=x #x=(4,6)f32 #v=(6,4)f32
Tensor.size n 1 1 x n dim=0 $input=x
Tensor.slice p 2 1 v n p dim=0 start=0 step=1 $input=v $end=n #v=(6,4)f32 #p=(4,4)f32
Tensor.select s 1 1 v last dim=0 index=5 $input=v #v=(6,4)f32 #last=(4)f32
Tensor.copy c 2 1 p last y $self=p $src=last #p=(4,4)f32 #last=(4)f32 #y=(6,4)f32
prim::TupleConstruct t 2 1 x y r
pnnx.Output out 1 0 r
"""
    graph = pnnx_fast.Graph.parse(text)
    kept, got = pnnx_fast.Model(graph)(X)
    np.testing.assert_array_equal(kept, X)
    np.testing.assert_array_equal(got, np.concatenate([[X[:, 5]] * 4, X.T[4:]]))


def test_higher_levels_hold_no_operators_in_place() -> None:
    (got,) = run("torch.neg n 1 1 z n $input=z #z=(4,6)f32 #n=(4,6)f32\npnnx.Output out 1 0 z", lowest=False)
    np.testing.assert_array_equal(got, X + 1)


def test_an_expression_whose_place_is_not_known_is_warned_of() -> None:
    lines = """
torch.transpose v 1 1 z v dim0=0 dim1=1 $input=z #z=(4,6)f32 #v=(6,4)f32
Tensor.select p 1 1 v p dim=0 index=1 $input=v #v=(6,4)f32 #p=(4)f32
pnnx.Expression e 1 1 p q expr=mul(@0,3) #p=(4)f32 #q=(4)f32
Tensor.copy c 2 1 p q y $self=p $src=q #p=(4)f32 #q=(4)f32 #y=(6,4)f32
pnnx.Expression f 1 1 z u expr=mul(add(@0,1),2) #z=(4,6)f32 #u=(4,6)f32
prim::TupleConstruct tuple 2 1 u y r
pnnx.Output out 1 0 r
"""
    with pytest.raises(UserWarning, match=r"f .*reads z before or after a view of it is written to"):
        run(lines, lowest=False)
    want = X + 1
    want[:, 1] *= 3
    np.testing.assert_array_equal(run(lines)[0], (want + 1) * 2)


APART = """7767517
{n} {n}
pnnx.Input in 0 1 x #x=(4,6)f32
{before}torch.transpose v 1 1 x v dim0=0 dim1=1 $input=x #x=(4,6)f32 #v=(6,4)f32
Tensor.clone {clone} 1 1 v w $input=v #v=(6,4)f32 #w=(6,4)f32
Tensor.select s 1 1 v p dim=0 index=5 $input=v #v=(6,4)f32 #p=(4)f32
Tensor.slice_copy c 2 1 w p y dim=0 end=0 select=1 start=0 step=0 $self=w $src=p #w=(6,4)f32 #p=(4)f32 #y=(6,4)f32
{after}pnnx.Output out 1 0 y
"""
READ = "torch.neg n 1 1 x n $input=x #x=(4,6)f32 #n=(4,6)f32\npnnx.Output other 1 0 n\n"
VIEWED = "torch.t t 1 1 x t $input=x\n"


@pytest.mark.parametrize(
    ("before", "after", "clone", "warned"),
    [
        ("", READ, "c_ncnnclone", True),
        (VIEWED, READ.replace(" x ", " t ").replace("=x #x=(4,6)", "=t #t=(6,4)"), "c_ncnnclone", True),
        (READ.replace("pnnx.Output other 1 0 n\n", ""), "pnnx.Output other 1 0 n\n", "c_ncnnclone", False),
        ("", READ, "model.clone", False),
    ],
)
def test_tensors_read_beside_what_is_written_to_a_view(before: str, after: str, clone: str, warned: bool) -> None:
    text = APART.format(n=6 + before.count("\n") + after.count("\n"), before=before, after=after, clone=clone)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pnnx_fast.Model(pnnx_fast.Graph.parse(text))
    assert [("x without what" in str(w.message)) for w in caught] == [True] * warned


def test_a_write_into_a_part_of_a_reshaped_view_gives_the_tensor_its_shape() -> None:
    (got,) = run(
        """
Tensor.reshape v 1 1 z v shape=(2,12) $input=z #z=(4,6)f32 #v=(2,12)f32
Tensor.clone k 1 1 v w $input=v #v=(2,12)f32 #w=(2,12)f32
Tensor.select s 1 1 v p dim=0 index=1 $input=v #v=(2,12)f32 #p=(12)f32
Tensor.slice_copy c 2 1 w p y dim=0 end=0 select=0 start=0 step=0 $self=w $src=p #w=(2,12)f32 #p=(12)f32 #y=(4,6)f32
pnnx.Output out 1 0 y
""",
        lowest=False,
    )
    np.testing.assert_array_equal(got, np.concatenate([X[2:], X[2:]]) + 1)


def test_what_is_made_of_a_graph_without_its_writes_in_place_is_warned_of(tmp_path: Path) -> None:
    lines = """
torch.transpose v 1 1 x v dim0=0 dim1=1 $input=x #x=(4,6)f32 #v=(6,4)f32
aten::neg n 1 1 v n #v=(6,4)f32 #n=(6,4)f32
pnnx.Output out 1 0 x
"""
    text = "7767517\n5 5\nprim::Constant pnnx_0 0 1 k value=1\npnnx.Input in 0 1 x #x=(4,6)f32" + lines
    graph = pnnx_fast.Graph.parse(text)
    with pytest.warns(UserWarning, match="aten::neg n writes to v in place, and its Python source does not"):
        graph.python(tmp_path / "model.py")
    with pytest.warns(UserWarning, match="aten::neg n writes to v in place, and the simplified graph does not"):
        graph.simplify()


@pytest.mark.parametrize(("name", "copied"), [("12", True), ("v.1", False)])
def test_views_without_a_name_that_are_read_after_a_write_were_copied(name: str, copied: bool) -> None:
    lines = f"""
torch.transpose v 1 1 z {name} dim0=0 dim1=1 $input=z #z=(4,6)f32 #{name}=(6,4)f32
Tensor.select p 1 1 {name} p dim=0 index=1 $input={name} #{name}=(6,4)f32 #p=(4)f32
pnnx.Expression e 1 1 p q expr=mul(@0,3) #p=(4)f32 #q=(4)f32
Tensor.copy c 2 1 p q 15 $self=p $src=q #p=(4)f32 #q=(4)f32 #15=(6,4)f32
Tensor.select r 1 1 15 r dim=0 index=2 $input=15 #15=(6,4)f32 #r=(4)f32
pnnx.Expression f 1 1 r s expr=mul(@0,5) #r=(4)f32 #s=(4)f32
Tensor.copy d 2 1 r s 16 $self=r $src=s #r=(4)f32 #s=(4)f32 #16=(6,4)f32
prim::TupleConstruct tuple 2 1 z 16 t
pnnx.Output out 1 0 t
"""
    if copied:
        with pytest.raises(
            UserWarning, match=r"tuple reads z without what Tensor\.copy c writes to a view or copy of it"
        ):
            run(lines)
    kept, got = run(lines, strict=False)
    want = X + 1
    want[:, 1] *= 3
    want[:, 2] *= 5
    np.testing.assert_array_equal(got, want.T)
    np.testing.assert_array_equal(kept, X + 1 if copied else want)


@pytest.mark.parametrize("name", ["12", "v.1"])
def test_views_without_a_name_that_are_read_twice_were_copied(name: str) -> None:
    lines = f"""
torch.transpose v 1 1 z {name} dim0=0 dim1=1 $input=z #z=(4,6)f32 #{name}=(6,4)f32
torch.chunk l 1 1 {name} l chunks=2 dim=0 $input={name}
prim::ListUnpack u 1 2 l a b #a=(3,4)f32 #b=(3,4)f32
aten::neg n 1 1 a n #a=(3,4)f32 #n=(3,4)f32
prim::TupleConstruct tuple 2 1 z {name} t
pnnx.Output out 1 0 t
"""
    kept, got = run(lines, strict=False)
    want = X + 1
    want[:, :3] *= -1
    np.testing.assert_array_equal(got, want.T)
    np.testing.assert_array_equal(kept, X + 1 if name.isdigit() else want)


IN_PLACE = """
torch.transpose v 1 1 z v dim0=0 dim1=1 $input=z #z=(4,6)f32 #v=(6,4)f32
{type} n 1 1 v n #v=(6,4)f32 #n=(6,4)f32
pnnx.Output out 1 0 z
"""


@pytest.mark.parametrize(("type", "changes"), [("aten::neg", True), ("Tensor.clone", False), ("F.gelu", False)])
def test_only_what_has_a_form_in_place_was_done_in_place(type: str, changes: bool) -> None:
    want = -(X + 1) if changes else X + 1
    np.testing.assert_array_equal(run(IN_PLACE.format(type=type))[0], want)


def test_only_files_of_the_converter_hold_operators_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CONSTANTS", "prim::Constant k{i} 0 1 k{i} value={i}\n")
    np.testing.assert_array_equal(run(IN_PLACE.format(type="aten::neg"))[0], X + 1)


@pytest.mark.parametrize("pickled", [False, True])
def test_what_an_edited_graph_reads_no_more_was_not_done_in_place(pickled: bool) -> None:
    lines = IN_PLACE.format(type="aten::neg").strip() + "\npnnx.Output gone 1 0 n\n"
    text = "7767517\n6 5\nprim::Constant pnnx_0 0 1 k value=1\npnnx.Input in 0 1 z #z=(4,6)f32\n" + lines
    graph = pnnx_fast.Graph.parse(text)
    graph.remove_operator(graph.ops[-1])
    graph = pickle.loads(pickle.dumps(graph)) if pickled else graph.copy()
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(X), X)


def test_views_without_end_are_read_in_little_time() -> None:
    before = "".join(
        f"Tensor.expand_as e{i} 2 1 {x} {x} e{i}\n" for i, x in enumerate(["x", *(f"e{i}" for i in range(60))])
    )
    text = APART.format(n=6 + 61, before=before, after="", clone="c_ncnnclone")
    pnnx_fast.Model(pnnx_fast.Graph.parse(text))


def test_writes_by_operators_of_one_name_take_linear_time() -> None:
    views = "Tensor.select s 1 1 z p{i} dim=0 index=1 #p{i}=(6)f32\naten::neg n 1 1 p{i} m{i} #m{i}=(6)f32\n"
    times = []
    for n in (150, 3000):
        graph = parsed("".join(views.format(i=i) for i in range(n)) + "pnnx.Output out 1 0 z")
        start = time.process_time()
        restore(graph)
        times.append(time.process_time() - start)
    assert times[1] < 5 * 20 * max(times[0], 0.01)


def test_no_more_views_are_made_again_than_models_have() -> None:
    turn = "torch.transpose t{i} 1 1 {x} t{i} dim0=0 dim1=1\n"
    views = "".join(turn.format(i=i, x=f"t{i - 1}" if i else "z") for i in range(200))
    last = "aten::neg n 1 1 t199 n #t199=(4,6)f32 #n=(4,6)f32\npnnx.Output out 1 0 z"
    np.testing.assert_array_equal(run(views + last)[0], X + 1)


def test_writes_that_would_make_views_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pnnx_fast.passes.restore_writes.MOST_MADE", 100)
    views = "Tensor.select s{i} 1 1 z p{i} dim=0 index=1 #p{i}=(6)f32\naten::neg n{i} 1 1 p{i} m{i} #m{i}=(6)f32\n"
    lines = "".join(views.format(i=i) for i in range(50)) + "pnnx.Output out 1 0 z"
    with pytest.raises(LimitError, match=r"Tensor\.select s\d+: writes before it make too many views again"):
        run(lines)


def test_views_that_nobody_can_follow_hold_what_they_held() -> None:
    turn = "Tensor.select s{i} 1 1 z p{i} dim=0 index={i}\naten::neg n{i} 1 1 p{i} m{i}\n"
    write = "Tensor.copy c{i} 2 1 p{i} m{i} w{i}\n"
    lines = "".join((turn + write).format(i=i) for i in range(3)).replace("aten::neg", "torch.neg")
    got = run(lines + "pnnx.Output out 1 0 m2", lowest=False)
    np.testing.assert_array_equal(got[0], -(X + 1)[2])
