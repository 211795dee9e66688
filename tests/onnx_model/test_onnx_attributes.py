"""Attributes in seqcore.onnx are set in their own class only: nothing changes an object from outside."""

import ast
from pathlib import Path

import onnx
import onnxruntime

import seqcore.onnx
from seqcore.onnx._model.graph import Graph, Node

ROOT = Path(seqcore.onnx.__file__).parent
KINDS = [kind.DESCRIPTOR for kind in vars(onnx.onnx_pb).values() if hasattr(kind, "DESCRIPTOR")]
KINDS += [inner for kind in KINDS for inner in getattr(kind, "nested_types", ())]
MESSAGES = {field.name for kind in KINDS for field in getattr(kind, "fields", ())}
# What passes rewrite: graphs as plain data, as the messages that they stand for.
GRAPHS = {name for kind in (Graph, Node) for name in kind.__slots__ if not name.startswith("_")}
GRAPHS |= {"constants", "defaults", "opsets", "ir_version"}  # of Model
OPTIONS = {*dir(onnxruntime.SessionOptions), *dir(onnxruntime.RunOptions)}
# Of exceptions; of NumPy's flags; and of onnxruntime's sessions, which would hold a second copy of a model.
OTHERS = {"seqcore_element", "seqcore_node", "__cause__", "__context__", "__suppress_context__", "writeable"}
OTHERS |= {"_model_bytes", "_sess_options", "_sess_options_initial"}
ALLOWED = MESSAGES | GRAPHS | OPTIONS | OTHERS


def targets_of(node):
    if isinstance(node, ast.Assign | ast.Delete):
        todo = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
        todo = [node.target]
    else:
        todo = [item.optional_vars for item in getattr(node, "items", ()) if item.optional_vars]
    while todo:
        one = todo.pop()
        if isinstance(one, ast.Tuple | ast.List):
            todo += one.elts
        elif isinstance(one, ast.Starred):
            todo.append(one.value)
        elif isinstance(one, ast.Attribute):
            yield one


def attributes_set(tree, own=frozenset()):
    """Yield the attributes that a tree sets, except those on `self` and, in a class, of that class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            inner = [one for child in ast.walk(node) for one in targets_of(child)]
            yield from attributes_set(node, own | {one.attr for one in inner if is_on_self(one)})
            continue
        for one in targets_of(node):
            if not is_on_self(one) and one.attr not in own:
                yield one
        yield from attributes_set(node, own)


def is_on_self(attribute):
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "cls")


def wrong_in(text):
    return [ast.unparse(one) for one in attributes_set(ast.parse(text)) if one.attr not in ALLOWED]


def test_no_attribute_is_set_from_outside():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        wrong += [f"{path.relative_to(ROOT)}: {one}" for one in wrong_in(path.read_text(encoding="utf-8"))]
    assert not wrong


def test_what_is_found():
    assert wrong_in("def f(form):\n    form.is_filled = True") == ["form.is_filled"]
    assert wrong_in("for form.k in (1, 2): a, (form.b, *form.c) = x") == ["form.k", "form.c", "form.b"]
    assert wrong_in("with f() as form.z: del form.y") == ["form.z", "form.y"]
    assert wrong_in("def f(node):\n    node.inputs = []\n    node._attributes = {}") == ["node._attributes"]
    text = "class A:\n    def __init__(self): self.k = 1\n    def copy(self, other): other.k, other.j = 2, 3"
    assert wrong_in(text) == ["other.j"]
