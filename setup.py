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

MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    # Cython 3.3.1 releases references that it has not written yet if there is no memory for the names of
    # keyword arguments (__Pyx_CallTpnewAsVectorcall). This macro disables that code, with any CFLAGS.
    ("CYTHON_VECTORCALL_TPNEW", "0"),
]

# Debug symbols make a wheel three times as large, so SEQCORE_DEBUG=1 is needed to keep them. A -g in CFLAGS
# keeps them too, but CFLAGS replaces all of Python's own flags.
if sys.platform == "win32" or "-g" in os.environ.get("CFLAGS", "").split():
    SYMBOLS = []
else:
    SYMBOLS = ["-g" if os.environ.get("SEQCORE_DEBUG", "0") not in ("", "0") else "-g0"]


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

    In return, `build_ext --inplace` starts from modules that an editable install has left there, so that it
    doesn't build all of them again.
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
