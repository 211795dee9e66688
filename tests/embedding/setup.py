"""How extensions outside seqcore are built: Cython's without flags, C and C++ with the header's folder."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import seqcore

include = [seqcore.get_include()]
setup(
    name="events",
    ext_modules=[
        *cythonize(["events.pyx", "probe.pyx"], compiler_directives={"freethreading_compatible": True}),
        Extension("events_c", ["events_c.c"], include_dirs=include),
        Extension("events_cpp", ["events_cpp.cpp"], include_dirs=include),
    ],
)
