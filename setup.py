"""The compiled core; all else about the package stands in pyproject.toml."""

import os
import sys
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = sorted(Path("seqcore/core").glob("*.pyx"))

MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    # Cython 3.3.1's way to make objects with keywords lets go of references that it has not written yet
    # where there is no memory for their names (__Pyx_CallTpnewAsVectorcall). Left out so, with any CFLAGS.
    ("CYTHON_VECTORCALL_TPNEW", "0"),
]

# Debug symbols make a wheel three times as large; who wants them says so: SEQCORE_DEBUG=1. A -g in CFLAGS
# keeps them too, but CFLAGS takes the place of all of Python's own flags.
if sys.platform == "win32" or "-g" in os.environ.get("CFLAGS", "").split():
    SYMBOLS = []
else:
    SYMBOLS = ["-g" if os.environ.get("SEQCORE_DEBUG", "0") not in ("", "0") else "-g0"]


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
        f"seqcore.core.{source.stem}",
        [source.as_posix()],
        include_dirs=[np.get_include(), "seqcore/include"],
        define_macros=MACROS,
        extra_compile_args=SYMBOLS,
    )
    for source in CORE
]

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives={"embedsignature": True, "binding": False, "freethreading_compatible": True},
    ),
    cmdclass={"build_ext": BuildAlsoInPlace},
)
