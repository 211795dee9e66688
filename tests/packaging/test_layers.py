"""The package's modules: each imports only those that its row names, in functions and for types too.

`test_core_layers` and `test_onnx_layers` have the order within these two.
"""

import ast
from pathlib import Path

import pytest

import seqcore

ROOT = Path(seqcore.__file__).parent
BASE = {
    "_arguments",
    "core",
    "dtypes",
}  # which know each other: the core reads arguments, and arguments are integers
ALLOWED = {
    "dtypes": {"_arguments"},
    "_arguments": {"dtypes", "core"},
    "_format": {"dtypes", "core"},
    "_arrow": {*BASE, "_format"},
    "_files": {*BASE, "_arrow", "_format", "columns"},
    "_maps": BASE,
    "operators": {*BASE, "_format"},
    "files": {*BASE, "_files", "columns"},
    "columns": {*BASE, "_arrow", "_files", "_format", "files"},
    "packing": BASE,
    "_batches": BASE,
    "samplers": {*BASE, "_batches", "packing"},
    "mapping": {*BASE, "_maps", "operators", "onnx"},
    "onnx": {*BASE, "_files", "_format", "mapping", "operators"},
    "torch": {*BASE, "columns"},
    "demo": {"__init__"},
    "__init__": {*BASE, "files", "columns", "mapping", "operators", "packing", "samplers"},
}
# Only within a function, or for types: the other one imports them.
LATE = {
    ("_format", "core"),
    ("mapping", "onnx"),
    ("files", "_files"),
    ("columns", "files"),
    ("columns", "_files"),
    ("columns", "_arrow"),
}
FILES = sorted(ROOT.rglob("*.py"))


def unit_of(module):
    """Return the module or package right below seqcore; "_typing" is for type checkers alone."""
    return (module.split(".") + ["__init__"])[1]


def imports_of(path):
    """Yield the units that a file imports, and whether only in functions or for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef)
        or (isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING")
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [f"seqcore.{node.names[0].name}" if node.module == "seqcore" else node.module]
        for module in modules:
            if module.partition(".")[0] == "seqcore":
                yield unit_of(module), id(node) in late


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_each_imports_only_what_its_row_names(path):
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for there, is_late in imports_of(path):
        if there in (here, "_typing"):
            continue
        assert there in ALLOWED.get(here, BASE), f"{here} imports {there}"
        assert is_late or (here, there) not in LATE, f"{here} imports {there} when it is imported"


def test_the_listing_reads_as_a_table_of_contents():
    names = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(names) <= 22, sorted(names)
