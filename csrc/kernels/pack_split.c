/* Packing of weights into tiles of digits (split.h). All threads look for the factors of inputs first, and
 * wait for each other only there. */
#include <math.h>
#include <string.h>

#include "base/team.h"
#include "kernels/args.h"
#include "kernels/pack_columns.h"
#include "kernels/split.h"

enum {
    SIDE = PF_SPLIT_SIDE,
    BLOCK = 256, /* inputs of a column that are looked at together */
    EVEN = 8,    /* factors that differ by no more are left out */
    MOST = 100,  /* powers of two of a factor */
};

#define NORMAL 0x1p-126f

/* Bits of floats. */
enum { FRACTION = 23, BIAS = 127, INFINITE = 0x7f800000 };

/* Counters of the step. */
enum { LOOKED = 0, READY = 1, PACKED = 2 };

typedef struct weights {
    const float *x;
    char *y;
    int64_t ic, oc, taps;
    pf_split_weights l;
} weights;

/* Where the factor of a number of a column in the file lies. */
static int64_t place_of(const weights *p, int64_t i) { return i % p->taps * p->ic + i / p->taps; }

static float *factors_of(const weights *p, int64_t group) {
    return (float *)(p->y + p->l.factors) + group * p->l.depth;
}

/* Factors of a block of inputs: the power of two that their largest weights are at least. Inputs that have no
 * weights become small, however large they are: they would leave the others no digits. */
static void look(const weights *p, int64_t group, int64_t begin, int64_t n) {
    int32_t sizes[BLOCK] __attribute__((aligned(64))) = {0};
    const float *x = p->x + group * p->oc * p->l.depth + begin;
    for (int64_t j = 0; j < p->oc; j++, x += p->l.depth)
        for (int64_t i = 0; i < n; i += PF_VL) {
            const pf_vi size = (pf_vi)pf_load_upto(x + i, n - i) & pf_seti(INT32_MAX),
                        old = pf_loadi(sizes + i);
            const pf_vi larger = size > old;
            pf_storei(sizes + i, (larger & size) | (~larger & old));
        }
    for (int64_t i = 0; i < n; i++) {
        const int exponent = (int)pf_min(MOST, pf_max(-MOST, (sizes[i] >> FRACTION) - BIAS));
        factors_of(p, group)[place_of(p, begin + i)] = sizes[i] >= INFINITE ? 1.0f : ldexpf(1.0f, exponent);
    }
}

/* Whether the factors of a group are worth the trouble. */
static int is_uneven(const weights *p, int64_t group) {
    const float *factors = factors_of(p, group);
    float least = INFINITY, most = 0.0f;
    for (int64_t i = 0; i < p->l.depth; i++) {
        least = fminf(least, factors[i]);
        most = fmaxf(most, factors[i]);
    }
    return most > EVEN * least;
}

/* PF_SPLIT_DEPTH numbers of a column from `begin` on, counted by tap and channel, over their factors (NULL:
 * none); returns how many. Denormal ones become zeros, as in other kernels. */
static int64_t gather_column(const weights *p, const float *x, int64_t begin, const float *factors,
                             float *to) {
    const int64_t n = pf_min(PF_SPLIT_DEPTH, p->l.depth - begin);
    int64_t tap = begin / p->ic, k = begin % p->ic;
    for (int64_t i = 0; i < n; i++) {
        to[i] = x[k * p->taps + tap];
        if (++k == p->ic) k = 0, tap++;
    }
    for (int64_t i = 0; i < n; i += PF_VL) {
        pf_vf v = pf_flushed(pf_load_upto(to + i, n - i));
        if (factors) v /= pf_load_upto(factors + begin + i, n - i);
        pf_store_upto(to + i, v, n - i);
    }
    return n;
}

/* Fours of digits of rows become those of columns: a square of 16 x 16 of them is transposed. */
static void transpose_part(const char *from, char *to) {
    for (int i = 0; i < SIDE; i += PF_VL)
        for (int j = 0; j < SIDE; j += PF_VL) {
            pf_vf v[PF_VL];
            for (int r = 0; r < PF_VL; r++) v[r] = pf_load(from + ((i + r) * SIDE + j) * 4);
            pf_transpose_tile(v);
            for (int r = 0; r < PF_VL; r++) pf_store(to + ((j + r) * SIDE + i) * 4, v[r]);
        }
}

/* The same, in a buffer unless they lie so in memory. Digits flush denormal numbers by themselves. */
static const float *numbers_of(const weights *p, const float *x, int64_t begin, const float *factors,
                               float *buffer, int64_t *n) {
    *n = pf_min(PF_SPLIT_DEPTH, p->l.depth - begin);
    if (p->taps == 1 && !factors) return x + begin;
    gather_column(p, x, begin, factors, buffer);
    return buffer;
}

static float largest_of(const weights *p, const float *column, const float *factors) {
    float buffer[PF_SPLIT_DEPTH], largest = 0.0f;
    if (!factors) largest = pf_split_largest(column, p->l.depth);
    for (int64_t i = 0; factors && i < p->l.depth; i += PF_SPLIT_DEPTH) {
        const float next = pf_split_largest(buffer, gather_column(p, column, i, factors, buffer));
        if (largest == largest && !(next <= largest)) largest = next; /* NaN stays */
    }
    return largest < NORMAL ? 0.0f : largest;
}

/* One tile of columns; if one of them is out of range, all are cut. */
static void pack_tile(const weights *p, const float *x, int64_t columns, const float *factors, char *to,
                      float *scales) {
    float inverses[SIDE] = {0};
    int cut = 0;
    for (int64_t j = 0; j < SIDE; j++) {
        const float largest = j < columns ? largest_of(p, x + j * p->l.depth, factors) : 0.0f;
        cut |= !pf_split_fits(largest);
        inverses[j] = pf_split_inverse(largest);
        scales[j] = pf_split_scale(largest);
    }
    if (cut) memset(scales, 0, SIDE * sizeof *scales);
    char rows[PF_SPLIT_STEP] __attribute__((aligned(64))) = {0};
    for (int64_t s = 0; s < p->l.steps; s++, to += PF_SPLIT_STEP) {
        for (int64_t j = 0; j < columns; j++) {
            float buffer[PF_SPLIT_DEPTH];
            int64_t n;
            const float *column = x + j * p->l.depth;
            const float *numbers = numbers_of(p, column, s * PF_SPLIT_DEPTH, factors, buffer, &n);
            int8_t *row = (int8_t *)rows + j * PF_SPLIT_DEPTH;
            if (cut)
                pf_split_numbers(numbers, n, 0.0f, 1, row);
            else
                pf_split_fast(numbers, n, inverses[j], row);
        }
        for (int i = 0; i < PF_SPLIT_DIGITS; i++)
            transpose_part(rows + i * PF_SPLIT_PART, to + i * PF_SPLIT_PART);
    }
}

static int64_t claim(const pf_worker *w, int counter) {
    return __atomic_fetch_add(&w->next[counter], 1, __ATOMIC_RELAXED);
}

PF_KERNEL_FUNCTION(conv_split_pack_f32) {
    const pf_pack_args *a = args_;
    weights p = {
        .x = pf_ptr(w, a->x), .y = pf_ptr(w, a->y), .ic = a->ic / a->groups, .oc = a->oc / a->groups};
    p.taps = a->kh * a->kw;
    p.l = pf_split_layout(a->groups, p.oc, p.ic * p.taps);
    const int64_t blocks = pf_ceil_div(p.l.depth, BLOCK), looks = a->groups * blocks;
    for (int64_t i = claim(w, LOOKED); i < looks; i = claim(w, LOOKED)) {
        const int64_t begin = i % blocks * BLOCK;
        look(&p, i / blocks, begin, pf_min(BLOCK, p.l.depth - begin));
        __atomic_fetch_add(&w->next[READY], 1, __ATOMIC_RELEASE);
    }
    for (int spins = 0; __atomic_load_n(&w->next[READY], __ATOMIC_ACQUIRE) < looks; spins++)
        pf_wait_turn(spins);
    const int64_t pieces = a->groups * p.l.columns;
    for (int64_t i = claim(w, PACKED); i < pieces; i = claim(w, PACKED)) {
        const int64_t group = i / p.l.columns, column = i % p.l.columns * SIDE;
        const int uneven = is_uneven(&p, group);
        if (column == 0) ((float *)(p.y + p.l.uneven))[group] = (float)uneven;
        pack_tile(&p, p.x + (group * p.oc + column) * p.l.depth, pf_min(SIDE, p.oc - column),
                  uneven ? factors_of(&p, group) : NULL, p.y + i * p.l.tile,
                  (float *)(p.y + p.l.scales) + i * SIDE);
    }
}
