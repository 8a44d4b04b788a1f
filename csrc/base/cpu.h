/* What the CPU that we run on can do, found once at the first call. */
#ifndef PF_BASE_CPU_H
#define PF_BASE_CPU_H

#include <stdint.h>

enum {
    PF_CPU_SSE41 = 1 << 0,
    PF_CPU_PCLMUL = 1 << 1,
    PF_CPU_AVX2 = 1 << 2,    /* AVX2, FMA, F16C, BMI2 and OS support for ymm */
    PF_CPU_AVX512 = 1 << 3,  /* F, BW, VL, DQ and OS support for zmm */
    PF_CPU_VNNI = 1 << 4,    /* AVX512-VNNI */
    PF_CPU_VPCLMUL = 1 << 5, /* VPCLMULQDQ with AVX2 */
    PF_CPU_AMX = 1 << 6,     /* AMX-INT8, and the system lets this process use it */
    PF_CPU_HALVES = 1 << 7,  /* AVX-512 takes vectors in two halves: half a vector costs half */
    PF_CPU_ADDERS = 1 << 8,  /* vectors of AVX-512 are added beside two that are multiplied */
};

uint32_t pf_cpu_features(void);

#endif
