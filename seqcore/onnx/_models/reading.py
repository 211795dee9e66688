"""Reading a body: a graph in any of its forms becomes a model that needs nothing from outside."""

import functools
import os

import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, TensorProto, helper

from seqcore._tensors import as_tensor
from seqcore.onnx._models.graphs import (
    all_nodes,
    all_tensors,
    declared_dtype,
    free_names,
    initializer_names,
    to_tensor_proto,
)
from seqcore.onnx._models.runners import make_session, one_line
from seqcore.onnx._models.signatures import check_signatures


def read_model(graph, opset_imports=None, captures=None):
    """Return a checked model of a body, of its own memory, with the captures as initializers.

    Parameters
    ----------
    graph : GraphProto, ModelProto, str or os.PathLike
    opset_imports : dict of str to int or sequence of OperatorSetIdProto, optional
    captures : dict of str to array_like, optional

    Raises
    ------
    ValueError
        If the model is invalid, a capture is missing, or an input or output is no tensor.
    TypeError
        If `graph` is none of these.
    """
    model = _as_model(graph, opset_imports)
    for tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ValueError(
                f"the tensor '{tensor.name}' of the body keeps its data in a file: give the model's path"
            )
    graph = model.graph
    graph.name = graph.name or "body"
    # An input with an initializer is a default that a map never overrides: to us it is a constant. Before
    # version 4 of the IR every initializer had to be an input too.
    constants = initializer_names(graph)
    inputs = [value for value in graph.input if value.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    _capture(graph, captures or {})
    for value in (*graph.input, *graph.output):
        declared_dtype(value)
    if not graph.output:
        raise ValueError(f"the body '{graph.name}' has no outputs")
    _check_versions(model, f"the body '{graph.name}'")
    check_with_onnx(model, f"the body '{graph.name}' is no valid graph")
    restamp(model)
    return model


def load_model(model):
    """Return a model as a ModelProto, its external data left where they are.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike

    Raises
    ------
    ValueError
        If the bytes or the file are no model.
    TypeError
        If `model` is none of these.
    FileNotFoundError
        If there is no file at the path.
    """
    if isinstance(model, ModelProto):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        data, what = bytes(model), "the bytes"
    elif isinstance(model, str | os.PathLike):
        what = os.fspath(model)
        with open(what, "rb") as file:
            data = file.read()
    else:
        raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(model).__name__}")
    try:
        loaded = ModelProto.FromString(data)
    except DecodeError as error:
        raise ValueError(f"{what} can't be read as an ONNX model: {one_line(error)}") from error
    if not loaded.HasField("graph"):
        raise ValueError(f"{what} can't be read as an ONNX model: there is no graph in it")
    return loaded


def folder_of(model):
    """Return the folder that a model's external data are relative to, None where there is none."""
    if isinstance(model, str | os.PathLike):
        return os.path.dirname(os.path.abspath(os.fspath(model)))
    return None


def with_external_data(model, folder):
    """Return a model with the data that it keeps in files of a folder; None where there is no folder."""
    if not any(one.data_location == TensorProto.EXTERNAL for one in all_tensors(model)):
        return model
    if folder is None:
        raise ValueError("the model keeps data in files beside it: give its path")
    loaded = ModelProto()
    loaded.CopyFrom(model)
    try:
        onnx.load_external_data_for_model(loaded, folder)
    except onnx.checker.ValidationError as error:
        raise ValueError(f"the model's external data can't be read: {one_line(error)}") from error
    return loaded


def check_model(model):
    """Raise ValueError where onnx's checker rejects a model, or nodes don't fit their graphs or versions."""
    _check_versions(model, "the model")
    check_with_onnx(model, "the model is not valid")
    check_signatures(model)


def has_sequences(model):
    """Return whether a model has to do with sequences of tensors, or with optionals."""
    return any(
        node.op_type in _SEQUENCE_OPERATORS and node.domain in ("", "ai.onnx") for node in all_nodes(model)
    ) or any(_is_sequence(value.type) for value in (*model.graph.input, *model.graph.output))


_SEQUENCE_OPERATORS = frozenset(
    (
        *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
        *("SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"),
        *("Optional", "OptionalGetElement", "OptionalHasElement"),
    )
)


def _is_sequence(kind):
    which = kind.WhichOneof("value")
    if which == "optional_type":
        return True
    return which == "sequence_type" and kind.sequence_type.elem_type.WhichOneof("value") == "tensor_type"


def _as_model(graph, opset_imports):
    if isinstance(graph, GraphProto):
        model = ModelProto()
        model.graph.CopyFrom(graph)
        model.opset_import.extend(_opset_imports(opset_imports, model))
        model.ir_version = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
        return model
    if opset_imports is not None:
        raise ValueError("a model has opset imports of its own: opset_imports is for a bare GraphProto")
    if isinstance(graph, ModelProto):
        model = ModelProto()
        model.CopyFrom(graph)
        return model
    if isinstance(graph, str | os.PathLike):
        path = os.fspath(graph)
        try:
            return onnx.load(path)
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"{path} can't be read as an ONNX model: {one_line(error)}") from error
    raise TypeError(
        f"a graph is a GraphProto, a ModelProto or the path to a model, not {type(graph).__name__}"
    )


def _opset_imports(given, model):
    if given is None:
        given = {}
    elif not isinstance(given, dict):
        return given
    named = {"" if domain == "ai.onnx" else domain: version for domain, version in given.items()}
    domains = {"": None} | {"" if n.domain == "ai.onnx" else n.domain: None for n in all_nodes(model)}
    versions = {domain: named.get(domain) or newest_opset(domain) for domain in domains} | named
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


@functools.cache
def newest_opset(domain=""):
    """Return the newest version of a domain that both onnx knows and onnxruntime loads."""
    newest = _known_opset(domain)
    if not newest:
        return 1
    for version in range(newest, 1, -1):
        if _loads(helper.make_opsetid(domain, version)):
            return version
    return 1


@functools.cache
def _newest_ir():
    """Return the newest version of the IR that both onnx knows and onnxruntime loads."""
    return next(ir for ir in range(onnx.IR_VERSION, 3, -1) if ir == 4 or _loads(ir_version=ir))


@functools.cache
def _known_opset(domain):
    """Return the newest version of a domain that onnx knows, 0 where it knows none."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return max((schema.since_version for schema in schemas if schema.domain == domain), default=0)


def _loads(opset=None, ir_version=8):
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
        make_session(model.SerializeToString())
    except Exception:  # onnxruntime has several for this; what it says does not matter here
        return False
    return True


def _capture(graph, captures):
    missing = []
    for name in free_names(graph):
        if name not in captures:
            missing.append(name)
            continue
        try:
            tensor = as_tensor(captures[name])
        except (TypeError, ValueError, OverflowError) as error:
            error.add_note(f"capture '{name}' of the body '{graph.name}'")
            raise
        graph.initializer.append(to_tensor_proto(tensor, name))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        them = "it" if len(missing) == 1 else "them"
        raise ValueError(
            f"the body '{graph.name}' uses {names} and doesn't define {them}: give a value in captures"
        )


def check_with_onnx(model, complaint):
    """Raise ValueError where onnx's checker rejects the model."""
    checked = model
    if not all(_has_type_and_shape(value.type) for value in (*model.graph.input, *model.graph.output)):
        # The checker wants a type and a shape for each, but makes no use of them.
        checked = ModelProto()
        checked.CopyFrom(model)
        for value in (*checked.graph.input, *checked.graph.output):
            if value.type.WhichOneof("value") in ("tensor_type", None):
                kind = value.type.tensor_type
                kind.elem_type = kind.elem_type or TensorProto.FLOAT
                kind.shape.SetInParent()
    try:
        onnx.checker.check_model(checked)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ValueError(f"{complaint}: {one_line(error)}") from error


def _check_versions(model, label):
    for one in model.opset_import:
        known = _known_opset(one.domain)
        if known and one.version > known:
            raise ValueError(
                f"{label} asks for opset {one.version} of '{one.domain or 'ai.onnx'}': "
                f"onnx {onnx.__version__} knows them up to {known}"
            )


def _has_type_and_shape(kind):
    if kind.WhichOneof("value") not in ("tensor_type", None):
        return True
    return kind.tensor_type.elem_type != TensorProto.UNDEFINED and kind.tensor_type.HasField("shape")


def restamp(model):
    """Lower the versions of a model to what onnxruntime loads, as far as that changes no operator.

    Return whether there was anything to lower. onnx stamps new models with versions that onnxruntime doesn't
    know yet, although most of their operators are years old.
    """
    changed = model.ir_version > _newest_ir()
    model.ir_version = min(model.ir_version, _newest_ir())
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        for one in imports:
            newest = newest_opset(one.domain)
            if newest < one.version <= _known_opset(one.domain) and all(
                _does_the_same(node.op_type, one.domain, newest, one.version)
                for node in all_nodes(model)
                if node.domain == one.domain and onnx.defs.has(node.op_type, one.domain)
            ):
                one.version, changed = newest, True
    return changed


@functools.cache
def _does_the_same(operator, domain, old, new):
    """Return whether an operator does in an old version, on its types, what it does in a new one."""
    new = onnx.defs.get_schema(operator, new, domain)
    if new.since_version <= old:
        return True
    try:
        old = onnx.defs.get_schema(operator, old, domain)
    except onnx.defs.SchemaError:
        return False
    # Most new versions do no more than add types.
    return (
        old.doc == new.doc
        and all(
            _signature(one) == _signature(other)
            for one, other in ((old.inputs, new.inputs), (old.outputs, new.outputs))
        )
        and old.attributes.keys() == new.attributes.keys()
    )


def _signature(parameters):
    return [(one.name, one.option) for one in parameters]
