/* Fourier transforms of one type of numbers. fourier.c includes this for each: PF_T names it, PF_V is the
 * type, PF_FMA multiplies and adds vectors. Buffers hold a row of LANES numbers for the real and one for the
 * imaginary part of each place. */
#define PF_OF(name) PF_JOIN(name, PF_T)
#define LANES       ((int64_t)(PF_VL * sizeof(float) / sizeof(PF_V)))

typedef PF_V PF_OF(any) __attribute__((aligned(1), may_alias));
typedef PF_V PF_OF(row) __attribute__((vector_size(PF_VL * 4), may_alias));
typedef struct PF_OF(pair) {
    PF_OF(row) re, im;
} PF_OF(pair);

/* A number of neighbouring places in memory: of line l they begin at x + o[l]. Lines whose numbers lie side
 * by side at each place are a run, which ends before line ends[i]. */
typedef struct PF_OF(lines) {
    int64_t o[2 * PF_VL], ends[2 * PF_VL], count, runs;
    int64_t distance; /* between lines, 0 where it varies */
} PF_OF(lines);

PF_INLINE PF_OF(pair) PF_OF(turned)(PF_OF(pair) z, PF_V re, PF_V im) {
    const PF_OF(row) c = re - (PF_OF(row)){0}, s = im - (PF_OF(row)){0};
    return (PF_OF(pair)){PF_FMA(z.re, c, -(z.im * s)), PF_FMA(z.re, s, z.im * c)};
}

/* -- butterflies: transforms of r places in z, in place -- */

PF_INLINE void PF_OF(butterfly_4)(PF_OF(pair) * z) {
    const PF_OF(pair) a = {z[0].re + z[2].re, z[0].im + z[2].im}, b = {z[0].re - z[2].re, z[0].im - z[2].im};
    const PF_OF(pair) c = {z[1].re + z[3].re, z[1].im + z[3].im}, d = {z[1].re - z[3].re, z[1].im - z[3].im};
    z[0] = (PF_OF(pair)){a.re + c.re, a.im + c.im};
    z[1] = (PF_OF(pair)){b.re + d.im, b.im - d.re};
    z[2] = (PF_OF(pair)){a.re - c.re, a.im - c.im};
    z[3] = (PF_OF(pair)){b.re - d.im, b.im + d.re};
}

PF_INLINE void PF_OF(butterfly_2)(PF_OF(pair) * z) {
    const PF_OF(pair) a = z[0], b = z[1];
    z[0] = (PF_OF(pair)){a.re + b.re, a.im + b.im};
    z[1] = (PF_OF(pair)){a.re - b.re, a.im - b.im};
}

/* Of odd r: places j and r - j go together. roots: of unity, r of them, (cos, -sin) each. */
PF_INLINE void PF_OF(butterfly_odd)(const int r, PF_OF(pair) * z, const PF_V *roots) {
    PF_OF(pair) sum[MOST_RADIX / 2 + 1], difference[MOST_RADIX / 2 + 1];
    const PF_OF(pair) first = z[0];
    for (int j = 1; j <= r / 2; j++) {
        sum[j] = (PF_OF(pair)){z[j].re + z[r - j].re, z[j].im + z[r - j].im};
        difference[j] = (PF_OF(pair)){z[j].re - z[r - j].re, z[j].im - z[r - j].im};
        z[0].re += sum[j].re, z[0].im += sum[j].im;
    }
    for (int k = 1; k <= r / 2; k++) {
        PF_OF(pair) a = first, b = {{0}, {0}};
        for (int j = 1; j <= r / 2; j++) {
            const PF_OF(row) zero = {0}, c = roots[j * k % r * 2] - zero, s = roots[j * k % r * 2 + 1] - zero;
            a.re = PF_FMA(sum[j].re, c, a.re), a.im = PF_FMA(sum[j].im, c, a.im);
            b.re = PF_FMA(difference[j].im, -s, b.re), b.im = PF_FMA(difference[j].re, s, b.im);
        }
        z[k] = (PF_OF(pair)){a.re + b.re, a.im + b.im};
        z[r - k] = (PF_OF(pair)){a.re - b.re, a.im - b.im};
    }
}

/* -- one stage: of transforms of `length` places, rest r of them, ones of r length places -- */

PF_INLINE void PF_OF(stage)(const int r, const PF_OF(pair) * x, PF_OF(pair) * y, const PF_V *roots,
                            int64_t length, int64_t rest) {
    PF_V own[MOST_RADIX * 2];
    for (int j = 0; r % 2 && j < r; j++) memcpy(own + 2 * j, roots + 2 * j * length * rest, 2 * sizeof *own);
    for (int64_t k = 0; k < length; k++, x += r * rest)
        for (int64_t p = 0; p < rest; p++) {
            PF_OF(pair) z[MOST_RADIX];
            for (int j = 0; j < r; j++) {
                const PF_V *turn = roots + 2 * j * k * rest;
                z[j] = x[j * rest + p];
                if (j && k) z[j] = PF_OF(turned)(z[j], turn[0], turn[1]);
            }
            if (r == 4) PF_OF(butterfly_4)(z);
            if (r == 2) PF_OF(butterfly_2)(z);
            if (r % 2) PF_OF(butterfly_odd)(r, z, own);
            for (int j = 0; j < r; j++) y[(k + j * length) * rest + p] = z[j];
        }
}

/* Transforms of all lanes; returns the buffer of the result. */
static PF_OF(pair) * PF_OF(transform)(int64_t n, PF_OF(pair) * x, PF_OF(pair) * y, const PF_V *roots) {
    int radices[MOST_STAGES];
    const int count = stages_of(n, radices);
    int64_t length = 1, rest = n;
    for (int i = 0; i < count; i++) {
        const int r = radices[i];
        rest /= r;
        switch (r) {
        case 1:
            break;
        case 2:
            PF_OF(stage)(2, x, y, roots, length, rest);
            break;
        case 3:
            PF_OF(stage)(3, x, y, roots, length, rest);
            break;
        case 4:
            PF_OF(stage)(4, x, y, roots, length, rest);
            break;
        case 5:
            PF_OF(stage)(5, x, y, roots, length, rest);
            break;
        default:
            PF_OF(stage)(r, x, y, roots, length, rest);
        }
        length *= r;
        PF_OF(pair) *const other = r == 1 ? y : x;
        x = r == 1 ? x : y, y = other;
    }
    return x;
}

/* -- between lines in memory and rows -- */

/* m lines that lie side by side, at one place; pairs are a number in each of two rows. */
PF_INLINE void PF_OF(take)(const PF_OF(any) * x, int64_t m, int64_t parts, PF_V *rows) {
    const pf_plane p = {.na = m, .nb = 2, .xa = 2, .yb = LANES};
    if (parts == 1)
        for (int64_t j = 0; j < m; j++) rows[j] = x[j];
    else if (sizeof(PF_V) == sizeof(float))
        pf_deinterleave2(&p, (const void *)x, (void *)rows);
    else
        for (int64_t j = 0; j < m; j++) rows[j] = x[2 * j], rows[LANES + j] = x[2 * j + 1];
}

PF_INLINE void PF_OF(give)(PF_OF(any) * y, int64_t m, int64_t parts, const PF_V *rows) {
    const pf_plane p = {.na = 2, .nb = m, .xa = LANES, .yb = 2};
    if (parts == 1)
        for (int64_t j = 0; j < m; j++) y[j] = rows[j];
    else if (sizeof(PF_V) == sizeof(float))
        pf_interleave2(&p, (const void *)rows, (void *)y);
    else
        for (int64_t j = 0; j < m; j++) y[2 * j] = rows[j], y[2 * j + 1] = rows[LANES + j];
}

/* n places of `parts` numbers each, `step` apart, become rows; real numbers take every second one. */
static void PF_OF(pull)(const PF_OF(lines) * l, const PF_OF(any) * x, int64_t n, int64_t parts, int64_t step,
                        PF_V *rows) {
    if (sizeof(PF_V) == sizeof(float) && step == parts && l->distance) {
        const pf_plane p = {.na = l->count, .nb = n * parts, .xa = l->distance, .yb = LANES * (3 - parts)};
        pf_transpose_wide(&p, (const void *)(x + l->o[0]), (void *)rows);
    } else if (l->runs == 1 && l->count == LANES) {
        for (x += l->o[0]; n > 0; n--, x += step, rows += 2 * LANES) PF_OF(take)(x, LANES, parts, rows);
    } else if (l->runs * FEW <= l->count) {
        for (int64_t i = 0; i < n; i++, x += step, rows += 2 * LANES)
            for (int64_t run = 0, k = 0; run < l->runs; k = l->ends[run++])
                PF_OF(take)(x + l->o[k], l->ends[run] - k, parts, rows + k);
    } else {
        for (int64_t i = 0; i < n; i++, x += step, rows += 2 * LANES)
            for (int64_t k = 0; k < l->count; k++)
                for (int64_t part = 0; part < parts; part++) rows[part * LANES + k] = x[l->o[k] + part];
    }
}

/* The other way; rows follow each other without gaps. */
static void PF_OF(push)(const PF_OF(lines) * l, PF_OF(any) * y, int64_t n, int64_t parts, int64_t step,
                        const PF_V *rows) {
    if (sizeof(PF_V) == sizeof(float) && step == parts && l->distance) {
        const pf_plane p = {.na = n * parts, .nb = l->count, .xa = LANES, .yb = l->distance};
        pf_transpose_wide(&p, (const void *)rows, (void *)(y + l->o[0]));
    } else if (l->runs == 1 && l->count == LANES) {
        for (y += l->o[0]; n > 0; n--, y += step, rows += parts * LANES) PF_OF(give)(y, LANES, parts, rows);
    } else if (l->runs * FEW <= l->count) {
        for (int64_t i = 0; i < n; i++, y += step, rows += parts * LANES)
            for (int64_t run = 0, k = 0; run < l->runs; k = l->ends[run++])
                PF_OF(give)(y + l->o[k], l->ends[run] - k, parts, rows + k);
    } else {
        for (int64_t i = 0; i < n; i++, y += step, rows += parts * LANES)
            for (int64_t k = 0; k < l->count; k++)
                for (int64_t part = 0; part < parts; part++) y[l->o[k] + part] = rows[part * LANES + k];
    }
}

/* -- what goes in -- */

/* The given places of a complex line, or of one real line for each part. */
static void PF_OF(read)(const pf_fourier_args *a, const pf_worker *w, const PF_OF(lines) l[2],
                        PF_OF(pair) * z) {
    const PF_OF(any) *x = pf_ptr(w, a->x), *window = pf_ptr(w, a->window);
    const int whole = l[0].count == LANES && (a->x_parts == 2 || l[1].count == LANES);
    if (a->given < a->n || !whole) memset(z, 0, (size_t)a->n * sizeof *z);
    PF_OF(pull)(&l[0], x, a->given, a->x_parts, a->xsn, (PF_V *)(z + a->first));
    if (a->x_parts == 1) PF_OF(pull)(&l[1], x, a->given, 1, a->xsn, (PF_V *)(z + a->first) + LANES);
    for (int64_t i = 0; window && i < a->given; i++) {
        z[a->first + i].re *= window[i];
        z[a->first + i].im *= window[i];
    }
}

/* z = A + i B of two lines of which the first half of a Hermitian spectrum is given; both have real
 * results. */
static void PF_OF(read_halves)(const pf_fourier_args *a, const pf_worker *w, const PF_OF(lines) l[2],
                               PF_OF(pair) * z, PF_OF(pair) * spare) {
    const int64_t half = a->n / 2 + 1;
    PF_OF(pair) * halves[2] = {spare, spare + half};
    memset(spare, 0, (size_t)half * 2 * sizeof *spare);
    for (int i = 0; i < 2; i++) PF_OF(pull)(&l[i], pf_ptr(w, a->x), a->given, 2, a->xsn, (PF_V *)halves[i]);
    for (int64_t k = 0; k < half; k++) {
        const PF_OF(pair) p = halves[0][k], q = halves[1][k];
        if (k == 0 || 2 * k == a->n) {
            z[k] = (PF_OF(pair)){p.re, q.re};
            continue;
        }
        z[k] = (PF_OF(pair)){p.re - q.im, p.im + q.re};
        z[a->n - k] = (PF_OF(pair)){p.re + q.im, q.re - p.im};
    }
}

/* -- what comes out: an inverse transform is one whose results are counted backwards -- */

static void PF_OF(write)(const pf_fourier_args *a, const pf_worker *w, const PF_OF(lines) l[2],
                         const PF_OF(pair) * z, PF_V *rows) {
    PF_OF(any) *y = pf_ptr(w, a->y);
    const PF_V scale = (PF_V)a->scale;
    PF_OF(row) *to = (PF_OF(row) *)rows;
    const int lines = a->x_parts == 2 && a->y_parts == 2 ? 1 : 2;
    for (int i = 0; i < lines && l[i].count > 0; i++) {
        for (int64_t k = 0; k < a->wanted; k++) {
            const int64_t back = k ? a->n - k : 0;
            const PF_OF(pair) at = z[a->inverse ? back : k], mirrored = z[a->inverse ? k : back];
            if (a->y_parts == 1) {
                to[k] = (i ? at.im : at.re) * scale;
            } else if (lines == 1) {
                to[2 * k] = at.re * scale, to[2 * k + 1] = at.im * scale;
            } else {
                to[2 * k] = (i ? at.im + mirrored.im : at.re + mirrored.re) * (scale / 2);
                to[2 * k + 1] = (i ? mirrored.re - at.re : at.im - mirrored.im) * (scale / 2);
            }
        }
        PF_OF(push)(&l[i], y, a->wanted, a->y_parts, a->ysn, rows);
    }
}

/* Where up to LANES lines begin in tensor k of a nest, of `parts` numbers a place, from line `first` on. */
static void PF_OF(find)(const pf_nest *t, int k, int64_t first, int64_t parts, PF_OF(lines) * l) {
    pf_walk p;
    l->count = pf_max(0, pf_min(LANES, t->total - first));
    l->distance = l->runs = 0;
    if (l->count == 0) return;
    pf_walk_start(&p, t, first);
    for (int64_t i = 0; i < l->count; i++, pf_walk_next(&p, t)) l->o[i] = p.o[k];
    if (l->count > 1) l->distance = l->o[1] - l->o[0];
    for (int64_t i = 1; i < l->count; i++) {
        if (l->o[i] != l->o[0] + i * l->distance) l->distance = 0;
        if (l->o[i] != l->o[i - 1] + parts) l->ends[l->runs++] = i;
    }
    l->ends[l->runs++] = l->count;
}

PF_KERNEL_FUNCTION(PF_JOIN(fourier, PF_T)) {
    const pf_fourier_args *a = args_;
    const pf_nest t = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    const PF_V *roots = pf_ptr(w, a->roots);
    PF_OF(pair) *z = (PF_OF(pair) *)pf_ptr(w, a->scratch) + w->tid * 2 * (a->n + 2), *spare = z + a->n + 2;
    const int64_t each = a->x_parts == 2 && a->y_parts == 2 ? LANES : 2 * LANES;
    int64_t begin, end;
    pf_share(w, pf_ceil_div(t.total, each), 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        PF_OF(lines) from[2], to[2];
        for (int k = 0; k < 2; k++) {
            PF_OF(find)(&t, 0, i * each + k * LANES, a->x_parts, &from[k]);
            PF_OF(find)(&t, 1, i * each + k * LANES, a->y_parts, &to[k]);
        }
        if (a->y_parts == 1)
            PF_OF(read_halves)(a, w, from, z, spare);
        else
            PF_OF(read)(a, w, from, z);
        PF_OF(pair) *result = PF_OF(transform)(a->n, z, spare, roots);
        PF_OF(write)(a, w, to, result, (PF_V *)(result == z ? spare : z));
    }
}

#undef PF_OF
#undef LANES
#undef PF_T
#undef PF_V
#undef PF_FMA
