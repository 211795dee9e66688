"""The folders of seqcore.onnx: each imports only those before it, in functions and for types too."""

import ast
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import seqcore.onnx

ROOT = Path(seqcore.onnx.__file__).parent
# What stands in one line may not import each other.
ORDER = [
    ["_once", "_thresholds"],
    ["_model"],
    ["_runtimes"],
    ["_bodies"],
    ["_rewrite"],
    ["_lists"],
    ["_vmap"],
    ["_lowering"],
    ["_engines"],
    ["_operators"],
    ["body", "lowering", "protos", "session"],
    ["backend", "explaining"],
    ["__main__"],
    ["__init__"],
]
RANK = {name: k for k, names in enumerate(ORDER) for name in names}
FILES = sorted(ROOT.rglob("*.py"))


def part_of(path):
    first, *rest = path.relative_to(ROOT).parts
    return first if rest else first.removesuffix(".py")


def imports_of(path):
    """Yield the modules of seqcore.onnx that a file imports, by their names in it, and the lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        else:
            continue
        for name in names:
            if name.startswith("seqcore.onnx."):
                yield name.removeprefix("seqcore.onnx."), node.lineno


def wrong_imports():
    for path in FILES:
        here = part_of(path)
        for name, line in imports_of(path):
            there = name.split(".")[0]
            if there in RANK and there != here and RANK[there] >= RANK[here]:
                yield f"{path.relative_to(ROOT)}:{line} imports {name}"


def test_every_part_has_its_place():
    assert {part_of(path) for path in FILES} == RANK.keys()


def test_imports_point_one_way():
    assert not sorted(set(wrong_imports()))


@pytest.mark.slow
def test_files_of_a_folder_import_each_other_in_one_order():
    """At the top, in functions and for types: there is no circle."""
    graph = {}
    for path in FILES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        graph[name] = {other for other, _ in imports_of(path)}
    graph = {name: sorted(others & graph.keys()) for name, others in graph.items()}
    done, circles = set(), []

    def visit(name, way):
        if name in way:
            circles.append(" > ".join([*way[way.index(name) :], name]))
        elif name not in done:
            for other in graph[name]:
                visit(other, [*way, name])
            done.add(name)

    for name in graph:
        visit(name, [])
    assert not circles
