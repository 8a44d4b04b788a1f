/* Codes that stand in the kernels' arguments, each list once: the place in a list is the code. From the lists
 * come the C enums, PF_<LIST>_<NAME>, and the tables by which Python knows the codes, as `codes` of
 * pnnx_fast._core.program gives them. The operations of expressions have a list of their own,
 * expression_ops.def. */
#ifndef PF_KERNELS_CODES_H
#define PF_KERNELS_CODES_H

#include <stdint.h>

/* The lists are tables. */
/* clang-format off */
/* Types of elements. Kernels that take several types know some of these. */
#define PF_DTYPE_CODES(C)                                                                                    \
    C(DTYPE, BOOL, "bool") C(DTYPE, U8, "uint8") C(DTYPE, I8, "int8") C(DTYPE, I16, "int16")                 \
    C(DTYPE, I32, "int32") C(DTYPE, I64, "int64") C(DTYPE, F16, "float16") C(DTYPE, F32, "float32")          \
    C(DTYPE, F64, "float64")

/* Activations that a kernel applies before it stores a result, with parameters a and b: CLIP min(max(x, a), b), LEAKY
 * x > 0 ? x : a x, HSIGMOID clip(x + 3, 0, 6) / 6, HSWISH x times that, GELU by erf. Those from GELU on are late ones. */
#define PF_ACT_CODES(C)                                                                                      \
    C(ACT, NONE, "none") C(ACT, RELU, "relu") C(ACT, CLIP, "clip") C(ACT, LEAKY, "leaky_relu")               \
    C(ACT, SIGMOID, "sigmoid") C(ACT, SILU, "silu") C(ACT, HSWISH, "hardswish")                              \
    C(ACT, HSIGMOID, "hardsigmoid") C(ACT, GELU, "gelu") C(ACT, GELU_TANH, "gelu_tanh") C(ACT, TANH, "tanh") \
    C(ACT, MISH, "mish")

/* Reductions: sums of what the names say, norms by their exponent (0: what is not zero is counted), and variance and
 * deviation, with p subtracted from the count. */
#define PF_REDUCE_CODES(C)                                                                                   \
    C(REDUCE, SUM, "sum") C(REDUCE, PROD, "prod") C(REDUCE, MAX, "max") C(REDUCE, MIN, "min")                \
    C(REDUCE, NORM1, "norm1") C(REDUCE, SQUARES, "squares") C(REDUCE, NORM2, "norm2")                        \
    C(REDUCE, NORM0, "norm0") C(REDUCE, LARGEST, "norminf") C(REDUCE, SMALLEST, "norm-inf")                  \
    C(REDUCE, NORM, "norm") C(REDUCE, LOGSUMEXP, "logsumexp") C(REDUCE, VAR, "var") C(REDUCE, STD, "std")    \
    C(REDUCE, NANSUM, "nansum") C(REDUCE, MEAN, "mean")

/* What becomes of an element that is written where another one is. */
#define PF_SCATTER_CODES(C)                                                                                  \
    C(SCATTER, PUT, "put") C(SCATTER, ADD, "add") C(SCATTER, MULTIPLY, "multiply") C(SCATTER, MAX, "amax")   \
    C(SCATTER, MIN, "amin")

/* What becomes of an index outside: it is a fault, a negative one counts from the end, or it takes the nearest place. */
#define PF_OUTSIDE_CODES(C) C(OUTSIDE, FAULT, "fault") C(OUTSIDE, WRAP, "wrap") C(OUTSIDE, NEAREST, "nearest")

/* What is made of the rows of a bag. */
#define PF_BAG_CODES(C) C(BAG, SUM, "sum") C(BAG, MEAN, "mean") C(BAG, MAX, "max")

/* Padding: what stands beyond the border. */
#define PF_PAD_CODES(C)                                                                                      \
    C(PAD, CONSTANT, "constant") C(PAD, REFLECT, "reflect") C(PAD, REPLICATE, "replicate")                   \
    C(PAD, CIRCULAR, "circular")

/* Sampling: between pixels; what stands beyond the border; and what places mean: the border's edges are at -1 and 1, the
 * centres of the corner pixels are, or they count pixels. */
#define PF_SAMPLE_CODES(C) C(SAMPLE, LINEAR, "bilinear") C(SAMPLE, NEAREST, "nearest") C(SAMPLE, CUBIC, "bicubic")
#define PF_BORDER_CODES(C) C(BORDER, ZEROS, "zeros") C(BORDER, CLAMP, "border") C(BORDER, REFLECT, "reflection")
#define PF_ALIGN_CODES(C)  C(ALIGN, EDGES, "edges") C(ALIGN, CENTRES, "centres") C(ALIGN, PIXELS, "pixels")

/* Pooling over regions: the maximum; the mean of bins that have channels of their own; the mean of samples in bins cut to
 * the image, or in equal bins. */
#define PF_REGION_CODES(C)                                                                                   \
    C(REGION, MAXIMUM, "maximum") C(REGION, PLACES, "places") C(REGION, CUT_BINS, "cut bins")                \
    C(REGION, EQUAL_BINS, "equal bins")

/* Masks of attention: none; float32 to be added; bytes that are nonzero where a key takes part, or where it does not;
 * float32 to be added, where queries are neighbours and each key's row is readable up to a multiple of PF_MASK_QUERIES;
 * bytes that are nonzero where `filling` takes the place of a score. */
#define PF_MASK_CODES(C)                                                                                     \
    C(MASK, NONE, "none") C(MASK, ADD, "add") C(MASK, KEEP, "keep") C(MASK, DROP, "drop") C(MASK, ROWS, "rows") \
    C(MASK, FILL, "fill")

/* Variants of the direct convolution: panels of output channels, or, where these are few, sums over the lanes. */
#define PF_DIRECT_CODES(C) C(DIRECT, PANELS, "panels") C(DIRECT, NARROW, "narrow")

/* What an operand or the result of an expression is: of the type that is computed in, bool, or half beside float32. */
#define PF_OPERAND_CODES(C) C(OPERAND, OWN, "own") C(OPERAND, BOOL, "bool") C(OPERAND, HALF, "half")

#define PF_CODE_LISTS(X)                                                                                     \
    X(dtype, DTYPE) X(activation, ACT) X(reduce, REDUCE) X(scatter, SCATTER) X(outside, OUTSIDE) X(pad, PAD) \
    X(sample, SAMPLE) X(border, BORDER) X(align, ALIGN) X(region, REGION) X(mask, MASK) X(direct, DIRECT)    \
    X(operand, OPERAND) X(bag, BAG)
/* clang-format on */

#define PF_CODE_ID(LIST, NAME, text) PF_##LIST##_##NAME,
#define PF_CODE_ENUM(list, LIST)                                                                             \
    typedef enum pf_##list##_code{PF_##LIST##_CODES(PF_CODE_ID) PF_##LIST##_COUNT} pf_##list##_code;
PF_CODE_LISTS(PF_CODE_ENUM)

/* Bytes of an element. */
static inline int64_t pf_dtype_size(int64_t dtype) {
    static const int64_t sizes[PF_DTYPE_COUNT] = {1, 1, 1, 2, 4, 8, 2, 4, 8};
    return sizes[dtype];
}

#endif
