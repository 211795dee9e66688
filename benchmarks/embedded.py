"""Rows about other compiled extensions: embedded.pyx, built when it is first asked for."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import seqcore as sq

from .declare import OURS, Limit, Side, case, floats, optional

SETUP = """
from Cython.Build import cythonize
from setuptools import setup
setup(ext_modules=cythonize("embedded.pyx"))
"""


@cache
def built():
    """Return the extension, None where there is nothing to compile it with."""
    if not (optional("Cython") and optional("setuptools")):
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shutil.copy(Path(__file__).with_suffix(".pyx"), folder)
        command = [sys.executable, "-c", SETUP, "-q", "build_ext", "--inplace"]
        tree = str(Path(sq.__file__).parents[1])
        build = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": tree}, capture_output=True, text=True
        )
        if build.returncode:
            print(build.stderr, file=sys.stderr)
            return None
        (file,) = (path for path in Path(folder).glob("embedded.*") if path.suffix in (".so", ".pyd"))
        spec = importlib.util.spec_from_file_location("embedded", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@case("a compiled loop over 100,000 rows of 8 float32", Limit("the same over a list of arrays", 1 / 5))
def sum_rows():
    if built() is None:
        return {}
    array = floats(100_000, 8)
    seq, rows = sq.split_to_sequence(array, keepdims=0), list(array)
    return {
        OURS: Side(lambda: built().sum_sequence(seq), noperations=len(rows)),
        "the same over a list of arrays": Side(lambda: built().sum_list(rows), noperations=len(rows)),
    }
