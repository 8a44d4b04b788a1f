"""Which convolution kernel serves which shape.

Depthwise shapes, small groups and few pixels that wait for many weights have kernels of their own. For windows of 3x3,
5x5 and lines of 3, 5 or 7 with stride 1, and for 3x3 with stride 2, a cost model weighs the implicit GEMM against
Winograd's methods: arithmetic, transforms, and the bytes of (transformed) weights that come from memory meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pnnx_fast._core.program import (
    ADDERS,
    HALVES,
    SPLIT_DEPTH,
    SPLIT_DIGITS,
    SPLIT_SIDE,
    THIN_PIXELS,
    WINO_PAIRS,
    WINO_PHASES,
    codes,
)

__all__ = ["AFFINE", "DIRECT", "PAIRS", "STEM", "Choice", "candidates", "choose", "is_stem", "winograd_cost"]


class Level:
    """An ISA level: floats in a vector; bytes of weights that one thread, and several together, get from memory in a
    cycle of the processors that have it; and how many weights of a layer are too many for their fast caches.
    """

    def __init__(self, lanes: int, alone: float = 10.0, together: float = 10.0, heavy: int = 8 << 20) -> None:
        self.lanes, self.alone, self.together, self.heavy = lanes, alone, together, heavy

    def waits(self, weights: int, model_bytes: int) -> bool:
        """Whether a layer with so many weights waits for them, in a model of so many bytes."""
        return weights >= (min(self.heavy, HEAVY_IN_LARGE) if model_bytes >= LARGE_MODEL else self.heavy)

    def memory(self, nthreads: int) -> float:
        """Bytes in a cycle for so many threads."""
        return self.together if nthreads > 1 else self.alone


LEVELS = {
    "generic": Level(4, 5.0, 8.0),
    "avx2": Level(8, 5.0, 8.0, 1 << 20),
    "avx512": Level(16),
    "avx512vnni": Level(16),
    "amx": Level(16, 6.0, 11.0, 1 << 20),
    "avx512_emulated": Level(16),
    "avx512vnni_emulated": Level(16),
    "amx_emulated": Level(16, 6.0, 11.0, 1 << 20),
}

HALVED = Level(16, 12.0, 22.0)
"""Levels with AVX-512 of processors that take vectors in two halves, for which a cycle is the time of two FMAs, too."""

LARGE_MODEL, HEAVY_IN_LARGE = 128 << 20, 1 << 20
"""Bytes of a model that fill all caches anew at every call, so that weights of smaller layers are cold, too."""

DIRECT_EFFICIENCY, WINOGRAD_EFFICIENCY = 0.95, 0.92
"""Shares of peak that the inner products reach where channels abound."""

OVERLAP = 0.65
"""How much of the shorter of work and memory traffic hides behind the longer."""

NARROW_CYCLES, NARROW_END_CYCLES = (2.0, 3.0, 4.4, 3.2), 20.0
"""Direct sums over the lanes: a vector of inputs, by the number of output channels; the end of a pixel."""

CALL_CYCLES = 60.0
"""Cost of starting and finishing a register tile."""

INPUT_CYCLES = {4: 60.0, 6: 170.0, 8: 490.0}
OUTPUT_CYCLES = {(2, 4): 45.0, (4, 6): 130.0, (2, 6): 90.0, (6, 8): 370.0}
"""Transforms of one tile for one vector of channels, by inputs, by outputs and inputs on its side."""

OUTPUTS = {3: (2, 4), 5: (2,)}
"""Outputs on the side of a tile that the Winograd kernel offers for a square window; they are its variants."""

LARGE_OUTPUTS, LARGE_LANES, LARGE_CHANNELS, LARGE_SIDE = 6, 8, 80, 48
"""Outputs on the side of the largest tiles of 3x3 windows. As their rounding errors are larger, they are offered where
there is most to gain: for vectors of so many floats, groups of so many input channels and so large images, or more."""

VARIANT_GAINS = {LARGE_OUTPUTS: 0.97, WINO_PAIRS + 2: 0.95, WINO_PAIRS + 4: 0.95}
"""Shares of the cost of the other forms that the largest tiles, and products in pairs, have to stay below."""

PHASE_POINTS = {2: (25, 9), 4: (81, 49)}
"""Points of the inputs and of the products of a tile with stride 2, by its outputs."""

PHASE_CYCLES = {2: (240.0, 70.0), 4: (800.0, 250.0)}
"""The same for the cost of its transforms for one vector of channels."""

PHASE_BYTES = 16 << 20
"""Most transformed weights of a layer with stride 2. The smaller tiles, which take up to 1.16 of the time, keep four
ninths of them."""

PHASE_GAIN = 0.88
"""Share of the direct cost that the kernel with stride 2 has to stay below: the other one can run in strips."""

NARROW_PHASE_GAIN, NARROW_PHASE_VECTORS = 0.75, 4
"""The same for groups with fewer vectors of output channels, whose transforms and short products cost more."""

LINES = {3: 55.0, 5: 75.0, 7: 100.0}
"""Windows that are lines, of which a tile has four outputs: both transforms of a tile for one vector of channels."""


class Choice:
    """A kernel, the kernel that packs its weights, and the variant to ask for (-1: the kernel chooses)."""

    __slots__ = ("kernel", "pack", "variant")

    def __init__(self, kernel: str, pack: str, variant: int = -1) -> None:
        self.kernel, self.pack, self.variant = kernel, pack, variant


DIRECT = Choice("conv_f32", "conv_pack_f32")
STEM = Choice("conv_stem_f32", "conv_pack_f32")
DEPTHWISE = Choice("conv_depthwise_f32", "conv_depthwise_pack_f32")
GROUPED = Choice("conv_grouped_f32", "conv_grouped_pack_f32")
THIN = Choice("conv_thin_f32", "conv_thin_pack_f32")
SPLIT = Choice("conv_split_f32", "conv_split_pack_f32")
SPLIT_AFFINE = Choice("conv_split_affine_f32", SPLIT.pack)
PAIRS = Choice("conv_pairs_f32", "conv_pairs_pack_f32")
PAIRS_AFFINE = Choice("conv_pairs_affine_f32", PAIRS.pack)
AFFINE = {SPLIT.kernel: SPLIT_AFFINE, PAIRS.kernel: PAIRS_AFFINE}
"""Kernels that scale their input, where others have their weights scaled, and those that do so."""

SPLIT_LEVELS = ("amx", "amx_emulated")
"""The ISA levels with matrix tiles."""

PAIRS_LEVELS = ("avx512", "avx512vnni", "avx512_emulated", "avx512vnni_emulated")
"""The ISA levels whose processors may have adders beside their multipliers."""

PAIRS_EFFICIENCY, PAIRS_GAIN = 1.22, (0.97, 0.88)
"""Share of the peak of products as usual that pairs reach; shares of the cost of direct sums and of Winograd's methods
that they have to stay below."""

PAIRS_ROWS, PAIRS_ENOUGH = 8, 7
"""Most rows of a tile, and how many are enough."""

PAIRS_NUMBER_CYCLES, PAIRS_COPY_CYCLES, PAIRS_ROW_CYCLES, PAIRS_END_CYCLES, PAIRS_LATE_CYCLES = 4.0, 2.0, 40.0, 3.0, 8.0
"""The preparation of a vector of a row, the copying of its window before that, the rest of its preparation; scale, bias
and store of a vector of sums; what a late activation of one costs beyond other kernels, whose units are less busy."""

PAIRS_WINOGRAD_EFFICIENCY, PAIRS_POINT_CYCLES = 1.12, (2.5, 20.0)
"""The same share of peak for the products of Winograd's method; the preparation of a vector of a point of a tile, and
the rest of it."""

LATE = {codes("activation")[name] for name in ("sigmoid", "silu", "gelu", "gelu_tanh", "tanh", "mish")}
"""Activations that are applied to sums when these have been stored."""

SPLIT_TILE_CYCLES, SPLIT_ROW_CYCLES, SPLIT_COPY_CYCLES, SPLIT_END_CYCLES = 187.0, 39.0, 5.0, 10.5
"""The products of a tile of rows and one of columns; the splitting of a row of a tile, and the copying of its window
before that; bias, activation and store of a row of sums."""

SPLIT_GAIN, SPLIT_ROWS = 0.7, 4
"""Share of the cost of the other kernels that products of split floats have to stay below, as matrix tiles are slowed
down more than vectors where another thread has the same core; least pixels, because fewer wait for the weights."""

THIN_LANES = 8
"""Least floats of a vector: others take numbers of three bytes apart one by one."""

GROUPED_WINDOWS = {(1, 1), (3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2)}
"""Widths and strides of windows whose inputs the grouped kernel loads once for all taps of a row."""

WHOLE_LANES, WHOLE_WINDOWS = 8, {(3, 1), (3, 2)}
"""The same where a group's outputs are one vector of so many lanes: wider ones fill register tiles better."""

VARIANTS = codes("direct")
"""Variants of the direct kernel."""

NARROW_COLUMNS = 4
"""Most output channels of the narrow one on every ISA level."""

STEM_CHANNELS, STEM_ROWS, STEM_SPAN = 4, 32, 256
"""Most input channels and filter rows of the stem kernel, and of lines between the first and the last row."""


def is_stem(channels: int, kernel: Sequence[int], dilation: Sequence[int], groups: int) -> bool:
    """Whether the kernel for few input channels, which reads any layout, takes a 2-d convolution."""
    few = channels <= STEM_CHANNELS and kernel[0] <= STEM_ROWS and groups == 1
    return few and dilation[1] == 1 and (kernel[0] - 1) * dilation[0] < STEM_SPAN


def choose(isa: str, nthreads: int, geometry: Mapping[str, Any], constant: bool = True, model_bytes: int = 0) -> Choice:
    """Kernel for the fields of a convolution in a model with so many bytes of weights.

    ``constant`` tells whether its own weights are packed only once.
    """
    g = geometry
    level = HALVED if HALVES and isa in PAIRS_LEVELS else LEVELS[isa]
    lanes = level.lanes
    if 1 < g["groups"] == g["ic"] == g["oc"]:
        return DEPTHWISE
    if _fits_grouped(g, lanes):
        return GROUPED
    heavy = constant and level.waits(g["kh"] * g["kw"] * g["ic"] // g["groups"] * g["oc"], model_bytes)
    if heavy and _fits_thin(g, lanes):
        return THIN
    costs = {
        v: winograd_cost(g, v, level, nthreads)
        for v in (_winograd_variants(g, lanes, _has_pairs(isa)) if constant else ())
    }
    best = min(costs, key=lambda v: costs[v] / VARIANT_GAINS.get(v, 1.0), default=0)
    gain = _phase_gain(g, lanes) if _is_phased(best) else 1.0
    cost, choice = direct_cost(g, level, nthreads), DIRECT
    if costs and costs[best] < gain * cost:
        cost, choice = costs[best], Choice("conv_winograd_f32", "conv_winograd_pack_f32", best)
    gain = PAIRS_GAIN[choice is not DIRECT]
    if constant and _has_pairs(isa) and pairs_cost(g, level, nthreads) < gain * cost:
        return PAIRS
    pixels = g["n"] * g["oh"] * g["ow"]
    if not constant or isa not in SPLIT_LEVELS or pixels < SPLIT_ROWS:
        return choice
    waits = heavy and pixels <= SPLIT_SIDE
    return SPLIT if waits or split_cost(g, nthreads) < SPLIT_GAIN * cost else choice


def candidates(isa: str, geometry: Mapping[str, Any]) -> list[Choice]:
    """Kernels worth comparing for a convolution of channels-last tensors, the dispatcher's choice among them."""
    g = geometry
    if 1 < g["groups"] == g["ic"] == g["oc"]:
        return [DEPTHWISE]
    found = [Choice(DIRECT.kernel, DIRECT.pack, VARIANTS["panels"])]
    if _fits_narrow(g):
        found.append(Choice(DIRECT.kernel, DIRECT.pack, VARIANTS["narrow"]))
    lanes = LEVELS[isa].lanes
    if _fits_grouped(g, lanes):
        found.append(GROUPED)
    if isa in SPLIT_LEVELS:
        found.append(SPLIT)
    if isa in PAIRS_LEVELS:
        found.append(PAIRS)
    if _fits_thin(g, lanes):
        found.append(THIN)
    variants = _winograd_variants(g, lanes, isa in PAIRS_LEVELS)
    return found + [Choice("conv_winograd_f32", "conv_winograd_pack_f32", v) for v in variants]


def _fits_narrow(g: Mapping[str, Any]) -> bool:
    """Whether there are so few output channels a group that tiles may sum over the lanes instead."""
    return bool(g["oc"] // g["groups"] <= NARROW_COLUMNS)


def _fits_grouped(g: Mapping[str, Any], lanes: int) -> bool:
    """Whether groups are narrower than a vector, whose inputs lie close together, or as wide as a short one."""
    inputs, outputs = g["ic"] // g["groups"], g["oc"] // g["groups"]
    if g["groups"] > 1 and outputs == lanes == WHOLE_LANES and inputs <= lanes:
        return (g["kw"], g["stride_w"]) in WHOLE_WINDOWS and g["dil_w"] == 1
    if g["groups"] == 1 or outputs >= lanes:
        return False
    spread = ((lanes - 1) // outputs + (lanes % outputs != 0)) * inputs
    window = (g["kw"], g["stride_w"]) in GROUPED_WINDOWS and g["dil_w"] == 1
    return bool(4 * outputs <= lanes or (window and spread < lanes))


def _fits_thin(g: Mapping[str, Any], lanes: int) -> bool:
    """Whether the kernel for few pixels, whose weights are three bytes each, takes a convolution."""
    if lanes < THIN_LANES or g["n"] * g["oh"] * g["ow"] > THIN_PIXELS or not g["groups"] == g["kh"] * g["kw"] == 1:
        return False
    down, across = (g["oh"] - 1) * g["stride_h"], (g["ow"] - 1) * g["stride_w"]
    inside = down < g.get("ih", math.inf) and across < g.get("iw", math.inf)
    return inside and not g.get("pad_h") and not g.get("pad_w")


def _phase_gain(g: Mapping[str, Any], lanes: int) -> float:
    """Share of the direct cost that Winograd's method with stride 2 has to stay below."""
    narrow = g["groups"] > 1 and g["oc"] // g["groups"] < NARROW_PHASE_VECTORS * lanes
    return NARROW_PHASE_GAIN if narrow else PHASE_GAIN


def _is_phased(variant: int) -> bool:
    return WINO_PHASES <= variant < WINO_PAIRS


def _winograd_variants(g: Mapping[str, Any], lanes: int, pairs: bool) -> tuple[int, ...]:
    """Variants of the Winograd kernel that serve a window; pairs: whether products may go in pairs."""
    steps = tuple(g[name] for name in ("stride_h", "stride_w", "dil_h", "dil_w"))
    short, long = sorted((g["kh"], g["kw"]))
    if (short, long, *steps) == (3, 3, 2, 2, 1, 1):
        weights = 4 * g["ic"] // g["groups"] * _padded(g["oc"], lanes)
        return tuple(WINO_PHASES + m for m in PHASE_POINTS if m == 2 or weights * (m + 2) ** 2 <= PHASE_BYTES)
    if steps != (1, 1, 1, 1):
        return ()
    if short == long:
        in_pairs = tuple(WINO_PAIRS + m for m in OUTPUTS[3]) if pairs and short == 3 else ()
        return OUTPUTS.get(short, ()) + in_pairs + ((LARGE_OUTPUTS,) if _fits_large(g, lanes) else ())
    return (4,) if short == 1 and long in LINES else ()


def _fits_large(g: Mapping[str, Any], lanes: int) -> bool:
    """Whether tiles of 6x6 outputs are offered for a square window with stride 1."""
    channels, side = g["ic"] // g["groups"], min(g["oh"], g["ow"])
    return g["kh"] == 3 and lanes == LARGE_LANES and channels >= LARGE_CHANNELS and side >= LARGE_SIDE


def _padded(channels: int, lanes: int) -> int:
    return -(-channels // lanes) * lanes


def _together(work: float, traffic: float) -> float:
    return max(work, traffic) + (1 - OVERLAP) * min(work, traffic)


def direct_cost(g: Mapping[str, Any], level: Level, nthreads: int) -> float:
    """Cycles of the implicit GEMM, two vector FMAs a cycle, while its weights come from memory."""
    lanes = level.lanes
    groups, outputs = g["groups"], g["oc"] // g["groups"]
    products = float(g["kh"] * g["kw"] * g["ic"] * _padded(outputs, lanes))
    efficiency = DIRECT_EFFICIENCY if groups == 1 else outputs / (outputs + lanes)
    pixels = g["n"] * g["oh"] * g["ow"]
    work = products * pixels / (2 * lanes * efficiency)
    if _fits_narrow(g) and g["ic"] // groups >= lanes:
        vectors = g["kh"] * g["kw"] * _padded(g["ic"] // groups, lanes) / lanes
        each = vectors * NARROW_CYCLES[outputs - 1] + NARROW_END_CYCLES
        work = min(work, groups * pixels * each)
    return _together(work / nthreads, 4 * products / level.memory(nthreads))


def _has_pairs(isa: str) -> bool:
    """Whether sums in pairs are faster on this processor; emulated levels, which are for tests, take them, too."""
    return isa in PAIRS_LEVELS and (ADDERS or isa.endswith("emulated"))


def _fullness(rows: int) -> float:
    """Share of their speed that tiles of products in pairs reach, of which low ones wait for weights from L2."""
    return min(1.0, rows / math.ceil(rows / PAIRS_ROWS) / PAIRS_ENOUGH) if rows else 1.0


def pairs_cost(g: Mapping[str, Any], level: Level, nthreads: int) -> float:
    """Cycles of products in pairs, whose rows are copied before."""
    lanes, groups, taps = level.lanes, g["groups"], g["kh"] * g["kw"]
    depth, outputs = taps * g["ic"] // groups, _padded(g["oc"] // groups, lanes)
    products = float(depth * groups * outputs)
    row = depth / lanes * (PAIRS_NUMBER_CYCLES + PAIRS_COPY_CYCLES * (taps > 1)) + PAIRS_ROW_CYCLES
    row += outputs / lanes * (PAIRS_END_CYCLES + PAIRS_LATE_CYCLES * (g.get("act") in LATE))
    pixels = g["n"] * g["oh"] * g["ow"]
    work = pixels * (products / (2 * lanes * PAIRS_EFFICIENCY * _fullness(pixels)) + groups * row)
    return _together(work / nthreads, 4 * products / level.memory(nthreads))


def split_cost(g: Mapping[str, Any], nthreads: int) -> float:
    """Cycles of products of split floats on matrix tiles, while the weights come from memory."""
    groups, pixels = g["groups"], g["n"] * g["oh"] * g["ow"]
    taps = g["kh"] * g["kw"]
    steps = math.ceil(taps * g["ic"] / groups / SPLIT_DEPTH)
    columns = math.ceil(g["oc"] / groups / SPLIT_SIDE)
    row = steps * (SPLIT_ROW_CYCLES + SPLIT_COPY_CYCLES * (taps > 1)) + columns * SPLIT_END_CYCLES
    tiles = math.ceil(pixels / SPLIT_SIDE) * columns * steps
    work = groups * (tiles * SPLIT_TILE_CYCLES + pixels * row)
    weights = groups * columns * SPLIT_SIDE * steps * SPLIT_DEPTH
    return _together(work / nthreads, SPLIT_DIGITS * weights / LEVELS[SPLIT_LEVELS[0]].memory(nthreads))


def winograd_cost(g: Mapping[str, Any], variant: int, level: Level, nthreads: int) -> float:
    """Cycles of F(m x m, kh x kw), or of F(4, r) where the window is a line; of both with stride 2 by phases."""
    m, lanes = variant % WINO_PHASES, level.lanes
    mh, mw = (m if g["kh"] > 1 else 1), (m if g["kw"] > 1 else 1)
    phases, pairs, groups = _is_phased(variant), variant >= WINO_PAIRS, g["groups"]
    points = sums = (mh + g["kh"] - 1) * (mw + g["kw"] - 1)
    if phases:
        points, sums = PHASE_POINTS[m]
    inputs, outputs = g["ic"] // groups, _padded(g["oc"] // groups, lanes)
    tiles = g["n"] * math.ceil(g["oh"] / mh) * math.ceil(g["ow"] / mw)
    weights = float((m + 2) ** 2 if phases else points) * groups * inputs * outputs
    columns = min(outputs, (2 if pairs else 4) * lanes)
    calls = sums * tiles * groups * (outputs / columns) / ((16 if pairs else 24) * lanes / columns)
    efficiency = PAIRS_WINOGRAD_EFFICIENCY if pairs else WINOGRAD_EFFICIENCY
    work = float(points * groups * inputs * outputs) * tiles / (2 * lanes * efficiency) + calls * CALL_CYCLES
    if pairs:
        row = _padded(inputs, lanes) / lanes * PAIRS_POINT_CYCLES[0] + PAIRS_POINT_CYCLES[1]
        work = work / _fullness(tiles) + points * tiles * groups * row
    if phases:
        transforms = _padded(inputs, lanes) * PHASE_CYCLES[m][0] + outputs * PHASE_CYCLES[m][1]
    elif mh == mw:
        side = m + g["kh"] - 1
        transforms = _padded(inputs, lanes) * INPUT_CYCLES[side] + outputs * OUTPUT_CYCLES[m, side]
    else:
        transforms = (_padded(inputs, lanes) + outputs) / 2 * LINES[max(g["kh"], g["kw"])]
    work += tiles * groups * transforms / lanes
    return _together(work / nthreads, 4 * weights / level.memory(nthreads))
