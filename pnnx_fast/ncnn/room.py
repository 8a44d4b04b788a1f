"""Room for growing caches of keys and values, so that one program serves many lengths of the past.

A past that is longer by some keys which the mask hides gives the same attention, and the order of keys does not matter.
So the past is filled up to a length from a short list, the program returns the new keys and values only, and they are
joined to the past outside. Used by compiled.py; knows layers by their blobs, not how they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.ncnn.layer import BuiltinLayer, Layer

__all__ = ["Caches", "Room", "caches_of"]

LENGTH = 2
"""Dimension of keys in a cache (n, heads, keys, size)."""
LEAST = 64
FINENESS = 8
"""A past is filled up by less than one part in so many, or to the least length."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a program was made for: a past of at most ``length`` keys."""

    caches: Caches
    length: int

    def shape(self, blob: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an input with room."""
        if blob in self.caches.masks:
            return (*shape[:-1], shape[-2] + self.length)
        if blob in self.caches.pasts:
            return (*shape[:LENGTH], self.length, *shape[LENGTH + 1 :])
        return shape

    def filled(self, blob: int, array: Array) -> Array:
        """Return an input with hidden keys behind those of the past."""
        shape = self.shape(blob, array.shape)
        if shape == array.shape:
            return array
        # Zeros hide keys in a mask of bytes.
        hidden = 0 if array.dtype == np.int8 else -np.inf
        axis, fill = (-1, hidden) if blob in self.caches.masks else (LENGTH, 0.0)
        keys = array.shape[-1] - array.shape[-2] if axis == -1 else array.shape[LENGTH]
        past, new = np.split(array, [keys], axis)
        gap = list(array.shape)
        gap[axis] = shape[axis] - array.shape[axis]
        return np.concatenate([past, np.full(gap, fill, array.dtype), new], axis)

    def joined(self, blob: int, array: Array, past: Callable[[int], Array]) -> Array:
        """Return what the application gets for a result: new keys behind those of the past."""
        before = self.caches.grown.get(blob)
        if before is None:
            return array
        old = past(before)
        return np.concatenate([np.broadcast_to(old, (len(array), *old.shape[1:])), array], LENGTH)


@dataclass(frozen=True, slots=True)
class Caches:
    """Blobs of a net all of whose cached attentions take their past and their mask from the application.

    ``grown`` tells for each new cache the past that it goes on from; ``inner`` are blobs between masks and attentions.

    Examples
    --------
    >>> caches = Caches(frozenset({1, 2}), frozenset({0}), {8: 1, 9: 2}, frozenset())
    >>> shapes = {0: (1, 1, 4, 14), 1: (1, 8, 10, 32), 2: (1, 8, 10, 32)}
    >>> room = caches.room(shapes, [7])
    >>> room.length, room.shape(0, shapes[0]), room.shape(1, shapes[1])
    (64, (1, 1, 4, 68), (1, 8, 64, 32))
    """

    pasts: frozenset[int]
    masks: frozenset[int]
    grown: Mapping[int, int]
    inner: frozenset[int]

    def room(self, shapes: Mapping[int, tuple[int, ...]], wanted: Sequence[int]) -> Room | None:
        """Return the room for blobs of these shapes, None when they do not fit together or wanted blobs show it."""
        if not (self.pasts | self.masks) <= set(shapes) or self.inner & set(shapes):
            return None
        if (self.pasts | self.masks | self.inner) & set(wanted):
            return None
        lengths = {shapes[b][LENGTH] if len(shapes[b]) == 4 else 0 for b in self.pasts}
        past = {shapes[b][-1] - shapes[b][-2] if len(shapes[b]) > 2 else -1 for b in self.masks}
        if len(lengths) != 1 or past != lengths or 0 in lengths:
            return None
        return Room(self, roomy(lengths.pop()))


def roomy(length: int) -> int:
    """Round a length up.

    Examples
    --------
    >>> roomy(1), roomy(65), roomy(1000)
    (64, 128, 1024)
    """
    step = max(LEAST, 1 << max(0, length.bit_length() - FINENESS.bit_length() + 1))
    return -(-length // step) * step


def caches_of(layers: Sequence[Layer], producers: Sequence[int]) -> Caches | None:
    """Find the caches of a net, None when there are none or an attention has them otherwise."""
    users: dict[int, list[Layer]] = {}
    for layer in layers:
        for blob in layer.bottoms:
            users.setdefault(blob, []).append(layer)
    known = [x for x in layers if isinstance(x, BuiltinLayer)]
    attentions = [x for x in known if x.type == "SDPA" and x.params.get_int(7)]
    masks, inner = set[int](), set[int]()
    for one in attentions:
        given = one.bottoms[4:] if len(one.bottoms) == 6 and len(one.tops) == 3 else []
        if not given or not one.params.get_int(5) or one.params.get_int(18):
            return None
        if any(users[b] != [one] or _made(b, layers, producers) for b in given):
            return None
        if any(users.get(b) for b in one.tops[1:]):
            return None
        mask = one.bottoms[3]
        while (maker := _made(mask, layers, producers)) is not None and maker.type == "Split":
            inner.update(maker.tops)
            mask = maker.bottoms[0]
        if maker is not None:
            return None
        masks.add(mask)
    others = (x for b in masks | inner for x in users.get(b, []) if x.type != "Split")
    if any(x not in attentions or x.bottoms.count(x.bottoms[3]) > 1 for x in others):
        return None
    grown = {top: past for x in attentions for top, past in zip(x.tops[1:], x.bottoms[4:], strict=True)}
    return Caches(frozenset(grown.values()), frozenset(masks), grown, frozenset(inner)) if attentions else None


def _made(blob: int, layers: Sequence[Layer], producers: Sequence[int]) -> Layer | None:
    """Return the layer that makes a blob unless the application gives it."""
    index = producers[blob]
    return None if index < 0 or layers[index].type == "Input" else layers[index]
