"""Versions of operator sets and of the IR: which of them onnx knows, and which onnxruntime loads."""

import functools
from collections.abc import Iterable

import onnx
from onnx import ModelProto, TensorProto, helper

from seqcore.onnx._model.checks import known_opset
from seqcore.onnx._model.graph import Model
from seqcore.onnx._runtimes.sessions import REFUSALS, single_threaded_session


@functools.cache
def newest_opset(domain: str = "") -> int:
    """Return the newest version of a domain that both onnx knows and onnxruntime loads."""
    for version in range(known_opset(domain), 1, -1):
        if _loads(helper.make_opsetid(domain, version)):
            return version
    return 1


@functools.cache
def newest_ir() -> int:
    """Return the newest version of the IR that both onnx knows and onnxruntime loads."""
    return next(ir for ir in range(onnx.IR_VERSION, 3, -1) if ir == 4 or _loads(ir_version=ir))


def _loads(opset: onnx.OperatorSetIdProto | None = None, ir_version: int = 8) -> bool:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(
        nodes, "probe", [value("x", TensorProto.FLOAT, [])], [value("y", TensorProto.FLOAT, [])]
    )
    model = ModelProto(ir_version=ir_version, graph=graph)
    model.opset_import.extend([opset] if opset else [])
    if opset is None or opset.domain:
        model.opset_import.append(helper.make_opsetid("", 13))
    try:
        single_threaded_session(model.SerializeToString())
    except REFUSALS:
        return False
    return True


def loadable_opsets(opsets: dict[str, int], operators: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return versions that onnxruntime loads, where that changes none of some operators (domain, name).

    onnx stamps new models with versions that onnxruntime doesn't know yet, although most of their operators
    are years old.
    """
    loadable = dict(opsets)
    for domain, version in opsets.items():
        newest = newest_opset(domain)
        if newest < version <= known_opset(domain) and all(
            _does_the_same(name, domain, newest, version)
            for other, name in operators
            if other == domain and onnx.defs.has(name, domain)
        ):
            loadable[domain] = newest
    return loadable


def restamp(model: Model) -> None:
    """Lower the versions of a model to what onnxruntime loads, as far as that changes no operator."""
    model.ir_version = min(model.ir_version, newest_ir())
    operators = {(node.domain, node.op_type) for node in model.graph.all_nodes()}
    model.opsets = loadable_opsets(model.opsets, operators)


def restamp_proto(model: ModelProto, operators: Iterable[tuple[str, str]]) -> bool:
    """Do the same to a message, in which some operators (domain, name) are; return whether it changed."""
    changed = model.ir_version > newest_ir()
    model.ir_version = min(model.ir_version, newest_ir())
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        versions = loadable_opsets({one.domain: one.version for one in imports}, operators)
        for one in imports:
            changed |= one.version != versions[one.domain]
            one.version = versions[one.domain]
    return changed


@functools.cache
def _does_the_same(operator: str, domain: str, old: int, new: int) -> bool:
    """Return whether an operator does in an old version, on its types, what it does in a new one."""
    now = onnx.defs.get_schema(operator, new, domain)
    if now.since_version <= old:
        return True
    try:
        before = onnx.defs.get_schema(operator, old, domain)
    except onnx.defs.SchemaError:
        return False
    # Most new versions do no more than add types.
    return (
        before.doc == now.doc
        and all(
            _signature(one) == _signature(other)
            for one, other in ((before.inputs, now.inputs), (before.outputs, now.outputs))
        )
        and before.attributes.keys() == now.attributes.keys()
    )


def _signature(parameters):
    return [(one.name, one.option) for one in parameters]
