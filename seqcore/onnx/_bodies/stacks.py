"""Many elements as one tensor with a new first axis, for bodies that work element by element."""

import math
from itertools import zip_longest

from onnx import ModelProto, TensorProto

from seqcore.onnx._models.graphs import declared_dtype
from seqcore.onnx._models.runners import SessionRunner
from seqcore.operators import concat_from_sequence

# Operators of which each number in the result depends on one number of each input, and is exact: IEEE's basic
# arithmetic, integers, comparisons, bits. Others (Exp, Relu, Max, Sqrt) may round differently, or give a zero
# the other sign, in the vectorised part of a tensor and in its tail: an element's bits would depend on its
# neighbours.
_EXACT = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Neg", "Abs"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"),
        *("Identity", "Where", "Cast"),
    )
)
# Before, Add and its kin broadcast by attributes.
_OLDEST_OPSET = 13
# In a stack's widest tensor, where the rows' shapes are broadcast: 2 MB of float64.
_MOST_NUMBERS = 1 << 18


class NoStack(Exception):
    """These rows can't be stacked: their shapes differ, or broadcasting would reach the new axis."""


def plan_stack(model):
    """Return the `StackPlan` of a typed model, None where its elements can't be stacked."""
    domains = {one.domain: one.version for one in model.opset_import}
    graph = model.graph
    if domains.get("", 0) < _OLDEST_OPSET or graph.sparse_initializer:
        return None
    if not all(_stackable(declared_dtype(value)) for value in graph.input):
        return None
    depends = {value.name: frozenset([value.name]) for value in graph.input}
    shapes = []
    for constant in graph.initializer:
        depends[constant.name] = frozenset()
        shapes.append(constant.dims)
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain:
            if [attribute.name for attribute in node.attribute] != ["value"]:
                return None
            shapes.append(node.attribute[0].t.dims)
        elif not _is_exact(node):
            return None
        read = [depends[name] for name in node.input]
        depends |= dict.fromkeys(node.output, frozenset().union(*read))
    return StackPlan([depends[output.name] for output in graph.output], _bound(shapes))


def _stackable(dtype):
    return dtype.kind in "biuf"  # neither strings nor complex numbers; bfloat16 is of kind V


def _is_exact(node):
    if node.domain or node.op_type not in _EXACT:
        return False
    if node.op_type == "Cast":
        to = [attribute.i for attribute in node.attribute if attribute.name == "to"]
        # To integers is undefined outside their range.
        return to in ([TensorProto.FLOAT], [TensorProto.DOUBLE])
    return not node.attribute


class StackPlan:
    """What is known of a body that can be stacked, before shapes are."""

    def __init__(self, depends, constants):
        self._depends = depends  # for each output the names of the inputs that it depends on
        self._constants = constants  # what their shapes are within

    def allows(self, whole):
        """Return whether each output depends on an input that varies; `whole` names those that don't."""
        return all(names - whole for names in self._depends)

    def build(self, model, fed, whole):
        """Return a `Stack` for a model, where `fed` says which argument each input is."""
        return Stack(model, fed, whole, self._constants)


class Stack:
    """A body that runs on the stacked arguments of several rows."""

    def __init__(self, model, fed, whole, constants):
        self._varying = [(name, i) for name, i in fed if name not in whole]
        self._whole = [(name, i) for name, i in fed if name in whole]
        self._constants = constants
        stacked = ModelProto()
        stacked.CopyFrom(model)
        for value in stacked.graph.input:
            if value.name not in whole and value.type.tensor_type.HasField("shape"):
                _prepend_axis(value.type.tensor_type.shape)
        for value in stacked.graph.output:
            value.ClearField("type")
        del stacked.graph.value_info[:]
        self._runner = SessionRunner(stacked)

    def run(self, rows):
        """Return a list for each output, with the result for each row."""
        feed = {name: rows[0][i] for name, i in self._whole}
        shared = _bound([self._constants, *(array.shape for array in feed.values())])
        extent = _bound([shared, *(rows[0][i].shape for _, i in self._varying)])
        if len(rows) * math.prod(extent) > _MOST_NUMBERS:
            raise NoStack
        rank = None
        for name, i in self._varying:
            try:
                stack = concat_from_sequence([arrays[i] for arrays in rows], 0, 1)
            except ValueError:
                raise NoStack from None
            # Broadcasting lines shapes up from the back: with equal ranks, new axes meet new axes.
            if stack.ndim - 1 < len(shared) or rank not in (None, stack.ndim):
                raise NoStack
            rank = stack.ndim
            feed[name] = stack
        return [_rows(result, len(rows)) for result in self._runner.run(feed)]


def _bound(shapes):
    """Return the smallest shape that all of these, lined up from the back, are within."""
    axes = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return tuple(max(lengths) for lengths in axes)[::-1]


def _prepend_axis(shape):
    dims = [type(dim).FromString(dim.SerializeToString()) for dim in shape.dim]
    del shape.dim[:]
    shape.dim.add()
    shape.dim.extend(dims)


def _rows(stack, n):
    if len(stack) != n:
        raise NoStack
    # Iterating gives scalars instead of tensors of rank 0.
    return list(stack) if stack.ndim > 1 else [stack[i, ...] for i in range(n)]
