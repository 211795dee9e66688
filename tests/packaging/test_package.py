"""The package as a stranger meets it: what an import brings in, and what it says where it can't work."""

import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import seqcore

HERE = Path(seqcore.__file__).parent
TESTS = Path(__file__).parents[1]


def run(code, **kwargs):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, **kwargs)


MAY_BE_IMPORTED = {
    *("__future__", "array", "copy", "errno", "mmap"),
    *("importlib", "importlib._bootstrap", "importlib._bootstrap_external"),  # Python has run them before
    "org",  # Python's own name for Jython's modules, which `copy` looks for
    "_missing_stdlib_info",  # Python's, since 3.15
    "cython_runtime",
}


def test_import_brings_in_numpy_and_little_else():
    """What every program has anyway: no asyncio, concurrent.futures, html, json, logging, tempfile …"""
    code = """
import sys, numpy
before = set(sys.modules)
import seqcore
print(*sorted({*sys.modules} - before))
"""
    # Without `site`, since what an editable install is found by imports more.
    folders = [str(Path(module.__file__).parents[1]) for module in (seqcore, np)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    # Cython registers a module for the types that its modules share.
    others = {name for name in done.stdout.split() if not re.match(r"seqcore(\.|$)|numpy\.|_cython_", name)}
    assert others <= MAY_BE_IMPORTED


def test_unbuilt_tree_says_what_to_do(tmp_path):
    tree = tmp_path / "seqcore"
    tree.mkdir()
    for source in HERE.glob("*.py"):
        shutil.copy(source, tree)
    # An editable install would find the missing modules in its own tree.
    code = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)]; import seqcore"
    )
    result = run(code, cwd=tmp_path)
    assert result.returncode != 0
    assert "ImportError" in result.stderr
    assert str(tree) in result.stderr
    assert "pip install -e ." in result.stderr


IMPORT_ALL = """
import sys
from pathlib import Path

import pytest
import seqcore

TESTS = Path(sys.argv[1])

class Missing:
    name = ""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

class ModulesAlone:  # imports each file of tests, but makes no cases
    def pytest_pycollect_makeitem(self, collector, name, obj):
        return []

def is_ours(name, module):
    file = getattr(module, "__file__", None)
    return f"{name}.".startswith("seqcore.onnx.") or (file and TESTS in Path(file).parents)

missing = Missing()
sys.meta_path.insert(0, missing)
arguments = ["--collect-only", "-qq", "-p", "no:cacheprovider", str(TESTS)]
for missing.name in sys.argv[2:]:
    print("== without", missing.name)
    loaded = [*sys.modules]
    hidden = {name: sys.modules.pop(name) for name in loaded if name.partition(".")[0] == missing.name}
    assert pytest.main(arguments, plugins=[ModulesAlone()]) == pytest.ExitCode.NO_TESTS_COLLECTED
    for name, module in [*sys.modules.items()]:
        if is_ours(name, module):
            del sys.modules[name]
    vars(seqcore).pop("onnx", None)
    sys.modules.update(hidden)
"""


@pytest.mark.slow
@pytest.mark.at_night
def test_the_suite_stands_a_missing_package():
    """In one process, because what takes long is to import all that the tests use."""
    packages = ["torch", "pyarrow", "onnx", "onnxruntime"]
    command = [sys.executable, "-c", IMPORT_ALL, TESTS, *packages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=TESTS.parent)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-1000:]}"


def test_typing_and_c_declarations_are_installed():
    files = {file.name for file in resources.files("seqcore").iterdir()}
    assert {"py.typed", "__init__.pxd", "include"} <= files
    core = {file.name for file in resources.files("seqcore.core").iterdir()}
    assert {"sequence.pyi", "embedding.pxd"} <= core
    assert Path(seqcore.get_include(), "seqcore.h").is_file()


def test_public_names_are_the_documented_ones():
    assert sorted(seqcore.__all__) == [
        "BatchSampler",
        "Columns",
        "ELEMENT_TYPES",
        "TensorSequence",
        "concat_from_sequence",
        "element_type",
        "get_include",
        "load",
        "map_batches",
        "pack",
        "save",
        "sequence_at",
        "sequence_construct",
        "sequence_empty",
        "sequence_erase",
        "sequence_insert",
        "sequence_length",
        "sequence_map",
        "split_to_sequence",
    ]
    assert all(getattr(seqcore, name).__doc__ for name in seqcore.__all__)
