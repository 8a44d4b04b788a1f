/* The expression VM: runs a chain of element-wise operations tile by tile, so that only operands and result
 * touch memory beyond the first cache. Operands and result are float or bool (one byte) with any strides;
 * operands broadcast by stride 0. The caller has dropped dimensions of size one, sorted the others by the
 * result's strides and merged what can be merged.
 *
 * A tile is a piece of the last dimension, or, where that is short, a number of whole rows of it. What lies
 * densely in a tile is read and written in place; what does not is copied to or from a buffer in the first
 * cache. */
#include <stdbool.h>

#include "kernels/args.h"
#include "kernels/expression_ops.h"

enum {
    VM_INPUTS = PF_MAX_INS,
    VM_SLOTS = 160,   /* operands, then constants, then registers */
    VM_MEMORY = 8192, /* floats for registers, copies and the staged result: fits the first cache */
    VM_TILE = 4096,   /* largest tile */
    VM_SHORT = 128,   /* rows below this are always taken several at a time */
    VM_INPUT_WORDS = 1 + PF_MAX_RANK,
    VM_OP_WORDS = 5,
};

/* How a tile of an operand is reached. */
typedef enum vm_access {
    VM_DIRECT, /* in place */
    VM_REPEAT, /* one value a tile */
    VM_COPY,   /* copied for every tile */
    VM_FIXED,  /* prepared once: the same in every tile */
} vm_access;

typedef struct vm_operand {
    const char *data;
    const int64_t *strides; /* in elements, per dimension */
    int64_t inner, row;     /* strides of the last two dimensions */
    int64_t at;             /* offset of the current line, in elements */
    float *buffer;
    bool is_bool;
    vm_access access;
} vm_operand;

typedef struct vm {
    const pf_expression_args *args;
    const int64_t *ops;
    int64_t inputs, constants, registers, count;
    vm_operand in[VM_INPUTS], out;
    pf_run slots[VM_SLOTS];
    int64_t length, rows;    /* sizes of the last two dimensions */
    int64_t lead;            /* dimensions that are walked line by line */
    int64_t tile, tile_rows; /* elements of a tile's piece of a row; rows of a tile */
    int64_t blocks;          /* tiles in a line */
    int64_t index[PF_MAX_RANK];
    float *memory;
} vm;

static bool all_zero(const int64_t *strides, int64_t n) {
    for (int64_t d = 0; d < n; d++)
        if (strides[d]) return false;
    return true;
}

/* Whether an operand lies in a tile of several rows as it does in a buffer. */
static bool dense_rows(const vm *m, const vm_operand *o) {
    return !o->is_bool && o->inner == 1 && o->row == m->length;
}

/* The same values in every tile: nothing but the last dimension moves it, or nothing at all. */
static bool same_in_all(const vm *m, const vm_operand *o) {
    return all_zero(o->strides, m->args->rank - (m->tile_rows > 1));
}

static void read_code(vm *m, const pf_worker *w) {
    const pf_expression_args *a = m->args;
    const int64_t *code = pf_ptr(w, a->code);
    m->inputs = code[0], m->constants = code[1], m->registers = code[2], m->count = code[3];
    m->out = (vm_operand){.data = pf_ptr(w, a->y), .strides = a->ys, .is_bool = code[4] != 0};
    code += 5;
    for (int64_t i = 0; i < m->inputs; i++, code += VM_INPUT_WORDS)
        m->in[i] = (vm_operand){.data = pf_ptr(w, a->x[i]), .strides = code + 1, .is_bool = code[0] != 0};
    for (int64_t i = -1; i < m->inputs; i++) {
        vm_operand *o = i < 0 ? &m->out : &m->in[i];
        o->inner = o->strides[a->rank - 1];
        o->row = a->rank > 1 ? o->strides[a->rank - 2] : 0;
    }
    for (int64_t i = 0; i < m->constants; i++) {
        const int32_t bits = (int32_t)*code++;
        pf_storei(m->memory, pf_seti(bits));
        m->slots[m->inputs + i] = (pf_run){m->memory, 0};
        m->memory += PF_VL;
    }
    m->ops = code;
    m->length = a->shape[a->rank - 1];
    m->rows = a->rank > 1 ? a->shape[a->rank - 2] : 1;
}

/* Several rows a tile when rows are short, or when operands that repeat in each row would else be set up
 * anew. */
static bool takes_rows(vm *m, int64_t tile) {
    if (m->args->rank < 2 || 2 * m->length > tile) return false;
    if (m->length < VM_SHORT) return true;
    bool dense = dense_rows(m, &m->out);
    for (int64_t i = 0; i < m->inputs; i++)
        dense = dense && (dense_rows(m, &m->in[i]) || all_zero(m->in[i].strides, m->args->rank - 1));
    return dense;
}

static void choose_tile(vm *m, const pf_worker *w) {
    const int64_t buffers = m->registers + m->inputs + 1, room = VM_MEMORY - m->constants * PF_VL;
    int64_t tile = pf_max(64, pf_min(VM_TILE, room / buffers / 64 * 64));
    m->tile_rows = 1;
    m->lead = m->args->rank - 1;
    if (takes_rows(m, tile)) {
        m->tile_rows = pf_min(tile / m->length, pf_max(1, pf_ceil_div(m->rows, w->nthreads)));
        m->tile = m->length;
        m->lead--;
        m->blocks = pf_ceil_div(m->rows, m->tile_rows);
        return;
    }
    /* Small work: a share for every thread. */
    const int64_t share = pf_max(64, pf_ceil_div(m->length, w->nthreads * 64) * 64);
    m->tile = pf_min(tile, share);
    m->blocks = pf_ceil_div(m->length, m->tile);
}

/* rows x n elements of an operand into a buffer. */
static void gather(const vm_operand *o, const char *data, int64_t rows, int64_t n) {
    float *to = o->buffer;
    for (int64_t r = 0; r < rows; r++, to += n) {
        if (o->is_bool) {
            const uint8_t *from = (const uint8_t *)data + r * o->row;
            for (int64_t i = 0; i < n; i++) to[i] = from[i * o->inner] ? 1.0f : 0.0f;
        } else {
            const float *from = (const float *)data + r * o->row;
            if (o->inner == 1)
                memcpy(to, from, (size_t)n * sizeof *to);
            else
                for (int64_t i = 0; i < n; i++) to[i] = from[i * o->inner];
        }
    }
}

static void scatter(const vm_operand *o, char *data, int64_t rows, int64_t n) {
    const float *from = o->buffer;
    for (int64_t r = 0; r < rows; r++, from += n) {
        if (o->is_bool) {
            uint8_t *to = (uint8_t *)data + r * o->row;
            for (int64_t i = 0; i < n; i++) to[i * o->inner] = from[i] != 0.0f;
        } else {
            float *to = (float *)data + r * o->row;
            if (o->inner == 1)
                memcpy(to, from, (size_t)n * sizeof *to);
            else
                for (int64_t i = 0; i < n; i++) to[i * o->inner] = from[i];
        }
    }
}

static int64_t itemsize(const vm_operand *o) { return o->is_bool ? 1 : (int64_t)sizeof(float); }

static void repeat(const vm_operand *o, const char *data) {
    const float value = o->is_bool ? (float)(*data != 0) : *(const float *)data;
    pf_store(o->buffer, pf_set(value));
}

/* Chooses how each operand is reached, gives out buffers and prepares what does not change. */
static void prepare(vm *m) {
    const int64_t size = m->tile * m->tile_rows, padded = pf_ceil_div(size, PF_VL) * PF_VL;
    for (int64_t i = 0; i < m->inputs; i++) {
        vm_operand *o = &m->in[i];
        const bool one_value = o->inner == 0 && (m->tile_rows == 1 || o->row == 0);
        const bool in_place = m->tile_rows == 1 ? !o->is_bool && o->inner == 1 : dense_rows(m, o);
        const bool fixed = same_in_all(m, o) && (m->tile_rows > 1 || o->inner == 0);
        o->buffer = m->memory;
        m->slots[i] = (pf_run){o->buffer, one_value ? 0 : PF_VL};
        if (!in_place) m->memory += one_value ? PF_VL : padded;
        o->access = in_place && !fixed ? VM_DIRECT : fixed ? VM_FIXED : one_value ? VM_REPEAT : VM_COPY;
        if (!fixed) continue;
        if (one_value)
            repeat(o, o->data);
        else
            gather(o, o->data, m->tile_rows, m->tile);
    }
    for (int64_t i = 0; i < m->registers; i++, m->memory += padded)
        m->slots[m->inputs + m->constants + i] = (pf_run){m->memory, PF_VL};
    const bool in_place = m->tile_rows == 1 ? !m->out.is_bool && m->out.inner == 1 : dense_rows(m, &m->out);
    m->out.access = in_place ? VM_DIRECT : VM_COPY;
    m->out.buffer = m->memory;
}

static void run_tile(vm *m, int64_t block) {
    const bool by_rows = m->tile_rows > 1;
    const int64_t first = block * (by_rows ? m->tile_rows : m->tile);
    const int64_t rows = by_rows ? pf_min(m->tile_rows, m->rows - first) : 1;
    const int64_t width = by_rows ? m->length : pf_min(m->tile, m->length - first), n = rows * width;
    for (int64_t i = 0; i < m->inputs; i++) {
        vm_operand *o = &m->in[i];
        if (o->access == VM_FIXED) continue;
        const char *data = o->data + (o->at + first * (by_rows ? o->row : o->inner)) * itemsize(o);
        if (o->access == VM_DIRECT)
            m->slots[i].data = (const float *)data;
        else if (o->access == VM_REPEAT)
            repeat(o, data);
        else
            gather(o, data, rows, width);
    }
    vm_operand *y = &m->out;
    char *result = (char *)y->data + (y->at + first * (by_rows ? y->row : y->inner)) * itemsize(y);
    const int64_t *op = m->ops;
    for (int64_t i = 0; i < m->count; i++, op += VM_OP_WORDS) {
        /* The last operation writes the result. */
        float *to = i + 1 < m->count         ? (float *)m->slots[op[1]].data
                    : y->access == VM_DIRECT ? (float *)result
                                             : y->buffer;
        vm_table[op[0]](&m->slots[op[2]], &m->slots[op[3]], &m->slots[op[4]], to, n);
    }
    if (y->access != VM_DIRECT) scatter(y, result, rows, width);
}

static void seek(vm *m, int64_t line) {
    for (int64_t d = m->lead - 1; d >= 0; d--) {
        m->index[d] = line % m->args->shape[d];
        line /= m->args->shape[d];
    }
    for (int64_t i = -1; i < m->inputs; i++) {
        vm_operand *o = i < 0 ? &m->out : &m->in[i];
        o->at = 0;
        for (int64_t d = 0; d < m->lead; d++) o->at += m->index[d] * o->strides[d];
    }
}

static void next_line(vm *m) {
    for (int64_t d = m->lead - 1; d >= 0; d--) {
        const bool wraps = ++m->index[d] == m->args->shape[d];
        const int64_t steps = wraps ? 1 - m->args->shape[d] : 1;
        if (wraps) m->index[d] = 0;
        m->out.at += steps * m->out.strides[d];
        for (int64_t i = 0; i < m->inputs; i++) m->in[i].at += steps * m->in[i].strides[d];
        if (!wraps) return;
    }
}

PF_KERNEL_FUNCTION(expression_f32) {
    _Alignas(64) float memory[VM_MEMORY + 2 * PF_VL * VM_SLOTS];
    vm m; /* filled by read_code and prepare; clearing it would cost more than a small tensor */
    m.args = args_;
    m.memory = memory;
    read_code(&m, w);
    choose_tile(&m, w);
    int64_t lines = 1, begin, end;
    for (int64_t d = 0; d < m.lead; d++) lines *= m.args->shape[d];
    pf_share(w, lines * m.blocks, 1, &begin, &end);
    if (begin >= end) return;
    prepare(&m);
    seek(&m, begin / m.blocks);
    int64_t block = begin % m.blocks;
    for (int64_t i = begin; i < end; i++) {
        run_tile(&m, block);
        if (++block < m.blocks) continue;
        block = 0;
        next_line(&m);
    }
}
