/* The program that fuzz targets become without libFuzzer: TARGET COUNT FILE... mutates the files named and
 * hands each mutation to the target in an exact allocation, so that a read past its end is seen. Included
 * once, after `mutate` is declared. */
#ifndef PF_TESTS_FUZZ_H
#define PF_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef PF_LIBFUZZER
static uint64_t state = 88172645463325252u;

static uint64_t below(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? state % n : 0;
}

/* Changes some bytes; the target's own. */
static void mutate(uint8_t *data, size_t size);

static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(1 << 20);
    *size = file && data ? fread(data, 1, 1 << 20, file) : 0;
    if (file) fclose(file);
    return data;
}

int main(int argc, char **argv) {
    const long count = argc > 2 ? atol(argv[1]) : 0;
    const int files = argc - 2;
    for (int f = 0; f < files; f++) {
        size_t size;
        uint8_t *seed = read_file(argv[f + 2], &size);
        for (long i = 0; seed && i < count / files; i++) {
            const size_t n = below(4) ? size : below(size + 1);
            uint8_t *data = malloc(n ? n : 1);
            if (!data) return 1;
            memcpy(data, seed, n);
            mutate(data, n);
            LLVMFuzzerTestOneInput(data, n);
            free(data);
        }
        free(seed);
    }
    return 0;
}
#endif

#endif
