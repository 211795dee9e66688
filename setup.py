"""The compiled core; all else about the package stands in pyproject.toml."""

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MODULES = (
    *("_pieces", "_owner", "_buffer", "_split", "_join", "_compare", "_parts"),
    *("_container", "_sequence", "_split_join", "_loop", "_embedding"),
)


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
