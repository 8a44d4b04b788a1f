"""The compiled part of the example plugin: a shared library that needs pnnx_fast's header and nothing else."""

from setuptools import Extension, setup

import pnnx_fast

setup(
    ext_modules=[
        Extension(
            "moving_average._operators",
            ["moving_average/operators.c"],
            include_dirs=[pnnx_fast.get_include()],
            extra_compile_args=["-O3"],
        )
    ]
)
