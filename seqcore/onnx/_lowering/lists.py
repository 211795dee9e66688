"""Lists whose elements are known before the run: constructed, and edited at constant positions."""

import functools

from onnx import TensorProto

from seqcore.onnx._lowering.forms import Form, Stack, label, position_of, trusted
from seqcore.onnx._lowering.prune import is_op

LIST_EDITS = ("SequenceInsert", "SequenceErase")


def find_lists(facts):
    """Yield the sequences of known elements with their form, and edits of them with why they have none."""
    known = {}
    # Outer graphs come first, and nodes in order: what a list is made from is known before it.
    for name, (node, graph) in facts.producers.items():
        elements = _elements(facts, node, known)
        if isinstance(elements, list):
            known[name] = elements
            yield name, Listed(facts, node, graph, elements)
        elif elements:
            yield name, elements


def _elements(facts, node, known):
    """Return a list of names, why there is none, or None for what is no list at all."""
    if is_op(node, "SequenceConstruct"):
        return list(node.input)
    if is_op(node, "SequenceEmpty"):
        return []
    if not is_op(node, *LIST_EDITS) or node.input[0] not in known:
        return None
    elements = list(known[node.input[0]])
    inserts = node.op_type == "SequenceInsert"
    given = node.input[1 + inserts] if len(node.input) > 1 + inserts else ""
    n = len(elements)
    position = n - (not inserts)
    if given:
        position = position_of(facts, given).value
        if position is None:
            return f"where {label(node)} edits is known only at run time"
    if not -n <= position < n + inserts or position < -n or (not inserts and n == 0):
        return f"position {position} at {label(node)} is out of range for {n} elements"
    if position < 0:
        position += n
    if inserts:
        elements.insert(position, node.input[1])
    else:
        del elements[position]
    return elements


def _may_fail(facts, name):
    """Return whether making a value can be an error: of a position, a join or a split, not of its shapes."""
    seen, todo = set(), [name]
    while todo:
        name = todo.pop()
        node, _ = facts.producers.get(name, (None, None))
        if node is None:
            # An input, a constant, or what a graph is given: there already.
            continue
        if id(node) not in seen:
            seen.add(id(node))
            if not is_op(node, *_NEVER_FAIL):
                return True
            todo += filter(None, node.input)
    return False


# Operators that at most mind the shapes or types of what they get.
_NEVER_FAIL = (
    *("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Cos", "Div", "Equal", "Erf", "Exp", "Flatten", "Floor"),
    *("Gemm", "Greater", "GreaterOrEqual", "Identity", "LeakyRelu", "Less", "LessOrEqual", "Log", "MatMul"),
    *("Max", "Min", "Mul", "Neg", "Not", "Or", "Pow", "ReduceMean", "ReduceSum", "Relu", "SequenceConstruct"),
    *("SequenceEmpty", "SequenceLength", "Shape", "Sigmoid", "Sin", "Size", "Softmax", "Sqrt", "Sub", "Tanh"),
    *("Transpose", "Unsqueeze", "Where", "Xor"),
)


class Listed(Form):
    """Tensors by their names."""

    def __init__(self, facts, node, graph, elements):
        self.node, self.graph, self.elements = node, graph, elements
        self.count = len(elements)
        self.became = "becomes its elements"
        self.element_type = facts.element_number(elements[0]) if elements else 0
        self._stack = None
        self._facts = facts

    @functools.cached_property
    def _shapes(self):
        return [trusted(self._facts, self._facts.shape(name)) for name in self.elements]

    def why_not(self, node, facts, read):
        if why := super().why_not(node, facts, read):
            return why
        if is_op(node, "ConcatFromSequence", *LIST_EDITS):
            return ""  # a join reads them all
        position = position_of(facts, node.input[1]).value if is_op(node, "SequenceAt") else None
        for k, name in enumerate(self.elements):
            # An element that nobody reads is not made, and its error would be lost.
            if (position is None or k != position % self.count) and _may_fail(facts, name):
                return f"{label(node)} doesn't read '{name}', which may be an error"
        return ""

    def plan(self, facts, name, read):
        picks = (node for node, _ in facts.readers[name] if is_op(node, "SequenceAt"))
        self._needs_stack = any(position_of(facts, node.input[1]).value is None for node in picks)

    def prepare(self, builder, facts):
        """Stack the elements where they are picked at positions that only a run knows."""
        if self._needs_stack:
            nodes = builder.after(self.node)
            rows = [nodes.unsqueeze(name, 0) for name in self.elements]
            self._stack = Stack(nodes.op("Concat", *rows, axis=0), self.element_type, self._shapes[0])

    def _why_not_at(self, position):
        if position.value is not None:
            return ""
        if not self.elements:
            return "there is none"
        shape = self._shapes[0]
        if self.element_type == TensorProto.UNDEFINED or shape is None or None in shape:
            return "where is known only at run time, and their shapes aren't known"
        if any(other != shape for other in self._shapes):
            return "where is known only at run time, and their shapes differ"
        return ""

    def _why_not_join(self, axis, new_axis, facts):
        shapes = [shape for shape in self._shapes if shape is not None]
        ranks = {len(shape) for shape in shapes}
        if len(ranks) > 1:
            return "their ranks differ"
        if ranks:
            rank = ranks.pop() + bool(new_axis)
            if not -rank <= axis < rank:
                return f"axis {axis} is out of range"
            own = None if new_axis else axis % rank
            for k, lengths in enumerate(zip(*shapes, strict=True)):
                if k != own and len({length for length in lengths if isinstance(length, int)}) > 1:
                    return f"their lengths on axis {k} differ"
        return ""

    def _why_not_shape_of_join(self):
        # A runtime that infers the shape leaves out the Concat, and the error where the elements don't fit.
        if all(shape is not None and all(isinstance(n, int) for n in shape) for shape in self._shapes):
            return ""
        return "no more than the shape of that is read, and their shapes aren't known"

    def _at(self, nodes, position, out):
        if position.value is None:
            return self._stack._at(nodes, position, out)
        return nodes.op("Identity", self.elements[position.value], out=out)

    def _length(self, nodes, out):
        return nodes.op("Identity", nodes.constant(self.count), out=out)

    def _join(self, nodes, axis, new_axis, out):
        parts = self.elements
        if new_axis:
            parts = [nodes.unsqueeze(name, axis) for name in parts]
        nodes.op("Concat", *parts, axis=axis, out=out)
