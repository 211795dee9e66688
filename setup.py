"""Build the compiled core, and prepare README for the package index. The rest is in pyproject.toml."""

import hashlib
import os
import re
import sys
import sysconfig
import tomllib
from pathlib import Path

import Cython
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


# The fingerprint of the modules beside their sources, for this Python.
STAMP = Path(f"build/seqcore{sysconfig.get_config_var('EXT_SUFFIX')}.txt")


def fingerprint():
    """Return a hash of what the modules are built from: sources, tools and flags, but not their times."""
    flags = ["CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "ARCHFLAGS", "MACOSX_DEPLOYMENT_TARGET"]
    flags += ["SEQCORE_DEBUG", "SEQCORE_SMALL"]
    tools = sys.version, np.__version__, Cython.__version__, [os.environ.get(flag) for flag in flags]
    content = hashlib.sha256(repr(tools).encode())
    for pattern in ("setup.py", "seqcore/**/*.pyx", "seqcore/**/*.pxd", "seqcore/include/*.h"):
        for path in sorted(Path().glob(pattern)):
            content.update(f"\0{path.as_posix()}\0".encode() + path.read_bytes())
    return content.hexdigest()


class BuildAlsoInPlace(build_ext):
    """Also copy the built modules beside their sources.

    `pip install .` builds in the checkout, and a Python started there imports seqcore from there. Without
    compiled modules that import would fail, although the package is installed.

    In return, an editable install and `build_ext --inplace` start from modules that are there: they build
    none if no source, tool or flag has changed, and else those whose sources are newer.
    """

    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def run(self):
        before = fingerprint()
        names = map(self.get_ext_filename, [one.name for one in self.extensions])
        names = [name for name in names if os.path.exists(name)] if self.inplace else []
        for name in names:
            self.mkpath(os.path.join(self.build_lib, os.path.dirname(name)))
            self.copy_file(name, os.path.join(self.build_lib, name))  # if it is newer
        is_stamped = STAMP.exists() and STAMP.read_text() == before
        self.is_built = is_stamped and len(names) == len(self.extensions) and not self.force
        if not self.is_built:
            STAMP.unlink(missing_ok=True)
            self.translate()
        super().run()
        if not self.inplace:
            self.copy_extensions_to_source()
        STAMP.parent.mkdir(exist_ok=True)
        STAMP.write_text(before)

    def translate(self):
        """Translate the modules to C, if their sources are newer."""
        options = {"nthreads": self.parallel, "force": self.force or None, "compiler_directives": DIRECTIVES}
        translated = cythonize(self.extensions, **options)
        for extension, other in zip(self.extensions, translated, strict=True):
            extension.sources, extension.depends = other.sources, other.depends

    def build_extension(self, extension):
        if not self.is_built:
            super().build_extension(extension)


def extensions():
    return [
        Extension(
            f"seqcore.core.{source.stem}",
            [source.as_posix()],
            include_dirs=[np.get_include(), "seqcore/include"],
            define_macros=MACROS,
            extra_compile_args=SYMBOLS,
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
