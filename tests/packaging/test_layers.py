"""The layers: all imports of Python and Cython, in functions and for types too, point one way.

A module imports a name above it by the table in `seqcore/core/late.py`, at its first use.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import seqcore
from seqcore.core.late import MODULES, late

ROOT = Path(seqcore.__file__).parent
# Each part imports those in the lines before its own. The first line's are one part.
ORDER = [
    ["_arguments", "core", "dtypes"],
    ["_format"],
    ["_arrow", "_batches", "_maps", "operators", "packing"],
    ["columns", "mapping", "samplers"],
    ["_files", "torch"],
    ["files"],
    ["onnx._once", "onnx._thresholds"],
    ["onnx._model"],
    ["onnx._runtimes"],
    ["onnx._bodies"],
    ["onnx._rewrite"],
    ["onnx._lists"],
    ["onnx._vmap"],
    ["onnx._lowering"],
    ["onnx._engines"],
    ["onnx._operators"],
    ["onnx.body", "onnx.lowering", "onnx.protos", "onnx.session"],
    ["onnx.backend", "onnx.explaining"],
    ["onnx.__main__"],
    ["onnx"],
    ["__init__"],
    ["demo"],
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
CIMPORT = re.compile(r"^ *(?:from (seqcore\S*) c?import|c?import (seqcore\S+))", re.MULTILINE)


def files():
    """Yield the names of modules and their files: the package's, and in a checkout the benchmarks'."""
    for folder in (ROOT, ROOT.parent / "benchmarks"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".pyx", ".pxd"):
                name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
                yield name.removesuffix(".__init__"), path


def imported_by(name, path):
    """Yield the names that a file imports, wherever in it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        for one, other in CIMPORT.findall(text):
            yield one or other
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = name.split(".")[: -node.level or None] if path.name != "__init__.py" else [name]
            base = ".".join([*(package if node.level else []), *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def graph():
    """Return the modules that each module imports; with a module of a package, the package too."""
    found = [*files()]
    names = {name for name, _ in found}
    edges = {name: set() for name in names}
    for name, path in found:
        for other in imported_by(name, path):
            parts = other.split(".")
            packages = {".".join(parts[:k]) for k in range(2, len(parts) + 1)} | {other}
            edges[name] |= {one for one in packages & names if one != name and not name.startswith(f"{one}.")}
    return edges


def part_of(name):
    first, *rest = name.split(".")[1:] or ["__init__"]
    return f"onnx.{rest[0]}" if first == "onnx" and rest else first


def test_there_is_no_circle_of_imports():
    done, circles = set(), []

    def visit(name, way):
        if name in way:
            circles.append(" > ".join([*way[way.index(name) :], name]))
        elif name not in done:
            for other in sorted(graph()[name]):
                visit(other, [*way, name])
            done.add(name)

    for name in sorted(graph()):
        visit(name, [])
    assert not circles


def test_each_part_imports_only_those_before_it():
    wrong = []
    for name, others in graph().items():
        if name.startswith("benchmarks"):
            continue
        here = part_of(name)
        for other in others:
            there = part_of(other)
            if there != here and RANK[there] >= (RANK[here] or 1):
                wrong.append(f"{name} imports {other}")
    assert not wrong


def test_every_part_has_its_place():
    assert {part_of(name) for name in graph() if not name.startswith("benchmarks")} == RANK.keys()


@pytest.mark.parametrize(("name", "module"), MODULES.items())
def test_a_late_import_is_there_and_asked_for(name, module):
    assert any(
        f'late("{name}")' in path.read_text(encoding="utf-8")
        for _, path in files()
        if path.suffix in (".py", ".pyx")
    ) or not [*ROOT.glob("core/*.pyx")]
    if module != "seqcore.onnx":  # which needs its extra
        assert late(name).__module__ == module


def stored_in(tree):
    """Yield the attributes that code sets."""
    return (
        one for one in ast.walk(tree) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    )


def test_no_attribute_of_models_is_set_from_outside_its_class():
    """But for those of a graph and its nodes, which are data as ONNX's messages are, and of these."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "onnx").rglob("*.py")]
    classes = [one for tree in trees for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
    own = {
        one: {a.attr for a in stored_in(one) if isinstance(a.value, ast.Name) and a.value.id == "self"}
        for one in classes
    }
    data = {"version"}.union(*(own[one] for one in classes if one.name in ("Node", "Graph", "Model")))
    within = {attribute: own[one] for one in classes for attribute in stored_in(one)}
    outside = [
        ast.unparse(one)
        for tree in trees
        for one in stored_in(tree)
        if one.attr in set().union(*own.values()) - data - within.get(one, set())
    ]
    assert outside == []
    assert len(within) > 300


def test_the_listing_reads_as_a_table_of_contents():
    names = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(names) <= 22, sorted(names)
