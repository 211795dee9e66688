"""What a sequence becomes: tensors from which all that is asked of it can be computed."""

from typing import NamedTuple

from onnx import TensorProto

from seqcore.onnx._lowering.build import node_key
from seqcore.onnx._lowering.prune import STANDARD, attribute_of, is_op

# What an operator that can't be served does to a sequence.
_WHAT = {
    "SequenceInsert": "inserts into it",
    "SequenceErase": "erases from it",
    "SequenceMap": "maps over it",
    "Loop": "takes it in as a state",
    "Scan": "takes it in",
    "Identity": "passes it on as a result",
}
# From here on, a 0 in the shape for a Reshape can mean a length of 0.
_ZEROS_ALLOWED = 14


class Position(NamedTuple):
    """A position as an operator gets it: the name, the number and the rank where they are known."""

    name: str
    value: int | None
    rank: int | None


def position_of(facts, name):
    """Return the `Position` that a tensor is."""
    constant = facts.constant(name)
    if constant is not None and constant.size == 1 and constant.dtype.kind in "iu":
        return Position(name, int(constant.reshape(-1)[0]), constant.ndim)
    shape = facts.shape(name)
    return Position(name, None, None if shape is None else len(shape))


def label(node):
    """Return how a node is spoken of."""
    return f"'{node.name or node_key(node)}'"


def trusted(facts, shape):
    """Return a shape with None for each length that may differ between the runs of a loop's body.

    Numbers hold everywhere, and so do the symbols of the model's inputs. Others are names that were made up.
    """
    if shape is None:
        return None
    return [length if isinstance(length, int) or length in facts.symbols else None for length in shape]


def opset_of(model):
    """Return the version of ONNX's own operators that a model asks for."""
    return max((one.version for one in model.opset_import if one.domain in STANDARD), default=0)


def normal_axis(axis, rank):
    """Return an axis counted from the front, None where it is out of range or can't be known."""
    if rank is None:
        return axis if axis >= 0 else None
    return axis + rank if -rank <= axis < 0 else axis if 0 <= axis < rank else None


def why_no_zeros(facts, shape):
    """Return why a Reshape can't be told of a shape where it may hold zeros, "" where it can."""
    if opset_of(facts.model) >= _ZEROS_ALLOWED or _has_no_zeros(shape):
        return ""
    return "an axis may be of length 0, which Reshape takes from opset 14 on"


def _has_no_zeros(shape):
    return all(isinstance(length, int) and length > 0 for length in shape)


class Form:
    """A sequence as tensors. `why_not` says whether a reader can be served, `serve` does it.

    Attributes
    ----------
    element_type : int
        ONNX's number of the elements' type, 0 where it is not known.
    count : int or None
        How many elements there are, where that is known.
    """

    element_type = 0
    count = None

    def why_not(self, node, facts, read):
        """Return why a reader can't be served, or "" where it can.

        A node that is None stands for a graph's output; `read` has the names of what is read, other than for
        its shape.
        """
        if node is None:
            return "it is returned"
        where = label(node)
        if is_op(node, "SequenceAt"):
            position = position_of(facts, node.input[1])
            if None not in (self.count, position.value):
                n = self.count
                if not -n <= position.value < n:
                    return f"position {position.value} at {where} is out of range for its {n} elements"
            reason = self._why_not_at(position)
        elif is_op(node, "SequenceLength"):
            reason = self._why_not_length()
        elif is_op(node, "ConcatFromSequence"):
            reason = "there is none" if self.count == 0 else self._why_not_join(*_join_of(node), facts)
            if not reason and node.output[0] not in read:
                reason = self._why_not_shape_of_join()
        else:
            what = _WHAT.get(node.op_type) if is_op(node, node.op_type) else None
            return f"{where} {what or f'({node.op_type}) reads it'}"
        verb = {"SequenceAt": "picks", "SequenceLength": "counts"}.get(node.op_type, "joins")
        return reason and f"{where} {verb} elements, but {reason}"

    def plan(self, facts, name, read):
        """Look at the readers, which can all be served, and at what is `read`, before anything is made."""

    def serve(self, node, nodes, facts, is_read):
        """Make with new nodes what a reader makes.

        Of what isn't read, no more than the shape is asked for. Where a runtime knows that beforehand, it
        leaves out the node and the error with it: so the check is put where the shape comes from.
        """
        out = node.output[0]
        nodes.declares = is_read
        if node.op_type == "SequenceLength":
            self._length(nodes, out)
        elif node.op_type == "ConcatFromSequence":
            self._join(nodes, *_join_of(node), out)
        else:
            position = position_of(facts, node.input[1])
            if is_read or (self._is_sound() and None not in (self.count, position.value)):
                self._at(nodes, position, out)
            else:
                nodes.checked(self._at(nodes, position, ""), self._fail_outside(nodes, position), out=out)

    def _fail_outside(self, nodes, position):
        n = self._length(nodes, "")
        i = nodes.op("Cast", nodes.position(position, 0), to=TensorProto.INT64)
        before = nodes.op("Less", i, nodes.op("Neg", n))
        return nodes.fail_if(nodes.op("Or", before, nodes.op("Not", nodes.op("Less", i, n))))

    def _is_sound(self):
        """Return whether the sequence can be made without an error."""
        return True

    def _why_not_at(self, position):
        return ""

    def _why_not_length(self):
        return ""

    def _why_not_shape_of_join(self):
        return ""


def _join_of(node):
    return attribute_of(node, "axis", 0), attribute_of(node, "new_axis", 0)


class Stack(Form):
    """A tensor whose axis 0 runs over the elements, which have one shape.

    Parameters
    ----------
    tensor : str
    element_type : int
    shape : list of int, str or None, or None
        The elements' shape as far as it is known, None where not even the rank is.
    is_uniform : bool
        Whether the tensor can be made without an error that the sequence would not give.
    is_filled : bool
        Whether there is an element for sure.
    """

    def __init__(self, tensor, element_type, shape, is_uniform=True, is_filled=False):
        self.tensor = tensor
        self.element_type = element_type
        self.shape = shape
        self.is_uniform = is_uniform
        self.is_filled = is_filled

    @property
    def _rank(self):
        return None if self.shape is None else len(self.shape)

    def _why_not_uniform(self):
        return "" if self.is_uniform else "their shapes may differ"

    def _why_not_at(self, position):
        return self._why_not_uniform()

    def _why_not_length(self):
        return self._why_not_uniform()

    def _why_not_join(self, axis, new_axis, facts):
        rank = self._rank
        if new_axis:
            if axis == 0 or (rank is not None and normal_axis(axis, rank + 1) is not None):
                return self._why_not_uniform()
            return "their rank is not known" if rank is None else f"axis {axis} is out of range"
        if rank is None:
            return self._why_not_uniform() or "their rank is not known"
        if normal_axis(axis, rank) is None:
            return f"axis {axis} is out of range"
        return why_no_zeros(facts, self.shape) or self._why_not_uniform()

    def _at(self, nodes, position, out):
        nodes.declare(out, self.element_type, self.shape)
        if self.element_type == TensorProto.STRING:
            # onnxruntime's Gather takes one string only for each index (1.31).
            return nodes.op("GatherND", self.tensor, nodes.position(position, 1), out=out)
        return nodes.op("Gather", self.tensor, nodes.position(position, 0), axis=0, out=out)

    def _length(self, nodes, out):
        return nodes.length(self.tensor, out=out)

    def _join(self, nodes, axis, new_axis, out):
        if new_axis:
            self._stack(nodes, 0 if axis == 0 else normal_axis(axis, self._rank + 1), out)
        else:
            self._concat(nodes, normal_axis(axis, self._rank), out)

    def _stack(self, nodes, axis, out):
        if self.shape is not None:
            nodes.declare(out, self.element_type, [*self.shape[:axis], self.count, *self.shape[axis:]])
        moved = "" if axis == 0 else self._moved(nodes, axis, out if self.is_filled else "")
        if not self.is_filled:
            shape = nodes.op("Shape", moved or self.tensor)
            zero = self._fail_if_empty(nodes, shape, axis)
            nodes.op("Reshape", moved or self.tensor, nodes.op("Add", shape, zero), out=out)
        elif not moved:
            nodes.op("Identity", self.tensor, out=out)

    def _concat(self, nodes, axis, out):
        nodes.declare(out, self.element_type, [*self.shape[:axis], None, *self.shape[axis + 1 :]])
        moved = self._moved(nodes, axis) if axis else self.tensor
        zeros = {}
        if _has_no_zeros(self.shape):
            shape = nodes.constant([*self.shape[:axis], -1, *self.shape[axis + 1 :]])
        else:
            lengths = nodes.op("Shape", moved)
            ends = [nodes.constant([k]) for k in range(axis, axis + 3)]
            both = nodes.op(
                "Mul",
                nodes.slice(lengths, ends[0], ends[1], 0),
                nodes.slice(lengths, ends[1], ends[2], 0),
            )
            parts = [both]
            if axis:
                parts.insert(0, nodes.slice(lengths, nodes.constant([0]), ends[0], 0))
            if axis + 1 < len(self.shape):
                parts.append(nodes.slice(lengths, ends[2], nodes.constant([len(self.shape) + 1]), 0))
            shape = nodes.join_axes(*parts)
            zeros = {"allowzero": 1}
        if not self.is_filled:
            own = nodes.op("Shape", self.tensor)
            shape = nodes.op("Add", shape, self._fail_if_empty(nodes, own, 0))
        nodes.op("Reshape", moved, shape, out=out, **zeros)

    def _moved(self, nodes, axis, out=""):
        """Return the tensor with the elements' axis at another place."""
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(self.shape) + 1)]
        return nodes.op("Transpose", self.tensor, perm=order, out=out)

    def _fail_if_empty(self, nodes, shape, axis):
        n = nodes.op("Gather", shape, nodes.constant(axis), axis=0)
        return nodes.fail_if(nodes.op("Equal", n, nodes.constant(0)))
