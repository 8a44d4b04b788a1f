/* Headers of an archive, byte for byte as PNNX writes them: since 2024 with zip64 records throughout,
 * whatever the size, before that without any. The caller keeps the list of entries and writes the bytes. */
#include "store/zip.h"

#include <string.h>

enum { NARROW16 = 0xffff };
static const uint32_t NARROW32 = 0xffffffffu;

/* What the zip64 block of a header has to say; PNNX leaves the header offset of local ones at 0. */
static pf_zip64_extra extra_of(const pf_zip_entry *entry, uint64_t header) {
    return (pf_zip64_extra){.id = PF_ZIP64_EXTRA,
                            .length = sizeof(pf_zip64_extra) - 4,
                            .size = entry->size,
                            .packed = entry->size,
                            .header = header};
}

static int check_fits(const pf_zip_entry *entry, bool zip64, pf_error *err) {
    if (zip64 || (entry->size < NARROW32 && entry->header < NARROW32)) return PF_OK;
    return pf_fail(err, PF_ELIMIT, -1, "an entry of %llu bytes at offset %llu needs the zip64 layout",
                   (unsigned long long)entry->size, (unsigned long long)entry->header);
}

size_t pf_zip_local_bytes(size_t name_length, bool zip64) {
    return sizeof(pf_zip_local) + name_length + (zip64 ? sizeof(pf_zip64_extra) : 0);
}

size_t pf_zip_central_bytes(size_t name_length, bool zip64) {
    return sizeof(pf_zip_central) + name_length + (zip64 ? sizeof(pf_zip64_extra) : 0);
}

size_t pf_zip_end_bytes(bool zip64) {
    return sizeof(pf_zip_end) + (zip64 ? sizeof(pf_zip64_end) + sizeof(pf_zip64_locator) : 0);
}

static uint8_t *put(uint8_t *out, const void *bytes, size_t n) {
    if (n) memcpy(out, bytes, n);
    return out + n;
}

int pf_zip_put_local(uint8_t *out, const pf_zip_entry *entry, const char *name, bool zip64, pf_error *err) {
    const int code = check_fits(entry, zip64, err);
    if (code) return code;
    const uint32_t size = zip64 ? NARROW32 : (uint32_t)entry->size;
    const pf_zip64_extra extra = extra_of(entry, 0);
    const pf_zip_local header = {.signature = PF_ZIP_LOCAL,
                                 .crc = entry->crc,
                                 .packed = size,
                                 .size = size,
                                 .name_length = entry->name_length,
                                 .extra_length = zip64 ? sizeof extra : 0};
    out = put(put(out, &header, sizeof header), name, entry->name_length);
    if (zip64) put(out, &extra, sizeof extra);
    return PF_OK;
}

int pf_zip_put_central(uint8_t *out, const pf_zip_entry *entry, const char *name, bool zip64, pf_error *err) {
    const int code = check_fits(entry, zip64, err);
    if (code) return code;
    const uint32_t size = zip64 ? NARROW32 : (uint32_t)entry->size;
    const pf_zip64_extra extra = extra_of(entry, entry->header);
    const pf_zip_central header = {.signature = PF_ZIP_CENTRAL,
                                   .crc = entry->crc,
                                   .packed = size,
                                   .size = size,
                                   .name_length = entry->name_length,
                                   .extra_length = zip64 ? sizeof extra : 0,
                                   .disk = zip64 ? NARROW16 : 0,
                                   .header = zip64 ? NARROW32 : (uint32_t)entry->header};
    out = put(put(out, &header, sizeof header), name, entry->name_length);
    if (zip64) put(out, &extra, sizeof extra);
    return PF_OK;
}

static void put_zip64_end(uint8_t *out, uint64_t count, uint64_t directory, uint64_t directory_size) {
    const pf_zip64_end end = {.signature = PF_ZIP64_END,
                              .length = sizeof end - 12,
                              .disk_count = count,
                              .count = count,
                              .directory_size = directory_size,
                              .directory = directory};
    const pf_zip64_locator locator = {
        .signature = PF_ZIP64_LOCATOR, .end = directory + directory_size, .disks = 1};
    const pf_zip_end old = {.signature = PF_ZIP_END,
                            .disk = NARROW16,
                            .directory_disk = NARROW16,
                            .disk_count = NARROW16,
                            .count = NARROW16,
                            .directory_size = NARROW32,
                            .directory = NARROW32};
    put(put(put(out, &end, sizeof end), &locator, sizeof locator), &old, sizeof old);
}

int pf_zip_put_end(uint8_t *out, uint64_t count, uint64_t directory, uint64_t directory_size, bool zip64,
                   pf_error *err) {
    if (zip64) {
        put_zip64_end(out, count, directory, directory_size);
        return PF_OK;
    }
    if (count >= NARROW16 || directory >= NARROW32 || directory_size >= NARROW32) {
        return pf_fail(err, PF_ELIMIT, -1, "%llu entries in %llu bytes need the zip64 layout",
                       (unsigned long long)count, (unsigned long long)directory);
    }
    const pf_zip_end end = {.signature = PF_ZIP_END,
                            .disk_count = (uint16_t)count,
                            .count = (uint16_t)count,
                            .directory_size = (uint32_t)directory_size,
                            .directory = (uint32_t)directory};
    put(out, &end, sizeof end);
    return PF_OK;
}
