/* Feature detection; compiled without any ISA flag. */
#define _GNU_SOURCE
#include "base/cpu.h"

#if defined(__linux__)
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#    include <cpuid.h>

static uint64_t xgetbv0(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return ((uint64_t)hi << 32) | lo;
}

/* Linux keeps the state of tiles for processes that ask: as it is large, threads that use none do without. */
static int may_use_tiles(void) {
#    if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_STATE = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILES = 18 };
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILES) == 0;
#    else
    return 0;
#    endif
}

static int has_tiles(uint64_t xcr0) {
    uint32_t a, b, c, d;
    if ((xcr0 & 0x60000) != 0x60000 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    const uint32_t need = (1u << 24) | (1u << 25); /* AMX-TILE, AMX-INT8 */
    return (d & need) == need && may_use_tiles();
}

/* The family of an AMD processor, and 0 for others. */
static uint32_t amd_family(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || c != signature_AMD_ecx) return 0;
    return __get_cpuid(1, &a, &b, &c, &d) ? ((a >> 8) & 0xf) + ((a >> 20) & 0xff) : 0;
}

static uint32_t detect(void) {
    uint32_t a, b, c, d, features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    if (c & (1u << 19)) features |= PF_CPU_SSE41;
    if (c & (1u << 1)) features |= PF_CPU_PCLMUL;
    const int fma = (c >> 12) & 1, f16c = (c >> 29) & 1, osxsave = (c >> 27) & 1, avx = (c >> 28) & 1;
    if (!osxsave || !avx) return features;
    const uint64_t xcr0 = xgetbv0();
    if ((xcr0 & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
    const int avx2 = (b >> 5) & 1, bmi2 = (b >> 8) & 1;
    if (avx2 && bmi2 && fma && f16c) features |= PF_CPU_AVX2;
    if ((features & PF_CPU_AVX2) && ((c >> 10) & 1)) features |= PF_CPU_VPCLMUL;
    const uint32_t need = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31); /* F, DQ, BW, VL */
    if ((features & PF_CPU_AVX2) && (xcr0 & 0xe6) == 0xe6 && (b & need) == need) {
        features |= PF_CPU_AVX512;
        if ((c >> 11) & 1) features |= PF_CPU_VNNI;
        if (has_tiles(xcr0)) features |= PF_CPU_AMX;
        /* Zen 4 is of a family in which no other has AVX-512; later ones have whole vectors, but for some of
         * notebooks, which are not told apart here. */
        const uint32_t family = amd_family(), zen4 = 0x19;
        if (family == zen4) features |= PF_CPU_HALVES;
        if (family >= zen4) features |= PF_CPU_ADDERS;
    }
    return features;
}
#else
static uint32_t detect(void) { return 0; }
#endif

uint32_t pf_cpu_features(void) {
    /* Racing first calls compute the same value, so a relaxed cache is enough. */
    static _Atomic uint32_t cached;
    uint32_t value = cached;
    if (!value) cached = value = detect() | (1u << 31);
    return value & ~(1u << 31);
}
