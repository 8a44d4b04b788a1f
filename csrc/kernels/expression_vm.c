/* The expression VM: runs a chain of element-wise operations tile by tile, so that only operands and result
 * touch memory beyond the first cache. It computes in one type of elements. Operands and result are of that
 * type, bool (one byte) or, where it is float, half precision, with any strides; operands broadcast by stride
 * 0. The caller has dropped dimensions of size one, sorted the others by the result's strides and merged what
 * can be merged.
 *
 * A tile is a number of whole rows of the last dimension, or, where that is long, a piece of it, or, where an
 * operand lies transposed, a block of the last two dimensions. What lies densely in a tile, or in rows that
 * are not too short, is read and written in place; what does not is copied to or from a buffer in the first
 * cache. */
#include "kernels/expression_move.h"
#include "kernels/expression_ops.h"

enum {
    VM_INPUTS = PF_MAX_INS,
    /* Operands, then constants, then registers. A function has up to three sources and a result. */
    VM_SLOTS = PF_MAX_INS + 4 * PF_MAX_OPERATIONS,
    VM_MEMORY = 32768, /* bytes for registers, copies and the staged result: fits the first cache */
    VM_TILE = 16384,   /* bytes of the largest tile */
    VM_LEAST = 256,    /* and of the smallest */
    VM_BLOCK = 32,     /* rows of a block for transposed operands */
    VM_SHORT = 128,    /* rows below this are always taken several at a time */
    VM_ROW = 8,        /* rows from this on are worth a call of an operation each, … */
    VM_REPEATED = 64,  /* … and from this on one for the sake of an operand that is not repeated */
    VM_INPUT_WORDS = 1 + PF_MAX_RANK,
    VM_OP_WORDS = 5,
};

typedef struct vm {
    const pf_expression_args *args;
    const int64_t *values, *ops; /* bits of the constants; the operations */
    const vm_type *type;
    int64_t size; /* of an element */
    int64_t inputs, constants, registers, count;
    vm_operand in[VM_INPUTS], out;
    pf_run slots[VM_SLOTS];
    int64_t pitch[VM_SLOTS];  /* bytes from a row of a slot to the next … */
    bool apart[VM_SLOTS];     /* … where rows do not follow each other as they do in a buffer */
    int64_t length, rows;     /* sizes of the last two dimensions */
    int64_t lead;             /* dimensions that are walked line by line */
    int64_t width, tile_rows; /* columns and rows of a tile */
    int64_t across, blocks;   /* tiles side by side, and tiles in a line */
    bool blocked;             /* tiles have rows, in a plane of the last two dimensions */
    int64_t index[PF_MAX_RANK];
    char *memory;
} vm;

static const vm_type floats = {sizeof(float), 1, vm_f32, load_truths_f32, store_truths_f32, NULL};
static const vm_type *const types[PF_DTYPE_COUNT] = {
    [PF_DTYPE_F32] = &floats,          [PF_DTYPE_F64] = &PF_NAME(vm_f64), [PF_DTYPE_I64] = &PF_NAME(vm_i64),
    [PF_DTYPE_I32] = &PF_NAME(vm_i32), [PF_DTYPE_U8] = &PF_NAME(vm_u8),   [PF_DTYPE_I16] = &PF_NAME(vm_i16),
    [PF_DTYPE_I8] = &PF_NAME(vm_i8),
};

static bool all_zero(const int64_t *strides, int64_t n) {
    for (int64_t d = 0; d < n; d++)
        if (strides[d]) return false;
    return true;
}

/* Whether an operand lies in a tile as it does in a buffer. */
static bool in_place(const vm *m, const vm_operand *o) {
    return o->kind == PF_OPERAND_OWN && o->inner == 1 &&
           (m->tile_rows == 1 || (m->width == m->length && o->row == m->length));
}

/* Whether an operand lies in whole rows as it does in a buffer. */
static bool dense_rows(const vm *m, const vm_operand *o) {
    return o->kind == PF_OPERAND_OWN && o->inner == 1 && o->row == m->length;
}

/* Whether tiles are whole rows that operations may be called for one by one. */
static bool by_rows(const vm *m) {
    return m->blocked && m->width == m->length && m->width >= VM_ROW && !m->type->has_zero;
}

/* The same values in every tile: nothing but the last dimension moves it, or nothing at all. */
static bool same_in_all(const vm *m, const vm_operand *o) {
    return all_zero(o->strides, m->args->rank - (m->blocked && m->width == m->length));
}

static void read_code(vm *m, const pf_worker *w) {
    const pf_expression_args *a = m->args;
    const int64_t *code = pf_ptr(w, a->code);
    m->inputs = code[0], m->constants = code[1], m->registers = code[2], m->count = code[3];
    m->type = types[code[4]];
    m->size = m->type->size;
    m->out = (vm_operand){.data = pf_ptr(w, a->y), .strides = a->ys, .kind = (pf_operand_code)code[5]};
    code += 6;
    for (int64_t i = 0; i < m->inputs; i++, code += VM_INPUT_WORDS)
        m->in[i] =
            (vm_operand){.data = pf_ptr(w, a->x[i]), .strides = code + 1, .kind = (pf_operand_code)code[0]};
    for (int64_t i = -1; i < m->inputs; i++) {
        vm_operand *o = i < 0 ? &m->out : &m->in[i];
        o->inner = o->strides[a->rank - 1];
        o->row = a->rank > 1 ? o->strides[a->rank - 2] : 0;
    }
    m->values = code;
    code += m->constants;
    m->ops = code;
    m->length = a->shape[a->rank - 1];
    m->rows = a->rank > 1 ? a->shape[a->rank - 2] : 1;
}

/* Whether some operand runs along rows where the result runs along columns. */
static bool transposed(const vm *m) {
    if (m->args->rank < 2 || m->rows < 4) return false;
    for (int64_t i = 0; i < m->inputs; i++)
        if (m->in[i].row == 1 && m->in[i].inner > 1) return true;
    return false;
}

/* Whole rows when they are short, when operands that repeat in each row would else be set up anew, or when an
 * operation is called for each anyway; others read what lies far apart better row by row. */
static bool takes_rows(const vm *m, int64_t tile, int64_t threads) {
    if (m->args->rank < 2 || 2 * m->length > tile) return false;
    if (m->length < VM_SHORT) return true;
    if (m->count == 1 && !m->type->has_zero && m->rows >= threads && !transposed(m)) return true;
    bool dense = dense_rows(m, &m->out);
    for (int64_t i = 0; i < m->inputs; i++)
        dense = dense && (dense_rows(m, &m->in[i]) || all_zero(m->in[i].strides, m->args->rank - 1));
    return dense;
}

static void choose_tile(vm *m, const pf_worker *w) {
    const bool repeats = m->type->repeats != 0;
    const int64_t least = VM_LEAST / m->size, room = VM_MEMORY - (repeats ? m->constants * PF_VECTOR : 0);
    const int64_t buffers = m->registers + m->inputs + 1 + (repeats ? 0 : m->constants);
    const int64_t tile = pf_max(least, pf_min(VM_TILE, room / buffers) / VM_LEAST * least);
    m->blocked = true;
    m->width = m->length;
    if (takes_rows(m, tile, w->nthreads)) {
        m->tile_rows = pf_min(tile / m->length, pf_max(1, pf_ceil_div(m->rows, w->nthreads)));
    } else if (transposed(m)) {
        m->tile_rows = pf_min(VM_BLOCK, m->rows);
        m->width = pf_min(m->length, tile / VM_BLOCK);
    } else {
        /* Small work: a share for every thread. */
        m->blocked = false;
        m->tile_rows = 1;
        m->width = pf_min(tile, pf_max(least, pf_ceil_div(m->length, w->nthreads * least) * least));
    }
    m->lead = m->args->rank - 1 - m->blocked;
    m->across = pf_ceil_div(m->length, m->width);
    m->blocks = m->across * (m->blocked ? pf_ceil_div(m->rows, m->tile_rows) : 1);
}

/* A buffer of the given bytes. */
static char *take(vm *m, int64_t bytes) {
    char *memory = m->memory;
    m->memory += pf_ceil_div(bytes, PF_VECTOR) * PF_VECTOR;
    return memory;
}

/* How an operand is reached that is not the same in every tile. */
static vm_access access_of(const vm *m, const vm_operand *o) {
    const bool repeats = m->type->repeats != 0;
    if (in_place(m, o)) return VM_DIRECT;
    if (repeats && o->inner == 0 && (!m->blocked || o->row == 0)) return VM_REPEAT;
    if (by_rows(m) && o->inner == 1 && o->kind == PF_OPERAND_OWN) return VM_ROWS;
    if (by_rows(m) && o->inner == 0 && repeats && m->width >= VM_REPEATED) return VM_VALUES;
    return VM_COPY;
}

/* Bytes of the buffer of an operand, where it has one. */
static int64_t buffer_bytes(const vm *m, vm_access access, bool repeat) {
    if (access == VM_DIRECT || access == VM_ROWS) return 0;
    if (access == VM_VALUES) return m->tile_rows * PF_VECTOR;
    return repeat ? PF_VECTOR : m->width * m->tile_rows * m->size;
}

static void prepare_operand(vm *m, int64_t i) {
    vm_operand *o = &m->in[i];
    const bool one_value = o->inner == 0 && (!m->blocked || o->row == 0),
               repeat = m->type->repeats && one_value;
    const bool fixed = same_in_all(m, o) && (one_value || (m->blocked && m->width == m->length));
    o->access = fixed ? VM_FIXED : access_of(m, o);
    o->buffer = take(m, buffer_bytes(m, o->access, repeat));
    m->apart[i] = o->access == VM_ROWS || o->access == VM_VALUES;
    m->slots[i] = (pf_run){o->buffer, repeat || o->access == VM_VALUES ? 0 : PF_VL};
    m->pitch[i] = repeat                   ? 0
                  : o->access == VM_ROWS   ? o->row * m->size
                  : o->access == VM_VALUES ? PF_VECTOR
                                           : m->width * m->size;
    if (fixed && repeat)
        vm_gather(o, m->type, o->data, 1, PF_VL);
    else if (fixed)
        vm_gather(o, m->type, o->data, m->tile_rows, m->width);
}

/* Chooses how each operand is reached, gives out buffers and prepares what does not change. */
static void prepare(vm *m) {
    const int64_t tile = m->width * m->tile_rows, row = m->width * m->size;
    const bool repeats = m->type->repeats != 0;
    for (int64_t i = m->inputs; i < m->inputs + m->constants; i++) {
        const int64_t n = repeats ? PF_VECTOR / m->size : tile;
        m->slots[i] = (pf_run){take(m, n * m->size), repeats ? 0 : PF_VL};
        m->pitch[i] = repeats ? 0 : row, m->apart[i] = false;
        vm_fill((char *)(uintptr_t)m->slots[i].data, &m->values[i - m->inputs], m->size, n);
    }
    for (int64_t i = 0; i < m->inputs; i++) prepare_operand(m, i);
    for (int64_t i = m->inputs + m->constants; i < m->inputs + m->constants + m->registers; i++) {
        m->slots[i] = (pf_run){take(m, tile * m->size), PF_VL};
        m->pitch[i] = row, m->apart[i] = false;
    }
    const vm_access access = access_of(m, &m->out);
    m->out.access = access == VM_DIRECT || access == VM_ROWS ? access : VM_COPY;
    m->out.buffer = m->memory;
}

/* Integers that are divided by zero. */
static void check_divisors(const vm *m, const pf_worker *w, const int64_t *op, int64_t n) {
    const bool divides = op[0] == PF_VM_floor_divide || op[0] == PF_VM_remainder || op[0] == PF_VM_fmod;
    if (divides && m->type->has_zero(m->slots[op[3]].data, n)) pf_report(w, PF_FAULT_ZERO, 0, 0);
}

/* Where the tile's part of an operand lies from now on. */
static void reach(vm *m, int64_t i, int64_t row, int64_t column, int64_t rows, int64_t width) {
    vm_operand *o = &m->in[i];
    if (o->access == VM_FIXED) return;
    const char *data = o->data + (o->at + row * o->row + column * o->inner) * vm_itemsize(o->kind, m->size);
    if (o->access == VM_DIRECT || o->access == VM_ROWS)
        m->slots[i].data = data;
    else if (o->access == VM_REPEAT)
        vm_gather(o, m->type, data, 1, PF_VL);
    else
        vm_gather(o, m->type, data, rows, o->access == VM_VALUES ? PF_VL : width);
}

/* An operation on rows of n elements, those of the result `pitch` bytes apart. */
static void run_rows(const vm *m, const int64_t *op, char *to, int64_t pitch, int64_t rows, int64_t n) {
    const pf_vm_op run = m->type->ops[op[0]];
    pf_run x = m->slots[op[2]], y = m->slots[op[3]], z = m->slots[op[4]];
    for (int64_t r = 0; r < rows; r++, to += pitch) {
        run(&x, &y, &z, to, n);
        x.data = (const char *)x.data + m->pitch[op[2]];
        y.data = (const char *)y.data + m->pitch[op[3]];
        z.data = (const char *)z.data + m->pitch[op[4]];
    }
}

static void run_tile(vm *m, const pf_worker *w, int64_t block) {
    const int64_t row = block / m->across * m->tile_rows, column = block % m->across * m->width;
    const int64_t rows = m->blocked ? pf_min(m->tile_rows, m->rows - row) : 1;
    const int64_t width = pf_min(m->width, m->length - column), n = rows * width;
    for (int64_t i = 0; i < m->inputs; i++) reach(m, i, row, column, rows, width);
    vm_operand *y = &m->out;
    char *result =
        (char *)y->data + (y->at + row * y->row + column * y->inner) * vm_itemsize(y->kind, m->size);
    const int64_t *op = m->ops;
    for (int64_t i = 0; i < m->count; i++, op += VM_OP_WORDS) {
        /* The last operation writes the result. */
        const bool last = i + 1 == m->count, apart = last && y->access == VM_ROWS;
        char *to = !last                  ? (char *)(uintptr_t)m->slots[op[1]].data
                   : y->access == VM_COPY ? y->buffer
                                          : result;
        if (m->type->has_zero) check_divisors(m, w, op, n);
        if (apart || m->apart[op[2]] || m->apart[op[3]] || m->apart[op[4]])
            run_rows(m, op, to, (apart ? y->row : width) * m->size, rows, width);
        else
            m->type->ops[op[0]](&m->slots[op[2]], &m->slots[op[3]], &m->slots[op[4]], to, n);
    }
    if (y->access == VM_COPY) vm_scatter(y, m->type, result, rows, width);
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

PF_KERNEL_FUNCTION(expression) {
    _Alignas(64) char memory[VM_MEMORY + 2 * PF_VECTOR * VM_SLOTS];
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
        run_tile(&m, w, block);
        if (++block < m.blocks) continue;
        block = 0;
        next_line(&m);
    }
}
