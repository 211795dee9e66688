"""Bodies that are elementwise: one run for many elements, whatever their shapes.

Each number of such a body's outputs depends on one number of each element, and on tensors and constants that
are broadcast to the element. So it gives the same for the items of many elements in a row, cut back::

    x: [[1 2] [3 4]], [5 6]          x: [1 2 3 4 5 6]
    Exp(x) * 2, twice                Exp(x) * 2, once

The last bits may differ, as in any batch: where a vector instruction ends, a tensor's last numbers go another
way, and which numbers are last is not the same.
"""

from onnx import ModelProto, TensorProto

from seqcore.onnx._model.record import record_named
from seqcore.onnx._model.tensors import declared_dtype
from seqcore.onnx._model.writing import forget_shape
from seqcore.onnx._runtimes.runners import SessionRunner

# Before, binary operators broadcast by attributes.
_OLDEST_OPSET = 7
# Numbers that onnxruntime casts to one by one. Not uint32: of floats out of its range, which is undefined, a
# tensor's last numbers become others than those before them.
_NUMBERS = frozenset(
    (
        *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT64),
    )
)


def plan_flat(model):
    """Return the `FlatPlan` of a typed model, None where it is not elementwise."""
    domains = {one.domain: one.version for one in model.opset_import}
    graph = model.graph
    if domains.get("", 0) < _OLDEST_OPSET or graph.sparse_initializer:
        return None
    if not all(declared_dtype(value).kind in "biuf" for value in graph.input):
        return None
    reads = {value.name: frozenset([value.name]) for value in graph.input}
    reads |= {constant.name: frozenset() for constant in graph.initializer}
    shapes = [tuple(constant.dims) for constant in graph.initializer]
    whole = []  # what bounds and slopes are computed from
    for node in graph.node:
        if node.domain:
            return None
        if node.op_type == "Constant":
            shape = _shape_of_constant(node)
            if shape is None:
                return None
            shapes.append(shape)
        elif node.op_type in ("Clip", "PRelu"):
            whole += [reads[name] for name in node.input[1:] if name]
        elif not _works_by_number(node):
            return None
        # The second input of CastLike contributes a type only.
        names = node.input[:1] if node.op_type == "CastLike" else node.input
        own = frozenset().union(*(reads[name] for name in names if name))
        reads |= dict.fromkeys(node.output, own)
    return FlatPlan([reads[output.name] for output in graph.output], frozenset().union(*whole), shapes)


def _works_by_number(node):
    if node.op_type in ("Cast", "CastLike"):
        # To strings a number takes more than one.
        return all(attribute.i in _NUMBERS for attribute in node.attribute if attribute.name == "to")
    record = record_named(node.op_type)
    return record.broadcasts or record.elementwise


def _shape_of_constant(node):
    """Return the shape of a constant's value, None if it isn't a dense tensor."""
    if len(node.attribute) == 1:
        (attribute,) = node.attribute
        if attribute.name == "value":
            return tuple(attribute.t.dims)
        if attribute.name in ("value_float", "value_int"):
            return ()
        if attribute.name in ("value_floats", "value_ints"):
            return (len(attribute.floats) + len(attribute.ints),)
    return None


class FlatPlan:
    """A body that is elementwise, before it is known which arguments are broadcast.

    Attributes
    ----------
    shapes : list of tuple of int
        Those of the constants, which elements must be broadcast with to their own shape.
    """

    def __init__(self, reads, never_varying, shapes):
        self._reads = reads  # for each output the names of the inputs that it depends on
        self._never_varying = never_varying  # the names of inputs that must be whole
        self.shapes = shapes

    def allows(self, whole):
        """Return whether each output has the shape of what varies; `whole` names the inputs that don't."""
        return all(names - whole for names in self._reads) and self._never_varying <= whole

    def build(self, model, whole):
        """Return a runner of a model whose inputs, except those named, take any shape."""
        flat = ModelProto()
        flat.CopyFrom(model)
        for value in flat.graph.input:
            if value.name not in whole:
                forget_shape(value.type)
        for value in flat.graph.output:
            value.ClearField("type")
        del flat.graph.value_info[:]
        return SessionRunner(flat)


def declared_extents(value):
    """The extents that onnxruntime holds an input to, -1 for any; None where it takes every rank."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)


class FlatForm:
    """A body that takes the items of many elements at once, with some of its arguments whole.

    Attributes
    ----------
    shapes : list of tuple of int
        Of the constants that elements are broadcast with. None may make an element larger.
    extents : tuple
        For each argument what its elements must have: a tuple with -1 for any extent, or None for all shapes.
    run : callable
        Takes a list of arguments, gives a tuple of outputs, each of them of the arguments' shape.
    """

    def __init__(self, run, runner, shapes, extents):
        self._run, self._runner = run, runner
        self.shapes, self.extents = shapes, extents

    def run(self, arguments):
        return self._run(arguments, self._runner)
