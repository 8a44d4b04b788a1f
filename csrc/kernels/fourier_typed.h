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

/* Those of the even and of the odd places, which an eighth of a turn and its multiples bring together. */
PF_INLINE void PF_OF(butterfly_8)(PF_OF(pair) * z) {
    const PF_V half = (PF_V)0.70710678118654752440; /* the root of a half */
    PF_OF(pair) even[4] = {z[0], z[2], z[4], z[6]}, odd[4] = {z[1], z[3], z[5], z[7]};
    PF_OF(butterfly_4)(even);
    PF_OF(butterfly_4)(odd);
    odd[1] = (PF_OF(pair)){(odd[1].re + odd[1].im) * half, (odd[1].im - odd[1].re) * half};
    odd[2] = (PF_OF(pair)){odd[2].im, -odd[2].re};
    odd[3] = (PF_OF(pair)){(odd[3].im - odd[3].re) * half, (odd[3].re + odd[3].im) * -half};
    for (int k = 0; k < 4; k++) {
        z[k] = (PF_OF(pair)){even[k].re + odd[k].re, even[k].im + odd[k].im};
        z[k + 4] = (PF_OF(pair)){even[k].re - odd[k].re, even[k].im - odd[k].im};
    }
}

/* Of odd r: places j and r - j go together. roots: of unity, r of them, (cos, -sin) each. real: without
 * imaginary parts. */
PF_INLINE void PF_OF(butterfly_odd)(const int r, const int real, PF_OF(pair) * z, const PF_V *roots) {
    PF_OF(pair) sum[MOST_RADIX / 2 + 1], difference[MOST_RADIX / 2 + 1];
    const PF_OF(pair) first = z[0];
    for (int j = 1; j <= r / 2; j++) {
        sum[j] = (PF_OF(pair)){z[j].re + z[r - j].re, z[j].im + z[r - j].im};
        difference[j] = (PF_OF(pair)){z[j].re - z[r - j].re, z[j].im - z[r - j].im};
        z[0].re += sum[j].re, z[0].im += sum[j].im;
    }
    for (int k = 1; k <= r / 2; k++) {
        PF_OF(pair) a = first, b = {{0}, {0}};
        for (int j = 1, at = 0; j <= r / 2; j++) {
            at += at + k < r ? k : k - r;
            const PF_OF(row) zero = {0}, c = roots[2 * at] - zero, s = roots[2 * at + 1] - zero;
            a.re = PF_FMA(sum[j].re, c, a.re), b.im = PF_FMA(difference[j].re, s, b.im);
            if (!real) a.im = PF_FMA(sum[j].im, c, a.im), b.re = PF_FMA(difference[j].im, -s, b.re);
        }
        z[k] = (PF_OF(pair)){a.re + b.re, a.im + b.im};
        z[r - k] = (PF_OF(pair)){a.re - b.re, a.im - b.im};
    }
}

/* -- one stage: of transforms of `length` places, rest r of them, ones of r length places -- */

/* roots: a root of unity of the whole transform at each `step`. A HALF transform has the first half of each
 * spectrum in x and y alone, for the other half is its mirror; a REAL stage takes real numbers to such
 * halves. Both are for odd lengths. */
PF_INLINE void PF_OF(stage)(const int r, const int kind, const PF_OF(pair) * x, PF_OF(pair) * y,
                            const PF_V *roots, int64_t step, int64_t length, int64_t rest) {
    const PF_OF(row) *const numbers = (const void *)x;
    const int kept = kind == WHOLE ? r : r / 2 + 1;
    PF_V own[MOST_RADIX * 2];
    for (int j = 0; r % 2 && j < r; j++)
        memcpy(own + 2 * j, roots + 2 * j * length * rest * step, 2 * sizeof *own);
    for (int64_t k = 0; k < (kind == WHOLE ? length : length / 2 + 1); k++, x += r * rest)
        for (int64_t p = 0; p < rest; p++) {
            PF_OF(pair) z[MOST_RADIX];
            for (int j = 0; j < r; j++) {
                const PF_V *turn = roots + 2 * j * k * rest * step;
                z[j] = kind == REAL ? (PF_OF(pair)){numbers[j * rest + p], {0}} : x[j * rest + p];
                if (kind != REAL && j && k) z[j] = PF_OF(turned)(z[j], turn[0], turn[1]);
            }
            if (r == 8) PF_OF(butterfly_8)(z);
            if (r == 4) PF_OF(butterfly_4)(z);
            if (r == 2) PF_OF(butterfly_2)(z);
            if (r % 2) PF_OF(butterfly_odd)(r, kind == REAL, z, own);
            for (int j = 0; j < kept; j++) y[(k + j * length) * rest + p] = z[j];
            for (int j = kept; kind == HALF && j < r; j++)
                y[((r - j) * length - k) * rest + p] = (PF_OF(pair)){z[j].re, -z[j].im};
        }
}

/* A stage of which the compiler knows the kind and small radices. */
PF_INLINE void PF_OF(stage_of)(int r, const int kind, const PF_OF(pair) * x, PF_OF(pair) * y,
                               const PF_V *roots, int64_t step, int64_t length, int64_t rest) {
    if (r == 3)
        PF_OF(stage)(3, kind, x, y, roots, step, length, rest);
    else if (r == 5)
        PF_OF(stage)(5, kind, x, y, roots, step, length, rest);
    else if (kind == WHOLE && r == 8)
        PF_OF(stage)(8, kind, x, y, roots, step, length, rest);
    else if (kind == WHOLE && r == 4)
        PF_OF(stage)(4, kind, x, y, roots, step, length, rest);
    else if (kind == WHOLE && r == 2)
        PF_OF(stage)(2, kind, x, y, roots, step, length, rest);
    else
        PF_OF(stage)(r, kind, x, y, roots, step, length, rest);
}

/* Transforms of all lanes, WHOLE ones or, of real numbers, HALF ones; returns the buffer of the result. */
static PF_OF(pair) *
    PF_OF(transform)(int64_t n, int kind, PF_OF(pair) * x, PF_OF(pair) * y, const PF_V *roots, int64_t step) {
    int radices[MOST_STAGES];
    const int count = stages_of(n, radices);
    int64_t length = 1, rest = n;
    for (int i = 0; i < count; i++) {
        const int r = radices[i];
        rest /= r;
        if (kind == WHOLE)
            PF_OF(stage_of)(r, WHOLE, x, y, roots, step, length, rest);
        else if (i == 0)
            PF_OF(stage_of)(r, REAL, x, y, roots, step, length, rest);
        else
            PF_OF(stage_of)(r, HALF, x, y, roots, step, length, rest);
        length *= r;
        PF_OF(pair) *const other = x;
        x = y, y = other;
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

/* n places of `parts` numbers each, `step` apart, become rows that follow each other without gaps. */
static void PF_OF(pull)(const PF_OF(lines) * l, const PF_OF(any) * x, int64_t n, int64_t parts, int64_t step,
                        PF_V *rows) {
    if (sizeof(PF_V) == sizeof(float) && step == parts && l->distance) {
        const pf_plane p = {.na = l->count, .nb = n * parts, .xa = l->distance, .yb = LANES};
        pf_transpose_wide(&p, (const void *)(x + l->o[0]), (void *)rows);
    } else if (l->runs == 1 && l->count == LANES) {
        for (x += l->o[0]; n > 0; n--, x += step, rows += parts * LANES) PF_OF(take)(x, LANES, parts, rows);
    } else if (l->runs * FEW <= l->count) {
        for (int64_t i = 0; i < n; i++, x += step, rows += parts * LANES)
            for (int64_t run = 0, k = 0; run < l->runs; k = l->ends[run++])
                PF_OF(take)(x + l->o[k], l->ends[run] - k, parts, rows + k);
    } else {
        for (int64_t i = 0; i < n; i++, x += step, rows += parts * LANES)
            for (int64_t k = 0; k < l->count; k++)
                for (int64_t part = 0; part < parts; part++) rows[part * LANES + k] = x[l->o[k] + part];
    }
}

/* The other way. */
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

/* The given places of lines. */
static void PF_OF(read)(const pf_fourier_args *a, const pf_worker *w, const PF_OF(lines) * l,
                        PF_OF(row) * rows) {
    const int64_t parts = a->x_parts;
    const PF_OF(any) *window = pf_ptr(w, a->window);
    if (a->given < a->n || l->count < LANES) memset(rows, 0, (size_t)(a->n * parts) * sizeof *rows);
    rows += a->first * parts;
    if (parts == 1)
        PF_OF(pull)(l, pf_ptr(w, a->x), a->given, 1, a->xsn, (PF_V *)rows);
    else
        PF_OF(pull)(l, pf_ptr(w, a->x), a->given, 2, a->xsn, (PF_V *)rows);
    for (int64_t i = 0; window && i < a->given; i++)
        for (int64_t part = 0; part < parts; part++) *rows++ *= window[i];
}

/* Of Hermitian spectra, the first half of which is given, the sums of both parts: the sums or differences of
 * the parts of their transforms are what is wanted (Hartley's transform). */
static void PF_OF(read_halves)(const pf_fourier_args *a, const pf_worker *w, const PF_OF(lines) * l,
                               PF_OF(row) * rows, PF_OF(pair) * half) {
    if (a->given <= a->n / 2 || l->count < LANES) memset(half, 0, (size_t)(a->n / 2 + 1) * sizeof *half);
    PF_OF(pull)(l, pf_ptr(w, a->x), a->given, 2, a->xsn, (PF_V *)half);
    rows[0] = half[0].re;
    for (int64_t k = 1; 2 * k < a->n; k++) {
        rows[k] = half[k].re + half[k].im;
        rows[a->n - k] = half[k].re - half[k].im;
    }
    if (a->n % 2 == 0) rows[a->n / 2] = half[a->n / 2].re;
}

/* -- what comes out -- */

/* An inverse transform is one whose results are counted backwards. Returns where the results are. */
static const PF_OF(pair) * PF_OF(write)(const pf_fourier_args *a, const PF_OF(pair) * z, PF_OF(pair) * to) {
    const PF_V scale = (PF_V)a->scale;
    if (!a->inverse && scale == 1) return z;
    for (int64_t k = 0; k < a->wanted; k++) {
        const PF_OF(pair) at = z[a->inverse && k ? a->n - k : k];
        to[k] = (PF_OF(pair)){at.re * scale, at.im * scale};
    }
    return to;
}

/* Place k of the spectrum of real numbers, and with it n - k. */
PF_INLINE void PF_OF(write_place)(const pf_fourier_args *a, int64_t k, PF_OF(pair) at, PF_OF(row) * to) {
    if (a->y_parts == 1) {
        const PF_OF(row) im = a->inverse ? at.im : -at.im;
        to[k ? a->n - k : 0] = at.re - im;
        to[k] = at.re + im;
        return;
    }
    const PF_OF(row) im = a->inverse ? -at.im : at.im;
    if (a->n - k < a->wanted) to[2 * (a->n - k)] = at.re, to[2 * (a->n - k) + 1] = -im;
    to[2 * k] = at.re, to[2 * k + 1] = im;
}

/* Half spectra of real numbers: those of odd n are in z, those of even n follow from transforms of n / 2
 * pairs of neighbours. */
static const PF_OF(pair) * PF_OF(write_real)(const pf_fourier_args *args, const PF_OF(pair) * z,
                                             const PF_V *roots, PF_OF(pair) * pairs) {
    PF_OF(row) *const to = (PF_OF(row) *)pairs;
    const pf_fourier_args own = *args, *const a = &own; /* which no store changes */
    const PF_V scale = (PF_V)a->scale, less = scale / 2;
    const int64_t half = a->n / 2;
    for (int64_t k = 0; a->n % 2 && k <= half; k++)
        PF_OF(write_place)(a, k, (PF_OF(pair)){z[k].re * scale, z[k].im * scale}, to);
    if (a->n % 2) return pairs;
    PF_OF(write_place)(a, half, (PF_OF(pair)){(z[0].re - z[0].im) * scale, {0}}, to);
    PF_OF(write_place)(a, 0, (PF_OF(pair)){(z[0].re + z[0].im) * scale, {0}}, to);
    for (int64_t k = 1; 2 * k <= half; k++) {
        const PF_OF(pair) p = {z[k].re * less, z[k].im * less};
        const PF_OF(pair) q = {z[half - k].re * less, z[half - k].im * less};
        const PF_OF(pair) even = {p.re + q.re, p.im - q.im};
        const PF_OF(pair) odd =
            PF_OF(turned)((PF_OF(pair)){p.im + q.im, q.re - p.re}, roots[2 * k], roots[2 * k + 1]);
        PF_OF(write_place)(a, half - k, (PF_OF(pair)){even.re - odd.re, odd.im - even.im}, to);
        PF_OF(write_place)(a, k, (PF_OF(pair)){even.re + odd.re, even.im + odd.im}, to);
    }
    return pairs;
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
    const int64_t places = places_of(a);
    const int real = is_real(a), kind = real && places == a->n ? HALF : WHOLE;
    int64_t begin, end;
    pf_share(w, pf_ceil_div(t.total, LANES), 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        PF_OF(lines) from, to;
        PF_OF(find)(&t, 0, i * LANES, a->x_parts, &from);
        PF_OF(find)(&t, 1, i * LANES, a->y_parts, &to);
        if (a->y_parts == 1)
            PF_OF(read_halves)(a, w, &from, (PF_OF(row) *)z, spare);
        else
            PF_OF(read)(a, w, &from, (PF_OF(row) *)z);
        PF_OF(pair) *const result = PF_OF(transform)(places, kind, z, spare, roots, a->n / places);
        PF_OF(pair) *const other = result == z ? spare : z;
        const PF_OF(pair) *const rows =
            real ? PF_OF(write_real)(a, result, roots, other) : PF_OF(write)(a, result, other);
        PF_OF(push)(&to, pf_ptr(w, a->y), a->wanted, a->y_parts, a->ysn, (const PF_V *)rows);
    }
}

#undef PF_OF
#undef LANES
#undef PF_T
#undef PF_V
#undef PF_FMA
