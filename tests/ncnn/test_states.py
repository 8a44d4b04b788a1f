"""Layers that carry a state from run to run: caches of keys and values, states of recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import load, param, run, tagged

from pnnx_fast.ncnn import Mat, NcnnWarning, Net

RNG = np.random.default_rng(1)
SIZE, HEADS = 8, 2


def extract(net: Net, names: list[str], **inputs: Any) -> list[Any]:
    ex = net.create_extractor()
    for name, array in inputs.items():
        ex.input(name, array if isinstance(array, Mat) else Mat(array))
    found = [ex.extract(name) for name in names]
    assert [code for code, _ in found] == [0] * len(names)
    return [(mat.numpy(batch_index=0) if mat.n > 1 else mat.numpy()).copy() for _, mat in found]


@pytest.fixture(scope="module")
def attention() -> dict[str, Net]:
    arrays = [part for _ in range(4) for part in (RNG.normal(size=(SIZE, SIZE)) / 3, RNG.normal(size=SIZE))]
    weights = b"".join(tagged(a) if a.ndim > 1 else np.float32(a).tobytes() for a in arrays)  # biases have no tag
    head = ["Input i 0 1 x", "Input j 0 1 m"]
    params = f"0={SIZE} 1={HEADS} 2={SIZE * SIZE} 5=1"
    plain = param(*head, f"MultiHeadAttention a 2 1 x m y {params}")
    cached = param(
        *head, "Input k 0 1 pk", "Input l 0 1 pv", f"MultiHeadAttention a 4 3 x m pk pv y nk nv {params} 7=1"
    )
    return {"plain": load(plain, weights), "cached": load(cached, weights)}


def causal(queries: int, keys: int) -> Any:
    """A mask that hides later keys."""
    last = np.arange(queries)[:, None] + keys - queries
    return np.where(np.arange(keys) > last, -1e9, 0).astype(np.float32)


def test_attention_in_two_steps_is_attention_in_one(attention: dict[str, Net]) -> None:
    x = RNG.normal(size=(6, SIZE)).astype(np.float32)
    whole = run(attention["plain"], "y", x=x, m=causal(6, 6))
    y, k, v = extract(attention["cached"], ["y", "nk", "nv"], x=x[:4], m=causal(4, 4))
    np.testing.assert_allclose(y, whole[:4], atol=1e-5)
    for i in (4, 5):
        y, k, v = extract(attention["cached"], ["y", "nk", "nv"], x=x[i : i + 1], m=causal(1, i + 1), pk=k, pv=v)
        np.testing.assert_allclose(y, whole[i : i + 1], atol=1e-5)
    assert k.shape == v.shape == (HEADS, 6, SIZE // HEADS)


def test_another_sequence_is_all_of_the_past() -> None:
    """Where queries, keys and values come as several blobs, be they one tensor, a cache takes the place of keys."""
    arrays = [part for _ in range(4) for part in (RNG.normal(size=(SIZE, SIZE)) / 3, RNG.normal(size=SIZE))]
    weights = b"".join(tagged(a) if a.ndim > 1 else np.float32(a).tobytes() for a in arrays)
    head = ["Input i 0 1 x", "Input k 0 1 pk", "Input l 0 1 pv", "Split s 1 3 x q k v"]
    net = load(
        param(*head, f"MultiHeadAttention a 5 3 q k v pk pv y nk nv 0={SIZE} 1={HEADS} 2={SIZE * SIZE} 7=1"), weights
    )
    x = RNG.normal(size=(3, SIZE)).astype(np.float32)
    past = RNG.normal(size=(HEADS, 4, SIZE // HEADS)).astype(np.float32)
    _, k, v = extract(net, ["y", "nk", "nv"], x=x, pk=past, pv=2 * past)
    np.testing.assert_array_equal(k, past)
    np.testing.assert_array_equal(v, 2 * past)
    for shape in ((SIZE, 4), (HEADS + 1, 4, SIZE // HEADS), (HEADS, 4, SIZE), (4,)):
        ex = net.create_extractor()
        for name, array in {"x": x, "pk": np.ones(shape, np.float32), "pv": np.ones(shape, np.float32)}.items():
            ex.input(name, Mat(array))
        with pytest.warns(NcnnWarning, match="a cache of heads, length and values"):
            assert ex.extract("y")[0] != 0


def test_attention_takes_a_mask_of_bytes(attention: dict[str, Net]) -> None:
    x = RNG.normal(size=(5, SIZE)).astype(np.float32)
    want = run(attention["plain"], "y", x=x, m=causal(5, 5))
    np.testing.assert_allclose(run(attention["plain"], "y", x=x, m=np.tril(np.ones((5, 5), np.int8))), want, atol=1e-6)


def test_an_empty_cache_is_none(attention: dict[str, Net]) -> None:
    x = RNG.normal(size=(3, SIZE)).astype(np.float32)
    first = extract(attention["cached"], ["y"], x=x, m=causal(3, 3))[0]
    second = extract(attention["cached"], ["y"], x=x, m=causal(3, 3), pk=Mat(), pv=Mat())[0]
    np.testing.assert_array_equal(first, second)


def test_bare_attention_with_a_cache() -> None:
    plain = load(param("Input i 0 1 q", "Input j 0 1 k", "Input l 0 1 v", "SDPA a 3 1 q k v y"))
    lines = [f"Input i{n} 0 1 {n}" for n in ("q", "k", "v", "pk", "pv")]
    cached = load(param(*lines, "SDPA a 5 3 q k v pk pv y nk nv 7=1"))
    q, k, v = (RNG.normal(size=(2, n, 4)).astype(np.float32) for n in (1, 5, 5))
    whole = run(plain, "y", q=q, k=k, v=v)
    _, nk, nv = extract(cached, ["y", "nk", "nv"], q=q, k=k[:, :4], v=v[:, :4])
    y, nk, nv = extract(cached, ["y", "nk", "nv"], q=q, k=k[:, 4:], v=v[:, 4:], pk=nk, pv=nv)
    np.testing.assert_allclose(y, whole, atol=1e-5)
    np.testing.assert_array_equal(nk, k)
    np.testing.assert_array_equal(nv, v)


@pytest.mark.parametrize(("kind", "gates", "biases", "states"), [("LSTM", 4, 4, 2), ("GRU", 3, 4, 1), ("RNN", 1, 1, 1)])
def test_recurrent_layers_go_on_where_they_were(kind: str, gates: int, biases: int, states: int) -> None:
    cells, inputs = 4, 3
    parts = [RNG.normal(size=n) for n in (gates * cells * inputs, biases * cells, gates * cells * cells)]
    names = ["h", "c"][:states]
    new = [f"n{n}" for n in names]
    params = f"0={cells} 1={gates * cells * inputs}"
    plain = load(param("Input i 0 1 x", f"{kind} r 1 1 x y {params}"), tagged(*parts))
    lines = ["Input i 0 1 x", *(f"Input i{n} 0 1 {n}" for n in names)]
    tail = f"{kind} r {1 + states} {1 + states} x {' '.join(names)} y {' '.join(new)} {params}"
    stepwise = load(param(*lines, tail), tagged(*parts))
    x = RNG.normal(size=(5, inputs)).astype(np.float32)
    whole = run(plain, "y", x=x)
    state = {n: np.zeros((1, cells), np.float32) for n in names}
    found = []
    for part in (x[:2], x[2:3], x[3:]):
        y, *values = extract(stepwise, ["y", *new], x=part, **state)
        state = dict(zip(names, values, strict=True))
        found.append(y)
    np.testing.assert_allclose(np.concatenate(found), whole, atol=1e-5)


@pytest.mark.parametrize("direction", [0, 1, 2])
def test_a_state_of_many_rows_serves_every_sequence_by_its_first(direction: int) -> None:
    """Converters keep the batch of a state as rows: ncnn takes the first ones for each sequence."""
    cells, inputs, ways = 4, 3, 2 if direction == 2 else 1
    parts = [RNG.normal(size=ways * n) for n in (4 * cells * inputs, 4 * cells, 4 * cells * cells)]
    tail = f"LSTM r 3 1 x h c y 0={cells} 1={ways * 4 * cells * inputs} 2={direction}"
    net = load(param("Input i 0 1 x", "Input j 0 1 h", "Input k 0 1 c", tail), tagged(*parts))
    x = RNG.normal(size=(3, 5, inputs)).astype(np.float32)
    h, c = (RNG.normal(size=(1, 3, cells)).astype(np.float32) for _ in "hc")
    ex = net.create_extractor()
    for name, mat in {"x": Mat(x, batch_index=0), "h": Mat(h), "c": Mat(c)}.items():
        ex.input(name, mat)
    for sequence, y in zip(x, ex.extract("y")[1].numpy(batch_index=0), strict=True):
        alone = extract(net, ["y"], x=sequence, h=h[0, :ways], c=c[0, :ways])[0]
        np.testing.assert_allclose(y, alone, atol=1e-6)


def decoder(mask: str = "Split s 1 2 m m0 m1", users: tuple[str, str] = ("m0", "m1")) -> Net:
    """Two attentions that share a mask, each with a cache, as converters write decoders."""
    caches = [f"Input c{i} 0 2 pk{i} pv{i}" for i in (0, 1)]
    return load(
        param(
            "Input i 0 1 x", "Input j 0 1 m", *caches, "Split t 1 3 x x0 x1 x2", mask,
            f"SDPA a 6 3 x0 x1 x2 {users[0]} pk0 pv0 y0 nk0 nv0 5=1 7=1", "Split u 1 3 y0 z0 z1 z2",
            f"SDPA b 6 3 z0 z1 z2 {users[1]} pk1 pv1 y nk1 nv1 5=1 7=1",
        )
    )  # fmt: skip


CACHES = [f"n{kind}{i}" for i in (0, 1) for kind in "kv"]


@pytest.mark.parametrize(
    "net", [decoder(), decoder("BinaryOp s 1 1 m m0 0=2 1=1 2=1.0", ("m0", "m0"))], ids=["shared", "computed"]
)
def test_many_lengths_of_the_past(net: Net) -> None:
    """Steps give what all tokens at once give, however long the past is, also where the mask is computed."""
    total = 140
    x = RNG.normal(size=(2, total, 4)).astype(np.float32)
    mask = causal(total, total)
    whole = extract(net, ["y"], x=x, m=mask)[0]
    past: dict[str, Any] = {}
    at = 0
    for count in (5, 3, *[1] * (total - 8)):
        rows = slice(at, at + count)
        given = {"x": np.ascontiguousarray(x[:, rows]), "m": np.ascontiguousarray(mask[rows, : at + count])}
        y, *caches = extract(net, ["y", *CACHES], **given, **past)
        np.testing.assert_allclose(y, whole[:, rows], atol=2e-6)
        past = {f"p{name[1:]}": array for name, array in zip(CACHES, caches, strict=True)}
        at += count
        assert all(array.shape == (2, at, 4) for array in caches)
    np.testing.assert_array_equal(past["pk0"], x)


def test_a_mask_of_bytes_beside_a_past() -> None:
    x = RNG.normal(size=(2, 1, 4)).astype(np.float32)
    past = {f"p{kind}{i}": RNG.normal(size=(2, 9, 4)).astype(np.float32) for i in (0, 1) for kind in "kv"}
    seen = np.int8([[1, 0, 1, 1, 0, 1, 1, 1, 0, 1]])
    got, want = (
        extract(decoder(), ["y", *CACHES], x=x, m=mask, **past)
        for mask in (seen, np.where(seen, 0, -1e9).astype(np.float32))
    )
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_programs_serve_many_lengths() -> None:
    net = decoder()
    for length in range(1, 150):
        past = {f"p{kind}{i}": RNG.normal(size=(2, length, 4)).astype(np.float32) for i in (0, 1) for kind in "kv"}
        x = RNG.normal(size=(2, 1, 4)).astype(np.float32)
        extract(net, ["y", *CACHES], x=x, m=np.zeros((1, length + 1), np.float32), **past)
    assert len(net._compile()._models) < 12


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_of_fewer_dimensions(interleaved: int) -> None:
    """One head may come without a dimension for heads, and one row without one for rows."""
    heads = ["Input i 0 1 x", "Input j 0 1 c", "Input k 0 1 s"]
    net = load(param(*heads, f"RotaryEmbed r 3 1 x c s y 0={interleaved}"))
    x = RNG.normal(size=(1, 5, 8)).astype(np.float32)
    angles = {"c": RNG.normal(size=(5, 4)).astype(np.float32), "s": RNG.normal(size=(5, 4)).astype(np.float32)}
    whole = run(net, "y", x=x, **angles)
    np.testing.assert_array_equal(run(net, "y", x=x[0], **angles), whole[0])
    np.testing.assert_array_equal(run(net, "y", x=x[0, 0], **angles), whole[0, 0])


def test_a_cache_without_a_batch_serves_each_image(attention: dict[str, Net]) -> None:
    x = RNG.normal(size=(2, 3, SIZE)).astype(np.float32)
    past = RNG.normal(size=(2, HEADS, 4, SIZE // HEADS)).astype(np.float32)
    mask = np.zeros((3, 7), np.float32)
    together = extract(attention["cached"], ["y", "nk", "nv"], x=Mat(x, batch_index=0), m=mask, pk=past[0], pv=past[1])
    for i, image in enumerate(x):
        alone = extract(attention["cached"], ["y", "nk", "nv"], x=image, m=mask, pk=past[0], pv=past[1])
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[i], b, atol=1e-5)
