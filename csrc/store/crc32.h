/* CRC-32 as zip and zlib define it. The zip code and the Python binding call pf_crc32; tests and benchmarks
 * name a variant. Nothing here knows about archives. */
#ifndef PF_STORE_CRC32_H
#define PF_STORE_CRC32_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Checksum of the bytes before (crc, 0 at the start) followed by these n bytes. */
uint32_t pf_crc32(uint32_t crc, const void *data, size_t n);

/* Checksum of A followed by B from the checksums of both and the length of B. */
uint32_t pf_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);

/* Variants are numbered from 0, slowest first; the name is NULL past the last. */
const char *pf_crc32_variant_name(int variant);
bool pf_crc32_variant_runs(int variant);

/* pf_crc32 by one variant, which must run on this CPU. */
uint32_t pf_crc32_by(int variant, uint32_t crc, const void *data, size_t n);

/* Folding kernels, for crc32.c alone: they take and return the raw register (not inverted) and need n to be a
 * multiple of 16, at least PF_CRC32_FOLD_MIN. */
enum { PF_CRC32_FOLD_MIN = 64 };
uint32_t pf_crc32_fold_pclmul(uint32_t state, const uint8_t *data, size_t n);
uint32_t pf_crc32_fold_vpclmul_avx2(uint32_t state, const uint8_t *data, size_t n);
uint32_t pf_crc32_fold_vpclmul(uint32_t state, const uint8_t *data, size_t n);

#endif
