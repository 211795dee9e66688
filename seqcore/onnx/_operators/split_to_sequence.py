"""SplitToSequence: a tensor cut along an axis."""

import numpy as np

from seqcore.onnx._lists.pieces import Pieces, pieces_of
from seqcore.onnx._model.record import Declined, Reads, axis_from_front, register
from seqcore.onnx._model.types import sequence
from seqcore.operators import split_to_sequence


@register("SplitToSequence")
class SplitToSequence(Reads):
    """The text drops the axis for `keepdims=0` only where no split is given.

    onnxruntime drops it for a single split of 1 too, and PyTorch's exporters count on that: `x.unbind()` is
    such a split. So it is dropped here as well, wherever the split comes from.
    """

    def infer(self, node, known):
        type_ = known.type(node.inputs[0])
        return [sequence(type_.number, *self._pieces(node, type_.shape, known))]

    def _pieces(self, node, shape, known):
        """Return the shape of the pieces, and how many there are."""
        axis = None if shape is None else axis_from_front(node.attribute("axis", 0), len(shape))
        if axis is None:
            return None, None
        before, total, behind = shape[:axis], shape[axis], shape[axis + 1 :]
        total = total if isinstance(total, int) else None
        keeps = node.attribute("keepdims", 1)
        of_one = (*before, 1, *behind) if keeps else before + behind
        if not node.input(1):
            return of_one, total
        lengths, type_ = known.constant(node.inputs[1]), known.type(node.inputs[1])
        if lengths is None:
            if type_.rank != 1:
                return ((*before, None, *behind) if keeps else None), None
            numbers = known.numbers_of(node.inputs[1])
            if numbers is None or not all(isinstance(n, int) for n in numbers):
                return (*before, None, *behind), type_.shape[0] if isinstance(type_.shape[0], int) else None
            lengths = np.array(numbers, np.int64)
        if lengths.ndim == 0:
            n = int(lengths)
            if n == 1:
                return of_one, total
            if total is None or n <= 0:
                return (*before, None, *behind), None
            return (*before, n if total % n == 0 else None, *behind), -(-total // n)
        is_even = lengths.ndim == 1 and lengths.size and (lengths == lengths[0]).all()
        return (*before, int(lengths[0]) if is_even else None, *behind), lengths.size

    def shares(self, node):
        return iter([(node.inputs[0], node.outputs[0])])

    def deviates(self, node, prepared):
        """It takes an empty list for none, and any number for keepdims.

        With keepdims=0 it drops the axis of a single piece whatever its length, and else fails unless the
        pieces are of length 1.
        """
        keeps = node.attribute("keepdims", 1)
        if keeps not in (0, 1):
            return f"has keepdims {keeps}"
        if not node.input(1):
            return ""
        lengths, rank = prepared.constant(node.inputs[1]), prepared.type(node.inputs[1]).rank
        if lengths is not None and not lengths.size:
            return "has an empty list of lengths"
        if lengths is not None and lengths.min() < (lengths.ndim == 0):
            return f"can't split into lengths of {lengths.tolist()}, which may end the process"
        if rank not in (0, 1):
            return "may get one length or a list of them"
        if rank == 0 and not keeps and (lengths is None or int(lengths) != 1):
            return "has a length and keepdims=0"
        return ""

    def guard(self, node, prepared, checks):
        checks.limit_pieces(node, prepared)

    def run(self, node):
        axis, keeps = node.attribute("axis", 0), node.attribute("keepdims", 1)

        def split(tensor, lengths=None):
            if lengths is not None and keeps == 0 and lengths.ndim == 0 and lengths == 1:
                lengths = None
            return split_to_sequence(tensor, lengths, axis=axis, keepdims=keeps)

        return split

    def represent(self, node, forms, prepared):
        return pieces_of(node, prepared)

    def why_not_lowered(self, node, forms, prepared, read):
        if isinstance(forms[node.outputs[0]], Pieces):
            return ""
        try:
            pieces = pieces_of(node, prepared)
        except Declined as why:
            return str(why)
        return "" if pieces.rank is not None else f"the rank of '{pieces.tensor}' is not known"

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.outputs[0]].split(nodes, pieces_of(node, prepared))
