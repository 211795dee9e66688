"""Many elements as one tensor with a new first axis, for bodies that work element by element."""

import numpy as np
from onnx import ModelProto, TensorProto

from seqcore.onnx._graphs import declared_dtype
from seqcore.onnx._runners import SessionRunner
from seqcore.operators import concat_from_sequence

# Operators whose every result depends on one number of each input and is exact: IEEE's basic arithmetic, integers,
# comparisons, bits. Others (Exp, Relu, Max, Sqrt) may round or sign a zero differently in the vectorised part of a
# tensor and in its tail, so that an element's bits would depend on its neighbours.
_EXACT = frozenset(
    "Abs Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Div Equal Greater GreaterOrEqual Identity Less "
    "LessOrEqual Mul Neg Not Or Sub Where Xor".split()
)
# Before, Add and its kin broadcast by attributes.
_OLDEST_OPSET = 13


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
    rank = 0
    for constant in graph.initializer:
        depends[constant.name] = frozenset()
        rank = max(rank, len(constant.dims))
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain:
            if [attribute.name for attribute in node.attribute] != ["value"]:
                return None
            rank = max(rank, len(node.attribute[0].t.dims))
        elif not _is_exact(node):
            return None
        read = [depends[name] for name in node.input]
        depends |= dict.fromkeys(node.output, frozenset().union(*read))
    return StackPlan([depends[output.name] for output in graph.output], rank)


def _stackable(dtype):
    return dtype.kind in "biuf"         # neither strings nor complex numbers; bfloat16 is of kind V


def _is_exact(node):
    if node.domain or node.op_type not in _EXACT:
        return False
    if node.op_type == "Cast":
        to = [attribute.i for attribute in node.attribute if attribute.name == "to"]
        return to in ([TensorProto.FLOAT], [TensorProto.DOUBLE])        # to integers: undefined outside the range
    return not node.attribute


class StackPlan:
    """What is known of a body that can be stacked, before shapes are."""

    def __init__(self, depends, rank):
        self._depends = depends         # for each output the names of the inputs that it depends on
        self._rank = rank               # the highest among the constants

    def allows(self, whole):
        """Return whether each output depends on an input that varies, where `whole` names those that don't."""
        return all(names - whole for names in self._depends)

    def build(self, model, fed, whole):
        """Return a `Stack` for a model, where `fed` says which argument each input is."""
        return Stack(model, fed, whole, self._rank)


class Stack:
    """A body that runs on the stacked arguments of several rows."""

    def __init__(self, model, fed, whole, rank):
        self._varying = [(name, i) for name, i in fed if name not in whole]
        self._whole = [(name, i) for name, i in fed if name in whole]
        self._rank = rank
        stacked = ModelProto()
        stacked.CopyFrom(model)
        for value in stacked.graph.input:
            if value.name not in whole and value.type.tensor_type.HasField("shape"):
                _prepend_axis(value.type.tensor_type.shape)
        for value in stacked.graph.output:
            value.type.tensor_type.ClearField("shape")
        del stacked.graph.value_info[:]
        self._runner = SessionRunner(stacked)

    def run(self, rows):
        """Return a list for each output, with the result for each row."""
        feed = {name: rows[0][i] for name, i in self._whole}
        lowest = max((array.ndim for array in feed.values()), default=0)
        lowest = max(lowest, self._rank)
        rank = None
        for name, i in self._varying:
            try:
                stack = concat_from_sequence([arrays[i] for arrays in rows], 0, 1)
            except ValueError:
                raise NoStack from None
            # Broadcasting lines shapes up from the back: with equal ranks, the new axes meet each other alone.
            if stack.ndim - 1 < lowest or rank not in (None, stack.ndim):
                raise NoStack
            rank = stack.ndim
            feed[name] = stack
        return [_rows(result, len(rows)) for result in self._runner.run(feed)]


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
