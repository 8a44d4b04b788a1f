"""Builds the Cython operator: ``python setup.py build_ext --inplace``."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import pnnx_fast

setup(
    name="scale-rows",
    ext_modules=cythonize([Extension("scale_rows", ["scale_rows.pyx"], include_dirs=[pnnx_fast.get_include()])]),
)
