/* The recurrent part of LSTM, GRU and plain RNN layers, both directions of one layer at a time. What depends
 * on the input alone (gates = x W_ih^T + biases, for all steps at once) is computed before by a linear layer;
 * here each step adds h W_hh^T and applies the cell. The columns of W_hh are packed so that one tile yields
 * all gates of the same hidden units, which the cell then consumes from L1. */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/team.h"
#include "kernels/args.h"
#include "kernels/int8.h"
#include "kernels/pack_columns.h"
#include "kernels/rnn_cells.h"
#include "kernels/rnn_columns.h"
#include "kernels/rnn_pairs.h"
#include "kernels/rnn_tall.h"
#include "kernels/tile.h"

/* Some vectors of a block, from `first` on. */
static void pack_panel(const columns *c, const float *x, float *y, int64_t block, int first, int vectors) {
    const int own = block_vectors(c, block);
    for (int v = 0; v < vectors; v++) {
        const int64_t gate = (first + v) / own, unit = (block_start(c, block) + (first + v) % own) * PF_VL;
        pf_pack_columns(x + (gate * c->units + unit) * c->k, c->k, c->units - unit, 1, vectors * PF_VL, 0,
                        c->k, y + v * PF_VL);
    }
}

typedef struct share {
    int64_t row0, row1, members, member; /* rows of the batch; blocks are dealt out among the members */
    bool meets;
} share;

/* Directions are independent, and so are rows of the batch: only when there are too few of them, and a step
 * is worth it, do threads share the blocks of one matrix, meeting after every step. */
static share deal(int64_t gates, int64_t weights, int64_t rows, int64_t dirs, int nthreads, int tid) {
    enum { WORTH_MEETING = 3 << 14 };
    const int64_t members = pf_max(1, nthreads / dirs), member = tid % members;
    const int enough = gates == LSTM && PF_REGISTERS == 16 ? WIDE_ROWS : 6;
    if (rows >= members * enough)
        return (share){rows * member / members, rows * (member + 1) / members, 1, 0, false};
    if (rows * gates * weights < WORTH_MEETING) return (share){0, member == 0 ? rows : 0, 1, 0, false};
    return (share){0, rows, members, member, members > 1};
}

/* The form that suits the rows of a thread. Wide blocks do if they come in parts of as many as one takes at
 * once, or nearly. Others, and multiples of two parts that a tall block holds, fill the registers as well or
 * better there. */
static int best_form(const pf_recurrent_pack_args *a, int nthreads) {
    const share part = deal(a->gates, a->units * a->k, a->rows, a->dirs, nthreads, nthreads - 1);
    const int64_t rows = part.row1 - part.row0;
    if (pays_pairs(rows, a->units, a->k)) return BY_PAIRS;
    const bool wide = PF_REGISTERS == 16 && a->gates == LSTM && !part.meets && rows >= WIDE_ROWS &&
                      (rows + 1) % WIDE_ROWS <= 1 && rows % TALL_MOST != 0;
    return wide ? BY_WIDE_BLOCKS : BY_TILES;
}

PF_PLAN_FUNCTION(recurrent_pack_f32) {
    const pf_recurrent_pack_args *a = args_;
    plan->variant = a->variant >= 0 ? (int)a->variant : best_form(a, nthreads);
    const columns c = make_columns(a->gates, a->units, a->k, plan->variant);
    plan->packed_bytes = packed_floats(&c) * (int64_t)sizeof(float);
    if (c.paired) plan->scratch_bytes = nthreads * paired_floats(a->rows, a->k) * (int64_t)sizeof(float);
}

static void pack_for_pairs(const pf_recurrent_pack_args *a, const pf_worker *w) {
    const pf_pack_args p = {
        .x = a->x, .y = a->y, .oc = a->gates * a->units, .ic = a->k, .kh = 1, .kw = 1, .groups = 1};
    PF_NAME(conv_pairs_pack_f32)(&p, w);
}

PF_KERNEL_FUNCTION(recurrent_pack_f32) {
    const pf_recurrent_pack_args *a = args_;
    const columns c = make_columns(a->gates, a->units, a->k, a->variant);
    if (c.paired) {
        pack_for_pairs(a, w);
        return;
    }
    const float *x = pf_ptr(w, a->x);
    int64_t begin, end;
    pf_share(w, block_count(&c), 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        float *y = (float *)pf_ptr(w, a->y) + block_offset(&c, i);
        const int own = block_vectors(&c, i), total = (int)c.gates * own;
        for (int first = 0, n; first < total; first += n) {
            n = c.wide ? own : pf_panel_vectors(total - first);
            pack_panel(&c, x, y, i, first, n);
            y += (int64_t)n * PF_VL * c.k;
        }
    }
    pf_stream_end();
}

/* One direction of a layer. */
typedef struct direction {
    const pf_recurrent_args *a;
    bool reverse;
    const float *gates, *w, *wr, *bias, *h0, *c0;
    float *y, *c, *raw; /* raw: outputs before the projection */
    float *rounded;     /* the state before as int8 leaves it, of this thread */
    paired paired;      /* the same for products in pairs */
    columns hidden, projection;
} direction;

/* Blocks whose panels, all of them full, lie side by side in one call of so many rows. */
static int blocks_beside(const columns *c, int64_t rows) {
    const int total = (int)c->gates * c->vectors, panels = total / PF_PANEL_MAIN;
    return total % PF_PANEL_MAIN == 0 ? (int)pf_max(1, pf_side_panels(rows) / pf_max(1, panels)) : 1;
}

/* The rows of a tap times full panels of columns that lie beside each other, all in one call. */
static void multiply_side_panels(const columns *c, const pf_tap *rows, const float *w, int panels, int count,
                                 float *s) {
    enum { WIDTH = PF_PANEL_MAIN * PF_VL };
    float *y[PF_TILE_ROWS];
    for (int r = 0; r < count; r++) y[r] = s + (int64_t)r * panels * WIDTH;
    const pf_tile t = {.taps = rows,
                       .ntaps = 1,
                       .k = c->k,
                       .b = w,
                       .bstep = WIDTH,
                       .bpanel = WIDTH * c->k,
                       .y = y,
                       .n = panels * WIDTH,
                       .first = 1,
                       .last = 1};
    pf_side_run(panels, count, &t);
}

/* The rows of a tap times one block of columns, panel by panel. */
static void multiply_panels(const columns *c, const pf_tap *rows, const float *w, int count, float *s) {
    const int total = (int)c->gates * c->vectors;
    float *y[PF_TILE_ROWS];
    for (int first = 0, n; first < total; first += n) {
        n = pf_panel_vectors(total - first);
        /* Many rows take half of the panel at a time (most_rows). */
        const int vectors = count > pf_tile_rows(n) ? n / 2 : n;
        for (int v = 0; v < n; v += vectors) {
            for (int r = 0; r < count; r++) y[r] = s + r * block_width(c) + (first + v) * PF_VL;
            const pf_tile t = {.taps = rows,
                               .ntaps = 1,
                               .k = c->k,
                               .b = w + v * PF_VL,
                               .bstep = n * PF_VL,
                               .y = y,
                               .n = vectors * PF_VL,
                               .first = 1,
                               .last = 1};
            pf_tile_run(vectors, count, &t);
        }
        w += (int64_t)n * PF_VL * c->k;
    }
}

/* Some rows times some blocks of columns that lie beside each other, into s, whose rows are that many
 * block_widths long. */
static void multiply_beside(const columns *c, const float *w, int64_t block, int blocks,
                            const float *const *rows, int count, float *s) {
    const int total = (int)c->gates * c->vectors, panels = total * blocks / PF_PANEL_MAIN;
    const float *first = w + block_offset(c, block);
    pf_tap tap = {.number = 0};
    for (int r = 0; r < count; r++) tap.row[r] = rows[r];
    if (total % PF_PANEL_MAIN == 0 && panels > 1 && panels <= pf_side_panels(count))
        multiply_side_panels(c, &tap, first, panels, count, s);
    else
        multiply_panels(c, &tap, first, count, s);
}

/* The same for any number of blocks of one row; back: from the last to the first. */
static void multiply_blocks(const columns *c, const float *w, int64_t block, int blocks, bool back,
                            const float *const *rows, int count, float *s) {
    const int most = count == 1 ? blocks_beside(c, count) : blocks;
    for (int b = 0, n; b < blocks; b += n) {
        n = (int)pf_min(most, blocks - b);
        const int at = back ? blocks - b - n : b;
        multiply_beside(c, w, block + at, n, rows, count, s + at * block_width(c));
    }
}

/* Where in y a step of this call writes. */
static float *output_row(const direction *d, int64_t step, int64_t row) {
    const pf_recurrent_args *a = d->a;
    const int64_t done = a->first + step, time = d->reverse ? a->total - 1 - done : done;
    return d->y + time * a->yst + row * a->ysn;
}

/* The output of the step before, NULL where that is zero. */
static const float *state_row(const direction *d, int64_t step, int64_t row) {
    if (d->a->first + step > 0) return output_row(d, step - 1, row);
    return d->h0 ? d->h0 + row * d->a->out : NULL;
}

/* Input products of a row. */
static const float *gates_row(const direction *d, int64_t step, int64_t row) {
    const pf_recurrent_args *a = d->a;
    return d->gates + (d->reverse ? a->steps - 1 - step : step) * a->gst + row * a->gsn;
}

/* Starts to fetch what the cells of `count` rows of one block will read and write: rows lie so far apart that
 * nothing else foresees it. */
static void fetch_cells(const direction *d, int64_t step, int64_t block, int64_t row0, int count) {
    const columns *c = &d->hidden;
    const int64_t u = block_start(c, block) * PF_VL;
    const int vectors = block_vectors(c, block);
    for (int64_t row = row0; row < row0 + count; row++) {
        const float *g = gates_row(d, step, row) + u, *y = output_row(d, step, row) + u;
        for (int64_t gate = 0; gate < c->gates; gate++) {
            for (int v = 0; v < vectors; v++) __builtin_prefetch(g + gate * c->units + v * PF_VL);
        }
        for (int v = 0; v < vectors && !d->raw; v++) __builtin_prefetch(y + v * PF_VL, 1);
    }
}

/* Cells of vector v of a block in rows from row0; s holds h W_hh^T. */
static cells make_cells(const direction *d, int64_t step, int64_t block, int v, int64_t row0,
                        const float *s) {
    const pf_recurrent_args *a = d->a;
    const bool begun = a->first + step > 0;
    const int64_t u = (block_start(&d->hidden, block) + v) * PF_VL, state = row0 * a->hidden + u;
    const float *h = state_row(d, step, row0), *c0 = begun ? d->c : d->c0;
    return (cells){.sums = s + v * vector_step(&d->hidden),
                   .gates = gates_row(d, step, row0) + u,
                   .bias = d->bias ? d->bias + u : NULL,
                   .h = h ? h + u : NULL,
                   .c0 = c0 ? c0 + state : NULL,
                   .c = d->c ? d->c + state : NULL,
                   .out = d->raw ? d->raw + state : output_row(d, step, row0) + u,
                   .sums_step = block_width(&d->hidden),
                   .sums_gate = gate_step(&d->hidden),
                   .gates_step = a->gsn,
                   .h_step = begun ? a->ysn : a->out,
                   .c_step = a->hidden,
                   .out_step = d->raw ? a->hidden : a->ysn,
                   .units = a->hidden,
                   .n = pf_min(PF_VL, a->hidden - u)};
}

static void run_cells(const direction *d, const cells *x, int count) {
    if (d->hidden.gates == LSTM)
        lstm_cells(x, count);
    else if (d->hidden.gates == GRU)
        gru_cells(x, count);
    else
        plain_cells(x, count, d->a->relu);
}

/* Of one row, a vector of neighbouring blocks: these take the place of rows, because the operations of a
 * single cell wait for each other. */
static void neighbour_cells(const direction *d, int64_t step, int64_t block, int blocks, int v, int64_t row,
                            const float *s) {
    const int64_t units = d->hidden.vectors * PF_VL;
    const int64_t left = d->a->hidden - (block_start(&d->hidden, block) + v) * PF_VL;
    const int whole = left < PF_VL ? 0 : (int)pf_min(blocks, (left - PF_VL) / units + 1);
    if (whole > 0) {
        cells x = make_cells(d, step, block, v, row, s);
        x.sums_step = block_width(&d->hidden);
        x.gates_step = x.h_step = x.c_step = x.out_step = x.bias_step = units;
        run_cells(d, &x, whole);
    }
    if (whole == blocks) return;
    const cells x = make_cells(d, step, block + whole, v, row, s + whole * block_width(&d->hidden));
    if (x.n > 0) run_cells(d, &x, 1);
}

static void apply_cells(const direction *d, int64_t step, int64_t block, int blocks, int64_t row0, int count,
                        const float *s) {
    const int64_t width = block_width(&d->hidden);
    for (int v = 0; v < block_vectors(&d->hidden, block); v++) {
        if (count == 1) {
            neighbour_cells(d, step, block, blocks, v, row0, s);
            continue;
        }
        for (int b = 0; b < blocks; b++) {
            cells x = make_cells(d, step, block + b, v, row0, s + b * width);
            x.sums_step = blocks * width;
            if (x.n > 0) run_cells(d, &x, count);
        }
    }
}

/* Rows of a tile: the weights had better be read once for all rows than be used by tiles of full width. */
static int most_rows(const columns *c, int64_t rows) {
    if (c->paired) return PF_PAIRS_ROWS;
    if (c->wide || is_tall(c->gates, rows)) return TALL_MOST;
    const int vectors = pf_panel_vectors(c->gates * c->vectors), whole = pf_tile_rows(vectors);
    return rows > whole && vectors == 4 ? pf_tile_rows(vectors / 2) : whole;
}

/* The blocks of a step that fall to a thread, cut into tiles of rows. */
typedef struct work {
    int64_t begin, end, tiles;
} work;

static work make_work(const columns *c, const share *part) {
    const int64_t blocks = block_count(c), rows = part->row1 - part->row0;
    return (work){blocks * part->member / part->members, blocks * (part->member + 1) / part->members,
                  pf_ceil_div(rows, most_rows(c, rows))};
}

/* Blocks come in turns from the first to the last and back: where the weights do not quite fit the cache,
 * those used last are still there. The first of the n that follow j others. */
static int64_t block_at(const work *w, int64_t step, int64_t j, int64_t n) {
    return step % 2 ? w->end - j - n : w->begin + j;
}

/* Blocks that go together. A single row's cells take so many that their operations overlap. */
static int blocks_together(const columns *c, const work *w, int64_t rows) {
    enum { OVERLAP = 8 };
    _Static_assert((int)OVERLAP <= (int)CELL_ROWS, "sums of neighbours lie where those of rows do");
    const int beside = w->tiles == 1 ? blocks_beside(c, rows) : 1;
    return c->wide || c->paired ? 1 : rows == 1 ? OVERLAP : beside;
}

/* First row of a tile, or the end. Wide blocks take their rows in whole parts. */
static int64_t tile_row(const columns *c, const share *part, const work *w, int64_t tile) {
    const int64_t rows = part->row1 - part->row0, unit = c->wide ? WIDE_ROWS : 1;
    return part->row0 + pf_min(rows, pf_ceil_div(rows, unit) * tile / w->tiles * unit);
}

/* The state before as it is multiplied. */
static const float *factor_row(const direction *d, int64_t step, int64_t row) {
    return d->rounded ? d->rounded + row * d->a->out : state_row(d, step, row);
}

/* The same, and the rows of the state before. */
static int64_t tile_rows(const direction *d, int64_t step, const share *part, const work *w, int64_t tile,
                         const float **before, int *count) {
    const int64_t row = tile_row(&d->hidden, part, w, tile);
    *count = (int)(tile_row(&d->hidden, part, w, tile + 1) - row);
    for (int r = 0; r < *count; r++) before[r] = factor_row(d, step, row + r);
    return row;
}

/* Integers up to 127 with a scale for each row, as floats. */
static void round_states(const direction *d, int64_t step, const share *part) {
    const int64_t n = d->a->out;
    for (int64_t row = part->row0; row < part->row1; row++) {
        const float *h = state_row(d, step, row);
        float *y = d->rounded + row * n, most = 0;
        pf_vf largest = pf_zero();
        for (int64_t i = 0; i < n; i += PF_VL)
            largest = pf_vmax(pf_vabs(pf_load_upto(h + i, n - i)), largest);
        for (int i = 0; i < PF_VL; i++) most = fmaxf(most, largest[i]);
        const pf_vf scale = pf_set(most == 0 ? 1 : 127 / most);
        for (int64_t i = 0; i < n; i += PF_VL) {
            const pf_vf v = pf_load_upto(h + i, n - i);
            const pf_vf kept = pf_tofloat(pf_round_int8(v * scale)) / scale;
            pf_store_upto(y + i, pf_select(v == v, kept, v), n - i);
        }
    }
}

static void run_blocks(const direction *d, int64_t step, const share *part) {
    const columns *c = &d->hidden;
    const work w = make_work(c, part);
    const bool zero = part->row0 == part->row1 || !state_row(d, step, part->row0);
    const bool tall = is_tall(c->gates, part->row1 - part->row0);
    if (d->rounded && !zero) round_states(d, step, part);
    for (int64_t row = part->row0; c->paired && !zero && row < part->row1; row++)
        prepare_state(&d->paired, row, factor_row(d, step, row));
    const int most = blocks_together(c, &w, part->row1 - part->row0);
    float s[CELL_ROWS * LSTM * WIDE * PF_VL] __attribute__((aligned(64)));
    for (int64_t j = 0, blocks; j < w.end - w.begin; j += blocks) {
        blocks = pf_min(most, w.end - w.begin - j);
        const int64_t i = block_at(&w, step, j, blocks);
        for (int64_t tile = 0; tile < w.tiles; tile++) {
            const float *before[CELL_ROWS];
            int n;
            const int64_t row = tile_rows(d, step, part, &w, tile, before, &n);
            for (int64_t b = i; b < i + blocks; b++) fetch_cells(d, step, b, row, n);
            if (zero)
                memset(s, 0, sizeof s);
            else if (c->paired)
                multiply_paired(&d->paired, c, i, row, n, s);
            else if (c->wide)
                multiply_wide(block_vectors(c, i), n, before, c->k, d->w + block_offset(c, i), s);
            else if (tall)
                multiply_tall(c->gates, n)(before, c->k, d->w + block_offset(c, i), s);
            else
                multiply_blocks(c, d->w, i, (int)blocks, step % 2, before, n, s);
            apply_cells(d, step, i, (int)blocks, row, n, s);
        }
    }
}

static void project(const direction *d, int64_t step, const share *part) {
    const pf_recurrent_args *a = d->a;
    const columns *c = &d->projection;
    const int64_t blocks = block_count(c);
    const int most = pf_tile_rows(PF_PANEL_MAIN);
    float s[PF_TILE_ROWS * PF_PANEL_MAIN * PF_VL];
    for (int64_t i = blocks * part->member / part->members; i < blocks * (part->member + 1) / part->members;
         i++) {
        for (int64_t row = part->row0, n; row < part->row1; row += n) {
            const float *rows[PF_TILE_ROWS];
            n = pf_min(most, part->row1 - row);
            for (int64_t r = 0; r < n; r++) rows[r] = d->raw + (row + r) * a->hidden;
            multiply_blocks(c, d->wr, i, 1, false, rows, (int)n, s);
            const int64_t width = block_width(c), u = i * width, length = pf_min(width, a->out - u);
            for (int64_t r = 0; r < n; r++)
                memcpy(output_row(d, step, row + r) + u, s + r * width, (size_t)length * sizeof(float));
        }
    }
}

/* All threads of the step meet for the n-th time; the step's counter counts arrivals. */
static void meet(const pf_worker *w, int64_t *n) {
    const int64_t all = ++*n * w->nthreads;
    __atomic_fetch_add(w->next, 1, __ATOMIC_ACQ_REL);
    for (unsigned spins = 0; __atomic_load_n(w->next, __ATOMIC_ACQUIRE) < all; spins++) pf_wait_turn(spins);
}

static void run_direction(const direction *d, const share *part, const pf_worker *w) {
    int64_t met = 0;
    for (int64_t step = 0; step < d->a->steps; step++) {
        run_blocks(d, step, part);
        if (d->raw) {
            if (part->meets) meet(w, &met);
            project(d, step, part);
        }
        if (part->meets) meet(w, &met);
    }
}

static int directions(const pf_recurrent_args *a) { return a->w_reverse.base < 0 ? 1 : 2; }

static share share_of(const pf_recurrent_args *a, int64_t gates, int nthreads, int tid) {
    return deal(gates, a->hidden * a->out, a->rows, directions(a), nthreads, tid);
}

static direction make_direction(const pf_recurrent_args *a, const pf_worker *w, int64_t gates, int64_t dir) {
    const int64_t states = a->rows * a->hidden;
    direction d = {.a = a, .reverse = dir > 0};
    d.hidden = make_columns(gates, a->hidden, a->out, a->form);
    d.projection = make_columns(PLAIN, a->out, a->hidden, BY_TILES);
    d.gates = (const float *)pf_ptr(w, a->gates) + dir * gates * a->hidden;
    d.w = pf_ptr(w, dir ? a->w_reverse : a->w);
    d.wr = pf_ptr(w, dir ? a->wr_reverse : a->wr);
    d.bias = pf_ptr(w, dir ? a->bias_reverse : a->bias);
    d.h0 = pf_ptr(w, a->h0);
    d.c0 = pf_ptr(w, a->c0);
    d.c = pf_ptr(w, a->c);
    if (d.h0) d.h0 += dir * a->rows * a->out;
    if (d.c0) d.c0 += dir * states;
    if (d.c) d.c += dir * states;
    d.y = (float *)pf_ptr(w, a->y) + dir * a->out;
    if (d.wr) d.raw = (float *)pf_ptr(w, a->scratch) + dir * states;
    d.rounded = pf_ptr(w, a->rounded);
    if (d.rounded) d.rounded += w->tid * a->rows * a->out;
    if (d.hidden.paired) {
        float *memory = (float *)pf_ptr(w, a->paired) + w->tid * paired_floats(a->rows, a->out);
        d.paired = make_paired(&d.hidden, d.w, a->rows, memory);
    }
    return d;
}

static void run_layer(const pf_recurrent_args *a, const pf_worker *w, int64_t gates) {
    const int64_t dirs = directions(a);
    const share part = share_of(a, gates, w->nthreads, w->tid);
    const int64_t members = pf_max(1, w->nthreads / dirs), mine = w->tid / members;
    for (int64_t dir = 0; dir < dirs; dir++) {
        if (w->nthreads >= dirs && dir != mine) continue;
        const direction d = make_direction(a, w, gates, dir);
        run_direction(&d, &part, w);
    }
    if (part.meets && mine >= dirs) { /* left over: only keeps the others' count */
        int64_t met = 0;
        for (int64_t i = 0; i < a->steps * (pf_ptr(w, a->wr) ? 2 : 1); i++) meet(w, &met);
    }
}

#define PF_RECURRENT(name, gates)                                                                            \
    PF_KERNEL_FUNCTION(name) { run_layer(args_, w, gates); }                                                 \
    PF_PLAN_FUNCTION(name) { plan->variant = share_of(args_, gates, nthreads, 0).meets; }
PF_RECURRENT(lstm_f32, LSTM)
PF_RECURRENT(gru_f32, GRU)
PF_RECURRENT(rnn_f32, PLAIN)
