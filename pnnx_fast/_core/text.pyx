# cython: language_level=3, freethreading_compatible=True
"""Text of .param files: parameter values, float text, and whole files to and from objects of the IR.

Used by ir.parameter and formats.pnnx_param, which hands in the classes to build. Knows the grammar of the text
and which errors to raise, and nothing of files, weights or what operators mean.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcpy, memset
from cpython.dict cimport PyDict_SetItem
from cpython.unicode cimport PyUnicode_DecodeUTF8

import re
from sys import intern

from pnnx_fast.errors import FormatError, GraphError, LimitError, ParameterError

cdef extern from "Python.h":
    ctypedef struct PyObject
    int Py_tp_new
    ctypedef struct PyTypeObject
    void *PyType_GetSlot(PyTypeObject *cls, int slot)
    int PyObject_GC_IsTracked(object value)
    void PyObject_GC_UnTrack(void *value)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef extern from "base/status.h":
    ctypedef enum pf_code:
        PF_OK
        PF_EFORMAT
        PF_ELIMIT

cdef extern from "base/checked.h":
    bint pf_mul_u64(uint64_t a, uint64_t b, uint64_t *out) nogil

cdef extern from "text/scan.h":
    ctypedef struct pf_span:
        const char *begin
        const char *end
    ctypedef struct pf_scan:
        const char *at
        const char *end
        const char *line_begin
        int64_t line
    void pf_scan_start(pf_scan *scan, const char *text, size_t size) nogil
    bint pf_scan_line(pf_scan *scan) nogil
    bint pf_scan_token(pf_scan *scan, pf_span *token) nogil
    const char *pf_span_find(pf_span span, char byte) nogil

cdef extern from "text/number.h":
    ctypedef enum pf_kind:
        PF_NULL, PF_BOOL, PF_INT, PF_FLOAT, PF_STRING, PF_INTS, PF_FLOATS, PF_STRINGS, PF_COMPLEX, PF_COMPLEXES
    ctypedef struct pf_scalar:
        pf_kind kind
        int64_t integer
        double real
        double imaginary
    pf_code pf_parse_i64(pf_span text, int64_t *value) nogil
    pf_code pf_parse_scalar(pf_span text, pf_scalar *scalar) nogil

cdef extern from "text/float_text.h":
    ctypedef enum pf_float_style:
        pass
    enum:
        PF_FLOAT_TEXT
    size_t pf_format_float(double x, pf_float_style style, bint wide, char *out) nogil
    size_t pf_format_scientific(double x, char *out) nogil

FLOAT_STYLES = ("2021", "2025", "2026")

ctypedef object (*new_function)(PyTypeObject *cls, object args, PyObject *kwargs)

# PNNX's codes of parameter types.
NONE, BOOL, INT, FLOAT, STRING, COMPLEX = PF_NULL, PF_BOOL, PF_INT, PF_FLOAT, PF_STRING, PF_COMPLEX
# Of a parameter whose text nobody has asked for yet.
cdef int UNPARSED_CODE = -1
UNPARSED = UNPARSED_CODE
# Those of lists, by the code of their elements.
LIST_CODES = {PF_INT: PF_INTS, PF_FLOAT: PF_FLOATS, PF_STRING: PF_STRINGS, PF_COMPLEX: PF_COMPLEXES}


cdef new_function new_of(cls):
    """What makes an instance of a class without calling __init__; the fast way to ``cls.__new__(cls)``."""
    return <new_function>PyType_GetSlot(<PyTypeObject *>cls, Py_tp_new)


cdef int untrack(object leaf) except -1:
    """Hide an object from the garbage collector that can never be part of a cycle."""
    if PyObject_GC_IsTracked(leaf):
        PyObject_GC_UnTrack(<PyObject *>leaf)
    return 0


cdef class ParameterStorage:
    """The fields of a Parameter. Its values are leaves, so the garbage collector need not see it."""

    cdef public int _code
    cdef public str _raw
    cdef public object _value

    def __cinit__(self):
        untrack(self)

    def copy(self):
        """Return an independent parameter with the same value and text."""
        cls = type(self)
        cdef ParameterStorage other = new_of(cls)(<PyTypeObject *>cls, (), NULL)
        other._code = self._code
        other._raw = self._raw
        other._value = list(self._value) if isinstance(self._value, list) else self._value
        return other


cdef object scalar_value(pf_span text, int *code):
    cdef pf_scalar scalar
    if pf_parse_scalar(text, &scalar) == PF_ELIMIT:
        raise OverflowError("an integer that does not fit in 64 bits")
    code[0] = scalar.kind
    if scalar.kind == PF_INT:
        return scalar.integer
    if scalar.kind == PF_FLOAT:
        return scalar.real
    if scalar.kind == PF_COMPLEX:
        return complex(scalar.real, scalar.imaginary)
    return PyUnicode_DecodeUTF8(text.begin, text.end - text.begin, NULL)


cdef list list_items(pf_span text, int *code):
    cdef list items = []
    cdef pf_span item
    item.begin = text.begin
    while True:
        item.end = pf_span_find(pf_span(item.begin, text.end), c",")
        items.append(scalar_value(item, code))
        if item.end == text.end:
            return items
        item.begin = item.end + 1


def parse_value(str text):
    """Parse the text of a parameter by PNNX's rules to (type code, value); OverflowError beyond 64 bits."""
    cdef Py_ssize_t size
    cdef int code = PF_STRING
    cdef const char *begin = PyUnicode_AsUTF8AndSize(text, &size)
    cdef const char *end = begin + size
    if size == 0 or memchr(begin, c"%", size):
        return PF_STRING, text
    if begin[0] == c"(" or begin[0] == c"[":
        if text == "()" or text == "[]":
            return PF_NULL, None
        # The first and the last character go, whatever the last one is.
        begin += 1
        while end > begin:
            end -= 1
            if (end[0] & 0xC0) != 0x80:
                break
        items = list_items(pf_span(begin, end), &code)
        return LIST_CODES[code], items
    if begin[0] == c"N" and text == "None":
        return PF_NULL, None
    if begin[0] == c"T" and text == "True":
        return PF_BOOL, True
    if begin[0] == c"F" and text == "False":
        return PF_BOOL, False
    value = scalar_value(pf_span(begin, end), &code)
    return code, value


def to_float32(double x):
    """Round to the nearest float32, overflow to infinity."""
    return <double><float>x


def format_float(double x, str style="2026", bint wide=False):
    """Text of a float as PNNX's writers of that year print it; ``wide`` keeps float64."""
    cdef char out[PF_FLOAT_TEXT]
    if style not in FLOAT_STYLES:
        raise ValueError(f"float style {style!r}, expected one of {FLOAT_STYLES}")
    return out[:pf_format_float(x, <pf_float_style><int>int(style), wide, out)].decode("ascii")


def format_complex(x):
    """Text of a complex parameter: two ``%e`` parts (with more digits where float32 needs them), joined by a plus."""
    cdef char out[PF_FLOAT_TEXT]
    real = out[:pf_format_scientific(<double><float>x.real, out)].decode("ascii")
    return f"{real}+{out[:pf_format_scientific(<double><float>x.imag, out)].decode('ascii')}j"


include "_text_read.pxi"
include "_text_write.pxi"
include "_text_ncnn.pxi"
