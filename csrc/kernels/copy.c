/* Strided copies and fills: layout changes, slices, borders. Runs that are contiguous on both sides are moved
 * whole; where the contiguous dimensions differ, tiles are transposed in registers (transpose.h). */
#include <stdbool.h>
#include <string.h>

#include "kernels/nest.h"
#include "kernels/transpose.h"

/* FAR: bytes from which on a tensor and its copy are not in the cache of a core. */
enum { RUN_CHUNK = 32768, TILE_SIDE = 64, AREA = TILE_SIDE * TILE_SIDE, ALIAS = 4096, FAR = 1 << 20 };

/* Copies `count` runs of `bytes` bytes; short runs get loops of constant size. */
static void copy_runs(char *y, int64_t ys, const char *x, int64_t xs, int64_t count, int64_t bytes) {
#define PF_RUNS(size)                                                                                        \
    case size:                                                                                               \
        for (int64_t i = 0; i < count; i++) memcpy(y + i * ys, x + i * xs, size);                            \
        break;
    switch (bytes) {
        PF_RUNS(1)
        PF_RUNS(2)
        PF_RUNS(4)
        PF_RUNS(8)
        PF_RUNS(12)
        PF_RUNS(16)
        PF_RUNS(32)
        PF_RUNS(64)
    default:
        for (int64_t i = 0; i < count; i++) memcpy(y + i * ys, x + i * xs, (size_t)bytes);
    }
}

/* The last dimension is contiguous on both sides. The one before it is the inner loop, unless runs are long.
 */
static void copy_contiguous(pf_nest t, int64_t size, const char *x, char *y, const pf_worker *w) {
    const int64_t last = t.rank - 1, run = t.n[last] * size;
    pf_nest_remove(&t, last);
    if (run >= RUN_CHUNK) {
        const int64_t chunks = pf_ceil_div(run, RUN_CHUNK);
        int64_t begin, end;
        pf_share(w, t.total * chunks, 1, &begin, &end);
        for (int64_t i = begin; i < end; i++) {
            pf_walk p;
            pf_walk_start(&p, &t, i / chunks);
            const int64_t at = i % chunks * RUN_CHUNK;
            memcpy(y + p.o[0] * size + at, x + p.o[1] * size + at, (size_t)pf_min(RUN_CHUNK, run - at));
        }
        return;
    }
    const int64_t inner = t.rank ? t.n[t.rank - 1] : 1;
    const int64_t ys = t.rank ? t.s[0][t.rank - 1] * size : 0, xs = t.rank ? t.s[1][t.rank - 1] * size : 0;
    if (t.rank) pf_nest_remove(&t, t.rank - 1);
    const int64_t strip = pf_max(1, pf_min(inner, RUN_CHUNK / run)), strips = pf_ceil_div(inner, strip);
    int64_t begin, end;
    pf_share(w, t.total * strips, 1, &begin, &end);
    pf_walk p;
    pf_walk_start(&p, &t, begin / strips);
    for (int64_t i = begin, first = begin % strips * strip; i < end; i++) {
        copy_runs(y + p.o[0] * size + first * ys, ys, x + p.o[1] * size + first * xs, xs,
                  pf_min(strip, inner - first), run);
        first += strip;
        if (first >= inner) first = 0, pf_walk_next(&p, &t);
    }
}

/* Every other element of rows is a loop of its own, which compilers turn into shuffles. */
#define PF_STRIDED(bits)                                                                                     \
    static void copy_even_##bits(const pf_plane *p, const char *xb, char *yb) {                              \
        typedef uint##bits##_t element __attribute__((aligned(1), may_alias));                               \
        for (int64_t b = 0; b < p->nb; b++, xb += p->xb * bits / 8, yb += p->yb * bits / 8) {                \
            const element *restrict x = (const element *)xb;                                                 \
            element *restrict y = (element *)yb;                                                             \
            for (int64_t a = 0; a < p->na; a++) y[a] = x[2 * a];                                             \
        }                                                                                                    \
    }                                                                                                        \
    static void copy_strided_##bits(const pf_plane *p, const char *xb, char *yb) {                           \
        typedef uint##bits##_t element __attribute__((aligned(1), may_alias));                               \
        const element *x = (const element *)xb;                                                              \
        element *y = (element *)yb;                                                                          \
        enum { BLOCK = 16 };                                                                                 \
        for (int64_t b0 = 0; b0 < p->nb; b0 += BLOCK)                                                        \
            for (int64_t b = b0; b < pf_min(b0 + BLOCK, p->nb); b++)                                         \
                for (int64_t a = 0; a < p->na; a++) y[a * p->ya + b * p->yb] = x[a * p->xa + b * p->xb];     \
    }
PF_STRIDED(8)
PF_STRIDED(16)
PF_STRIDED(32)
PF_STRIDED(64)

/* ya and xb are 1: tiles of 4 x 4, then what remains on both sides. */
static void copy_turned_64(const pf_plane *p, const char *x, char *y) {
    const int64_t na = p->na / 4 * 4, nb = p->nb / 4 * 4;
    for (int64_t b = 0; b < nb; b += 4)
        for (int64_t a = 0; a < na; a += 4) {
            pf_l4 r[4];
            PF_UNROLL
            for (int i = 0; i < 4; i++) r[i] = *(const pf_l4_any *)(x + ((a + i) * p->xa + b) * 8);
            pf_transpose4_64(r);
            PF_UNROLL
            for (int i = 0; i < 4; i++) *(pf_l4_any *)(y + ((b + i) * p->yb + a) * 8) = r[i];
        }
    pf_plane side = *p;
    side.na = p->na - na, side.nb = nb;
    copy_strided_64(&side, x + na * p->xa * 8, y + na * 8);
    side.na = p->na, side.nb = p->nb - nb;
    copy_strided_64(&side, x + nb * 8, y + nb * p->yb * 8);
}

/* Rows read backwards (xa is -1, ya 1); the last vector of a row may write some elements again. */
#if defined(__clang__)
#    define PF_TURN(v, lanes, r)                                                                             \
        for (int i = 0; i < (int)(sizeof v / sizeof v[0]); i++) r[i] = v[lanes[i]]
#else
#    define PF_TURN(v, lanes, r) r = __builtin_shuffle(v, lanes)
#endif
#define PF_REVERSED(bits)                                                                                    \
    enum { LANES_##bits = PF_VL * 32 / bits };                                                               \
    static void copy_reversed_##bits(const pf_plane *p, const char *x, char *y) {                            \
        typedef uint##bits##_t vector __attribute__((vector_size(PF_VL * 4)));                               \
        enum { SIZE = bits / 8 };                                                                            \
        vector v, lanes, r;                                                                                  \
        for (int i = 0; i < LANES_##bits; i++) lanes[i] = (uint##bits##_t)(LANES_##bits - 1 - i);            \
        for (int64_t b = 0; b < p->nb; b++, x += p->xb * SIZE, y += p->yb * SIZE)                            \
            for (int64_t a = 0; a < p->na; a += LANES_##bits) {                                              \
                const int64_t at = pf_min(a, p->na - LANES_##bits);                                          \
                memcpy(&v, x - (at + LANES_##bits - 1) * SIZE, sizeof v);                                    \
                PF_TURN(v, lanes, r);                                                                        \
                memcpy(y + at * SIZE, &r, sizeof r);                                                         \
            }                                                                                                \
    }
PF_REVERSED(8)
PF_REVERSED(16)
PF_REVERSED(32)
PF_REVERSED(64)

static void copy_strided_any(const pf_plane *p, int64_t size, const char *x, char *y) {
    for (int64_t b = 0; b < p->nb; b++)
        for (int64_t a = 0; a < p->na; a++)
            memcpy(y + (a * p->ya + b * p->yb) * size, x + (a * p->xa + b * p->xb) * size, (size_t)size);
}

/* Planes in which a is the run of y and not of x. */
#define PF_ROWS(bits)                                                                                        \
    static void copy_rows_##bits(const pf_plane *p, const char *x, char *y) {                                \
        if (p->xa == -1 && p->na >= LANES_##bits)                                                            \
            copy_reversed_##bits(p, x, y);                                                                   \
        else if (p->xa == 2)                                                                                 \
            copy_even_##bits(p, x, y);                                                                       \
        else                                                                                                 \
            copy_strided_##bits(p, x, y);                                                                    \
    }
PF_ROWS(8)
PF_ROWS(16)
PF_ROWS(32)
PF_ROWS(64)

static bool is_turned(const pf_plane *p) { return p->ya == 1 && p->xb == 1; }

static void copy_plane(const pf_plane *p, int64_t size, bool far, const char *x, char *y) {
    const bool rows = p->ya == 1;
    switch (size) {
    case 1:
        (rows ? copy_rows_8 : copy_strided_8)(p, x, y);
        break;
    case 2:
        (rows ? copy_rows_16 : copy_strided_16)(p, x, y);
        break;
    case 4:
        if (is_turned(p))
            (far ? pf_transpose_far : pf_transpose)(p, (const float *)x, (float *)y);
        else
            (rows ? copy_rows_32 : copy_strided_32)(p, x, y);
        break;
    case 8:
        if (is_turned(p))
            copy_turned_64(p, x, y);
        else
            (rows ? copy_rows_64 : copy_strided_64)(p, x, y);
        break;
    default:
        copy_strided_any(p, size, x, y);
    }
}

/* Sides of the parts of a plane: squares where lines are read in one direction and written in the other. */
static void choose_sides(const pf_plane *p, int64_t size, int64_t *side_a, int64_t *side_b) {
    *side_a = p->ya == 1 && !is_turned(p) ? AREA : TILE_SIDE;
    *side_b = p->yb * size % ALIAS == 0 ? TILE_SIDE / 4 : TILE_SIDE;
    if (pf_min(*side_a, p->na) < TILE_SIDE) *side_b = pf_max(*side_b, AREA / pf_min(*side_a, p->na));
    if (pf_min(*side_b, p->nb) < TILE_SIDE) *side_a = pf_max(*side_a, AREA / pf_min(*side_b, p->nb));
}

/* Planes of dimension a, where y has its smallest stride, and b, where x has (the next one if that is also
 * a). */
static void copy_planes(pf_nest t, int64_t size, const char *x, char *y, const pf_worker *w) {
    const bool far = t.total * size >= FAR;
    pf_plane p = {1, 1, 0, 0, 0, 0};
    if (t.rank) {
        const int64_t a = t.rank - 1;
        p.na = t.n[a], p.ya = t.s[0][a], p.xa = t.s[1][a];
        pf_nest_remove(&t, a);
    }
    if (t.rank) {
        int64_t b = t.rank - 1;
        for (int64_t d = b; d >= 0; d--)
            if (t.s[1][d] == 1 || t.s[1][d] == -1) b = d;
        p.nb = t.n[b], p.yb = t.s[0][b], p.xb = t.s[1][b];
        pf_nest_remove(&t, b);
        if (p.xb == -1) { /* the same from the other end */
            x -= (p.nb - 1) * size, y += (p.nb - 1) * p.yb * size;
            p.xb = 1, p.yb = -p.yb;
        }
    }
    int64_t side_a, side_b;
    choose_sides(&p, size, &side_a, &side_b);
    const int64_t as = pf_ceil_div(p.na, side_a), bs = pf_ceil_div(p.nb, side_b);
    int64_t begin, end;
    pf_share(w, t.total * as * bs, 1, &begin, &end);
    int64_t a0 = begin % as * side_a, b0 = begin / as % bs * side_b;
    pf_walk walk;
    pf_walk_start(&walk, &t, begin / (as * bs));
    for (int64_t i = begin; i < end; i++) {
        pf_plane tile = p;
        tile.na = pf_min(side_a, p.na - a0), tile.nb = pf_min(side_b, p.nb - b0);
        copy_plane(&tile, size, far, x + (walk.o[1] + a0 * p.xa + b0 * p.xb) * size,
                   y + (walk.o[0] + a0 * p.ya + b0 * p.yb) * size);
        /* Planes may be as small as a few numbers, so what comes next is added up. */
        a0 += side_a;
        if (a0 < p.na) continue;
        a0 = 0, b0 += side_b;
        if (b0 >= p.nb) b0 = 0, pf_walk_next(&walk, &t);
    }
}

enum { PATTERN = 64, REPEATED = 256 };

/* Fills n elements that lie `step` elements apart; pattern holds the value repeatedly. */
static void fill_row(char *y, int64_t n, int64_t step, int64_t size, const char *pattern) {
    if (step != 1) {
        for (int64_t i = 0; i < n; i++) memcpy(y + i * step * size, pattern, (size_t)size);
        return;
    }
    const int64_t bytes = n * size;
    int64_t i = 0;
    for (; i + PATTERN <= bytes; i += PATTERN) memcpy(y + i, pattern, PATTERN);
    memcpy(y + i, pattern, (size_t)(bytes - i));
}

/* Rows of y that repeat one element of x each. */
static void repeat(pf_nest t, int64_t size, const char *x, char *y, const pf_worker *w) {
    char pattern[PATTERN];
    int64_t source = -1;
    const int64_t n = t.rank ? t.n[t.rank - 1] : 1, step = t.rank ? t.s[0][t.rank - 1] : 1;
    if (t.rank) pf_nest_remove(&t, t.rank - 1);
    const int64_t chunks = pf_ceil_div(n, RUN_CHUNK);
    int64_t begin, end;
    pf_share(w, t.total * chunks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        pf_walk p;
        pf_walk_start(&p, &t, i / chunks);
        if (p.o[1] != source || i == begin)
            for (int64_t k = 0; k < PATTERN; k += size) memcpy(pattern + k, x + p.o[1] * size, (size_t)size);
        source = p.o[1];
        const int64_t first = i % chunks * RUN_CHUNK;
        fill_row(y + (p.o[0] + first * step) * size, pf_min(RUN_CHUNK, n - first), step, size, pattern);
    }
}

PF_KERNEL_FUNCTION(copy) {
    const pf_copy_args *a = args_;
    const char *x = pf_ptr(w, a->x);
    char *y = pf_ptr(w, a->y);
    const pf_nest t = pf_nest_make(a->rank, a->shape, a->ys, a->xs, NULL);
    if (t.total == 0) return;
    if (t.rank && t.s[0][t.rank - 1] == 1 && t.s[1][t.rank - 1] == 1)
        copy_contiguous(t, a->itemsize, x, y, w);
    else if (t.rank && t.s[0][t.rank - 1] == 1 && t.s[1][t.rank - 1] == 0 && t.n[t.rank - 1] >= REPEATED &&
             PATTERN % a->itemsize == 0)
        repeat(t, a->itemsize, x, y, w);
    else
        copy_planes(t, a->itemsize, x, y, w);
}

PF_KERNEL_FUNCTION(fill) {
    const pf_fill_args *a = args_;
    const int64_t bits[2] = {a->bits, a->bits_high};
    const pf_nest t = pf_nest_make(a->rank, a->shape, a->ys, NULL, NULL);
    if (t.total) repeat(t, a->itemsize, (const char *)bits, pf_ptr(w, a->y), w);
}
