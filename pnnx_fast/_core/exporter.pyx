# cython: language_level=3, freethreading_compatible=True
"""A base class for objects that hand out the buffer of an array they hold, which Python classes cannot do before 3.12.

Used by ``pnnx_fast.ncnn.Mat``; knows nothing of what the array means.
"""

from cpython.buffer cimport PyObject_GetBuffer


cdef class Exporter:
    """An object whose buffer is that of what its method ``_exported`` returns."""

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyObject_GetBuffer(self._exported(), buffer, flags)
