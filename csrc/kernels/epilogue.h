/* Activation codes that convolution, linear and similar kernels apply before storing; a and b are parameters. The
 * Python side holds the same list in expression/activations.py. */
#ifndef PF_KERNELS_EPILOGUE_H
#define PF_KERNELS_EPILOGUE_H

enum {
    PF_ACT_NONE = 0,
    PF_ACT_RELU = 1,
    PF_ACT_CLIP = 2,      /* min(max(x, a), b) */
    PF_ACT_LEAKY = 3,     /* x > 0 ? x : a x */
    PF_ACT_SIGMOID = 4,
    PF_ACT_SILU = 5,      /* x sigmoid(x) */
    PF_ACT_HSWISH = 6,    /* x clip(x + 3, 0, 6) / 6 */
    PF_ACT_HSIGMOID = 7,  /* clip(x + 3, 0, 6) / 6 */
    PF_ACT_GELU = 8,      /* x Phi(x), by erf */
    PF_ACT_GELU_TANH = 9, /* its tanh approximation */
    PF_ACT_TANH = 10,
    PF_ACT_MISH = 11,
    PF_ACT_COUNT
};

#endif
