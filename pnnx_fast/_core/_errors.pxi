# The one table from status codes of the C core to exceptions. Extension modules include this file; it knows
# the codes and pnnx_fast.errors, nothing of what a module does.
from libc.stdint cimport int32_t, int64_t

from pnnx_fast.errors import FormatError, LimitError

cdef extern from "base/status.h" nogil:
    enum:
        PF_OK
        PF_EFORMAT
        PF_ELIMIT
        PF_EMEMORY
        PF_EIO
    ctypedef struct pf_error:
        int32_t code
        int64_t offset
        char message[256]

cdef dict _PLACED_ERRORS = {PF_EFORMAT: FormatError, PF_ELIMIT: LimitError}
cdef dict _PLAIN_ERRORS = {PF_EMEMORY: MemoryError, PF_EIO: OSError}


cdef object status_exception(const pf_error *err, object path, object line=None, object column=None):
    """The exception that an error record stands for.

    Text readers pass line and column (from 1); otherwise the byte offset of the record says where.
    """
    cdef bytes raw = err.message
    cdef str message = raw.decode("utf-8", "replace")
    if err.code in _PLACED_ERRORS:
        return _PLACED_ERRORS[err.code](
            message, path=path, line=line, column=column, offset=err.offset if err.offset >= 0 else None
        )
    return _PLAIN_ERRORS.get(err.code, RuntimeError)(f"{path}: {message}" if path else message)
