"""The core's modules: each imports only those before it, by cimport, import, and in functions too."""

import pkgutil
import re
from pathlib import Path

import pytest

import seqcore

ROOT = Path(seqcore.__file__).parent / "core"
# Modules in one line don't import each other.
ORDER = [
    ["limits", "arrays", "interrupts"],
    ["store", "training"],
    ["lists"],
    ["split_join"],
    ["padding"],
    ["numpy_loops"],
    ["container"],
    ["pickling"],
    ["sequence"],
    ["arrow", "maps"],
    ["embedding"],
]
RANK = {name: k for k, names in enumerate(ORDER) for name in names}
# What the core may ask of the package around it: readers of arguments, types, texts.
OUTSIDE = {"_arguments", "dtypes"}
# And within a function alone, for what the methods of that name do.
WITHIN_FUNCTIONS = {"_arrow", "_files", "_format"}
# The Arrow import makes its Chunks.
EXCEPTIONS = {("arrow", "_arrow")}
IMPORT = re.compile(r"^( *)(?:from seqcore\.(\S+) c?import|c?import seqcore\.(\S+))", re.MULTILINE)
FILES = sorted([*ROOT.glob("*.pyx"), *ROOT.glob("*.pxd")])


def imports_of(path):
    """Yield the modules of seqcore that a file imports, and whether within a function."""
    for indent, one, other in IMPORT.findall(path.read_text(encoding="utf-8")):
        yield (one or other), bool(indent)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_imports_only_those_before_it(path):
    here = path.stem
    for name, inside in imports_of(path):
        first, *rest = name.split(".")
        if first == "core":
            there = rest[0]
            assert there == here or RANK[there] < RANK[here], f"{path.name} imports {there}"
        else:
            allowed = first in OUTSIDE or (here, first) in EXCEPTIONS
            assert allowed or (inside and first in WITHIN_FUNCTIONS), f"{path.name} imports {name}"


def test_the_order_names_all_modules():
    """By their compiled forms too, for an installed package has no .pyx files."""
    compiled = {module.name for module in pkgutil.iter_modules([str(ROOT)])}
    assert compiled | {path.stem for path in FILES} == RANK.keys()
