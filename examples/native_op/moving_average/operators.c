/* example.MovingAverage: mean of the last `window` values along the last dimension, fewer at its beginning.
 * Shows all of op.h: state from parameters and a weight, shape inference, scratch memory, a parallel loop. */
#include <pnnx_fast/op.h>
#include <stdlib.h>
#include <string.h>

enum { BAD_PARAMETER = 1, BAD_INPUT = 2, NO_MEMORY = 3 };

typedef struct state {
    int64_t window;
    const float *scale; /* optional weight of one element */
} state;

static int init(void **out, const pf_op_param *params, int32_t nparams, const pf_op_weight *weights,
                int32_t nweights) {
    state *s = calloc(1, sizeof *s);
    if (!s) return NO_MEMORY;
    for (int32_t i = 0; i < nparams; i++)
        if (strcmp(params[i].name, "window") == 0 && params[i].type == 2) s->window = params[i].ints[0];
    for (int32_t i = 0; i < nweights; i++)
        if (strcmp(weights[i].name, "scale") == 0 && weights[i].tensor.dtype == PF_OP_F32)
            s->scale = weights[i].tensor.data;
    if (s->window < 1) {
        free(s);
        return BAD_PARAMETER;
    }
    *out = s;
    return 0;
}

static int infer(void *p, const pf_op_tensor *in, int32_t nin, pf_op_info *out, int32_t nout,
                 int64_t *scratch) {
    (void)p;
    if (nin != 1 || nout != 1 || in[0].rank < 1 || in[0].dtype != PF_OP_F32) return BAD_INPUT;
    memcpy(out[0].shape, in[0].shape, (size_t)in[0].rank * sizeof(int64_t));
    out[0].rank = in[0].rank;
    out[0].dtype = PF_OP_F32;
    *scratch = in[0].shape[in[0].rank - 1] * (int64_t)sizeof(float);
    return 0;
}

typedef struct rows {
    const state *s;
    const float *x, *factor;
    float *y;
    int64_t n;
} rows;

static void average_rows(void *context, int64_t begin, int64_t end) {
    const rows *r = context;
    for (int64_t row = begin; row < end; row++) {
        const float *x = r->x + row * r->n;
        float *y = r->y + row * r->n;
        double sum = 0;
        for (int64_t i = 0; i < r->n; i++) {
            sum += x[i];
            if (i >= r->s->window) sum -= x[i - r->s->window];
            y[i] = (float)sum * r->factor[i];
        }
    }
}

static int run(void *p, const pf_op_tensor *in, int32_t nin, const pf_op_tensor *out, int32_t nout,
               const pf_op_host *host) {
    (void)nin;
    (void)nout;
    const state *s = p;
    const int64_t n = in[0].shape[in[0].rank - 1];
    int64_t count = 1;
    for (int32_t d = 0; d + 1 < in[0].rank; d++) count *= in[0].shape[d];
    float *factor = host->scratch;
    for (int64_t i = 0; i < n; i++)
        factor[i] = (s->scale ? *s->scale : 1.0f) / (float)(i + 1 < s->window ? i + 1 : s->window);
    rows r = {s, in[0].data, factor, out[0].data, n};
    host->parallel_for(host, count, 16, average_rows, &r);
    return 0;
}

static const pf_op moving_average = {
    .abi = PF_OP_ABI,
    .size = sizeof(pf_op),
    .type = "example.MovingAverage",
    .layout = PF_OP_PLAIN,
    .init = init,
    .infer = infer,
    .run = run,
    .release = free,
};

PF_OP_EXPORT const pf_op *pnnx_fast_operator(int32_t index);
PF_OP_EXPORT const pf_op *pnnx_fast_operator(int32_t index) { return index == 0 ? &moving_average : NULL; }
