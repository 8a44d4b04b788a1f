/* Zip archives as PNNX writes them (stored entries, zip64 in every header) and as common tools rewrite them.
 * The reader lists the entries of an archive that lies in memory, checks every bound and allocates nothing
 * but scratch space to sort; the writer fills header bytes. Neither opens files nor inflates: that is the
 * caller's part. */
#ifndef PF_STORE_ZIP_H
#define PF_STORE_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PF_ZIP_LOCAL = 0x04034b50,
    PF_ZIP_CENTRAL = 0x02014b50,
    PF_ZIP_END = 0x06054b50,
    PF_ZIP64_END = 0x06064b50,
    PF_ZIP64_LOCATOR = 0x07064b50,
    PF_ZIP64_EXTRA = 0x0001,
};
enum { PF_ZIP_STORED = 0, PF_ZIP_DEFLATED = 8 };
enum { PF_ZIP_ENCRYPTED = 1 << 0, PF_ZIP_DESCRIPTOR = 1 << 3 };

#pragma pack(push, 1)
typedef struct pf_zip_local {
    uint32_t signature;
    uint16_t version, flags, method, time, date;
    uint32_t crc, packed, size;
    uint16_t name_length, extra_length;
} pf_zip_local;

typedef struct pf_zip_central {
    uint32_t signature;
    uint16_t made_by, version, flags, method, time, date;
    uint32_t crc, packed, size;
    uint16_t name_length, extra_length, comment_length, disk, internal;
    uint32_t external, header;
} pf_zip_central;

/* PNNX's form: all fields, always. The standard's has those alone whose 32-bit field is saturated, in this
 * order. */
typedef struct pf_zip64_extra {
    uint16_t id, length;
    uint64_t size, packed, header;
    uint32_t disk;
} pf_zip64_extra;

typedef struct pf_zip64_end {
    uint32_t signature;
    uint64_t length; /* of the rest of this record */
    uint16_t made_by, version;
    uint32_t disk, directory_disk;
    uint64_t disk_count, count, directory_size, directory;
} pf_zip64_end;

typedef struct pf_zip64_locator {
    uint32_t signature, disk;
    uint64_t end;
    uint32_t disks;
} pf_zip64_locator;

typedef struct pf_zip_end {
    uint32_t signature;
    uint16_t disk, directory_disk, disk_count, count;
    uint32_t directory_size, directory;
    uint16_t comment_length;
} pf_zip_end;
#pragma pack(pop)

_Static_assert(sizeof(pf_zip_local) == 30 && sizeof(pf_zip_central) == 46 && sizeof(pf_zip64_extra) == 32 &&
                   sizeof(pf_zip64_end) == 56 && sizeof(pf_zip64_locator) == 20 && sizeof(pf_zip_end) == 22,
               "headers lie in the file as they are declared");

typedef struct pf_zip_entry {
    uint64_t header; /* offset of the local header */
    uint64_t offset; /* of the content */
    uint64_t packed; /* bytes of the content as it lies in the archive */
    uint64_t size;   /* bytes of the content */
    uint64_t name;   /* offset of the name, which is neither terminated nor checked */
    uint32_t crc;
    uint16_t name_length, method;
} pf_zip_entry;

typedef struct pf_zip {
    const uint8_t *data;
    uint64_t size;
    uint64_t directory, directory_end; /* the central records, or where the walk along local headers ended */
    uint64_t count;                    /* entries; at most size / 30 */
    bool walked;                       /* there is no end record: only local headers say what is there */
    bool zip64;                        /* written with zip64 records */
} pf_zip;

/* Finds the central directory, or walks the local headers when the archive has no end record. */
int pf_zip_open(pf_zip *zip, const void *data, uint64_t size, pf_error *err);

/* Fills zip->count entries, in the order of the directory; their contents lie inside the archive and apart.
 */
int pf_zip_entries(const pf_zip *zip, pf_zip_entry *entries, pf_error *err);

/* Bytes that the headers take. */
size_t pf_zip_local_bytes(size_t name_length, bool zip64);
size_t pf_zip_central_bytes(size_t name_length, bool zip64);
size_t pf_zip_end_bytes(bool zip64);

/* Write one header to out. Of the entry they use header, size, crc and name_length (the name comes as a
 * pointer); the content is stored. PF_ELIMIT when a number does not fit the layout without zip64. */
int pf_zip_put_local(uint8_t *out, const pf_zip_entry *entry, const char *name, bool zip64, pf_error *err);
int pf_zip_put_central(uint8_t *out, const pf_zip_entry *entry, const char *name, bool zip64, pf_error *err);
int pf_zip_put_end(uint8_t *out, uint64_t count, uint64_t directory, uint64_t directory_size, bool zip64,
                   pf_error *err);

#endif
