"""The compiled core; all else about the package stands in pyproject.toml."""

import os
import sys

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MODULES = (
    *("_pieces", "_owner", "_buffer", "_split", "_join", "_compare", "_parts"),
    *("_container", "_iterator", "_sequence", "_split_join", "_loop", "_embedding"),
)

# Debug symbols make a wheel three times as large; who wants them says so: CFLAGS=-g.
WANTS_SYMBOLS = "-g" in os.environ.get("CFLAGS", "").split()
WITHOUT_SYMBOLS = [] if WANTS_SYMBOLS or sys.platform == "win32" else ["-g0"]


class BuildAlsoInPlace(build_ext):
    """Leave the modules beside their sources too.

    `pip install .` builds in the checkout, and a Python started there imports seqcore from there: without
    its modules that import would hide the package that was just installed.
    """

    def run(self):
        super().run()
        if not self.inplace:
            self.copy_extensions_to_source()


extensions = [
    Extension(
        f"seqcore.{module}",
        [f"seqcore/{module}.pyx"],
        include_dirs=[np.get_include(), "seqcore/include"],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=WITHOUT_SYMBOLS,
    )
    for module in MODULES
]

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives={"embedsignature": True, "binding": False, "freethreading_compatible": True},
    ),
    cmdclass={"build_ext": BuildAlsoInPlace},
)
