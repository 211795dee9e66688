"""Build the compiled core, and prepare README for the package index. The rest is in pyproject.toml."""

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

DIRECTIVES = {
    # In the form that `inspect.signature` and `help` read.
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "binding": False,
    "freethreading_compatible": True,
}

MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    # Cython 3.3.1 releases references that it has not written yet if there is no memory for the names of
    # keyword arguments (__Pyx_CallTpnewAsVectorcall). This macro disables that code, with any CFLAGS.
    ("CYTHON_VECTORCALL_TPNEW", "0"),
]

# SEQCORE_SMALL=1 makes the thresholds of core/limits.pxd small, for tests.
if os.environ.get("SEQCORE_SMALL", "0") not in ("", "0"):
    MACROS.append(("SEQCORE_SMALL", "1"))

# Debug symbols make a wheel three times as large, so SEQCORE_DEBUG=1 is needed to keep them. A -g in CFLAGS
# keeps them too, but CFLAGS replaces all of Python's own flags.
DEBUG = os.environ.get("SEQCORE_DEBUG", "0") not in ("", "0")
if sys.platform == "win32" or "-g" in os.environ.get("CFLAGS", "").split():
    SYMBOLS = []
else:
    SYMBOLS = ["-g" if DEBUG else "-g0"]
IS_STRIPPED = sys.platform == "linux" and "-g0" in SYMBOLS and "CFLAGS" not in os.environ
# Functions and loops begin at any byte, calls go by no table, and debuggers see no callers of functions in a
# module: 14 % smaller, and as fast.
GAPS = ["-falign-functions=1", "-fno-align-loops", "-fno-align-jumps", "-fno-align-labels"]
TABLES = ["-fno-plt", "-fno-asynchronous-unwind-tables"]
SMALLER = [*GAPS, *TABLES] if sys.platform == "linux" else []
LINK = ["-Wl,-s,--build-id=none"] if IS_STRIPPED else []

# Python's own -O3 pays only for loops over numbers. Smaller code builds in less time, and is as fast.
OPTIMIZE = {"lists": SYMBOLS, "numpy_loops": SYMBOLS, "padding": [*SYMBOLS, *SMALLER]}
OPTIMIZE |= {name: [*SYMBOLS, "-Os", *SMALLER] for name in ("arrow", "embedding", "maps", "pickling")}


def flags_of(name):
    """Return the compiler's flags for a module; those in CFLAGS hold for all."""
    if sys.platform == "win32" or "CFLAGS" in os.environ:
        return SYMBOLS
    return OPTIMIZE.get(name, [*SYMBOLS, "-O2", *SMALLER])


def readme():
    """Return README with URLs in place of paths, because it is read outside of the repository."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Repository"]
    text = Path("README.md").read_text(encoding="utf-8")
    # Images by their raw files, all other links by the pages of the repository.
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{home}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\1{home}/blob/main/", text)


class BuildAlsoInPlace(build_ext):
    """Also copy the built modules beside their sources.

    `pip install .` builds in the checkout, and a Python started there imports seqcore from there. Without
    compiled modules that import would fail, although the package is installed.

    In return, an editable install and `build_ext --inplace` start from modules that are there, and build
    those whose sources are newer; --force builds all, as other flags or another NumPy need.
    """

    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def run(self):
        for name in map(self.get_ext_filename, [one.name for one in self.extensions]):
            if self.inplace and os.path.exists(name):
                self.mkpath(os.path.join(self.build_lib, os.path.dirname(name)))
                self.copy_file(name, os.path.join(self.build_lib, name))  # if it is newer
        options = {"nthreads": self.parallel, "force": self.force or None, "compiler_directives": DIRECTIVES}
        translated = cythonize(self.extensions, **options)
        for extension, other in zip(self.extensions, translated, strict=True):
            extension.sources, extension.depends = other.sources, other.depends
        super().run()
        if not self.inplace:
            self.copy_extensions_to_source()


def extensions():
    return [
        Extension(
            f"seqcore.core.{source.stem}",
            [source.as_posix()],
            include_dirs=[np.get_include(), "seqcore/include"],
            define_macros=MACROS,
            extra_compile_args=flags_of(source.stem),
            extra_link_args=LINK,
        )
        for source in CORE
    ]


if __name__ == "__main__":  # not in the processes that translate modules
    setup(
        long_description=readme(),
        long_description_content_type="text/markdown",
        ext_modules=extensions(),
        cmdclass={"build_ext": BuildAlsoInPlace},
    )
