# cython: language_level=3, freethreading_compatible=True
"""The function that runs regions of the thread team over OpenMP, for :func:`pnnx_fast._core.program.choose_team`.

A module of its own: OpenMP's runtime is loaded with it, by those who choose that team alone.
"""

from cpython.pycapsule cimport PyCapsule_New


cdef extern from "openmp/team_openmp.h":
    void pf_openmp_run()

region = PyCapsule_New(<void *>pf_openmp_run, NULL, NULL)
