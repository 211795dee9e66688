"""The core's modules: each imports only those before it, by cimport, import, and in functions too."""

import pkgutil
import re
from pathlib import Path

import pytest

import seqcore
from seqcore.core.late import MODULES, late

ROOT = Path(seqcore.__file__).parent / "core"
# Modules in one line don't import each other.
ORDER = [
    ["limits", "arrays", "interrupts", "late"],
    ["store"],
    ["lists"],
    ["split_join"],
    ["padding"],
    ["numpy_loops"],
    ["training"],
    ["container"],
    ["sequence"],
    ["arrow", "maps", "pickling"],
    ["embedding"],
]
RANK = {name: k for k, names in enumerate(ORDER) for name in names}
# What the core may ask of the package around it: readers of arguments, types, texts.
OUTSIDE = {"_arguments", "dtypes"}
# The Arrow import makes its Chunks.
EXCEPTIONS = {("arrow", "_arrow")}
IMPORT = re.compile(r"^ *(?:from seqcore\.(\S+) c?import|c?import seqcore\.(\S+))", re.MULTILINE)
FILES = sorted([*ROOT.glob("*.pyx"), *ROOT.glob("*.pxd")])


def imports_of(path):
    """Yield the modules of seqcore that a file imports, within functions too."""
    for one, other in IMPORT.findall(path.read_text(encoding="utf-8")):
        yield one or other


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_imports_only_those_before_it(path):
    here = path.stem
    for name in imports_of(path):
        first, *rest = name.split(".")
        if first == "core":
            there = rest[0]
            assert there == here or RANK[there] < RANK[here], f"{path.name} imports {there}"
        else:
            assert first in OUTSIDE or (here, first) in EXCEPTIONS, f"{path.name} imports {name}"


def test_the_order_names_all_modules():
    """By their compiled forms too, for an installed package has no .pyx files."""
    compiled = {module.name for module in pkgutil.iter_modules([str(ROOT)])}
    assert compiled | {path.stem for path in FILES} == RANK.keys()


@pytest.mark.parametrize(("name", "module"), MODULES.items())
def test_what_is_above_the_core_is_there(name, module):
    assert late(name).__module__ == module


@pytest.mark.skipif(not [*ROOT.glob("*.pyx")], reason="an installed package has no .pyx files")
def test_what_is_above_the_core_is_asked_for():
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    assert [name for name in MODULES if f'late("{name}")' not in text] == []
