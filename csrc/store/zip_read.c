/* Lists the entries of an archive in memory. The bytes are hostile until shown otherwise: every header is
 * copied out before it is judged (a mapped file may change under us), every offset goes through
 * base/checked.h, and what the central directory says must agree with the local headers. */
#include "store/zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

typedef unsigned long long ull; /* for printf */

enum { LABEL = 80, DEFLATE_RATIO = 1032, COMMENT_MAX = 0xffff };
static const uint64_t NARROW32 = 0xffffffffu;

/* Copies size bytes at offset into out; false when they are not all there. */
static bool take(const pf_zip *zip, uint64_t offset, void *out, uint64_t size) {
    if (!pf_in_range(offset, size, zip->size)) return false;
    memcpy(out, zip->data + offset, size);
    return true;
}

/* The name of an entry as messages show it: cut, without control characters. */
static const char *label(const pf_zip *zip, const pf_zip_entry *entry, char text[LABEL]) {
    const size_t n = entry->name_length < LABEL - 1 ? entry->name_length : LABEL - 1;
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = zip->data[entry->name + i];
        text[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    text[n] = 0;
    return text;
}

/* Replaces saturated fields by those of the zip64 block, which holds the saturated ones in order (PNNX: all).
 */
static int widen(const pf_zip *zip, const pf_zip_entry *entry, uint64_t extra, uint64_t extra_end,
                 uint64_t *const fields[], int n, pf_error *err) {
    unsigned wanted = 0;
    for (int i = 0; i < n; i++) wanted += *fields[i] == NARROW32;
    if (!wanted) return PF_OK;
    uint16_t block[2]; /* id, length */
    for (uint64_t at = extra; extra_end - at >= sizeof block; at += block[1]) {
        if (!take(zip, at, block, sizeof block)) break;
        at += sizeof block;
        if (block[1] > extra_end - at) break;
        if (block[0] != PF_ZIP64_EXTRA) continue;
        if (block[1] < 8 * wanted) break;
        for (int i = 0; i < n; i++) {
            if (*fields[i] != NARROW32) continue;
            take(zip, at, fields[i], 8);
            at += 8;
        }
        return PF_OK;
    }
    char text[LABEL];
    return pf_fail(err, PF_EFORMAT, (int64_t)extra, "entry '%s' needs a zip64 extra field with %u numbers",
                   label(zip, entry, text), wanted);
}

/* Everything that must hold for the content once sizes and offsets are known; limit is where contents end. */
static int check_content(const pf_zip *zip, const pf_zip_entry *entry, unsigned flags, uint64_t limit,
                         pf_error *err) {
    const int64_t at = (int64_t)entry->header;
    char text[LABEL];
    label(zip, entry, text);
    if (flags & PF_ZIP_ENCRYPTED) return pf_fail(err, PF_EFORMAT, at, "entry '%s' is encrypted", text);
    if (entry->method != PF_ZIP_STORED && entry->method != PF_ZIP_DEFLATED) {
        return pf_fail(err, PF_EFORMAT, at,
                       "entry '%s' uses compression method %u; known are 0 and 8 (deflate)", text,
                       entry->method);
    }
    if (!pf_in_range(entry->offset, entry->packed, limit)) {
        return pf_fail(
            err, PF_ELIMIT, at, "entry '%s' claims %llu bytes from offset %llu, where %llu are left", text,
            (ull)entry->packed, (ull)entry->offset, (ull)(entry->offset < limit ? limit - entry->offset : 0));
    }
    if (entry->method == PF_ZIP_STORED && entry->packed != entry->size) {
        return pf_fail(err, PF_EFORMAT, at, "entry '%s' is stored, but has two sizes, %llu and %llu bytes",
                       text, (ull)entry->packed, (ull)entry->size);
    }
    if (entry->method == PF_ZIP_DEFLATED && entry->size / DEFLATE_RATIO > entry->packed) {
        return pf_fail(err, PF_ELIMIT, at,
                       "entry '%s' claims %llu bytes, more than %llu deflated bytes can hold", text,
                       (ull)entry->size, (ull)entry->packed);
    }
    return PF_OK;
}

/* Reads the local header at `at`. Sizes are left alone when a data descriptor has them. */
static int read_local(const pf_zip *zip, uint64_t at, pf_zip_local *head, pf_zip_entry *entry,
                      pf_error *err) {
    if (!take(zip, at, head, sizeof *head)) {
        return pf_fail(err, PF_ELIMIT, (int64_t)at,
                       "the archive of %llu bytes has no room for a local header here", (ull)zip->size);
    }
    if (head->signature != PF_ZIP_LOCAL) {
        return pf_fail(err, PF_EFORMAT, (int64_t)at, "expected a local header (0x%08x), found 0x%08x",
                       (unsigned)PF_ZIP_LOCAL, (unsigned)head->signature);
    }
    const uint64_t name = at + sizeof *head, extra = name + head->name_length;
    if (!pf_in_range(name, (uint64_t)head->name_length + head->extra_length, zip->size)) {
        return pf_fail(err, PF_ELIMIT, (int64_t)at, "the archive ends inside a local header");
    }
    *entry = (pf_zip_entry){.header = at,
                            .offset = extra + head->extra_length,
                            .packed = head->packed,
                            .size = head->size,
                            .name = name,
                            .crc = head->crc,
                            .name_length = head->name_length,
                            .method = head->method};
    if (head->flags & PF_ZIP_DESCRIPTOR) return PF_OK;
    uint64_t *const fields[] = {&entry->size, &entry->packed};
    return widen(zip, entry, extra, entry->offset, fields, 2, err);
}

/* One step along the local headers: the entry at `at`, which nothing but its own header describes. */
static int read_walked(pf_zip *zip, uint64_t at, pf_zip_entry *entry, pf_error *err) {
    pf_zip_local head = {0};
    const int code = read_local(zip, at, &head, entry, err);
    if (code) return code;
    zip->zip64 |= head.size == NARROW32;
    if (head.flags & PF_ZIP_DESCRIPTOR) {
        char text[LABEL];
        return pf_fail(
            err, PF_EFORMAT, (int64_t)at,
            "the size of entry '%s' is in a data descriptor, which only a central directory can locate",
            label(zip, entry, text));
    }
    return check_content(zip, entry, head.flags, zip->size, err);
}

/* Goes along the local headers up to the first record of another kind; fills entries unless it is NULL. */
static int walk(pf_zip *zip, pf_zip_entry *entries, uint64_t capacity, pf_error *err) {
    uint64_t at = 0, count = 0;
    uint32_t signature = 0;
    for (; take(zip, at, &signature, sizeof signature) && signature == PF_ZIP_LOCAL; count++) {
        pf_zip_entry entry;
        const int code = read_walked(zip, at, &entry, err);
        if (code) return code;
        if (count == capacity)
            return pf_fail(err, PF_EIO, (int64_t)at, "the archive changed while it was read");
        if (entries) entries[count] = entry;
        at = entry.offset + entry.packed;
    }
    zip->directory = zip->directory_end = at;
    zip->count = count;
    const bool cut = zip->size - at < sizeof signature;
    const bool directory =
        !cut && (signature == PF_ZIP_CENTRAL || signature == PF_ZIP64_END || signature == PF_ZIP_END);
    if (count && directory) return PF_OK;
    if (directory || (cut && zip->size >= sizeof signature)) {
        return pf_fail(err, PF_EFORMAT, (int64_t)zip->size,
                       "the archive is cut off: no end record follows (entries so far: %llu)", (ull)count);
    }
    if (cut) return pf_fail(err, PF_EFORMAT, 0, "%llu bytes are too few for a zip archive", (ull)zip->size);
    return pf_fail(err, PF_EFORMAT, (int64_t)at,
                   count ? "expected a zip header, found 0x%08x" : "not a zip archive: it begins with 0x%08x",
                   (unsigned)signature);
}

/* The end record is the last one in the file whose comment reaches the end of the file. */
static bool find_end(const pf_zip *zip, uint64_t *at, pf_zip_end *end) {
    if (zip->size < sizeof *end) return false;
    const uint64_t last = zip->size - sizeof *end;
    const uint64_t first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
    for (*at = last;; --*at) {
        if (take(zip, *at, end, sizeof *end) && end->signature == PF_ZIP_END &&
            end->comment_length == last - *at)
            return true;
        if (*at == first) return false;
    }
}

/* Takes the numbers of the zip64 end record when the locator before the end record points to one. */
static int read_zip64_end(pf_zip *zip, uint64_t *at, uint64_t *size, pf_error *err) {
    pf_zip64_locator locator;
    const uint64_t locator_at = *at - sizeof locator;
    if (*at < sizeof locator || !take(zip, locator_at, &locator, sizeof locator)) return PF_OK;
    if (locator.signature != PF_ZIP64_LOCATOR) return PF_OK;
    pf_zip64_end end;
    if (!pf_in_range(locator.end, sizeof end, locator_at) || !take(zip, locator.end, &end, sizeof end)) {
        return pf_fail(err, PF_ELIMIT, (int64_t)locator_at, "the zip64 end record cannot be at offset %llu",
                       (ull)locator.end);
    }
    if (end.signature != PF_ZIP64_END) {
        return pf_fail(err, PF_EFORMAT, (int64_t)locator.end,
                       "expected a zip64 end record (0x%08x), found 0x%08x", (unsigned)PF_ZIP64_END,
                       (unsigned)end.signature);
    }
    if (end.disk || end.directory_disk || end.disk_count != end.count) {
        return pf_fail(err, PF_EFORMAT, (int64_t)locator.end, "archives of several disks are not supported");
    }
    *at = locator.end;
    *size = end.directory_size;
    zip->directory = end.directory;
    zip->count = end.count;
    zip->zip64 = true;
    return PF_OK;
}

static int read_end(pf_zip *zip, uint64_t at, const pf_zip_end *end, pf_error *err) {
    uint64_t size = end->directory_size;
    zip->directory = end->directory;
    zip->count = end->count;
    const int code = read_zip64_end(zip, &at, &size, err);
    if (code) return code;
    if (!zip->zip64 && (end->disk || end->directory_disk || end->disk_count != end->count)) {
        return pf_fail(err, PF_EFORMAT, (int64_t)at, "archives of several disks are not supported");
    }
    if (!pf_in_range(zip->directory, size, at)) {
        return pf_fail(err, PF_ELIMIT, (int64_t)at,
                       "the central directory cannot be %llu bytes at offset %llu: its end record is at %llu",
                       (ull)size, (ull)zip->directory, (ull)at);
    }
    if (zip->count > size / sizeof(pf_zip_central)) {
        return pf_fail(err, PF_ELIMIT, (int64_t)at,
                       "a central directory of %llu bytes cannot list %llu entries", (ull)size,
                       (ull)zip->count);
    }
    zip->directory_end = zip->directory + size;
    return PF_OK;
}

int pf_zip_open(pf_zip *zip, const void *data, uint64_t size, pf_error *err) {
    *zip = (pf_zip){.data = data, .size = size};
    if (!size) return pf_fail(err, PF_EFORMAT, 0, "the file is empty, not a zip archive");
    pf_zip_end end;
    uint64_t at;
    if (find_end(zip, &at, &end)) return read_end(zip, at, &end, err);
    zip->walked = true;
    return walk(zip, NULL, UINT64_MAX, err);
}

/* What the two headers of an entry both say must be the same, or readers would see different archives. */
static int check_agree(const pf_zip *zip, const pf_zip_entry *central, const pf_zip_entry *local,
                       unsigned flags, pf_error *err) {
    const char *what = NULL;
    if (central->name_length != local->name_length ||
        memcmp(zip->data + central->name, zip->data + local->name, local->name_length) != 0) {
        what = "name";
    } else if (central->method != local->method) {
        what = "compression method";
    } else if (flags & PF_ZIP_DESCRIPTOR) {
        return PF_OK;
    } else if (central->size != local->size || central->packed != local->packed) {
        what = "size";
    } else if (central->crc != local->crc) {
        what = "CRC-32";
    }
    if (!what) return PF_OK;
    char text[LABEL];
    return pf_fail(err, PF_EFORMAT, (int64_t)local->header,
                   "entry '%s' has another %s here than in the central directory", label(zip, central, text),
                   what);
}

/* Reads the central record at *at with its local header and moves on to the next record. */
static int read_central(const pf_zip *zip, uint64_t *at, pf_zip_entry *entry, pf_error *err) {
    pf_zip_central head;
    if (!pf_in_range(*at, sizeof head, zip->directory_end) || !take(zip, *at, &head, sizeof head)) {
        return pf_fail(err, PF_EFORMAT, (int64_t)*at, "the central directory ends before its last entry");
    }
    if (head.signature != PF_ZIP_CENTRAL) {
        return pf_fail(err, PF_EFORMAT, (int64_t)*at,
                       "expected a central directory record (0x%08x), found 0x%08x", (unsigned)PF_ZIP_CENTRAL,
                       (unsigned)head.signature);
    }
    const uint64_t name = *at + sizeof head, extra = name + head.name_length,
                   extra_end = extra + head.extra_length;
    if (!pf_in_range(name, (uint64_t)head.name_length + head.extra_length + head.comment_length,
                     zip->directory_end)) {
        return pf_fail(err, PF_EFORMAT, (int64_t)*at, "the central directory ends inside this record");
    }
    *entry = (pf_zip_entry){.header = head.header,
                            .packed = head.packed,
                            .size = head.size,
                            .name = name,
                            .crc = head.crc,
                            .name_length = head.name_length,
                            .method = head.method};
    uint64_t *const fields[] = {&entry->size, &entry->packed, &entry->header};
    int code = widen(zip, entry, extra, extra_end, fields, 3, err);
    if (!code && entry->header >= zip->directory) {
        char text[LABEL];
        code = pf_fail(err, PF_ELIMIT, (int64_t)*at, "entry '%s' cannot begin at offset %llu",
                       label(zip, entry, text), (ull)entry->header);
    }
    pf_zip_entry local;
    pf_zip_local local_head = {0};
    if (!code) code = read_local(zip, entry->header, &local_head, &local, err);
    const unsigned flags = head.flags | local_head.flags;
    if (!code) code = check_agree(zip, entry, &local, flags, err);
    if (code) return code;
    entry->offset = local.offset;
    *at = extra_end + head.comment_length;
    return check_content(zip, entry, flags, zip->directory, err);
}

static int compare_headers(const void *a, const void *b) {
    const pf_zip_entry *const *x = a, *const *y = b;
    return ((*x)->header > (*y)->header) - ((*x)->header < (*y)->header);
}

static int check_apart(const pf_zip *zip, const pf_zip_entry *const *order, pf_error *err) {
    for (uint64_t i = 1; i < zip->count; i++) {
        if (order[i]->header >= order[i - 1]->offset + order[i - 1]->packed) continue;
        char first[LABEL], second[LABEL];
        return pf_fail(err, PF_EFORMAT, (int64_t)order[i]->header, "entries '%s' and '%s' overlap",
                       label(zip, order[i - 1], first), label(zip, order[i], second));
    }
    return PF_OK;
}

/* Bytes that belong to two entries are the mark of a decompression bomb. */
static int check_overlap(const pf_zip *zip, const pf_zip_entry *entries, pf_error *err) {
    const pf_zip_entry **order = malloc((size_t)zip->count * sizeof *order);
    if (!order) return pf_fail(err, PF_EMEMORY, -1, "no memory to sort %llu entries", (ull)zip->count);
    bool sorted = true;
    for (uint64_t i = 0; i < zip->count; i++) {
        order[i] = entries + i;
        sorted = sorted && (i == 0 || entries[i - 1].header <= entries[i].header);
    }
    if (!sorted) qsort(order, (size_t)zip->count, sizeof *order, compare_headers);
    const int code = check_apart(zip, order, err);
    free(order);
    return code;
}

int pf_zip_entries(const pf_zip *zip, pf_zip_entry *entries, pf_error *err) {
    if (zip->walked) {
        pf_zip again = *zip;
        const int code = walk(&again, entries, zip->count, err);
        if (code || again.count == zip->count) return code;
        return pf_fail(err, PF_EIO, -1, "the archive changed while it was read");
    }
    uint64_t at = zip->directory;
    for (uint64_t i = 0; i < zip->count; i++) {
        const int code = read_central(zip, &at, entries + i, err);
        if (code) return code;
    }
    if (at != zip->directory_end) {
        return pf_fail(err, PF_EFORMAT, (int64_t)at,
                       "%llu bytes of the central directory follow its last entry",
                       (ull)(zip->directory_end - at));
    }
    return zip->count ? check_overlap(zip, entries, err) : PF_OK;
}
