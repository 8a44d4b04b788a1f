/* The expression VM: runs a chain of element-wise operations tile by tile, so that only operands and result
 * touch memory beyond the first cache. Operands and result are float or bool (one byte) with any strides;
 * operands broadcast by stride 0. The caller has dropped dimensions of size one, sorted the others by the
 * result's strides and merged what can be merged.
 *
 * A tile is a piece of the last dimension, or, where that is short, a number of whole rows of it, or, where
 * an operand lies transposed, a block of the last two dimensions. What lies densely in a tile is read and
 * written in place; what does not is copied to or from a buffer in the first cache. */
#include <stdbool.h>

#include "kernels/args.h"
#include "kernels/expression_ops.h"

enum {
    VM_INPUTS = PF_MAX_INS,
    VM_SLOTS = 160,   /* operands, then constants, then registers */
    VM_MEMORY = 8192, /* floats for registers, copies and the staged result: fits the first cache */
    VM_TILE = 4096,   /* largest tile */
    VM_BLOCK = 32,    /* rows of a block for transposed operands */
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
    int64_t length, rows;     /* sizes of the last two dimensions */
    int64_t lead;             /* dimensions that are walked line by line */
    int64_t width, tile_rows; /* columns and rows of a tile */
    int64_t across, blocks;   /* tiles side by side, and tiles in a line */
    bool blocked;             /* tiles have rows, in a plane of the last two dimensions */
    int64_t index[PF_MAX_RANK];
    float *memory;
} vm;

static bool all_zero(const int64_t *strides, int64_t n) {
    for (int64_t d = 0; d < n; d++)
        if (strides[d]) return false;
    return true;
}

/* Whether an operand lies in a tile as it does in a buffer. */
static bool in_place(const vm *m, const vm_operand *o) {
    return !o->is_bool && o->inner == 1 &&
           (m->tile_rows == 1 || (m->width == m->length && o->row == m->length));
}

/* Whether an operand lies in whole rows as it does in a buffer. */
static bool dense_rows(const vm *m, const vm_operand *o) {
    return !o->is_bool && o->inner == 1 && o->row == m->length;
}

/* The same values in every tile: nothing but the last dimension moves it, or nothing at all. */
static bool same_in_all(const vm *m, const vm_operand *o) {
    return all_zero(o->strides, m->args->rank - (m->blocked && m->width == m->length));
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

/* Whole rows when they are short, or when operands that repeat in each row would else be set up anew. */
static bool takes_rows(const vm *m, int64_t tile) {
    if (m->args->rank < 2 || 2 * m->length > tile) return false;
    if (m->length < VM_SHORT) return true;
    bool dense = dense_rows(m, &m->out);
    for (int64_t i = 0; i < m->inputs; i++)
        dense = dense && (dense_rows(m, &m->in[i]) || all_zero(m->in[i].strides, m->args->rank - 1));
    return dense;
}

/* Whether some operand runs along rows where the result runs along columns. */
static bool transposed(const vm *m) {
    if (m->args->rank < 2 || m->rows < 4) return false;
    for (int64_t i = 0; i < m->inputs; i++)
        if (m->in[i].row == 1 && m->in[i].inner > 1) return true;
    return false;
}

static void choose_tile(vm *m, const pf_worker *w) {
    const int64_t buffers = m->registers + m->inputs + 1, room = VM_MEMORY - m->constants * PF_VL;
    const int64_t tile = pf_max(64, pf_min(VM_TILE, room / buffers / 64 * 64));
    m->blocked = true;
    m->width = m->length;
    if (takes_rows(m, tile)) {
        m->tile_rows = pf_min(tile / m->length, pf_max(1, pf_ceil_div(m->rows, w->nthreads)));
    } else if (transposed(m)) {
        m->tile_rows = pf_min(VM_BLOCK, m->rows);
        m->width = pf_min(m->length, tile / VM_BLOCK);
    } else {
        /* Small work: a share for every thread. */
        m->blocked = false;
        m->tile_rows = 1;
        m->width = pf_min(tile, pf_max(64, pf_ceil_div(m->length, w->nthreads * 64) * 64));
    }
    m->lead = m->args->rank - 1 - m->blocked;
    m->across = pf_ceil_div(m->length, m->width);
    m->blocks = m->across * (m->blocked ? pf_ceil_div(m->rows, m->tile_rows) : 1);
}

typedef uint8_t bytes __attribute__((vector_size(PF_VL)));
typedef uint8_t bytes_any __attribute__((vector_size(PF_VL), aligned(1), may_alias));

static inline pf_vi widen(const uint8_t *from) {
#if defined(PF_AVX512)
    return (pf_vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif defined(PF_AVX2)
    return (pf_vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
    return __builtin_convertvector(*(const bytes_any *)from, pf_vi);
#endif
}

static void load_bools(float *to, const uint8_t *from, int64_t n) {
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) pf_store(to + i, pf_truth(widen(from + i) != 0));
    for (; i < n; i++) to[i] = from[i] ? 1.0f : 0.0f;
}

static void store_bools(uint8_t *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) {
        const pf_vi truth = (pf_load(from + i) != 0.0f) & 1;
        *(bytes_any *)(to + i) = __builtin_convertvector(truth, bytes);
    }
    for (; i < n; i++) to[i] = from[i] != 0.0f;
}

/* Rows are often shorter than what a call of memcpy takes. */
static inline void copy_row(float *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) pf_store(to + i, pf_load(from + i));
    if (i < n) pf_storen(to + i, pf_loadn(from + i, n - i), n - i);
}

static inline void fill_row(float *to, float value, int64_t n) {
    const pf_vf v = pf_set(value);
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) pf_store(to + i, v);
    if (i < n) pf_storen(to + i, v, n - i);
}

/* rows x n elements of an operand into a buffer. */
static void gather(const vm_operand *o, const char *data, int64_t rows, int64_t n) {
    float *to = o->buffer;
    if (!o->is_bool && o->row == 1 && o->inner > 1 && rows > 1) {
        const float *from = (const float *)data;
        for (int64_t i = 0; i < n; i++, from += o->inner)
            for (int64_t r = 0; r < rows; r++) to[r * n + i] = from[r];
        return;
    }
    for (int64_t r = 0; r < rows; r++, to += n) {
        if (o->is_bool) {
            const uint8_t *from = (const uint8_t *)data + r * o->row;
            if (o->inner == 1)
                load_bools(to, from, n);
            else if (o->inner == 0)
                fill_row(to, (float)(*from != 0), n);
            else
                for (int64_t i = 0; i < n; i++) to[i] = (float)(from[i * o->inner] != 0);
        } else {
            const float *from = (const float *)data + r * o->row;
            if (o->inner == 1)
                copy_row(to, from, n);
            else if (o->inner == 0)
                fill_row(to, *from, n);
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
            if (o->inner == 1)
                store_bools(to, from, n);
            else
                for (int64_t i = 0; i < n; i++) to[i * o->inner] = from[i] != 0.0f;
        } else {
            float *to = (float *)data + r * o->row;
            if (o->inner == 1)
                copy_row(to, from, n);
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
    const int64_t padded = pf_ceil_div(m->width * m->tile_rows, PF_VL) * PF_VL;
    for (int64_t i = 0; i < m->inputs; i++) {
        vm_operand *o = &m->in[i];
        const bool one_value = o->inner == 0 && (!m->blocked || o->row == 0), direct = in_place(m, o);
        const bool fixed = same_in_all(m, o) && (one_value || (m->blocked && m->width == m->length));
        o->buffer = m->memory;
        m->slots[i] = (pf_run){o->buffer, one_value ? 0 : PF_VL};
        o->access = fixed ? VM_FIXED : direct ? VM_DIRECT : one_value ? VM_REPEAT : VM_COPY;
        if (o->access != VM_DIRECT) m->memory += one_value ? PF_VL : padded;
        if (!fixed) continue;
        if (one_value)
            repeat(o, o->data);
        else
            gather(o, o->data, m->tile_rows, m->width);
    }
    for (int64_t i = 0; i < m->registers; i++, m->memory += padded)
        m->slots[m->inputs + m->constants + i] = (pf_run){m->memory, PF_VL};
    m->out.access = in_place(m, &m->out) ? VM_DIRECT : VM_COPY;
    m->out.buffer = m->memory;
}

static void run_tile(vm *m, int64_t block) {
    const int64_t row = block / m->across * m->tile_rows, column = block % m->across * m->width;
    const int64_t rows = m->blocked ? pf_min(m->tile_rows, m->rows - row) : 1;
    const int64_t width = pf_min(m->width, m->length - column), n = rows * width;
    for (int64_t i = 0; i < m->inputs; i++) {
        vm_operand *o = &m->in[i];
        if (o->access == VM_FIXED) continue;
        const char *data = o->data + (o->at + row * o->row + column * o->inner) * itemsize(o);
        if (o->access == VM_DIRECT)
            m->slots[i].data = (const float *)data;
        else if (o->access == VM_REPEAT)
            repeat(o, data);
        else
            gather(o, data, rows, width);
    }
    vm_operand *y = &m->out;
    char *result = (char *)y->data + (y->at + row * y->row + column * y->inner) * itemsize(y);
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
