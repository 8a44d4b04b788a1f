/* The expression VM: runs a chain of element-wise operations tile by tile, so that only operands and result
 * touch memory beyond the first cache. It computes in one type of elements. Operands and result are of that
 * type, bool (one byte) or, where it is float, half precision, with any strides; operands broadcast by stride
 * 0. The caller has dropped dimensions of size one, sorted the others by the result's strides and merged what
 * can be merged.
 *
 * A tile is a piece of the last dimension, or, where that is short, a number of whole rows of it, or, where
 * an operand lies transposed, a block of the last two dimensions. What lies densely in a tile is read and
 * written in place; what does not is copied to or from a buffer in the first cache. */
#include "kernels/expression_move.h"
#include "kernels/expression_ops.h"

enum {
    VM_INPUTS = PF_MAX_INS,
    VM_SLOTS = 160,    /* operands, then constants, then registers */
    VM_MEMORY = 32768, /* bytes for registers, copies and the staged result: fits the first cache */
    VM_TILE = 16384,   /* bytes of the largest tile */
    VM_LEAST = 256,    /* and of the smallest */
    VM_BLOCK = 32,     /* rows of a block for transposed operands */
    VM_SHORT = 128,    /* rows below this are always taken several at a time */
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
    const bool repeats = m->type->repeats != 0;
    const int64_t least = VM_LEAST / m->size, room = VM_MEMORY - (repeats ? m->constants * PF_VECTOR : 0);
    const int64_t buffers = m->registers + m->inputs + 1 + (repeats ? 0 : m->constants);
    const int64_t tile = pf_max(least, pf_min(VM_TILE, room / buffers) / VM_LEAST * least);
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

/* Chooses how each operand is reached, gives out buffers and prepares what does not change. */
static void prepare(vm *m) {
    const int64_t tile = m->width * m->tile_rows;
    const bool repeats = m->type->repeats != 0;
    for (int64_t i = 0; i < m->constants; i++) {
        const int64_t n = repeats ? PF_VECTOR / m->size : tile;
        pf_run *slot = &m->slots[m->inputs + i];
        *slot = (pf_run){take(m, n * m->size), repeats ? 0 : PF_VL};
        vm_fill((char *)(uintptr_t)slot->data, &m->values[i], m->size, n);
    }
    for (int64_t i = 0; i < m->inputs; i++) {
        vm_operand *o = &m->in[i];
        const bool one_value = o->inner == 0 && (!m->blocked || o->row == 0), direct = in_place(m, o);
        const bool repeat = repeats && one_value;
        const bool fixed = same_in_all(m, o) && (one_value || (m->blocked && m->width == m->length));
        o->access = fixed ? VM_FIXED : direct ? VM_DIRECT : repeat ? VM_REPEAT : VM_COPY;
        if (o->access != VM_DIRECT) o->buffer = take(m, repeat ? PF_VECTOR : tile * m->size);
        m->slots[i] = (pf_run){o->buffer, repeat ? 0 : PF_VL};
        if (!fixed) continue;
        if (repeat)
            vm_gather(o, m->type, o->data, 1, PF_VL);
        else
            vm_gather(o, m->type, o->data, m->tile_rows, m->width);
    }
    for (int64_t i = 0; i < m->registers; i++)
        m->slots[m->inputs + m->constants + i] = (pf_run){take(m, tile * m->size), PF_VL};
    m->out.access = in_place(m, &m->out) ? VM_DIRECT : VM_COPY;
    m->out.buffer = m->memory;
}

/* Integers that are divided by zero. */
static void check_divisors(const vm *m, const pf_worker *w, const int64_t *op, int64_t n) {
    const bool divides = op[0] == PF_VM_floor_divide || op[0] == PF_VM_remainder || op[0] == PF_VM_fmod;
    if (divides && m->type->has_zero(m->slots[op[3]].data, n)) pf_report(w, PF_FAULT_ZERO, 0, 0);
}

static void run_tile(vm *m, const pf_worker *w, int64_t block) {
    const int64_t row = block / m->across * m->tile_rows, column = block % m->across * m->width;
    const int64_t rows = m->blocked ? pf_min(m->tile_rows, m->rows - row) : 1;
    const int64_t width = pf_min(m->width, m->length - column), n = rows * width;
    for (int64_t i = 0; i < m->inputs; i++) {
        vm_operand *o = &m->in[i];
        if (o->access == VM_FIXED) continue;
        const char *data =
            o->data + (o->at + row * o->row + column * o->inner) * vm_itemsize(o->kind, m->size);
        if (o->access == VM_DIRECT)
            m->slots[i].data = data;
        else if (o->access == VM_REPEAT)
            vm_gather(o, m->type, data, 1, PF_VL);
        else
            vm_gather(o, m->type, data, rows, width);
    }
    vm_operand *y = &m->out;
    char *result =
        (char *)y->data + (y->at + row * y->row + column * y->inner) * vm_itemsize(y->kind, m->size);
    const int64_t *op = m->ops;
    for (int64_t i = 0; i < m->count; i++, op += VM_OP_WORDS) {
        /* The last operation writes the result. */
        char *to = i + 1 < m->count         ? (char *)(uintptr_t)m->slots[op[1]].data
                   : y->access == VM_DIRECT ? result
                                            : y->buffer;
        if (m->type->has_zero) check_divisors(m, w, op, n);
        m->type->ops[op[0]](&m->slots[op[2]], &m->slots[op[3]], &m->slots[op[4]], to, n);
    }
    if (y->access != VM_DIRECT) vm_scatter(y, m->type, result, rows, width);
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
