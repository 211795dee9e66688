"""Build the compiled core, and prepare README for the package index; everything else is in pyproject.toml."""

import os
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = sorted(Path("seqcore/core").glob("*.pyx"))

MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    # Cython 3.3.1 creates objects with keywords in a way that releases references which it hasn't written yet
    # if there is no memory for their names (__Pyx_CallTpnewAsVectorcall). This turns it off, with any CFLAGS.
    ("CYTHON_VECTORCALL_TPNEW", "0"),
]

# Debug symbols make a wheel three times as large. SEQCORE_DEBUG=1 keeps them. A -g in CFLAGS keeps them too,
# but CFLAGS replaces all of Python's own flags.
if sys.platform == "win32" or "-g" in os.environ.get("CFLAGS", "").split():
    SYMBOLS = []
else:
    SYMBOLS = ["-g" if os.environ.get("SEQCORE_DEBUG", "0") not in ("", "0") else "-g0"]


def readme():
    """Return README with addresses instead of paths, because it is read far from the repository."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Repository"]
    text = Path("README.md").read_text(encoding="utf-8")
    # A picture as it is, and anything else as the repository shows it.
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{home}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\1{home}/blob/main/", text)


class BuildAlsoInPlace(build_ext):
    """Leave the modules beside their sources too.

    `pip install .` builds in the checkout, and a Python started there imports seqcore from there: without
    its modules that import would hide the package that was just installed.

    The other way round, `build_ext --inplace` begins with the modules that an editable install has left.
    Otherwise the first one would build all of them again.
    """

    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def run(self):
        if self.inplace:
            for name in map(self.get_ext_filename, [extension.name for extension in self.extensions]):
                if os.path.exists(name) and not os.path.exists(os.path.join(self.build_lib, name)):
                    self.mkpath(os.path.join(self.build_lib, os.path.dirname(name)))
                    self.copy_file(name, os.path.join(self.build_lib, name))
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
    long_description=readme(),
    long_description_content_type="text/markdown",
    ext_modules=cythonize(
        extensions,
        compiler_directives={
            # In the form that `inspect.signature` and `help` read.
            "embedsignature": True,
            "embedsignature.format": "clinic",
            "binding": False,
            "freethreading_compatible": True,
        },
    ),
    cmdclass={"build_ext": BuildAlsoInPlace},
)
