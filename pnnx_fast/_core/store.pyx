# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Binding of csrc/store: checksums and the headers of zip archives; where buffers lie.

Stateless functions on buffers. ``pnnx_fast.formats.store_zip`` builds readers and writers on them; nothing
here opens a file, keeps one, or decides what an archive should hold.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

include "_errors.pxi"

cdef extern from "store/crc32.h" nogil:
    uint32_t pf_crc32(uint32_t crc, const void *data, size_t n)
    uint32_t pf_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b)
    const char *pf_crc32_variant_name(int variant)
    bint pf_crc32_variant_runs(int variant)
    uint32_t pf_crc32_by(int variant, uint32_t crc, const void *data, size_t n)

cdef extern from "store/zip.h" nogil:
    ctypedef struct pf_zip_entry:
        uint64_t header
        uint64_t offset
        uint64_t packed
        uint64_t size
        uint64_t name
        uint32_t crc
        uint16_t name_length
        uint16_t method
    ctypedef struct pf_zip:
        uint64_t count
        bint zip64
    int pf_zip_open(pf_zip *zip, const void *data, uint64_t size, pf_error *err)
    int pf_zip_entries(const pf_zip *zip, pf_zip_entry *entries, pf_error *err)
    size_t pf_zip_local_bytes(size_t name_length, bint zip64)
    size_t pf_zip_central_bytes(size_t name_length, bint zip64)
    size_t pf_zip_end_bytes(bint zip64)
    int pf_zip_put_local(uint8_t *out, const pf_zip_entry *entry, const char *name, bint zip64, pf_error *err)
    int pf_zip_put_central(uint8_t *out, const pf_zip_entry *entry, const char *name, bint zip64,
                           pf_error *err)
    int pf_zip_put_end(uint8_t *out, uint64_t count, uint64_t directory, uint64_t directory_size, bint zip64,
                       pf_error *err)

# Below this many bytes the lock costs more than the checksum.
cdef enum:
    NOGIL_FROM = 65536


def address(data):
    """Address of the first byte of a contiguous buffer; numpy's own ways to tell it take ten times as long."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    cdef uintptr_t start = <uintptr_t>buffer.buf
    PyBuffer_Release(&buffer)
    return start


def crc32_variants():
    """Names of the implementations that run on this CPU, slowest first."""
    cdef int i = 0
    names = []
    while pf_crc32_variant_name(i) != NULL:
        if pf_crc32_variant_runs(i):
            names.append((<bytes>pf_crc32_variant_name(i)).decode())
        i += 1
    return tuple(names)


cdef int _variant_number(object name) except -1:
    cdef int i = 0
    while pf_crc32_variant_name(i) != NULL:
        if pf_crc32_variant_runs(i) and (<bytes>pf_crc32_variant_name(i)).decode() == name:
            return i
        i += 1
    raise ValueError(f"no CRC-32 variant {name!r} on this CPU; there are {', '.join(crc32_variants())}")


def crc32(data, uint32_t value=0, *, variant=None):
    """CRC-32 of the bytes behind `value` (0 at the start) followed by `data`, as ``zlib.crc32`` gives it."""
    cdef Py_buffer buffer
    cdef uint32_t crc = value
    cdef int number = -1 if variant is None else _variant_number(variant)
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if number >= 0:
            crc = pf_crc32_by(number, crc, buffer.buf, buffer.len)
        elif buffer.len <= NOGIL_FROM:
            crc = pf_crc32(crc, buffer.buf, buffer.len)
        else:
            with nogil:
                crc = pf_crc32(crc, buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return crc


def crc32_each(data, list pieces):
    """CRC-32 of each piece (offset, bytes) of `data`, all in one go without the GIL."""
    cdef Py_buffer buffer
    cdef Py_ssize_t i, count = len(pieces)
    cdef uint64_t *at = <uint64_t *>malloc((2 * count or 1) * sizeof(uint64_t))
    cdef uint32_t *found = <uint32_t *>malloc((count or 1) * sizeof(uint32_t))
    cdef uint64_t size
    try:
        if at == NULL or found == NULL:
            raise MemoryError(f"no memory for {count} pieces")
        for i in range(count):
            at[2 * i], at[2 * i + 1] = pieces[i]
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            size = buffer.len
            for i in range(count):
                if at[2 * i] > size or at[2 * i + 1] > size - at[2 * i]:
                    raise ValueError(f"piece {i} does not lie in the data")
            with nogil:
                for i in range(count):
                    found[i] = pf_crc32(0, <const uint8_t *>buffer.buf + at[2 * i], at[2 * i + 1])
        finally:
            PyBuffer_Release(&buffer)
        return [found[i] for i in range(count)]
    finally:
        free(at)
        free(found)


def crc32_combine(uint32_t first, uint32_t second, uint64_t length):
    """CRC-32 of A followed by B from those of A and B and the length of B."""
    return pf_crc32_combine(first, second, length)


cdef object _name(const uint8_t *data, const pf_zip_entry *entry, object path):
    try:
        return PyUnicode_DecodeUTF8(<const char *>data + entry.name, entry.name_length, NULL)
    except UnicodeDecodeError as error:
        raise FormatError(
            "an entry name is not UTF-8", path=path, offset=entry.name + <uint64_t>error.start
        ) from None


cdef list _entries(const uint8_t *data, const pf_zip *zip, object path):
    cdef pf_error err
    cdef uint64_t i
    cdef list result = []
    cdef pf_zip_entry *entries = <pf_zip_entry *>malloc((zip.count or 1) * sizeof(pf_zip_entry))
    if entries == NULL:
        raise MemoryError(f"no memory for {zip.count} zip entries")
    try:
        if pf_zip_entries(zip, entries, &err) != PF_OK:
            raise status_exception(&err, path)
        for i in range(zip.count):
            result.append((
                _name(data, entries + i, path), entries[i].offset, entries[i].size, entries[i].packed,
                entries[i].crc, entries[i].method,
            ))
    finally:
        free(entries)
    return result


def zip_index(data, path=None):
    """List an archive: whether it has zip64 records, and its entries.

    An entry is (name, offset, size, packed size, crc, method); they come in the order of the directory, and
    names may repeat. `path` only goes into messages.
    """
    cdef Py_buffer buffer
    cdef pf_zip zip
    cdef pf_error err
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if pf_zip_open(&zip, buffer.buf, buffer.len, &err) != PF_OK:
            raise status_exception(&err, path)
        return bool(zip.zip64), _entries(<const uint8_t *>buffer.buf, &zip, path)
    finally:
        PyBuffer_Release(&buffer)


cdef int _fill(pf_zip_entry *entry, bytes name, uint64_t size, uint32_t crc) except -1:
    if len(name) > 0xffff:
        raise ValueError(f"an entry name of {len(name)} bytes is longer than the 65535 that zip allows")
    entry.name_length = <uint16_t>len(name)
    entry.size = size
    entry.crc = crc
    entry.header = 0
    return 0


def zip_local_header(bytes name not None, uint64_t size, uint32_t crc, bint zip64):
    """The bytes that stand before the content of an entry."""
    cdef pf_zip_entry entry
    cdef pf_error err
    _fill(&entry, name, size, crc)
    header = PyBytes_FromStringAndSize(NULL, pf_zip_local_bytes(len(name), zip64))
    cdef uint8_t *out = <uint8_t *>PyBytes_AsString(header)
    if pf_zip_put_local(out, &entry, PyBytes_AsString(name), zip64, &err) != PF_OK:
        raise status_exception(&err, None)
    return header


def zip_central_record(bytes name not None, uint64_t size, uint32_t crc, uint64_t offset, bint zip64):
    """The record of the central directory for an entry whose local header is at `offset`."""
    cdef pf_zip_entry entry
    cdef pf_error err
    _fill(&entry, name, size, crc)
    entry.header = offset
    record = PyBytes_FromStringAndSize(NULL, pf_zip_central_bytes(len(name), zip64))
    cdef uint8_t *out = <uint8_t *>PyBytes_AsString(record)
    if pf_zip_put_central(out, &entry, PyBytes_AsString(name), zip64, &err) != PF_OK:
        raise status_exception(&err, None)
    return record


def zip_end(uint64_t count, uint64_t directory, uint64_t directory_size, bint zip64):
    """The end records of an archive."""
    cdef pf_error err
    end = PyBytes_FromStringAndSize(NULL, pf_zip_end_bytes(zip64))
    cdef uint8_t *out = <uint8_t *>PyBytes_AsString(end)
    if pf_zip_put_end(out, count, directory, directory_size, zip64, &err) != PF_OK:
        raise status_exception(&err, None)
    return end
