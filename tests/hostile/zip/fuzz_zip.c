/* Fuzz target for the zip reader. With libFuzzer: clang -fsanitize=fuzzer,address -DPF_LIBFUZZER; otherwise a
 * program that mutates the files named on its command line: fuzz_zip COUNT FILE... It checks what
 * pf_zip_entries promises. */
#include "fuzz.h"

#include "base/checked.h"
#include "store/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pf_zip zip;
    pf_error err;
    if (pf_zip_open(&zip, data, size, &err)) return 0;
    if (zip.count > size / sizeof(pf_zip_local)) abort();
    pf_zip_entry *entries = malloc((zip.count ? zip.count : 1) * sizeof *entries);
    if (!entries) return 0;
    if (!pf_zip_entries(&zip, entries, &err)) {
        volatile uint8_t sum = 0;
        for (uint64_t i = 0; i < zip.count; i++) {
            const pf_zip_entry *e = entries + i;
            if (!pf_in_range(e->offset, e->packed, size) || !pf_in_range(e->name, e->name_length, size))
                abort();
            for (uint64_t k = 0; k < e->packed; k++) sum ^= data[e->offset + k];
            for (uint64_t k = 0; k < e->name_length; k++) sum ^= data[e->name + k];
        }
    } else if (err.message[0] == 0 || err.offset > (int64_t)size) {
        abort();
    }
    free(entries);
    return 0;
}

#ifndef PF_LIBFUZZER
static void mutate(uint8_t *data, size_t size) {
    static const uint64_t extremes[] = {0, 1, 0xff, 0xffff, 0xffffffffu, UINT64_MAX, 1ull << 63, 1ull << 31};
    for (uint64_t n = 1 + below(6); n && size; n--) {
        uint64_t value = below(2) ? extremes[below(8)] : below(4) ? below(2 * size) : below(0);
        const size_t at = below(size), width = 1 + below(8), left = size - at;
        if (below(3) == 0) value = state;
        memcpy(data + at, &value, width < left ? width : left);
    }
}
#endif
