"""Where onnxruntime's sequence operators depart from ONNX's text, or break: there it runs tensors alone.

Found with onnxruntime 1.31:

SplitToSequence      drops the axis for keepdims=0 where a split is given; takes a list of one length for
                     a number, an empty list for anything, any number for keepdims
SequenceAt, Insert,  take the first of several positions, and what lies in memory where there is none
Erase
ConcatFromSequence   passes by empty elements of any shape; ends the process where one has another rank
SequenceMap          goes by its first sequence, and doesn't see that another is longer
Loop                 compares the sizes of a scan output's values, not their shapes; takes the first of
                     several conditions that its body gives; ends the process where there is none, or
                     no number of trips

Before 1.28 no sequence is safe there: results may lie in the memory of a feed that is gone, loops of no trips
or with strings end the process.
"""

import onnxruntime
from onnx import TensorProto, helper

from seqcore.onnx._models.elements import ANY, element_shapes, known_shape
from seqcore.onnx._models.graphs import subgraphs

_IS_UNSAFE = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 28)


class Departures:
    """Says of nodes whether onnxruntime does what the text says, whatever the run brings.

    Parameters
    ----------
    facts : Facts
    max_workers : int or None, optional
        With several, maps count as departures too.
    """

    def __init__(self, facts, max_workers=1):
        self._facts = facts
        self._maps_serially = max_workers == 1
        self._elements = element_shapes(facts)

    def among(self, nodes):
        """Return whether one of some nodes, or one in their graphs, may depart."""
        return any(
            self._departs(node) or any(self.among(graph.node) for graph in subgraphs(node)) for node in nodes
        )

    def _departs(self, node):
        if node.domain not in ("", "ai.onnx"):
            return False
        for name in filter(None, (*node.input, *node.output)):
            if not self._facts.is_tensor(name) and (
                _IS_UNSAFE or self._facts.element_number(name) == TensorProto.STRING
            ):
                return True
        check = _CHECKS.get(node.op_type)
        return check is not None and check(self, node)

    def _split(self, node):
        keepdims = _attribute(node, "keepdims", 1)
        if not any(node.input[1:]):
            return keepdims not in (0, 1)
        split = self._facts.constant(node.input[1])
        if split is None or keepdims != 1:
            return True
        return bool(split.ndim > 1 or split.size < 1 + split.ndim or split.min() < 1 - split.ndim)

    def _at(self, node):
        return self._position(node, 1)

    def _insert(self, node):
        return self._position(node, 2)

    def _position(self, node, k):
        return (
            len(node.input) > k and bool(node.input[k]) and self._facts.shape(node.input[k]) not in ([], [1])
        )

    def _concat(self, node):
        if node.input[0] not in self._elements:
            return False  # there never is an element: an error here and there
        shape = self._elements[node.input[0]]
        if shape is ANY:
            return True
        axis = _attribute(node, "axis", 0)
        if not _attribute(node, "new_axis", 0) and -len(shape) <= axis < len(shape):
            shape = [length for k, length in enumerate(shape) if k != axis % len(shape)]
        return None in shape

    def _map(self, node):
        # Its maps are loops: with several workers ours are the quicker ones.
        return not self._maps_serially or sum(not self._facts.is_tensor(name) for name in node.input) > 1

    def _loop(self, node):
        (body,) = subgraphs(node)
        values = (*body.input[2:], *body.output[1:])
        if all(self._facts.is_tensor(value.name) for value in values) and self._is_plain(body):
            return False  # it runs there in any case
        going = body.output[0].name
        numbers = [*node.input[:2], *((going,) if going != body.input[1].name else ())]
        if any(name and self._facts.shape(name) not in ([], [1]) for name in numbers):
            return True
        scans = body.output[len(body.input) - 1 :]
        shapes = [known_shape(self._facts, value.name) for value in scans]
        return any(not is_told_by_size(shape) for shape in shapes)

    def _is_plain(self, graph):
        return all(
            self._facts.is_tensor(name) and all(self._is_plain(inner) for inner in subgraphs(node))
            for node in graph.node
            for name in (*node.input, *node.output)
            if name
        )


def is_told_by_size(shape):
    """Return whether two tensors of which that is known have the same shape if they are of the same size."""
    if shape is ANY:
        return False
    unknown = shape.count(None)
    return not unknown or (
        unknown == 1 and all(length is None or (isinstance(length, int) and length > 0) for length in shape)
    )


def _attribute(node, name, default):
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


_CHECKS = {
    "ConcatFromSequence": Departures._concat,
    "Loop": Departures._loop,
    "SequenceAt": Departures._at,
    "SequenceErase": Departures._at,
    "SequenceInsert": Departures._insert,
    "SequenceMap": Departures._map,
    "SplitToSequence": Departures._split,
}
