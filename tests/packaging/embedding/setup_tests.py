"""What the tests have beside the extensions of docs/c-api.md."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import seqcore

setup(
    name="more",
    ext_modules=[
        *cythonize("probe.pyx", compiler_directives={"freethreading_compatible": True}),
        Extension("tour", ["tour.cpp"], include_dirs=[seqcore.get_include()]),
    ],
)
