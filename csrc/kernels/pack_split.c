/* Packing of weights into tiles of digits (split.h). Weights are read from memory once, as most need no
 * factors: these are known when all are packed, and where some are worth the trouble, their group is packed
 * again. */
#include <math.h>
#include <string.h>

#include "base/team.h"
#include "kernels/args.h"
#include "kernels/pack_columns.h"
#include "kernels/split.h"

enum {
    SIDE = PF_SPLIT_SIDE,
    BLOCK = 256,        /* inputs of a column that are looked at together */
    EVEN = 8,           /* factors that differ by no more are left out */
    MOST = 100,         /* powers of two of a factor */
    FARTHEST = 1 << 20, /* taps up to which numbers of a vector lie close enough to be gathered */
};

#define NORMAL 0x1p-126f

/* Bits of floats. */
enum { FRACTION = 23, BIAS = 127, INFINITE = 0x7f800000 };

typedef struct weights {
    const float *x;
    char *y;
    int64_t ic, oc, taps;
    pf_split_weights l;
} weights;

static float *factors_of(const weights *p, int64_t group) {
    return (float *)(p->y + p->l.factors) + group * p->l.depth;
}

/* The largest sizes of inputs in the order of the file: they lie where the factors will. */
static int32_t *sizes_of(const weights *p, int64_t group) { return (int32_t *)factors_of(p, group); }

static float *uneven_of(const weights *p, int64_t group) { return (float *)(p->y + p->l.uneven) + group; }

/* -- sizes -- */

/* Threads have columns of their own, but share the sizes of inputs. */
static void note_sizes(int32_t *sizes, const int32_t *found, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int32_t old = __atomic_load_n(sizes + i, __ATOMIC_RELAXED);
        while (found[i] > old && !__atomic_compare_exchange_n(sizes + i, &old, found[i], 1, __ATOMIC_RELAXED,
                                                              __ATOMIC_RELAXED)) {
        }
    }
}

/* Sizes of the columns of a tile, by lanes, and of n inputs, which stay in registers if these suffice. */
static void measure(const float *x, int64_t columns, int64_t step, int64_t n, pf_vi *of_columns,
                    int32_t *of_inputs) {
    enum { VECTORS = BLOCK / PF_VL };
    if (n < BLOCK || VECTORS > PF_REGISTERS / 2) {
        memset(of_inputs, 0, BLOCK * sizeof *of_inputs);
        for (int64_t j = 0; j < columns; j++, x += step)
            for (int64_t i = 0; i < n; i += PF_VL) {
                const pf_vf v = pf_load_upto(x + i, n - i);
                of_columns[j] = pf_split_larger(of_columns[j], v);
                pf_storei(of_inputs + i, pf_split_larger(pf_loadi(of_inputs + i), v));
            }
        return;
    }
    pf_vi sizes[VECTORS];
    PF_UNROLL for (int i = 0; i < VECTORS; i++) sizes[i] = pf_seti(0);
    for (int64_t j = 0; j < columns; j++, x += step) {
        pf_vi even = of_columns[j], odd = pf_seti(0);
        PF_UNROLL for (int i = 0; i < VECTORS; i += 2) {
            const pf_vf first = pf_load(x + i * PF_VL), second = pf_load(x + (i + 1) * PF_VL);
            sizes[i] = pf_split_larger(sizes[i], first);
            sizes[i + 1] = pf_split_larger(sizes[i + 1], second);
            even = pf_split_larger(even, first);
            odd = pf_split_larger(odd, second);
        }
        of_columns[j] = pf_split_larger(even, (pf_vf)odd);
    }
    PF_UNROLL for (int i = 0; i < VECTORS; i++) pf_storei(of_inputs + i * PF_VL, sizes[i]);
}

/* The largest sizes of the columns of a tile; those of their inputs are noted. */
static void look(const weights *p, int64_t group, const float *x, int64_t columns, float *largest) {
    pf_vi of_columns[SIDE];
    int32_t of_inputs[BLOCK] __attribute__((aligned(64)));
    for (int64_t j = 0; j < columns; j++) of_columns[j] = pf_seti(0);
    for (int64_t begin = 0; begin < p->l.depth; begin += BLOCK) {
        const int64_t n = pf_min(BLOCK, p->l.depth - begin);
        measure(x + begin, columns, p->l.depth, n, of_columns, of_inputs);
        note_sizes(sizes_of(p, group) + begin, of_inputs, n);
    }
    for (int64_t j = 0; j < columns; j++)
        largest[j] = pf_split_largest((const float *)(of_columns + j), PF_VL);
}

/* Power of two that the largest weights of an input are at least. Inputs that have no weights become small,
 * however large they are: they would leave the others no digits. */
static float factor_of(int32_t size) {
    const int32_t exponent = (int32_t)pf_min(BIAS + MOST, pf_max(BIAS - MOST, size >> FRACTION));
    const int32_t bits = (size >= INFINITE ? BIAS : exponent) << FRACTION;
    float factor;
    memcpy(&factor, &bits, sizeof factor);
    return factor;
}

/* Whether factors of a group are worth the trouble; if so, they replace the sizes. */
static void settle(const weights *p, int64_t group) {
    const int32_t *sizes = sizes_of(p, group);
    float least = INFINITY, most = 0.0f;
    for (int64_t i = 0; i < p->l.depth; i++) {
        const float factor = factor_of(sizes[i]);
        least = factor < least ? factor : least, most = factor > most ? factor : most;
    }
    *uneven_of(p, group) = most > EVEN * least;
    if (most <= EVEN * least) return;
    /* Taps come first in their order: the way leads through memory of tiles, which will be written again. */
    int32_t *copy = (int32_t *)(p->y + group * p->l.columns * p->l.tile);
    memcpy(copy, sizes, (size_t)p->l.depth * sizeof *copy);
    for (int64_t i = 0; i < p->l.depth; i++)
        factors_of(p, group)[i % p->taps * p->ic + i / p->taps] = factor_of(copy[i]);
}

/* -- digits -- */

/* A vector of numbers so far apart. */
PF_INLINE pf_vf load_apart(const float *x, int64_t step) {
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (pf_vf)_mm512_i32gather_ps(_mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)step)), x, 4);
#else
    float v[PF_VL];
    for (int i = 0; i < PF_VL; i++) v[i] = x[i * step];
    return pf_load(v);
#endif
}

/* PF_SPLIT_DEPTH numbers of a column from `begin` on, counted by tap and channel, over their factors (NULL:
 * none); returns how many. Denormal ones become zeros, as in other kernels. */
static int64_t gather_column(const weights *p, const float *x, int64_t begin, const float *factors,
                             float *to) {
    const int64_t n = pf_min(PF_SPLIT_DEPTH, p->l.depth - begin);
    int64_t tap = begin / p->ic, k = begin % p->ic, run;
    for (int64_t i = 0; i < n; i += run, k = 0, tap++) {
        const float *from = x + k * p->taps + tap;
        int64_t j = 0;
        run = pf_min(n - i, p->ic - k);
        for (; j + PF_VL <= run && p->taps < FARTHEST; j += PF_VL)
            pf_store(to + i + j, load_apart(from + j * p->taps, p->taps));
        for (; j < run; j++) to[i + j] = from[j * p->taps];
    }
    for (int64_t i = 0; i < n; i += PF_VL) {
        pf_vf v = pf_flushed(pf_load_upto(to + i, n - i));
        if (factors) v /= pf_load_upto(factors + begin + i, n - i);
        pf_store_upto(to + i, v, n - i);
    }
    return n;
}

/* The same, in a buffer unless they lie so in memory. Digits flush denormal numbers by themselves. */
static const float *numbers_of(const weights *p, const float *x, int64_t begin, const float *factors,
                               float *buffer, int64_t *n) {
    *n = pf_min(PF_SPLIT_DEPTH, p->l.depth - begin);
    if (p->taps == 1 && !factors) return x + begin;
    gather_column(p, x, begin, factors, buffer);
    return buffer;
}

/* The largest size of a column over its factors. */
static float largest_of(const weights *p, const float *column, const float *factors) {
    float buffer[PF_SPLIT_DEPTH], largest = 0.0f;
    for (int64_t i = 0; i < p->l.depth; i += PF_SPLIT_DEPTH) {
        const float next = pf_split_largest(buffer, gather_column(p, column, i, factors, buffer));
        if (largest == largest && !(next <= largest)) largest = next; /* NaN stays */
    }
    return largest;
}

/* The digits of one step of a tile of columns. */
static void pack_step(const weights *p, const float *x, int64_t columns, int64_t begin, const float *factors,
                      const float *inverses, int cut, char *to) {
    char rows[PF_SPLIT_STEP] __attribute__((aligned(64)));
    for (int64_t j = 0; j < columns; j++, x += p->l.depth) {
        float buffer[PF_SPLIT_DEPTH];
        int64_t n;
        const float *numbers = numbers_of(p, x, begin, factors, buffer, &n);
        int8_t *row = (int8_t *)rows + j * PF_SPLIT_DEPTH;
        if (cut)
            pf_split_numbers(numbers, n, 0.0f, 1, row);
        else
            pf_split_fast(numbers, n, inverses[j], row);
    }
    for (int i = 0; i < PF_SPLIT_DIGITS; i++) {
        char *part = rows + i * PF_SPLIT_PART;
        memset(part + columns * PF_SPLIT_DEPTH, 0, (size_t)((SIDE - columns) * PF_SPLIT_DEPTH));
        pf_split_transpose(part, to + i * PF_SPLIT_PART);
    }
}

/* One tile of columns with these largest sizes; if one of them is out of range, all are cut. */
static void pack_tile(const weights *p, const float *x, int64_t columns, const float *factors,
                      const float *largest, char *to, float *scales) {
    float inverses[SIDE];
    int cut = 0;
    for (int64_t j = 0; j < SIDE; j++) {
        const float size = j < columns && !(largest[j] < NORMAL) ? largest[j] : 0.0f;
        cut |= !pf_split_fits(size);
        inverses[j] = pf_split_inverse(size);
        scales[j] = pf_split_scale(size);
    }
    if (cut) memset(scales, 0, SIDE * sizeof *scales);
    /* Steps of the same inputs follow each other: their taps lie side by side in the file. */
    const int64_t apart = pf_max(1, p->ic / PF_SPLIT_DEPTH);
    for (int64_t first = 0; first < apart; first++)
        for (int64_t s = first; s < p->l.steps; s += apart)
            pack_step(p, x, columns, s * PF_SPLIT_DEPTH, factors, inverses, cut, to + s * PF_SPLIT_STEP);
}

/* -- turns -- */

/* A tile of columns, counted through all groups; again: with factors, where there are some. */
PF_INLINE void pack_piece(const weights *p, int64_t piece, const int again) {
    const int64_t group = piece / p->l.columns, column = piece % p->l.columns * SIDE;
    const int64_t columns = pf_min(SIDE, p->oc - column);
    const float *x = p->x + (group * p->oc + column) * p->l.depth;
    const float *factors = again ? factors_of(p, group) : NULL;
    float largest[SIDE];
    if (again && *uneven_of(p, group) == 0.0f) return;
    if (!again) look(p, group, x, columns, largest);
    for (int64_t j = 0; again && j < columns; j++) largest[j] = largest_of(p, x + j * p->l.depth, factors);
    pack_tile(p, x, columns, factors, largest, p->y + piece * p->l.tile,
              (float *)(p->y + p->l.scales) + piece * SIDE);
}

static void clear(const weights *p, int64_t group) {
    memset(sizes_of(p, group), 0, (size_t)p->l.depth * sizeof(int32_t));
}

static void pack(const weights *p, int64_t piece) { pack_piece(p, piece, 0); }
static void pack_again(const weights *p, int64_t piece) { pack_piece(p, piece, 1); }

/* All threads do the parts of one turn before one of them begins with the next one. */
static void take_turn(const weights *p, const pf_worker *w, int turn, int64_t parts,
                      void (*part)(const weights *, int64_t)) {
    int64_t *taken = w->next + 2 * turn, *done = taken + 1;
    int64_t i;
    while ((i = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED)) < parts) {
        part(p, i);
        __atomic_fetch_add(done, 1, __ATOMIC_RELEASE);
    }
    for (int spins = 0; __atomic_load_n(done, __ATOMIC_ACQUIRE) < parts; spins++) pf_wait_turn(spins);
}

PF_KERNEL_FUNCTION(conv_split_pack_f32) {
    const pf_pack_args *a = args_;
    weights p = {
        .x = pf_ptr(w, a->x), .y = pf_ptr(w, a->y), .ic = a->ic / a->groups, .oc = a->oc / a->groups};
    p.taps = a->kh * a->kw;
    p.l = pf_split_layout(a->groups, p.oc, p.ic * p.taps);
    const int64_t pieces = a->groups * p.l.columns;
    take_turn(&p, w, 0, a->groups, clear);
    take_turn(&p, w, 1, pieces, pack);
    take_turn(&p, w, 2, a->groups, settle);
    take_turn(&p, w, 3, pieces, pack_again);
}
